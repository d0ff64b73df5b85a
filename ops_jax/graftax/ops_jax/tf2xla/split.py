"""tf2xla's splits of an array into a grid of parts, and back."""

import itertools
import math
from collections.abc import Sequence

import jax.numpy as jnp

from graftax.ops_jax._core.context import Context, ResourceHandle
from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array

__all__ = ["assign_variable_xla_concat_nd", "read_variable_xla_split_nd", "xla_concat_nd", "xla_split_nd"]


@register("XlaSplitND", ignores=("N", "T"))
def xla_split_nd(input: Array, *, num_splits: tuple[int, ...], paddings: tuple[int, ...] = ()) -> tuple[Array, ...]:
  """Splits an array into a grid of equal parts, in row-major order.

  Source op: `XlaSplitND` (tf2xla).

  Args:
    input: any shape and dtype.
    num_splits: parts along each dimension.
    paddings: zeros to add at the end of each dimension before; empty for none.

  Raises:
    InvalidInputError: a dimension is not divisible by its number of parts.
  """
  return _split("XlaSplitND", input, num_splits, paddings)


@register("ReadVariableXlaSplitND", ignores=("N", "T"))
def read_variable_xla_split_nd(
  ctx: Context, resource: ResourceHandle, *, num_splits: tuple[int, ...], paddings: tuple[int, ...] = ()
) -> tuple[Array, ...]:
  """Splits a variable's value into a grid of equal parts; otherwise like `XlaSplitND`.

  Source op: `ReadVariableXlaSplitND` (tf2xla).
  """
  return _split("ReadVariableXlaSplitND", ctx.read(resource), num_splits, paddings)


@register("XlaConcatND", ignores=("N", "T"))
def xla_concat_nd(inputs: list[Array], *, num_concats: tuple[int, ...], paddings: tuple[int, ...] = ()) -> Array:
  """Concatenates a grid of equal parts in row-major order.

  Source op: `XlaConcatND` (tf2xla).

  Args:
    inputs: the parts, of one shape and any dtype.
    num_concats: parts along each dimension.
    paddings: entries to drop at the end of each dimension after; empty for none.

  Raises:
    InvalidInputError: the number or the shapes of the parts do not fit.
  """
  return _concat("XlaConcatND", inputs, num_concats, paddings)


@register("AssignVariableXlaConcatND", ignores=("N", "T"))
def assign_variable_xla_concat_nd(
  ctx: Context,
  resource: ResourceHandle,
  inputs: list[Array],
  *,
  num_concats: tuple[int, ...],
  paddings: tuple[int, ...] = (),
) -> tuple[()]:
  """Assigns a concatenated grid of parts to a variable; otherwise like `XlaConcatND`.

  Source op: `AssignVariableXlaConcatND` (tf2xla).
  """
  ctx.write(resource, _concat("AssignVariableXlaConcatND", inputs, num_concats, paddings))
  return ()


def _split(op: str, x: Array, counts: Sequence[int], paddings: Sequence[int]) -> tuple[Array, ...]:
  x, paddings = jnp.asarray(x), tuple(paddings) or (0,) * len(counts)
  fits = x.ndim == len(counts) == len(paddings)
  if not fits or any((dim + p) % n for dim, p, n in zip(x.shape, paddings, counts, strict=True)):
    raise InvalidInputError(
      f"{op}: shape {x.shape} with paddings={tuple(paddings)!r} does not divide into num_splits={tuple(counts)!r}."
    )
  padded = jnp.pad(x, [(0, p) for p in paddings])
  sizes = [dim // n for dim, n in zip(padded.shape, counts, strict=True)]
  return tuple(
    padded[tuple(slice(i * size, (i + 1) * size) for i, size in zip(cell, sizes, strict=True))]
    for cell in itertools.product(*map(range, counts))
  )


def _concat(op: str, parts: Sequence[Array], counts: Sequence[int], paddings: Sequence[int]) -> Array:
  arrays = [jnp.asarray(part) for part in parts]
  shape = arrays[0].shape
  paddings = tuple(paddings) or (0,) * len(counts)
  fits = len(shape) == len(counts) == len(paddings) and all(array.shape == shape for array in arrays)
  if not fits or len(arrays) != math.prod(counts):
    raise InvalidInputError(
      f"{op}: {len(arrays)} parts of shapes {sorted({array.shape for array in arrays})} make no grid of "
      f"num_concats={tuple(counts)!r} with paddings={paddings!r}."
    )
  for axis in reversed(range(len(counts))):
    # The last dimension varies fastest, so its neighbors are adjacent in the list.
    count = counts[axis]
    arrays = [jnp.concatenate(arrays[i : i + count], axis) for i in range(0, len(arrays), count)]
  whole = arrays[0]
  return whole[tuple(slice(0, max(dim - pad, 0)) for dim, pad in zip(whole.shape, paddings, strict=True))]
