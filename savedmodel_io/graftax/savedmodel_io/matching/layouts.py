"""How an array of TensorFlow's becomes an array of another program: recipes of named steps."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
import numpy as np

__all__ = ["Array", "Recipe", "Shape", "Step", "axis_order", "layouts", "run_steps"]

Array = np.ndarray | jax.Array
# ("transpose", axes), ("reshape", shape), ("part", (axis, index, number of parts)), ("order", (axis, *order of parts)),
# ("interleave", (axis, parts, groups)), which makes `groups` times `parts` of `parts` times `groups`, or
# ("fold", (gates, apart)), which adds the second row to the first one, but not in the gate `apart`.
Step = tuple[str, tuple[int, ...]]
Shape = tuple[int, ...]

_SPATIAL_RANKS = (3, 4, 5)


@dataclass(frozen=True, slots=True)
class Recipe:
  """One array made of others.

  Attributes:
    names: the parameters that it is made of.
    before: steps for each of them.
    axis: the axis along which they are then concatenated; None if there is only one.
    after: steps for the result.
  """

  names: tuple[str, ...]
  before: tuple[Step, ...] = ()
  axis: int | None = None
  after: tuple[Step, ...] = ()

  def make(self, params: Mapping[str, Array]) -> Array:
    """Returns the array."""
    arrays = [run_steps(params[name], self.before) for name in self.names]
    if self.axis is None:
      return run_steps(arrays[0], self.after)
    return run_steps(_library(arrays[0]).concatenate(arrays, self.axis), self.after)

  def __str__(self) -> str:
    source = " + ".join(self.names)
    steps = [*map(_step_text, self.before)]
    if self.axis is not None:
      steps.append(f"concatenate({self.axis})")
    steps.extend(map(_step_text, self.after))
    return f"{source} | {' | '.join(steps)}" if steps else source


def _step_text(step: Step) -> str:
  return f"{step[0]}({', '.join(map(str, step[1]))})"


def _library(array: Array):  # type: ignore[no-untyped-def]  # a module
  return jax.numpy if isinstance(array, jax.Array) else np


def run_steps(array: Array, steps: Sequence[Step]) -> Array:
  """Returns an array after some steps."""
  for name, numbers in steps:
    array = _run(array, name, numbers)
  return array


def _run(array: Array, name: str, numbers: tuple[int, ...]) -> Array:
  match name:
    case "transpose":
      return array.transpose(numbers)
    case "reshape":
      return array.reshape(numbers)
    case "fold":
      gates, apart = numbers
      counts = np.arange(gates).repeat(array.shape[1] // gates) != apart
      return array[0] + array[1] * counts.astype(array.dtype)
    case "part":
      axis, index, count = numbers
      return _library(array).split(array, count, axis)[index]
    case "interleave":
      axis, parts, groups = numbers
      shape = array.shape
      split = array.reshape((*shape[:axis], parts, groups, shape[axis] // parts // groups, *shape[axis + 1 :]))
      return split.swapaxes(axis, axis + 1).reshape(shape)
    case "order":
      axis, *order = numbers
      parts = _library(array).split(array, len(order), axis)
      return _library(array).concatenate([parts[i] for i in order], axis)
  raise AssertionError(f"internal: step {name!r}")


def layouts(source: Shape, target: Shape, role: str, words: frozenset[str]) -> tuple[tuple[Step, ...], ...]:
  """Returns every way that makes an array of one shape into one of another, if libraries use it for such parameters.

  Several ways have the same result shape if, for example, a matrix is square. The first one is what TensorFlow's own
  layout would be.

  Args:
    source, target: the shapes.
    role: of the parameter, as `words.role` returns it.
    words: of the names of both layers.

  Example:
    >>> layouts((3, 3, 16, 32), (32, 16, 3, 3), "kernel", frozenset())
    ((('transpose', (3, 2, 0, 1)),),)
    >>> layouts((8, 8), (8, 8), "kernel", frozenset())
    ((), (('transpose', (1, 0)),))
  """
  if np.prod(source, dtype=np.int64) != np.prod(target, dtype=np.int64):
    return ()
  if role == "kernel":
    found = _kernel_layouts(source, target, words)
  elif role == "table":
    found = _table_layouts(source, target)
  elif role == "cell":
    found = [()] if source == target else []
  else:
    found = [_reshape(source, target)]
  unique: dict[tuple[tuple[int, int], ...], tuple[Step, ...]] = {}
  for steps in found:
    unique.setdefault(_effect(source, steps), steps)
  return tuple(unique.values())


def _effect(source: Shape, steps: tuple[Step, ...]) -> tuple[tuple[int, int], ...]:
  """Returns where the elements of an array go: two ways with the same sizes and strides are one."""
  result = run_steps(np.empty(source, np.uint8), steps)  # views: no memory is written
  assert isinstance(result, np.ndarray)
  return tuple((size, stride) for size, stride in zip(result.shape, result.strides, strict=True) if size != 1)


def _reshape(source: Shape, target: Shape) -> tuple[Step, ...]:
  return () if source == target else (("reshape", target),)


def _squeezed(shape: Shape) -> Shape:
  return tuple(size for size in shape if size != 1)


def _table_layouts(source: Shape, target: Shape) -> list[tuple[Step, ...]]:
  squeezed, wanted = _squeezed(source), _squeezed(target)
  found: list[tuple[Step, ...]] = []
  if squeezed == wanted:
    found.append(_reshape(source, target))
  if len(source) == len(target) == 2 and squeezed == wanted[::-1]:
    found.append((("transpose", (1, 0)),))
  return found


def _kernel_layouts(source: Shape, target: Shape, words: frozenset[str]) -> list[tuple[Step, ...]]:
  found: list[tuple[Step, ...]] = []
  if source == target:
    found.append(())
  for first in _two_axis_forms(source, words):
    shape = _shape_after(source, first)
    found.extend(_matrix_layouts(shape, target, first))
  if len(source) in _SPATIAL_RANKS and len(source) == len(target):
    found.extend(_convolution_layouts(source, target, words))
  if len(source) == len(target) == 3 and len(set(source)) == 3:
    found.extend(
      (("transpose", axes),)
      for axes in itertools.permutations(range(3))
      if axes != (0, 1, 2) and tuple(source[axis] for axis in axes) == target
    )
  return found


def _two_axis_forms(source: Shape, words: frozenset[str]) -> list[tuple[Step, ...]]:
  """Returns the ways to read a kernel as a matrix of inputs by outputs."""
  if len(source) == 2:
    return [()]
  if len(source) == 3 and "convolution" not in words:
    heads = {
      "inputs": (("reshape", (source[0], source[1] * source[2])),),
      "outputs": (("reshape", (source[0] * source[1], source[2])),),
    }
    # Inputs may come after the heads, as in the `[heads, inputs, size]` of Gemma.
    moved: tuple[Step, ...] = (("transpose", (1, 0, 2)), ("reshape", (source[1], source[0] * source[2])))
    if words & {"query", "key", "value"}:
      return [heads["inputs"], moved]
    return [heads["outputs"]] if words & {"output", "projection"} else [heads["inputs"], heads["outputs"]]
  if len(source) > 3:
    return [(("reshape", (int(np.prod(source[:-1])), source[-1])),)]
  return []


def _matrix_layouts(shape: Shape, target: Shape, first: tuple[Step, ...]) -> list[tuple[Step, ...]]:
  found = []
  squeezed = _squeezed(target)
  if len(target) == 2 or len(squeezed) == 2:
    wanted = target if len(target) == 2 else squeezed
    last: tuple[Step, ...] = () if wanted == target else (("reshape", target),)
    if wanted == shape:
      found.append((*first, *last))
    if wanted == shape[::-1]:
      found.append((*first, ("transpose", (1, 0)), *last))
  elif len(target) == 3 and len(shape) == 2 and (target[0] == shape[0] or target[-1] == shape[-1]):
    found.append((*first, ("reshape", target)))
  return [_simpler(steps, target) for steps in found]


def _simpler(steps: tuple[Step, ...], target: Shape) -> tuple[Step, ...]:
  """Returns two reshapes in a row as one."""
  if len(steps) == 2 and steps[0][0] == steps[1][0] == "reshape":
    return (("reshape", target),)
  return steps


def _convolution_layouts(source: Shape, target: Shape, words: frozenset[str]) -> list[tuple[Step, ...]]:
  rank = len(source)
  spatial = tuple(range(rank - 2))
  inputs, outputs = rank - 2, rank - 1
  orders = [(outputs, inputs, *spatial)]
  if words & {"transpose", "transposed", "deconv", "deconvolution"}:
    orders.extend([(*spatial, outputs, inputs), (inputs, outputs, *spatial)])
  found: list[tuple[Step, ...]] = [
    (("transpose", axes),) for axes in orders if tuple(source[axis] for axis in axes) == target
  ]
  # TensorFlow's depthwise kernels are [*spatial, channels, multiplier]; others have one group for each output.
  merged = (*source[:-2], 1, source[-2] * source[-1])
  if source[-2] != 1 and merged != source:
    if merged == target:
      found.insert(0, (("reshape", merged),))
    elif (merged[-1], 1, *merged[:-2]) == target:
      found.insert(0, (("reshape", merged), ("transpose", (outputs, inputs, *spatial))))
  return found


def axis_order(steps: Sequence[Step]) -> tuple[int, ...]:
  """Returns the order that steps bring TensorFlow's axes into, `()` if they keep it; moved heads do not count."""
  return next((axes for name, axes in steps if name == "transpose" and (len(axes) != 3 or axes[0] == 2)), ())


def _shape_after(shape: Shape, steps: Sequence[Step]) -> Shape:
  for name, numbers in steps:
    shape = numbers if name == "reshape" else tuple(shape[axis] for axis in numbers)
  return shape
