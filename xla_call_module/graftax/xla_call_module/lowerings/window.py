"""`reduce_window` and `select_and_scatter`: pooling, running sums, and any other windowed reducer."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.extend.core import primitives

from graftax.xla_call_module import errors, ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.evaluate import mapped, region_function
from graftax.xla_call_module.lowerings.reduce import MONOIDS, identity, is_identity
from graftax.xla_call_module.patterns import regions
from graftax.xla_call_module.registry import register
from graftax.xla_call_module.values import materialize

__all__ = ["Window", "reduce_window"]

_CUMULATIVE = {"add": lax.cumsum, "multiply": lax.cumprod, "maximum": lax.cummax, "minimum": lax.cummin}
_MAX_DIFFERENTIABLE_WINDOW = 4096


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
  """Per axis: size, stride, dilations, and (low, high) padding of a windowed op."""

  sizes: tuple[Any, ...]
  strides: tuple[Any, ...]
  base_dilation: tuple[Any, ...]
  window_dilation: tuple[Any, ...]
  padding: tuple[tuple[Any, Any], ...]

  @staticmethod
  def of(op: ir.Op, rank: int) -> "Window":
    """The window that an op's attributes describe, defaults filled in."""
    ones = (1,) * rank
    padding = op.attrs.get("padding")
    return Window(
      tuple(op.attrs["window_dimensions"]),
      tuple(op.attrs.get("window_strides", ones)),
      tuple(op.attrs.get("base_dilations", ones)),
      tuple(op.attrs.get("window_dilations", ones)),
      tuple((int(a), int(b)) for a, b in padding) if padding is not None else ((0, 0),) * rank,
    )

  @property
  def is_plain(self) -> bool:
    return all(n == 1 for n in (*self.strides, *self.base_dilation, *self.window_dilation))

  def reduced(self, x: Any, init: Any, combine: Callable[..., Any]) -> Any:
    """`lax.reduce_window` over this window."""
    return lax.reduce_window(
      x, init, combine, self.sizes, self.strides, self.padding, self.base_dilation, self.window_dilation
    )

  def padded(self, x: Array, value: Array) -> Array:
    """The array with this window's padding and base dilation filled in."""
    return lax.pad(
      x, value, [(low, high, d - 1) for (low, high), d in zip(self.padding, self.base_dilation, strict=True)]
    )

  def without_padding(self) -> "Window":
    """The window for an array that `padded` gave."""
    none = ((0, 0),) * len(self.sizes)
    return dataclasses.replace(self, padding=none, base_dilation=(1,) * len(self.sizes))


@register("stablehlo.reduce_window", takes_known=True)
def _reduce_window(context: Context, op: ir.Op, *operands: Any, environment: dict[int, Any]) -> Any:
  return reduce_window(context, op, operands, Window.of(op, np.ndim(operands[0])), op.regions[0], environment)


def reduce_window(
  context: Context, op: ir.Op, operands: Sequence[Any], window: "Window", region: ir.Region, environment: Any
) -> Any:
  """Arrays, then their initial values, reduced over a window given apart from the op."""
  half = len(operands) // 2
  arrays, inits = [materialize(x) for x in operands[:half]], operands[half:]
  name = regions.reducer(region) if half == 1 else None
  if half == 1:
    found = _cumulative(region, arrays[0], inits[0], window, name, environment)
    if found is not None:
      return found
  # JAX has no reverse mode for the maximum over a dilated window.
  is_dilated = name in ("maximum", "minimum") and any(n != 1 for n in window.window_dilation)
  if name in ("add", "maximum", "minimum") and not is_dilated and identity(name, arrays[0].dtype) is not None:
    return _reduce_window_monoid(name, arrays[0], inits[0], window)
  combine = region_function(context, region, environment)
  starts = [materialize(x) for x in inits]
  if all(isinstance(x, np.ndarray) for x in inits):
    return _reduce_window_general(op, arrays, starts, window, combine)
  return _unrolled(op, combine, arrays, starts, window)  # JAX batches no initial values


