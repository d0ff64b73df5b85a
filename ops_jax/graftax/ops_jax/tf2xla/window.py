"""tf2xla's reductions over sliding windows by a function, and their transpose."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.graphdef_ir import FunctionRef
from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.errors import UnsupportedOpError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static
from graftax.ops_jax.nn.windows import Window, window_views
from graftax.ops_jax.tf2xla.computation import MONOIDS, Computation, identity, monoid, over_arrays, scalar_function

__all__ = ["xla_reduce_window", "xla_select_and_scatter"]

# `lax.reduce_window` differentiates these three; any other function is differentiated one cell of the window at a time.
_DIFFERENTIABLE = ("add", "max", "min")
_MAX_CELLS = 4096


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
  x, init = jnp.asarray(input), jnp.asarray(init_value)
  combine = scalar_function(ctx, computation, [x.dtype] * 2)
  pairs = zip(padding[::2], padding[1::2], strict=True)
  pads = [(low, high, dilation - 1) for (low, high), dilation in zip(pairs, base_dilations, strict=True)]
  window = _window(window_dimensions, window_strides, window_dilations)
  name = monoid(combine, x.dtype)
  if name is None or name not in _DIFFERENTIABLE:
    return _reduce_with(combine, x, init, pads, window, ctx.node_name)
  neutral = identity(name, x.dtype)
  if name != "add" and any(dilation > 1 for dilation in window_dilations):
    # JAX has no derivative of the greatest or least number in a dilated window.
    reduced = _reduce_with(combine, x, jnp.asarray(neutral), pads, window, ctx.node_name)
  else:
    padded = lax.pad(x, jnp.asarray(neutral), pads)
    reduced = lax.reduce_window(
      padded, neutral, MONOIDS[name], window.size, window.strides, "VALID", None, window.dilations
    )
  return MONOIDS[name](reduced, jnp.broadcast_to(init, reduced.shape))


def _window(size: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Window:
  return Window(tuple(size), tuple(strides), tuple(dilations), ((0, 0),) * len(size), "VALID")


def _reduce_with(
  combine: Computation, x: Array, init: Array, pads: Sequence[tuple[int, int, int]], window: Window, node: str
) -> Array:
  @jax.custom_jvp
  def run(x: Array, init: Array) -> Array:
    (result,) = lax.reduce_window(
      (x,),
      (init,),
      lambda left, right: combine(*left, *right),
      window.size,
      window.strides,
      [(low, high) for low, high, _ in pads],
      [1 + interior for *_, interior in pads],
      window.dilations,
    )
    return result

  @run.defjvp
  def derivative(primals: Any, tangents: Any) -> Any:
    if np.prod(window.size) > _MAX_CELLS:
      raise UnsupportedOpError(
        f"XlaReduceWindow node {node!r}: a window of {window.size} with a function of its own is too large to "
        f"differentiate; at most {_MAX_CELLS} cells."
      )
    return jax.jvp(lambda x, init: _cell_by_cell(combine, x, init, pads, window), primals, tangents)

  return run(x, init)


def _cell_by_cell(
  combine: Computation, x: Array, init: Array, pads: Sequence[tuple[int, int, int]], window: Window
) -> Array:
  """The reduction as one step per cell of the window, over the cells that are not padding."""
  step = over_arrays(combine, x.ndim)
  padded = lax.pad(x, jnp.zeros((), x.dtype), pads)
  inside = lax.pad(jnp.ones(x.shape, np.bool_), np.False_, pads)
  axes = range(x.ndim)
  result: Array | None = None
  cells = zip(window_views(padded, window, axes, 0), window_views(inside, window, axes, False), strict=True)
  for (_, value), (_, counts) in cells:
    before = jnp.broadcast_to(init, value.shape) if result is None else result
    # What is not used must not make its derivative infinite either.
    (after,) = step(before, jnp.where(counts, value, jnp.broadcast_to(init, value.shape)))
    result = jnp.where(counts, after, before)
  assert result is not None
  return result


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
  x, source, init = jnp.asarray(operand), jnp.asarray(source), jnp.asarray(init_value)
  if np.prod(window_dimensions) > _MAX_CELLS:
    raise UnsupportedOpError(
      f"XlaSelectAndScatter node {ctx.node_name!r}: a window of {tuple(window_dimensions)} has more than {_MAX_CELLS} "
      f"cells."
    )
  window = _window(window_dimensions, window_strides, (1,) * x.ndim)
  pads = [(low, high, 0) for low, high in zip(padding[::2], padding[1::2], strict=True)]
  places = _selected(scalar_function(ctx, select, [x.dtype] * 2), x, window, pads)
  combine = scalar_function(ctx, scatter, [x.dtype] * 2)
  flat: jax.Array = jnp.broadcast_to(init, (x.size,))
  if monoid(combine, x.dtype) == "add":
    return flat.at[places.reshape(-1)].add(source.reshape(-1), mode="drop").reshape(x.shape)

  def put(total: jax.Array, item: tuple[Array, Array]) -> tuple[jax.Array, None]:
    place, value = item
    return total.at[place].set(combine(total[place], value)[0], mode="drop"), None

  total, _ = lax.scan(put, flat, (places.reshape(-1), source.reshape(-1)))
  return total.reshape(x.shape)


def _selected(select: Computation, x: Array, window: Window, pads: Sequence[tuple[int, int, int]]) -> Array:
  """For each window, the flat position in `x` of the cell that it selects; `x.size` where it has none."""
  stays = over_arrays(select, x.ndim)
  numbers = lax.pad(jnp.arange(x.size, dtype=np.int32).reshape(x.shape), np.int32(x.size), pads)
  padded = lax.pad(lax.stop_gradient(x), jnp.zeros((), x.dtype), pads)
  axes = range(x.ndim)
  cells = zip(window_views(padded, window, axes, 0), window_views(numbers, window, axes, 0), strict=True)
  best: tuple[Array, Array] | None = None
  for (_, value), (_, number) in cells:
    if best is None:
      best = value, number
      continue
    keep = (number == x.size) | ((best[1] != x.size) & stays(best[0], value)[0])
    best = jnp.where(keep, best[0], value), jnp.where(keep, best[1], number)
  assert best is not None
  return best[1]
