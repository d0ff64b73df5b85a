"""Checks axis arguments as TensorFlow does, and counts negative ones from the end."""

from collections.abc import Iterable, Sequence

from graftax.ops_jax._core.errors import InvalidInputError

__all__ = ["canonical_axes", "canonical_axis", "kept_axes"]


def canonical_axis(op: str, axis: int, rank: int) -> int:
  """Returns `axis` in `[0, rank)`.

  Args:
    op: for the message.
    axis: negative counts from the end.
    rank: number of dimensions.

  Raises:
    InvalidInputError: there is no such axis.
  """
  if not -rank <= axis < rank:
    raise InvalidInputError(f"{op}: axis {axis} is out of range for rank {rank}; expected [{-rank}, {rank}).")
  return axis % rank


def canonical_axes(op: str, axes: Iterable[int], rank: int) -> tuple[int, ...]:
  """Returns every axis in `[0, rank)`, in the given order.

  Raises:
    InvalidInputError: an axis does not exist, or occurs twice.
  """
  result = tuple(canonical_axis(op, int(axis), rank) for axis in axes)
  if len(set(result)) != len(result):
    raise InvalidInputError(f"{op}: axes {tuple(axes)!r} contain a dimension twice; expected distinct ones.")
  return result


def kept_axes(op: str, shape: Sequence[int], axes: Iterable[int], keep_dims: bool) -> tuple[list[int], list[int]]:
  """Returns the axes that a reduction leaves, and the sizes of its result.

  Args:
    op: for the message.
    shape: the sizes before the reduction.
    axes: the axes that are reduced; an axis may occur twice.
    keep_dims: whether they stay, with size 1.

  Raises:
    InvalidInputError: an axis does not exist.
  """
  reduced = {canonical_axis(op, axis, len(shape)) for axis in axes}
  kept = [axis for axis in range(len(shape)) if axis not in reduced]
  sizes = [1 if axis in reduced else size for axis, size in enumerate(shape) if keep_dims or axis not in reduced]
  return kept, sizes
