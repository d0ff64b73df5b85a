"""CTCLoss (connectionist temporal classification), for labels whose alignment to the inputs is unknown."""

from typing import Any, TypedDict, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.graphdef_ir import Budget
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.result_sizes import NO_BUDGET, check_known
from graftax.ops_jax._core.values import Array, is_known
from graftax.xla_call_module.lax_extras import default_promotion

__all__ = ["ctc_loss", "ctc_loss_v2"]


class _CtcAttrs(TypedDict, total=False):
  """Attributes of both versions.

  Attributes:
    preprocess_collapse_repeated: whether runs of equal labels are replaced by one label first.
    ctc_merge_repeated: whether equal classes at successive steps are one label.
    ignore_longer_outputs_than_inputs: whether the loss is 0 if labels are longer than their sequence.
  """

  preprocess_collapse_repeated: bool
  ctc_merge_repeated: bool
  ignore_longer_outputs_than_inputs: bool


# The logarithm of a probability of zero; finite, so that differences of two of them are numbers.
_LOG_ZERO = -1e30


def _dense_labels(indices: Array, values: Array, batch: int) -> tuple[Array, Array]:
  """Returns `[batch, longest]` labels, and the number of labels of each row."""
  longest = int(indices.shape[0])
  if is_known(indices):
    longest = int(np.max(indices[:, 1], initial=-1)) + 1
  rows, columns = jnp.asarray(indices[:, 0]), jnp.asarray(indices[:, 1])
  labels = jnp.zeros((batch, longest), jnp.int32).at[rows, columns].set(jnp.asarray(values), mode="drop")
  return labels, jnp.zeros(batch, jnp.int32).at[rows].add(1)


def _collapsed(labels: Array, lengths: Array) -> tuple[Array, Array]:
  """Returns labels with every run of equal ones replaced by one of them."""
  if labels.shape[1] < 2:
    return labels, lengths
  position = jnp.arange(labels.shape[1])
  is_first = jnp.concatenate([jnp.ones_like(labels[:, :1], bool), labels[:, 1:] != labels[:, :-1]], axis=1)
  is_kept = is_first & (position < lengths[:, None])
  target = jnp.where(is_kept, jnp.cumsum(is_kept, axis=1) - 1, labels.shape[1])
  rows = jnp.arange(labels.shape[0])[:, None]
  return jnp.zeros_like(labels).at[rows, target].set(labels, mode="drop"), jnp.sum(is_kept, axis=1)


def _log_add(*terms: Array) -> Array:
  largest = jnp.max(jnp.stack(terms), axis=0)
  return largest + jnp.log(sum((jnp.exp(t - largest) for t in terms), jnp.zeros_like(largest)))