def _cumulative(
  region: ir.Region, x: Array, init: Any, window: Window, name: str | None, environment: Any
) -> Array | None:
  """A running reduction along one axis, where the window spans that axis and only looks one way."""
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
    return _CUMULATIVE[name](x, axis, reverse) if is_identity(name, init, x.dtype) else None
  if jnp.issubdtype(x.dtype, jnp.floating) and is_identity("maximum", init, x.dtype):
    template = regions.exported_region(_cumlogsumexp, "stablehlo.reduce_window", jax.ShapeDtypeStruct((2,), x.dtype))
    if template is not None and regions.canonical(region, environment) == template:
      return lax.cumlogsumexp(x, axis, reverse)
  return None


def _cumlogsumexp(x: Array) -> Array:
  return lax.cumlogsumexp(x, 0)


def _reduce_window_monoid(name: str, x: Array, init: Any, window: Window) -> Array:
  combine, neutral = MONOIDS[name], identity(name, x.dtype)
  if is_identity(name, init, x.dtype):
    return window.reduced(x, neutral, combine)
  # Padding holds the initial value, and each window starts from it once more.
  init = materialize(init)
  result = window.without_padding().reduced(window.padded(x, init), neutral, combine)
  return combine(result, lax.broadcast(init, result.shape))


def _reduce_window_general(
  op: ir.Op, arrays: Sequence[Any], inits: Sequence[Any], window: Window, combine: Callable[..., Any]
) -> Any:
  num = len(arrays)

  def pairwise(left: Any, right: Any) -> Any:
    left, right = (left, right) if num > 1 else ((left,), (right,))
    return combine(*left, *right)

  @jax.custom_jvp
  def run(arrays: Any, inits: Any) -> Any:
    # Padded explicitly, because XLA leaves cells of padding out.
    padded = [window.padded(x, start) for x, start in zip(arrays, inits, strict=True)]
    xs, starts = (tuple(padded), inits) if num > 1 else (padded[0], inits[0])
    result = window.without_padding().reduced(xs, starts, pairwise)
    return tuple(result) if num > 1 else (result,)

  @run.defjvp
  def _(primals: Any, tangents: Any) -> Any:
    return jax.jvp(lambda xs, starts: _unrolled(op, combine, xs, starts, window), primals, tangents)

  return run(tuple(arrays), tuple(inits))


