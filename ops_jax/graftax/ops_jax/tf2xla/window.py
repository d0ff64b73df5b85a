"""tf2xla's reductions over sliding windows with any function, and their transpose."""

import jax.numpy as jnp

from graftax.graphdef_ir import FunctionRef
from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.errors import UnsupportedOpError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static, StaticSizes
from graftax.ops_jax.tf2xla.computation import monoid, scalar_function
from graftax.xla_call_module.lax_extras import MAX_UNROLLED_CELLS, Window, reduce_window, select_and_scatter

__all__ = ["xla_reduce_window", "xla_select_and_scatter"]


@register("XlaReduceWindow", ignores=("T", "Tindices"))
def xla_reduce_window(
  ctx: Context,
  input: Array,
  init_value: Array,
  window_dimensions: StaticSizes,
  window_strides: Static[tuple[int, ...]],
  base_dilations: Static[tuple[int, ...]],
  window_dilations: Static[tuple[int, ...]],
  padding: Static[tuple[int, ...]],
  *,
  computation: FunctionRef,
) -> Array:
  """Reduces an array over windows with a function.

  Source op: `XlaReduceWindow` (tf2xla).

  Args:
    ctx: the program that has the function.
    input: any dtype.
    init_value: scalar of that dtype, the initial value of every window.
    window_dimensions: `[rank]`, like the next three. All of them must be concrete.
    window_strides: steps between windows.
    base_dilations: distance between cells of the input.
    window_dilations: distance between cells of a window.
    padding: `[rank, 2]`, cells before and after, which do not count.
    computation: from two scalars to one; associative, because the order is not defined.
  """
  x = jnp.asarray(input)
  combine = scalar_function(ctx, computation, [x.dtype] * 2)
  node = ctx.node_name
  window = Window(window_dimensions, window_strides, base_dilations, window_dilations, _pairs(padding))
  (result,) = reduce_window(
    combine,
    [x],
    [init_value],
    window,
    monoid=monoid(combine, x.dtype),
    padding_counts=False,
    too_large=lambda reason: UnsupportedOpError(f"XlaReduceWindow node {node!r}: {reason}"),
  )
  return result


def _pairs(padding: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
  return tuple(zip(padding[::2], padding[1::2], strict=True))


@register("XlaSelectAndScatter", ignores=("T", "Tindices"))
def xla_select_and_scatter(
  ctx: Context,
  operand: Array,
  window_dimensions: StaticSizes,
  window_strides: Static[tuple[int, ...]],
  padding: Static[tuple[int, ...]],
  source: Array,
  init_value: Array,
  *,
  select: FunctionRef,
  scatter: FunctionRef,
) -> Array:
  """Scatters the values of `source`, one per window, to the cells that the windows select.

  Source op: `XlaSelectAndScatter` (tf2xla).

  Args:
    ctx: the program that has the functions.
    operand: the array in which windows select cells, any dtype.
    window_dimensions: `[rank]`, like the next. All three must be concrete.
    window_strides: steps between windows.
    padding: `[rank, 2]`, cells before and after, which are never selected.
    source: one value per window, dtype of `operand`.
    init_value: scalar, the value of cells that are not selected.
    select: function of the current and the next cell that returns whether to keep the current one; in row-major order.
    scatter: function of the old value of a cell and a value of `source` that returns the new value.

  Returns:
    Shape and dtype of `operand`.

  Raises:
    UnsupportedOpError: the window has too many cells.
  """
  x = jnp.asarray(operand)
  ones = (1,) * x.ndim
  window = Window(window_dimensions, window_strides, ones, ones, _pairs(padding))
  if window.num_cells > MAX_UNROLLED_CELLS:
    raise UnsupportedOpError(
      f"XlaSelectAndScatter node {ctx.node_name!r}: a window of {tuple(window_dimensions)} has more than "
      f"{MAX_UNROLLED_CELLS} cells."
    )
  stays = scalar_function(ctx, select, [x.dtype] * 2)
  combine = scalar_function(ctx, scatter, [x.dtype] * 2)
  return select_and_scatter(
    lambda *pair: stays(*pair)[0],
    lambda *pair: combine(*pair)[0],
    x,
    jnp.asarray(source),
    init_value,
    window,
    adds=monoid(combine, x.dtype) == "add",
  )
