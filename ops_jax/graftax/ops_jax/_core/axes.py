"""Checks axis arguments as TensorFlow does, and counts negative ones from the end."""

from collections.abc import Iterable

from graftax.ops_jax._core.errors import InvalidInputError

__all__ = ["canonical_axes", "canonical_axis"]


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