def _unrolled(
  op: ir.Op,
  combine: Callable[..., Any],
  arrays: Sequence[Any],
  inits: Sequence[Any],
  window: Window,
) -> Any:
  """The same reduction as one slice per window position, combined in order; differentiable."""
  if int(np.prod(window.sizes)) > _MAX_DIFFERENTIABLE_WINDOW:
    raise errors.DerivativeError(
      f"{op.place}: a window of {window.sizes} with a reducer of its own is too large to"
      f" differentiate; the limit is {_MAX_DIFFERENTIABLE_WINDOW} positions."
    )
  padded = [window.padded(x, start) for x, start in zip(arrays, inits, strict=True)]
  step = mapped(combine, padded[0].ndim)
  result: Any = None
  spans = [(size - 1) * d for size, d in zip(window.sizes, window.window_dilation, strict=True)]
  if any(dim <= span for dim, span in zip(padded[0].shape, spans, strict=True)):  # no window fits
    fitting = [max(0, -(-(n - s) // by)) for n, s, by in zip(padded[0].shape, spans, window.strides, strict=True)]
    return tuple(lax.full(fitting, 0, x.dtype) for x in arrays)
  for offsets in itertools.product(*(range(size) for size in window.sizes)):
    starts = [offset * d for offset, d in zip(offsets, window.window_dilation, strict=True)]
    limits = [s + dim - span for s, dim, span in zip(starts, padded[0].shape, spans, strict=True)]
    parts = tuple(lax.slice(x, starts, limits, window.strides) for x in padded)
    before = result or tuple(jnp.broadcast_to(start, parts[0].shape) for start in inits)
    result = step(*before, *parts)
    result = result if isinstance(result, tuple) else (result,)
  return result


_SELECTORS = {"GE": primitives.ge_p, "LE": primitives.le_p}


@register("stablehlo.select_and_scatter", takes_known=True)
def _select_and_scatter(
  context: Context, op: ir.Op, x: Any, source: Any, init: Any, *, environment: dict[int, Any]
) -> Array:
  x, source = materialize(x), materialize(source)
  window = Window.of(op, x.ndim)
  select, scatter = op.regions
  compare = select.ops[0] if len(select.ops) == 1 and select.ops[0].operands == select.args else None
  # JAX's own takes GT and LT too, pads both with infinity, and differentiates neither.
  prim = _SELECTORS.get(compare.attrs.get("comparison_direction", "")) if compare else None
  if (
    compare is None
    or prim is None
    or regions.reducer(scatter) != "add"
    or compare.attrs.get("compare_type") == "TOTALORDER"
    or any(side < 0 for sides in window.padding for side in sides)
  ):
    return _select_and_scatter_general(context, op, x, source, materialize(init), window, environment)
  result = primitives.select_and_scatter_add_p.bind(
    source,
    _above_padding(x, prim) if any(side for sides in window.padding for side in sides) else x,
    select_prim=prim,
    window_dimensions=window.sizes,
    window_strides=window.strides,
    padding=window.padding,
  )
  if is_identity("add", init, x.dtype):
    return result
  return lax.add(result, lax.broadcast(materialize(init), result.shape))


def _above_padding(x: Array, prim: Any) -> Array:
  """JAX fills padding with the value that every other beats or equals, and there an equal one would lose to it."""
  if jnp.issubdtype(x.dtype, jnp.floating):
    low, high = (np.asarray(limit, x.dtype) for limit in (jnp.finfo(x.dtype).min, jnp.finfo(x.dtype).max))
  else:
    low, high = (np.asarray(limit, x.dtype) for limit in (jnp.iinfo(x.dtype).min + 1, jnp.iinfo(x.dtype).max - 1))
  return lax.max(x, lax.full_like(x, low)) if prim is primitives.ge_p else lax.min(x, lax.full_like(x, high))


def _select_and_scatter_general(
  context: Context, op: ir.Op, x: Array, source: Array, init: Array, window: Window, environment: dict[int, Any]
) -> Array:
  """Any selector and any scatterer: each window's winner by unrolling, then the sources combined one by one."""
  stays = mapped(region_function(context, op.regions[0], environment), x.ndim)
  index = lax.iota(np.int32, x.size).reshape(x.shape)
  padding = [(low, high, 0) for low, high in window.padding]
  padded = lax.pad(x, lax.full((), 0, x.dtype), padding)
  places = lax.pad(index, np.int32(-1), padding)
  best: Any = None
  for offsets in itertools.product(*(range(size) for size in window.sizes)):
    limits = [o + dim - size + 1 for o, dim, size in zip(offsets, padded.shape, window.sizes, strict=True)]
    value = lax.slice(padded, offsets, limits, window.strides)
    place = lax.slice(places, offsets, limits, window.strides)
    if best is None:
      best = (value, place)
      continue
    # A position in the padding never wins; otherwise the earlier one stays where the selector says so.
    stay = (place < 0) | ((best[1] >= 0) & stays(best[0], value))
    best = (jnp.where(stay, best[0], value), jnp.where(stay, best[1], place))
  scatter = region_function(context, op.regions[1], environment)

  def step(total: Array, item: Any) -> Any:
    place, value = item
    return total.at[place].set(scatter(total[place], value), mode="drop"), None

  flat = jnp.broadcast_to(init, (x.size,))
  winners = jnp.where(best[1] < 0, x.size, best[1])  # a window of nothing but padding has none
  total, _ = lax.scan(step, flat, (winners.reshape(-1), source.reshape(-1)))
  return total.reshape(x.shape)
