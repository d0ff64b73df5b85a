"""tf2xla's reductions with any function."""

from collections.abc import Sequence

import jax.numpy as jnp

from graftax.graphdef_ir import FunctionRef
from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array
from graftax.ops_jax.tf2xla.computation import monoid, scalar_function
from graftax.xla_call_module.lax_extras import reduce_arrays, reduce_monoid

__all__ = ["xla_reduce", "xla_variadic_reduce", "xla_variadic_reduce_v2"]


@register("XlaReduce", ignores=("T",))
def xla_reduce(
  ctx: Context, input: Array, init_value: Array, *, dimensions_to_reduce: tuple[int, ...], reducer: FunctionRef
) -> Array:
  """Reduces an array along dimensions with a function.

  Source op: `XlaReduce` (tf2xla).

  Args:
    ctx: the program, for the function.
    input: any dtype.
    init_value: scalar of that dtype, the initial value of each reduction.
    dimensions_to_reduce: dimensions to remove; if empty, the input is returned.
    reducer: from two scalars to one; associative, because the order is not defined.
  """
  x = jnp.asarray(input)
  name = monoid(scalar_function(ctx, reducer, [x.dtype] * 2), x.dtype)
  if name is not None and dimensions_to_reduce:
    result = reduce_monoid(name, x, init_value, dimensions_to_reduce)
    if result is not None:
      return result
  return _reduce(ctx, [x], [init_value], dimensions_to_reduce, reducer)[0]


@register("XlaVariadicReduce", ignores=("N", "T"))
def xla_variadic_reduce(
  ctx: Context,
  input: list[Array],
  init_value: list[Array],
  *,
  dimensions_to_reduce: tuple[int, ...],
  reducer: FunctionRef,
) -> tuple[Array, ...]:
  """Reduces several arrays of one dtype together; otherwise like `XlaVariadicReduceV2`.

  Source op: `XlaVariadicReduce` (tf2xla).
  """
  return _reduce(ctx, input, init_value, dimensions_to_reduce, reducer)


@register("XlaVariadicReduceV2", ignores=("T",))
def xla_variadic_reduce_v2(
  ctx: Context,
  inputs: list[Array],
  init_values: list[Array],
  *,
  dimensions_to_reduce: tuple[int, ...],
  reducer: FunctionRef,
) -> tuple[Array, ...]:
  """Reduces several arrays together along dimensions with a function.

  Source op: `XlaVariadicReduceV2` (tf2xla).

  Args:
    ctx: the program, for the function.
    inputs: `n` arrays of one shape, of any dtypes.
    init_values: `n` scalars, the initial values.
    dimensions_to_reduce: dimensions to remove.
    reducer: from `n` accumulated scalars and `n` more to `n`; associative, because the order is not defined.
  """
  return _reduce(ctx, inputs, init_values, dimensions_to_reduce, reducer)


def _reduce(
  ctx: Context, inputs: Sequence[Array], inits: Sequence[Array], axes: Sequence[int], reducer: FunctionRef
) -> tuple[Array, ...]:
  arrays = tuple(map(jnp.asarray, inputs))
  if not axes:
    return arrays
  combine = scalar_function(ctx, reducer, [x.dtype for x in (*arrays, *arrays)])
  return reduce_arrays(combine, arrays, inits, axes)
