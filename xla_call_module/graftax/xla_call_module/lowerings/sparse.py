"""Products with sparse matrices, as `segment_sum` of `jax.ops`."""

import jax
import jax.numpy as jnp
from jax import Array

from graftax.xla_call_module import ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.registry import register_custom_call

__all__: list[str] = []


@register_custom_call("cpu_csr_sparse_dense_ffi")
def _csr_product(context: Context, op: ir.Op, data: Array, starts: Array, columns: Array, dense: Array) -> Array:
  """Multiplies a matrix of compressed rows with a vector or a matrix. Indices out of range are clamped."""
  num_rows = starts.shape[0] - 1
  rows = jnp.searchsorted(starts, jnp.arange(data.shape[0], dtype=starts.dtype), side="right") - 1
  rows = jnp.where(rows < 0, num_rows, rows)  # Entries before the first row belong to no row.
  taken = jnp.take(dense, columns, axis=0, mode="clip")
  products = data.reshape(data.shape + (1,) * (dense.ndim - 1)) * taken
  # Those after the last row have the number `num_rows`, too, which `segment_sum` drops.
  return jax.ops.segment_sum(products, rows, num_rows)
