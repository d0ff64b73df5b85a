"""Scales and shifts per channel, folded into the filters of convolutions and dots before them.

Batch normalization with known statistics is `y * scale + shift`, with a number per channel. TensorFlow writes it as one
op or as several, after a bias or before one. A chain is a convolution or dot with a known filter, and the ops after it
that scale or shift its channels by known numbers, as long as nothing else reads the values between. The folded chain is
the same op with scaled filters, and one shift.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from graftax.convert.inference.known_parts import KnownParts
from graftax.graphdef_ir import Function, Node, OpSignatures, TensorRef, consumers

__all__ = ["FoldedChain", "find_chains", "folded"]

_Kind = Literal["add", "subtract", "subtract from", "multiply", "divide", "negate", "normalize", "squeeze", "pass"]

_FORWARD = {"BiasAdd": "add", "Add": "add", "AddV2": "add", "Mul": "multiply"}
_NORMALIZATIONS = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
_RANKS = {"Conv2D": 4, "DepthwiseConv2dNative": 4, "Conv2DBackpropInput": 4, "Conv3D": 5, "MatMul": 2}
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


@dataclasses.dataclass(frozen=True, slots=True)
class _Step:
  """One op of a chain: what it does with the values before it, and the known tensors that it does this with."""

  node: Node
  kind: _Kind
  refs: tuple[TensorRef, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Chain:
  """A convolution or dot with a known filter, and the ops after it that may scale and shift its channels.

  Attributes:
    linear: the convolution or dot.
    filter: its filter.
    rank: number of dimensions of its result.
    channel_axis: which of them are the channels.
    steps: the ops after it, each the only reader of the one before.
  """

  linear: Node
  filter: TensorRef
  rank: int
  channel_axis: int
  steps: tuple[_Step, ...]

  @property
  def refs(self) -> tuple[TensorRef, ...]:
    """Returns the tensors whose values folding needs."""
    return (self.filter, *(ref for step in self.steps for ref in step.refs))


@dataclasses.dataclass(frozen=True, slots=True)
class FoldedChain:
  """What replaces a chain.

  Attributes:
    linear: the convolution or dot.
    filter_position: which of its inputs is the filter.
    filter: the scaled filter.
    shift: is added to the result, and has its rank; None if it is zero.
    squeezes: the ops that remove dimensions, in order; they follow.
    end: the result of the chain.
  """

  linear: Node
  filter_position: int
  filter: np.ndarray
  shift: np.ndarray | None
  squeezes: tuple[Node, ...]
  end: TensorRef


def find_chains(function: Function, known: KnownParts, signatures: OpSignatures) -> list[Chain]:
  """Returns the chains of a function without calls."""
  readers = consumers(function.nodes)
  returned = {result.ref for result in function.results}
  found = []
  for node in function.nodes:
    if node.op not in _RANKS or len(node.inputs) < 2 or not known.is_known(node.inputs[1]):
      continue
    if known.is_known(TensorRef(node.name)):
      continue  # What follows is computed as a whole.
    rank = _RANKS[node.op]
    axis = 1 if _layout(node, signatures).startswith("NC") else rank - 1
    steps: list[_Step] = []
    current = TensorRef(node.name)
    while current not in returned and len(readers.get(current, ())) == 1:
      (reader,) = readers[current]
      step = _step(reader, current, axis == rank - 1, _layout(node, signatures), known, signatures)
      if step is None or any(
        TensorRef(reader.name, i) in readers or TensorRef(reader.name, i) in returned for i in range(1, 6)
      ):
        break
      steps.append(step)
      current = TensorRef(reader.name)
    if any(step.kind in ("multiply", "divide", "negate", "normalize") for step in steps):
      found.append(Chain(node, node.inputs[1], rank, axis, tuple(steps)))
  return found


def _layout(node: Node, signatures: OpSignatures) -> str:
  value = signatures[node.op].with_defaults(node.attrs).get("data_format", b"NHWC")
  return value.decode(errors="replace") if isinstance(value, bytes) else ""


def _step(
  node: Node, before: TensorRef, is_last: bool, layout: str, known: KnownParts, signatures: OpSignatures
) -> _Step | None:
  """Returns what a node does with the values before it, or None if it ends the chain."""
  position = node.inputs.index(before)
  others = tuple(ref for i, ref in enumerate(node.inputs) if i != position)
  if before in others or not all(map(known.is_known, others)):
    return None
  if node.op in ("Identity", "Snapshot"):
    return _Step(node, "pass")
  if node.op == "Neg":
    return _Step(node, "negate")
  if node.op in _NORMALIZATIONS and position == 0:
    attrs = signatures[node.op].with_defaults(node.attrs)
    is_alike = _layout(node, signatures) == layout and not attrs["is_training"]
    return _Step(node, "normalize", others) if is_alike else None
  if node.op == "Squeeze":
    return _Step(node, "squeeze") if is_last and node.attrs.get("squeeze_dims") else None
  if node.op == "BiasAdd" and (position or _layout(node, signatures)[:2] != layout[:2]):
    return None
  if node.op in _FORWARD:
    return _Step(node, "add" if _FORWARD[node.op] == "add" else "multiply", others)
  if node.op == "Sub":
    return _Step(node, "subtract from" if position else "subtract", others)
  if node.op in ("RealDiv", "Div") and not position:
    return _Step(node, "divide", others)
  return None


def folded(chain: Chain, values: Mapping[TensorRef, np.ndarray], signatures: OpSignatures) -> FoldedChain | None:
  """Returns what replaces a chain, as far as its numbers fit, or None if nothing can be folded.

  Args:
    chain: the chain.
    values: of the tensors that it names.
    signatures: signatures of all ops.
  """
  kernel = np.asarray(values[chain.filter])
  if kernel.dtype not in _FLOATS:
    return None
  scale, shift = np.ones(1), np.zeros(1)
  rank, axis = chain.rank, chain.channel_axis
  squeezes: list[Node] = []
  ends: list[tuple[Node, np.ndarray, np.ndarray, tuple[Node, ...]]] = []
  is_scaled = False
  with np.errstate(all="ignore"):
    for step in chain.steps:
      if step.kind == "squeeze":
        rank = _squeezed_rank(step.node, rank)
        if not rank:
          break
        axis = rank - 1
        squeezes.append(step.node)
      elif step.kind != "pass":
        is_normalized = step.kind == "normalize"
        vectors = [
          _per_channel(values[ref], kernel.dtype, rank, axis, is_vector=is_normalized or step.node.op == "BiasAdd")
          for ref in step.refs
        ]
        numbers = [vector for vector in vectors if vector is not None]
        if len(numbers) < len(vectors) or len({n.size for n in (scale, shift, *numbers)} - {1}) > 1:
          break
        scale, shift = _after(step, scale, shift, numbers, signatures)
        is_scaled = is_scaled or step.kind not in ("add", "subtract")
      if is_scaled:
        ends.append((step.node, scale, shift, tuple(squeezes)))
    # The longest part of the chain whose numbers are finite.
    found = (_replacement(chain, end, kernel, scale, shift, kept) for end, scale, shift, kept in reversed(ends))
    return next((replacement for replacement in found if replacement is not None), None)


def _squeezed_rank(node: Node, rank: int) -> int:
  """Returns the rank after a Squeeze that keeps the last dimension, or 0 if it does not."""
  dims = node.attrs.get("squeeze_dims")
  if not isinstance(dims, tuple):
    return 0
  axes = {int(dim) % rank for dim in dims if isinstance(dim, int)}
  return 0 if rank - 1 in axes or len(axes) != len(dims) else rank - len(axes)


def _per_channel(value: np.ndarray, dtype: np.dtype, rank: int, axis: int, *, is_vector: bool) -> np.ndarray | None:
  """Returns numbers that broadcast along the channels only, as a vector of one or all; None if they do not."""
  value = np.asarray(value)
  if value.dtype != dtype or value.ndim > rank:
    return None
  if is_vector:
    return value.astype(np.float64) if value.ndim == 1 else None
  shape = (1,) * (rank - value.ndim) + value.shape
  return value.reshape(-1).astype(np.float64) if shape[axis] == value.size and value.size else None


def _after(
  step: _Step, scale: np.ndarray, shift: np.ndarray, numbers: Sequence[np.ndarray], signatures: OpSignatures
) -> tuple[np.ndarray, np.ndarray]:
  """Returns scale and shift after one more op."""
  match step.kind:
    case "add":
      return scale, shift + numbers[0]
    case "subtract":
      return scale, shift - numbers[0]
    case "subtract from":
      return -scale, numbers[0] - shift
    case "multiply":
      return scale * numbers[0], shift * numbers[0]
    case "divide":
      return scale / numbers[0], shift / numbers[0]
    case "negate":
      return -scale, -shift
    case _:
      factor, offset, mean, variance = numbers
      epsilon = signatures[step.node.op].with_defaults(step.node.attrs)["epsilon"]
      assert isinstance(epsilon, float), "internal: an attribute of another type was validated"
      factor = factor / np.sqrt(variance + epsilon)
      return scale * factor, (shift - mean) * factor + offset


def _replacement(
  chain: Chain, end: Node, kernel: np.ndarray, scale: np.ndarray, shift: np.ndarray, squeezes: Sequence[Node]
) -> FoldedChain | None:
  if not (np.isfinite(scale).all() and np.isfinite(shift).all()):
    return None
  scaled = _scaled_filter(chain.linear, kernel, scale)
  if scaled is None or not np.isfinite(scaled).all():
    return None
  shape = [1] * chain.rank
  shape[chain.channel_axis] = -1
  added = shift.astype(kernel.dtype).reshape(shape) if shift.any() else None
  return FoldedChain(chain.linear, 1, scaled, added, tuple(squeezes), TensorRef(end.name))


def _scaled_filter(node: Node, kernel: np.ndarray, scale: np.ndarray) -> np.ndarray | None:
  """Returns a filter whose results are scaled; None if the scale does not have one number per channel."""
  if node.op == "DepthwiseConv2dNative":
    shape: tuple[int, ...] = kernel.shape[2:]
  elif node.op == "Conv2DBackpropInput" and kernel.ndim == 4:
    shape = (kernel.shape[2], 1)
  elif node.op == "MatMul" and kernel.ndim == 2 and node.attrs.get("transpose_b", False):
    shape = (kernel.shape[0], 1)
  else:
    shape = kernel.shape[-1:]
  if scale.size != 1 and scale.size != np.prod(shape):
    return None
  return (kernel * scale.reshape(shape if scale.size > 1 else ())).astype(kernel.dtype)
