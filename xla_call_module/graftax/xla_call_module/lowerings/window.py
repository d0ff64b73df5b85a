"""`reduce_window` and `select_and_scatter`: pooling, running sums, and other windowed reductions."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.extend.core import primitives

from graftax.xla_call_module import errors, ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.evaluate import region_function
from graftax.xla_call_module.lax_extras import monoids, windows
from graftax.xla_call_module.lax_extras.windows import Window
from graftax.xla_call_module.patterns import regions
from graftax.xla_call_module.registry import register
from graftax.xla_call_module.values import materialize

__all__ = ["reduce_window"]

_CUMULATIVE = {"add": lax.cumsum, "multiply": lax.cumprod, "maximum": lax.cummax, "minimum": lax.cummin}


def _window(op: ir.Op, rank: int) -> Window:
  """Returns the window that an op's attributes describe, with defaults filled in."""
  ones = (1,) * rank
  return Window(
    op.attrs.integers("window_dimensions"),
    op.attrs.integers("window_strides", ones),
    op.attrs.integers("base_dilations", ones),
    op.attrs.integers("window_dilations", ones),
    op.attrs.pairs("padding", rank),
  )


@register(
  "stablehlo.reduce_window",
  takes_known=True,
  attributes=("base_dilations", "padding", "window_dilations", "window_dimensions", "window_strides"),
)
def _reduce_window(context: Context, op: ir.Op, *operands: Any, environment: dict[int, Any]) -> Any:
  return reduce_window(context, op, operands, _window(op, np.ndim(operands[0])), op.regions[0], environment)


def reduce_window(
  context: Context, op: ir.Op, operands: Sequence[Any], window: Window, region: ir.Region, environment: Any
) -> Any:
  """Reduces arrays over the given window; `operands` are the arrays, then the initial values."""
  half = len(operands) // 2
  arrays, inits = [materialize(x) for x in operands[:half]], operands[half:]
  name = regions.reducer(region) if half == 1 else None
  if half == 1:
    found = _cumulative(region, arrays[0], inits[0], window, name, environment)
    if found is not None:
      return found
  return windows.reduce_window(
    region_function(context, region, environment),
    arrays,
    [materialize(x) for x in inits],
    window,
    monoid=name,
    padding_counts=True,
    too_large=lambda reason: errors.DerivativeError(f"{op.place}: {reason}"),
  )


def _cumulative(
  region: ir.Region, x: Array, init: Any, window: Window, name: str | None, environment: Any
) -> Array | None:
  """Returns a running reduction along one axis, or None unless the window spans that axis in one direction only."""
  long = [axis for axis, size in enumerate(window.sizes) if size != 1]
  if len(long) != 1 or not window.is_plain or window.sizes[long[0]] != x.shape[long[0]]:
    return None
  (axis,) = long
  sides = {axis: (window.sizes[axis] - 1, 0)}
  reverse = window.padding[axis] == (0, window.sizes[axis] - 1)
  padding = list(window.padding)
  if reverse:
    padding[axis] = sides[axis]
  if any(pad != sides.get(i, (0, 0)) for i, pad in enumerate(padding)):
    return None
  if name in _CUMULATIVE:
    return _CUMULATIVE[name](x, axis, reverse) if monoids.is_identity(name, init, x.dtype) else None
  if jnp.issubdtype(x.dtype, jnp.floating) and monoids.is_identity("maximum", init, x.dtype):
    template = regions.exported_region(_cumlogsumexp, "stablehlo.reduce_window", jax.ShapeDtypeStruct((2,), x.dtype))
    if template is not None and regions.canonical(region, environment) == template:
      return lax.cumlogsumexp(x, axis, reverse)
  return None


def _cumlogsumexp(x: Array) -> Array:
  return lax.cumlogsumexp(x, 0)


_SELECTORS = {"GE": primitives.ge_p, "LE": primitives.le_p}


@register(
  "stablehlo.select_and_scatter", takes_known=True, attributes=("padding", "window_dimensions", "window_strides")
)
def _select_and_scatter(
  context: Context, op: ir.Op, x: Any, source: Any, init: Any, *, environment: dict[int, Any]
) -> Array:
  x, source = materialize(x), materialize(source)
  window = _window(op, x.ndim)
  select, scatter = op.regions
  compare = select.ops[0] if len(select.ops) == 1 and select.ops[0].operands == select.args else None
  # JAX's primitive also accepts GT and LT, but pads both with infinity and cannot differentiate them.
  prim = _SELECTORS.get(compare.attrs.text("comparison_direction", "")) if compare else None
  if (
    compare is None
    or prim is None
    or regions.reducer(scatter) != "add"
    or compare.attrs.get("compare_type") == "TOTALORDER"
    or any(side < 0 for sides in window.padding for side in sides)
  ):
    return windows.select_and_scatter(
      region_function(context, select, environment),
      region_function(context, scatter, environment),
      x,
      source,
      materialize(init),
      window,
      adds=False,
    )
  result = primitives.select_and_scatter_add_p.bind(
    source,
    _above_padding(x, prim) if any(side for sides in window.padding for side in sides) else x,
    select_prim=prim,
    window_dimensions=window.sizes,
    window_strides=window.strides,
    padding=window.padding,
  )
  if monoids.is_identity("add", init, x.dtype):
    return result
  return lax.add(result, lax.broadcast(materialize(init), result.shape))


def _above_padding(x: Array, prim: Any) -> Array:
  """Replaces values of `x` that equal JAX's padding value, because such an element would lose to the padding."""
  if jnp.issubdtype(x.dtype, jnp.floating):
    low, high = (np.asarray(limit, x.dtype) for limit in (jnp.finfo(x.dtype).min, jnp.finfo(x.dtype).max))
  else:
    low, high = (np.asarray(limit, x.dtype) for limit in (jnp.iinfo(x.dtype).min + 1, jnp.iinfo(x.dtype).max - 1))
  return lax.max(x, lax.full_like(x, low)) if prim is primitives.ge_p else lax.min(x, lax.full_like(x, high))
