"""Labels from the logits of a CTC model: CTCGreedyDecoder."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.integer_facts import Affine
from graftax.ops_jax._core.known import canonical_dtype
from graftax.ops_jax._core.values import Value, is_known
from graftax.ops_jax.bounded.masks import as_bounded, checked_length, poisoned
from graftax.ops_jax.bounded.rules import BoundedCall, makes
from graftax.ops_jax.bounded.select_where import true_positions
from graftax.ops_jax.bounded.values import is_bounded
from graftax.ops_jax.nn.ctc_decoders import blank_class, check_lengths, check_shapes

__all__ = ["ctc_greedy_decoder"]


@makes("CTCGreedyDecoder")
def ctc_greedy_decoder(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Returns the most likely class of every step without blanks, at most one for each step of each row."""
  if any(map(is_bounded, inputs)):
    call.refuse("the number of sequences or of their steps depends on data")
  logits = jax.lax.stop_gradient(jnp.asarray(inputs[0]))
  is_bad = _check(call, logits.shape, inputs[1])
  steps = logits.shape[0]
  is_step = jnp.arange(steps)[:, None] < jnp.asarray(inputs[1])[None]
  best = jnp.argmax(logits, axis=2)
  kept = is_step & (best != blank_class(logits.shape[2], call.attrs["blank_index"]))
  if call.attrs["merge_repeated"]:
    kept = kept.at[1:].set(kept[1:] & (best[1:] != best[:-1]))
  total = -jnp.sum(jnp.where(is_step, jnp.max(logits, axis=2), 0), axis=0)[:, None]
  return [*_sparse(call, best.T, kept.T, is_bad), poisoned(total, is_bad)]


def _check(call: BoundedCall, shape: tuple[int, ...], lengths: Value) -> jax.Array | None:
  """Returns whether a sequence is longer than the inputs; raises if that is known. None means that none is."""
  check_shapes("CTCGreedyDecoder", shape, lengths.shape)
  if is_known(lengths):
    check_lengths("CTCGreedyDecoder", shape[0], tuple(lengths.tolist()))
    return None
  return jnp.any((lengths < 0) | (lengths > shape[0]))


def _sparse(call: BoundedCall, labels: jax.Array, kept: jax.Array, is_bad: jax.Array | None) -> list[Value]:
  """Returns coordinates, values and dense shape of the labels `[rows, steps]` that are kept."""
  dtype = canonical_dtype(np.int64)
  flat, count, may_overflow = true_positions(call, kept.reshape(-1), as_bounded(kept))
  columns = jnp.cumsum(kept, axis=1, dtype=dtype) - 1
  coordinates = jnp.stack([(flat // max(kept.shape[1], 1)).astype(dtype), columns.reshape(-1)[flat]], axis=-1)
  if is_bad is not None:
    count, may_overflow = checked_length(count, is_bad), True
  return [
    call.made(coordinates, (count, None), may_overflow),
    call.made(labels.reshape(-1)[flat].astype(dtype), (count,), may_overflow),
    _dense_shape(call, kept, dtype),
  ]


def _dense_shape(call: BoundedCall, kept: jax.Array, dtype: np.dtype) -> Value:
  rows, steps = kept.shape
  longest = jnp.max(jnp.sum(kept, axis=1, dtype=dtype), initial=0)
  call.facts.note_range(longest, 0, steps)
  vector = jnp.stack([jnp.asarray(rows, dtype), longest])
  return call.facts.with_entries(vector, (Affine((), rows), Affine(((longest, 1),), 0)))
