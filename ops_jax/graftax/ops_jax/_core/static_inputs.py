"""Decodes inputs that must be known while tracing to Python values; if one is traced, the error names the node."""

import dataclasses
import typing
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.errors import StaticInputError
from graftax.ops_jax._core.registry import Lowering
from graftax.ops_jax._core.result_sizes import check_sizes
from graftax.ops_jax._core.stages import Run
from graftax.ops_jax._core.values import Value

__all__ = ["DecodeStatic", "decode_static", "static_value"]


@dataclasses.dataclass(frozen=True, slots=True)
class DecodeStatic:
  """Decodes the inputs that the lowering declares as `Static[...]`.

  Attributes:
    inputs: `(position, input name, type)` of each static input.
    sizes: positions of those that are sizes of what the lowering makes.
    where: the node, for messages.
  """

  inputs: tuple[tuple[int, str, Any], ...]
  sizes: tuple[int, ...]
  where: str

  def __str__(self) -> str:
    return "decode static inputs: " + ", ".join(f"{name} as {_type_name(kind)}" for _, name, kind in self.inputs)

  def wrap(self, run: Run) -> Run:
    """See `Stage`."""
    decoders = [(position, kind, f"{self.where}: input {name!r}") for position, name, kind in self.inputs]

    def decode(context: Context, inputs: Sequence[Value]) -> tuple[Value, ...]:
      decoded = list(inputs)
      for position, kind, what in decoders:
        decoded[position] = static_value(inputs[position], kind, what)
      if self.sizes:
        check(context, decoded)
      return run(context, decoded)

    def check(context: Context, decoded: Sequence[Value]) -> None:
      sizes = [size for i in self.sizes for size in (decoded[i] if isinstance(decoded[i], tuple) else (decoded[i],))]
      check_sizes(sizes, context.budget, self.where)

    return decode


def decode_static(lowering: Lowering, where: str) -> DecodeStatic | None:
  """Returns the stage for a lowering with static inputs, or None for any other lowering."""
  inputs, sizes = [], []
  for position, parameter in enumerate(lowering.inputs):
    if parameter.static_type is not None:
      inputs.append((position, parameter.name, parameter.static_type))
      if parameter.is_size:
        sizes.append(position)
  return DecodeStatic(tuple(inputs), tuple(sizes), where) if inputs else None


def static_value(value: Value, static_type: Any, what: str) -> Any:
  """Converts `value` to a Python or numpy value of `static_type`.

  Args:
    value: a known value, or a JAX array that is not a tracer.
    static_type: `int`, `float`, `bool`, `str`, `bytes`, `np.ndarray` or `tuple[T, ...]` of these; the entries of
      `tuple[int, ...]` may be symbolic dimensions.
    what: description of the input, for messages.

  Raises:
    StaticInputError: the value is traced, or does not have the type.

  Example:
    >>> static_value(np.array([2, 3]), tuple[int, ...], "input 'shape'")
    (2, 3)
  """
  traced = [leaf for leaf in jax.tree.leaves(value) if isinstance(leaf, jax.core.Tracer)]
  if traced:
    raise StaticInputError(
      f"{what} must be known while tracing, but depends on traced data ({', '.join(str(t.aval) for t in traced)}). "
      "Pass it as a constant or a static argument, or compute it from shapes. If it does not depend on weights, "
      "SavedModel.split moves the op to the host."
    )
  try:
    return _decode(_as_array(value), static_type, what)
  except (TypeError, ValueError) as e:
    raise StaticInputError(f"{what} must be known while tracing, as {static_type}; got {value!r}: {e}") from e


def _decode(array: np.ndarray, static_type: Any, what: str) -> Any:
  if static_type is np.ndarray:
    return array
  if typing.get_origin(static_type) is tuple:
    (item_type, _) = typing.get_args(static_type)
    return tuple(_decode_item(item, item_type) for item in array.reshape(-1))
  if array.size != 1:
    raise StaticInputError(f"{what} must be a scalar; got shape {array.shape}.")
  return _decode_item(array.reshape(-1)[0], static_type)


def _as_array(value: Value) -> np.ndarray:
  """Converts a value, or a list of values, to one array; entries may be symbolic dimensions."""
  if not isinstance(value, (list, tuple)):
    return np.asarray(value)
  items = [_as_array(item) for item in value]
  dtype = object if any(item.dtype == object for item in items) else None
  return np.stack([item.astype(dtype) if dtype else item for item in items]) if items else np.zeros(0, np.int64)


def _decode_item(item: Any, item_type: Any) -> Any:
  if item_type is int:
    return item if jax.export.is_symbolic_dim(item) else int(item)
  if item_type is str:
    return item.decode() if isinstance(item, bytes) else str(item)
  return item_type(item)


def _type_name(static_type: Any) -> str:
  return (
    static_type.__name__ if isinstance(static_type, type) and not typing.get_args(static_type) else str(static_type)
  )
