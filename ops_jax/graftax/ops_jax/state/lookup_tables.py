"""Lookup tables as constants of the converted program: LookupTableFind, LookupTableSize, LookupTableExport."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.context import ResourceHandle
from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.known import canonical_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Value
from graftax.ops_jax.int64_pairs.pairs import fits_jax_dtype, map_halves

__all__ = ["LookupTable", "lookup_table_export", "lookup_table_find", "lookup_table_size"]


@dataclasses.dataclass(frozen=True)
class LookupTable(ResourceHandle):
  """The handle of a table that holds its contents; travels along graph edges as any other handle does.

  Attributes:
    name: name for messages.
    keys: `[n]`, or `[n, ...]` if keys are tensors; all different.
    values: `[n, ...]`.
    maker: the op that makes the table in TensorFlow. It decides whether the table can change there.
  """

  kind: str = "table"
  keys: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64), compare=False, repr=False)
  values: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64), compare=False, repr=False)
  maker: str = "HashTableV2"

  def __post_init__(self) -> None:
    if len(self.keys) != len(self.values):
      raise InvalidInputError(
        f"table {self.name!r}: {len(self.keys)} keys and {len(self.values)} values; expected as many."
      )
    if self.keys.dtype == object or self.values.dtype == object:
      raise InvalidInputError(
        f"table {self.name!r} from {self.keys.dtype} to {self.values.dtype}: strings have no JAX counterpart; "
        f"expected numbers."
      )


@register("LookupTableFind", "LookupTableFindV2", ignores=("Tin", "Tout"))
def lookup_table_find(table_handle: LookupTable, keys: Array, default_value: Array) -> Value:
  """Looks up the value of each key.

  Source op: `tf.raw_ops.LookupTableFindV2`.

  Args:
    table_handle: a table from numbers to numbers.
    keys: `[*batch, *key_shape]`, of the dtype of the table's keys.
    default_value: `value_shape`, or `[*batch, *value_shape]`; for keys that the table does not have.

  Returns:
    `[*batch, *value_shape]`, of the dtype of the table's values; an `Int64Pair` if some value has more than 32 bits
    while 64-bit types are switched off.

  Differs from TF: while 64-bit types are switched off, keys of more than 32 bits are never found.
  """
  table_keys, table_values = _reachable(table_handle)
  key_rank = table_keys.ndim - 1
  batch = jnp.shape(keys)[: jnp.ndim(keys) - key_rank]
  if not len(table_keys):
    shape = (*batch, *table_values.shape[1:])
    if fits_jax_dtype(default_value):
      return jnp.broadcast_to(jnp.asarray(default_value, canonical_dtype(table_values.dtype)), shape)
    return map_halves(lambda half: jnp.broadcast_to(jnp.asarray(half), shape), [default_value], table_values.dtype)
  keys = jnp.asarray(keys)
  if key_rank:
    index, found = _find_rows(table_keys.reshape(len(table_keys), -1), keys.reshape(*batch, -1))
  else:
    index = jnp.minimum(jnp.searchsorted(jnp.asarray(table_keys), keys), len(table_keys) - 1)
    found = jnp.asarray(table_keys)[index] == keys
  found = found.reshape(*batch, *[1] * (table_values.ndim - 1))

  def chosen(values: Value, default: Value) -> Array:
    values = jnp.asarray(values)
    return jnp.where(found, values[index], jnp.asarray(default, values.dtype))

  if fits_jax_dtype(table_values) and fits_jax_dtype(default_value):
    return chosen(table_values, default_value)
  return map_halves(chosen, [table_values, default_value], table_values.dtype)


@register("LookupTableSize", "LookupTableSizeV2")
def lookup_table_size(table_handle: LookupTable) -> np.int64:
  """Returns the number of keys, an int64 scalar.

  Source op: `tf.raw_ops.LookupTableSizeV2`.
  """
  return np.int64(len(table_handle.keys))


@register("LookupTableExport", "LookupTableExportV2", ignores=("Tkeys", "Tvalues"))
def lookup_table_export(table_handle: LookupTable) -> tuple[Array, Array]:
  """Returns all keys and their values.

  Source op: `tf.raw_ops.LookupTableExportV2`.

  Differs from TF: the order is that in which the table was filled, or that of the model's checkpoint.
  """
  return table_handle.keys, table_handle.values


def _reachable(table: LookupTable) -> tuple[np.ndarray, np.ndarray]:
  """Returns the keys that JAX's dtype can hold, sorted if they are scalars, and their values."""
  keys, values = table.keys, table.values
  narrow = keys.astype(canonical_dtype(keys.dtype))
  fits = narrow == keys
  kept = fits if keys.ndim == 1 else fits.all(axis=tuple(range(1, keys.ndim)))
  keys, values = narrow[kept], values[kept]
  if keys.ndim > 1:
    return keys, values
  order = np.argsort(keys, kind="stable")
  return keys[order], values[order]


def _find_rows(table_keys: np.ndarray, keys: Array) -> tuple[Array, Array]:
  matches = (keys[..., None, :] == jnp.asarray(table_keys)).all(-1)
  return jnp.argmax(matches, axis=-1), matches.any(-1)
