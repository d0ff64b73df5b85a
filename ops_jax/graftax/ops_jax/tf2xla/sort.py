"""tf2xla's sorts."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.graphdef_ir import FunctionRef
from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static

__all__ = ["xla_key_value_sort", "xla_sort", "xla_variadic_sort"]


@register("XlaSort", ignores=("T",))
def xla_sort(input: Array) -> Array:
  """Sorts the elements of the last axis in ascending order.

  Source op: `XlaSort` (tf2xla).

  Args:
    input: any real dtype.

  Returns:
    Shape and dtype of `input`.
  """
  return jax.lax.sort(jnp.asarray(input), dimension=-1)


@register("XlaKeyValueSort", ignores=("K", "V"))
def xla_key_value_sort(keys: Array, values: Array) -> tuple[Array, Array]:
  """Sorts keys along the last axis in ascending order, and reorders values in the same way.

  Source op: `XlaKeyValueSort` (tf2xla).

  Args:
    keys: any real dtype.
    values: shape of `keys`, any dtype.

  Returns:
    Keys and values in order; the order of equal keys is kept.
  """
  in_order, moved = jax.lax.sort((jnp.asarray(keys), jnp.asarray(values)), dimension=-1, num_keys=1)
  return in_order, moved


@register("XlaVariadicSort", ignores=("T",))
def xla_variadic_sort(
  ctx: Context, inputs: list[Array], dimension: Static[int], *, comparator: FunctionRef, is_stable: bool
) -> tuple[Array, ...]:
  """Sorts tensors together along an axis with a comparison function.

  Source op: `XlaVariadicSort` (tf2xla).

  Args:
    ctx: the program, for the function.
    inputs: arrays of one shape.
    dimension: the axis.
    comparator: function of two scalars of each input that returns whether the first comes before the second.
    is_stable: ignored; equal elements always keep their order.

  Returns:
    The inputs in order.
  """
  del is_stable
  arrays = [jnp.moveaxis(jnp.asarray(x), dimension, -1) for x in inputs]
  size = arrays[0].shape[-1]
  index = np.arange(size)
  dtypes = [x.dtype for x in arrays]
  pure = ctx.pure(comparator, [jnp.zeros((), dtype) for dtype in dtypes for _ in range(2)])
  state = tuple(ctx.read(handle) for handle in pure.written)

  def comes_before(*pairs: Any) -> Array:
    return pure.apply(state, pairs, None)[0][0]

  def order_of_row(*rows: Array) -> Array:
    # The rank of an element is the number of elements before it; an equal one counts if its index is smaller.
    def before(i: Array, j: Array) -> Array:
      return comes_before(*[row[k] for row in rows for k in (i, j)])

    table = jax.vmap(jax.vmap(before, (None, 0)), (0, None))(index, index)
    tie = ~table & ~table.T & (index[:, None] < index[None, :])
    ranks = jnp.sum(table | tie, axis=0)
    return jnp.zeros(size, np.int32).at[ranks].set(index.astype(np.int32))

  flat = [x.reshape(-1, size) for x in arrays]
  order = jax.vmap(order_of_row)(*flat)
  return tuple(
    jnp.moveaxis(jnp.take_along_axis(f, order, axis=1).reshape(x.shape), -1, dimension)
    for f, x in zip(flat, arrays, strict=True)
  )
