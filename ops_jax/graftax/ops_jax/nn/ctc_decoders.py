"""Labels from the logits of a CTC model: CTCGreedyDecoder, CTCBeamSearchDecoder.

The number of labels depends on data. `bounded.ctc_decoders` has the greedy decoder for traced logits; the search needs
known ones.
"""

import dataclasses
import math
from collections.abc import Iterable

import numpy as np

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Static

__all__ = ["blank_class", "check_lengths", "check_shapes", "ctc_beam_search_decoder", "ctc_greedy_decoder"]

_Sparse = tuple[np.ndarray, np.ndarray, np.ndarray]


@register("CTCGreedyDecoder", ignores=("T",))
def ctc_greedy_decoder(
  inputs: Static[np.ndarray],
  sequence_length: Static[tuple[int, ...]],
  *,
  merge_repeated: bool = False,
  blank_index: int = -1,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
  """Returns the most likely class of every step as a sparse tensor without blanks.

  Source op: `tf.raw_ops.CTCGreedyDecoder`.

  Args:
    inputs: `[time, batch, classes]` logits, float32 or float64. Traced logits give labels of bounded size.
    sequence_length: `[batch]`, number of valid time steps of each row.
    merge_repeated: whether equal classes at successive steps are one label.
    blank_index: the class of blanks; negative counts from the end.

  Returns:
    Coordinates `[labels, 2]` int64, labels `[labels]` int64, dense shape `[2]` int64, and `[batch, 1]`: minus the sum
    of the largest logits.

  Raises:
    InvalidInputError: the inputs are empty, a sequence is longer than they are, or the blank is not a class.

  Differs from TF: of logits with NaN, NaN is the largest; TensorFlow leaves it out.
  """
  _check("CTCGreedyDecoder", inputs, sequence_length)
  blank = blank_class(inputs.shape[2], blank_index)
  best = np.argmax(inputs, axis=2)
  total = np.zeros((inputs.shape[1], 1), inputs.dtype)
  paths = []
  for row, length in enumerate(sequence_length):
    total[row] = -np.sum(np.max(inputs[:length, row], axis=1))
    path = best[:length, row]
    kept = path != blank
    if merge_repeated:
      kept[1:] &= path[1:] != path[:-1]
    paths.append(path[kept])
  return *_sparse(paths), total


@register("CTCBeamSearchDecoder", ignores=("T",))
def ctc_beam_search_decoder(
  inputs: Static[np.ndarray],
  sequence_length: Static[tuple[int, ...]],
  *,
  beam_width: int,
  top_paths: int,
  merge_repeated: bool = True,
) -> tuple[np.ndarray, ...]:
  """Returns the most likely label sequences, as sparse tensors; the last class is the blank.

  Source op: `tf.raw_ops.CTCBeamSearchDecoder`.

  Args:
    inputs: `[time, batch, classes]` logits, float32 or float64. Must be concrete.
    sequence_length: `[batch]`, number of valid time steps of each row.
    beam_width: number of prefixes that are kept after each step.
    top_paths: number of results for each row.
    merge_repeated: whether equal labels that follow each other are one label in the results.

  Returns:
    `top_paths` coordinates `[labels, 2]`, as many labels `[labels]` and as many dense shapes `[2]`, all
    int64, and `[batch, top_paths]`: the logarithm of the probability of each result.

  Raises:
    StaticInputError: an input depends on traced data, and with it the shape of the result.
    InvalidInputError: a sequence is longer than the inputs, or `top_paths` exceeds the number of prefixes.

  Differs from TF: of results of the same probability another one may come first. The search is a Python loop, of about
  a microsecond for each time step, prefix and class.
  """
  _check("CTCBeamSearchDecoder", inputs, sequence_length)
  log_probability = np.zeros((inputs.shape[1], top_paths), inputs.dtype)
  found: list[list[np.ndarray]] = [[] for _ in range(top_paths)]
  for row, length in enumerate(sequence_length):
    beam = _Beam(beam_width)
    for logits in inputs[:length, row].astype(np.float64):
      beam.step(_log_softmax(logits))
    leaves = beam.sorted_leaves()
    if len(leaves) < top_paths:
      raise InvalidInputError(
        f"CTCBeamSearchDecoder: row {row} has {len(leaves)} paths; expected at least top_paths={top_paths}. Use a "
        "smaller top_paths."
      )
    for rank, leaf in enumerate(leaves[:top_paths]):
      found[rank].append(leaf.labels(merge_repeated))
      log_probability[row, rank] = leaf.new.total
  indices, values, shapes = zip(*map(_sparse, found), strict=True)
  return *indices, *values, *shapes, log_probability


def blank_class(classes: int, blank_index: int) -> int:
  """Returns the class of blanks in CTCGreedyDecoder as an index from 0."""
  if not -classes <= blank_index < classes:
    raise InvalidInputError(f"CTCGreedyDecoder: blank_index {blank_index} is out of range for {classes} classes.")
  return blank_index % classes


def _check(op: str, inputs: np.ndarray, lengths: tuple[int, ...]) -> None:
  check_shapes(op, inputs.shape, (len(lengths),))
  check_lengths(op, inputs.shape[0], lengths)


def check_shapes(op: str, inputs: tuple[int, ...], lengths: tuple[int, ...]) -> None:
  """Raises if the shapes of the logits and of the sequence lengths do not fit.

  Args:
    op: the name of the op, for the message.
    inputs: the shape of the logits.
    lengths: the shape of the sequence lengths.
  """
  if len(inputs) != 3:
    raise InvalidInputError(f"{op}: logits of shape {inputs}; expected [time, batch, classes].")
  if 0 in inputs:
    raise InvalidInputError(f"{op}: logits of shape {inputs}; expected at least one step, sequence and class.")
  if lengths != inputs[1:2]:
    raise InvalidInputError(f"{op}: sequence lengths of shape {lengths} for a batch of {inputs[1]}.")


def check_lengths(op: str, steps: int, lengths: tuple[int, ...]) -> None:
  """Raises if a sequence is longer than the logits, which have `steps` time steps."""
  if any(not 0 <= length <= steps for length in lengths):
    raise InvalidInputError(f"{op}: sequence lengths {lengths!r}; expected 0 to {steps}, the time steps.")


def _sparse(paths: Iterable[np.ndarray]) -> _Sparse:
  """Returns rows of labels as coordinates, values and dense shape."""
  paths = list(paths)
  coordinates = [[row, column] for row, path in enumerate(paths) for column in range(len(path))]
  shape = [len(paths), max(map(len, paths), default=0)]
  values = np.concatenate([np.zeros(0, np.int64), *paths]).astype(np.int64)
  return np.array(coordinates, np.int64).reshape(-1, 2), values, np.array(shape, np.int64)


def _log_softmax(logits: np.ndarray) -> list[float]:
  shifted = logits - logits.max()
  return [float(x) for x in shifted - np.log(np.sum(np.exp(shifted)))]


_LOG_ZERO = -math.inf


def _log_add(a: float, b: float) -> float:
  low, high = min(a, b), max(a, b)
  return high if low == _LOG_ZERO else high + math.log1p(math.exp(low - high))


@dataclasses.dataclass(slots=True)
class _Probability:
  """Logarithms of the probability that a prefix ends in a blank, in its last label, and of both."""

  total: float = _LOG_ZERO
  blank: float = _LOG_ZERO
  label: float = _LOG_ZERO


@dataclasses.dataclass(slots=True, eq=False)
class _Prefix:
  """A node of the tree of label sequences.

  Attributes:
    parent: the prefix without its last label; None for the empty one.
    label: the last label; -1 for the empty prefix.
    old: its probability at the step before.
    new: its probability now; zero while it is not in the beam.
    children: the longer prefixes, by label.
  """

  parent: "_Prefix | None" = None
  label: int = -1
  old: _Probability = dataclasses.field(default_factory=_Probability)
  new: _Probability = dataclasses.field(default_factory=_Probability)
  children: dict[int, "_Prefix"] = dataclasses.field(default_factory=dict)

  def child(self, label: int) -> "_Prefix":
    if label not in self.children:
      self.children[label] = _Prefix(self, label)
    return self.children[label]

  def labels(self, merge_repeated: bool) -> np.ndarray:
    path: list[int] = []
    node, following = self, -1
    while node.parent is not None:
      if not merge_repeated or node.label != following:
        path.append(node.label)
      following, node = node.label, node.parent
    return np.array(path[::-1], np.int64)


class _Beam:
  """The most likely prefixes after some steps.

  The order in which prefixes are visited, and which of them are given up in between, is TensorFlow's: in a full beam it
  decides which prefixes are found.
  """

  def __init__(self, width: int) -> None:
    root = _Prefix()
    root.new = _Probability(total=0.0, blank=0.0)
    self._width = width
    self._leaves = [root]

  def sorted_leaves(self) -> list[_Prefix]:
    return sorted(self._leaves, key=lambda leaf: -leaf.new.total)

  def step(self, log_probabilities: list[float]) -> None:
    """Adds one time step, given the logarithms of the probabilities of its classes."""
    branches = self.sorted_leaves()
    for leaf in branches:
      leaf.old, leaf.new = leaf.new, dataclasses.replace(leaf.new)
    for leaf in branches:
      _stay(leaf, log_probabilities)
    self._leaves = list(branches)
    for branch in branches:
      if self._is_candidate(branch.old):
        for label, probability in enumerate(log_probabilities[:-1]):
          self._extend(branch, label, probability)

  def _is_candidate(self, probability: _Probability) -> bool:
    if probability.total == _LOG_ZERO:
      return False
    return len(self._leaves) < self._width or probability.total > self._worst().new.total

  def _worst(self) -> _Prefix:
    return min(self._leaves, key=lambda leaf: leaf.new.total)

  def _extend(self, branch: _Prefix, label: int, log_probability: float) -> None:
    child = branch.child(label)
    if child.new.total != _LOG_ZERO:
      return
    previous = branch.old.blank if label == branch.label else branch.old.total
    child.new = _Probability(total=previous + log_probability, label=previous + log_probability)
    if not self._is_candidate(child.new):
      child.old, child.new = _Probability(), _Probability()
      return
    if len(self._leaves) == self._width:
      worst = self._worst()
      worst.new = _Probability()
      self._leaves.remove(worst)
    self._leaves.append(child)


def _stay(leaf: _Prefix, log_probabilities: list[float]) -> None:
  """Computes the probability of a prefix that a step does not make longer."""
  if leaf.parent is not None:
    label = leaf.old.label
    if leaf.parent.new.total != _LOG_ZERO:
      label = _log_add(label, leaf.parent.old.blank if leaf.label == leaf.parent.label else leaf.parent.old.total)
    leaf.new.label = label + log_probabilities[leaf.label]
  leaf.new.blank = leaf.old.total + log_probabilities[-1]
  leaf.new.total = _log_add(leaf.new.blank, leaf.new.label)
