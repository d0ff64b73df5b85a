"""tf2xla's reductions over sliding windows by a function, and their transpose."""

import jax.numpy as jnp

from graftax.graphdef_ir import FunctionRef
from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.errors import UnsupportedOpError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static
from graftax.ops_jax.tf2xla.computation import monoid, scalar_function
from graftax.xla_call_module.lax_extras import MAX_UNROLLED_CELLS, Window, reduce_window, select_and_scatter

__all__ = ["xla_reduce_window", "xla_select_and_scatter"]


@register("XlaReduceWindow", ignores=("T", "Tindices"))
def xla_reduce_window(
  ctx: Context,
  input: Array,
  init_value: Array,
  window_dimensions: Static[tuple[int, ...]],
  window_strides: Static[tuple[int, ...]],
  base_dilations: Static[tuple[int, ...]],
  window_dilations: Static[tuple[int, ...]],
  padding: Static[tuple[int, ...]],
  *,
  computation: FunctionRef,
) -> Array:
  """An array reduced over windows by a function.

  Source op: `XlaReduceWindow` (tf2xla).

  Args:
    ctx: the program, for the function.
    input: any dtype.
    init_value: scalar of that dtype, what every window starts from.
    window_dimensions: `[rank]`, as the next three. Must be concrete, as all of them.
    window_strides: steps between windows.
    base_dilations: steps between the input's cells.
    window_dilations: steps between a window's cells.
    padding: `[rank, 2]`, cells before and after, which do not count.
    computation: from two scalars to one; associative, as the order is open.
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
  window_dimensions: Static[tuple[int, ...]],
  window_strides: Static[tuple[int, ...]],
  padding: Static[tuple[int, ...]],
  source: Array,
  init_value: Array,
  *,
  select: FunctionRef,
  scatter: FunctionRef,
) -> Array:
  """Values of `source`, one per window, each put where its window selects a cell.

  Source op: `XlaSelectAndScatter` (tf2xla).

  Args:
    ctx: the program, for the functions.
    operand: any dtype, what windows select from.
    window_dimensions: `[rank]`, as the next. Must be concrete, as all three.
    window_strides: steps between windows.
    padding: `[rank, 2]`, cells before and after, which are never selected.
    source: one value per window, dtype of `operand`.
    init_value: scalar, what a cell holds that nothing is put into.
    select: from the cell so far and the next one to whether the first stays; cells come in row-major order.
    scatter: from what a cell holds and a value to what it holds then.

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