def _sequence_losses(
  logits: Array, labels: Array, label_lengths: Array, sequence_length: Array, blank: int, merge_repeated: bool
) -> Array:
  """Returns `[batch]` negative log likelihoods of the labels, for `[time, batch, classes]` logits."""
  log_probabilities = jax.nn.log_softmax(logits, axis=-1)
  batch, longest = labels.shape
  num_states = 2 * longest + 1
  # Blank, label, blank, label, ..., blank.
  states = jnp.full((batch, num_states), blank, jnp.int32).at[:, 1::2].set(labels)
  is_label = jnp.arange(num_states) % 2 == 1
  shifted = jnp.pad(states, ((0, 0), (2, 0)), constant_values=-1)[:, :num_states]
  # The blank between two labels may be skipped, unless they are equal: then only a blank separates them.
  may_skip = is_label & ((states != shifted) if merge_repeated else jnp.ones_like(states, bool))
  may_skip = may_skip & (jnp.arange(num_states) >= 2)
  emitted = jnp.take_along_axis(log_probabilities, states[None], axis=-1)
  start = jnp.where(jnp.arange(num_states) < 2, emitted[0], _LOG_ZERO)

  def step(alpha: jax.Array, item: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
    time, emission = item
    before = jnp.pad(alpha, ((0, 0), (1, 0)), constant_values=_LOG_ZERO)[:, :num_states]
    two_before = jnp.pad(alpha, ((0, 0), (2, 0)), constant_values=_LOG_ZERO)[:, :num_states]
    stay = alpha if merge_repeated else jnp.where(is_label, _LOG_ZERO, alpha)
    following = _log_add(stay, before, jnp.where(may_skip, two_before, _LOG_ZERO)) + emission
    is_live = (time < sequence_length)[:, None]
    return jnp.where(is_live, jnp.maximum(following, _LOG_ZERO), alpha), None

  times = jnp.arange(1, logits.shape[0])
  alpha, _ = lax.scan(step, start, (times, emitted[1:]))
  last = 2 * label_lengths[:, None]
  ends = jnp.take_along_axis(alpha, last, axis=1)[:, 0]
  before_last = jnp.take_along_axis(alpha, jnp.maximum(last - 1, 0), axis=1)[:, 0]
  total = jnp.where(label_lengths > 0, _log_add(ends, before_last), ends)
  return jnp.where(total > _LOG_ZERO / 2, -total, jnp.inf)


def _loss_and_gradient(
  inputs: Any,
  labels_indices: Any,
  labels_values: Any,
  sequence_length: Any,
  blank: int,
  *,
  preprocess_collapse_repeated: bool = False,
  ctc_merge_repeated: bool = True,
  ignore_longer_outputs_than_inputs: bool = False,
  budget: Budget = NO_BUDGET,
) -> tuple[Array, Array]:
  if is_known(labels_indices):
    # The largest position may be any number. There is a state for each label and one between each two.
    longest = int(np.max(labels_indices[:, 1], initial=-1)) + 1
    check_known((*jnp.shape(inputs)[:2], 2 * max(longest, 0) + 1), budget, "the states of CTCLoss")
  logits, sequence_length = jnp.asarray(inputs), jnp.asarray(sequence_length)
  labels, lengths = _dense_labels(labels_indices, labels_values, logits.shape[1])
  if preprocess_collapse_repeated:
    labels, lengths = _collapsed(labels, lengths)
  is_too_long = (lengths > sequence_length) if ignore_longer_outputs_than_inputs else False
  is_ignored = (sequence_length == 0) | is_too_long

  # All arrays are arguments, because a rule that closes over traced values cannot run after their trace has ended.
  @jax.custom_jvp
  def both(
    logits: Array, labels: Array, lengths: Array, sequence_length: Array, is_ignored: Array
  ) -> tuple[Array, Array]:
    def losses(logits: Array) -> Array:
      values = _sequence_losses(logits, labels, lengths, sequence_length, blank, ctc_merge_repeated)
      return jnp.where(is_ignored, 0, values)

    values, vjp = jax.vjp(losses, logits)
    return values, vjp(jnp.where(jnp.isfinite(values), 1, 0).astype(values.dtype))[0]

  @both.defjvp
  @default_promotion()
  def _jvp(primals: Any, tangents: Any) -> Any:
    values, gradient = both(*primals)
    # TensorFlow uses the second output as the derivative of the loss, and has no derivative of that output.
    dot = jnp.sum(lax.stop_gradient(gradient) * tangents[0], axis=(0, 2))
    return (values, gradient), (dot, jnp.zeros_like(gradient))

  return both(logits, jnp.asarray(labels), jnp.asarray(lengths), sequence_length, is_ignored)


@register("CTCLoss", ignores=("T",))
def ctc_loss(
  inputs: Array,
  labels_indices: Array,
  labels_values: Array,
  sequence_length: Array,
  *,
  budget: Budget = NO_BUDGET,
  **attrs: Unpack[_CtcAttrs],
) -> tuple[Array, Array]:
  """Returns the negative log likelihood of label sequences, summed over all alignments, with its derivative.

  Source op: `tf.raw_ops.CTCLoss`.

  Args:
    inputs: `[time, batch, num_classes]` logits, floating point; the last class is the blank.
    labels_indices: `[num_labels, 2]`, row and position of each label. If known, the program is smaller.
    labels_values: `[num_labels]` int32, their classes.
    sequence_length: `[batch]` int32, number of valid time steps of each row.
    budget: limits the number of states, which the largest known position decides on.
    **attrs: see `_CtcAttrs`.

  Returns:
    loss: `[batch]`.
    gradient: shape of `inputs`, the derivative of `loss`, which differentiation uses too.

  Differs from TF: if no alignment exists, `loss` is infinite with derivative 0; TensorFlow raises if labels are
  longer than their sequence, and otherwise warns and does the same. There is no second derivative.
  """
  return _loss_and_gradient(
    inputs, labels_indices, labels_values, sequence_length, jnp.shape(inputs)[-1] - 1, budget=budget, **attrs
  )


@register("CTCLossV2")
def ctc_loss_v2(
  inputs: Array,
  labels_indices: Array,
  labels_values: Array,
  sequence_length: Array,
  *,
  budget: Budget = NO_BUDGET,
  **attrs: Unpack[_CtcAttrs],
) -> tuple[Array, Array]:
  """Computes `CTCLoss` with class 0 as the blank."""
  return _loss_and_gradient(inputs, labels_indices, labels_values, sequence_length, 0, budget=budget, **attrs)
