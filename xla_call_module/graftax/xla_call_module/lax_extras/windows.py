"""Windowed reductions and select-and-scatter with HLO's semantics, any function of scalars, and derivatives."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from graftax.xla_call_module.lax_extras.arrays import ArrayFunction
from graftax.xla_call_module.lax_extras.monoids import MONOIDS, identity, is_identity
from graftax.xla_call_module.lax_extras.reductions import mapped

__all__ = ["MAX_UNROLLED_CELLS", "Window", "reduce_window", "select_and_scatter"]

MAX_UNROLLED_CELLS = 4096
"""Largest number of cells of a window that is unrolled, with one slice and one call of the function per cell."""

_DIFFERENTIABLE = ("add", "maximum", "minimum")

MakeError = Callable[[str], Exception]


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
  """Size, stride, dilations and (low, high) padding of a window along each axis."""

  sizes: tuple[int, ...]
  strides: tuple[int, ...]
  base_dilation: tuple[int, ...]
  window_dilation: tuple[int, ...]
  padding: tuple[tuple[int, int], ...]

  @property
  def num_cells(self) -> int:
    return math.prod(int(size) for size in self.sizes)

  @property
  def is_plain(self) -> bool:
    """Whether it has neither strides nor dilations."""
    return all(n == 1 for n in (*self.strides, *self.base_dilation, *self.window_dilation))

  def reduced(self, x: Any, init: Any, combine: ArrayFunction) -> Any:
    """Returns `lax.reduce_window` over this window.

    Args:
      x: an array, or a pytree of arrays of one shape, without the padding of this window.
      init: the initial value of each window, a scalar; a pytree of them if `x` is one.
      combine: an associative function of two scalars, or of two pytrees of scalars.
    """
    return lax.reduce_window(
      x, init, combine, self.sizes, self.strides, self.padding, self.base_dilation, self.window_dilation
    )

  def padded(self, x: Array, value: Any) -> Array:
    """Returns the array with this window's padding and base dilation filled with `value`.

    Args:
      x: one axis per entry of the window, any dtype.
      value: a scalar of the dtype of `x`. Negative padding cuts cells off.
    """
    cells = [(low, high, d - 1) for (low, high), d in zip(self.padding, self.base_dilation, strict=True)]
    return lax.pad(x, value, cells) if any(map(any, cells)) else x

  def without_padding(self) -> "Window":
    """Returns the window for an array that `padded` returned."""
    none = ((0, 0),) * len(self.sizes)
    return dataclasses.replace(self, padding=none, base_dilation=(1,) * len(self.sizes))

  def views(self, *padded: Array) -> Iterator[tuple[Array, ...]]:
    """Yields, for each cell of the window in row-major order, the values of that cell in all windows.

    Args:
      *padded: arrays of equal shape that `padded` returned. The window must fit in them.
    """
    counts = self.counts(padded[0])
    for offsets in itertools.product(*(range(size) for size in self.sizes)):
      starts = [offset * d for offset, d in zip(offsets, self.window_dilation, strict=True)]
      limits = [start + (n - 1) * step + 1 for start, n, step in zip(starts, counts, self.strides, strict=True)]
      yield tuple(lax.slice(x, starts, limits, self.strides) for x in padded)

  def fits(self, padded: Array) -> bool:
    """Returns whether the window fits in an array that `padded` returned."""
    return not any(dim <= span for dim, span in zip(padded.shape, self._spans(), strict=True))

  def counts(self, padded: Array) -> list[int]:
    """Returns the number of windows along each axis of an array that `padded` returned."""
    steps = zip(padded.shape, self._spans(), self.strides, strict=True)
    return [-(-(dim - span) // stride) for dim, span, stride in steps]

  def _spans(self) -> list[int]:
    return [(size - 1) * d for size, d in zip(self.sizes, self.window_dilation, strict=True)]


def reduce_window(
  combine: ArrayFunction,
  arrays: Sequence[Array],
  inits: Sequence[Any],
  window: Window,
  *,
  monoid: str | None,
  padding_counts: bool,
  too_large: MakeError,
) -> tuple[Array, ...]:
  """Returns arrays reduced together over windows.

  Args:
    combine: `combine(*left, *right)` returns a tuple with one scalar per array, or a single scalar.
    arrays: of one shape, any dtypes.
    inits: for each array, the initial value of every window, a scalar.
    window: along all axes of the arrays.
    monoid: the key of `MONOIDS` for the function, if it is one of them and there is one array.
    padding_counts: whether cells of padding are combined too, as StableHLO defines; they have the initial value. XLA
      skips them, which makes a difference unless the initial value is neutral.
    too_large: returns the error to raise if a window of more than `MAX_UNROLLED_CELLS` would have to be unrolled.
  """
  if monoid is not None and _has_derivative(monoid, arrays[0].dtype, window):
    return (_reduce_monoid(monoid, arrays[0], inits[0], window, padding_counts),)

  def unrolled(arrays: Sequence[Array], inits: Sequence[Any]) -> Any:
    return _unrolled(combine, arrays, inits, window, padding_counts, too_large)

  # JAX does not batch initial values.
  if not all(isinstance(x, np.ndarray) for x in inits) and window.num_cells <= MAX_UNROLLED_CELLS:
    return tuple(unrolled(arrays, inits))
  run = jax.custom_jvp(lambda arrays, inits: _rolled(combine, arrays, inits, window, padding_counts))
  run.defjvp(lambda primals, tangents: jax.jvp(unrolled, primals, tangents))
  return tuple(run(tuple(arrays), tuple(inits)))


def _has_derivative(monoid: str, dtype: np.dtype, window: Window) -> bool:
  """Returns whether JAX can differentiate the reduction. It cannot for the maximum over dilated windows."""
  is_dilated = monoid != "add" and any(n != 1 for n in window.window_dilation)
  return monoid in _DIFFERENTIABLE and not is_dilated and identity(monoid, dtype) is not None


def _reduce_monoid(name: str, x: Array, init: Any, window: Window, padding_counts: bool) -> Array:
  combine, neutral = MONOIDS[name], identity(name, x.dtype)
  if is_identity(name, init, x.dtype):
    return window.reduced(x, neutral, combine)
  padded = window.padded(x, init if padding_counts else neutral)
  result = window.without_padding().reduced(padded, neutral, combine)
  return combine(result, lax.broadcast(init, result.shape))


def _rolled(
  combine: ArrayFunction, arrays: Sequence[Array], inits: Sequence[Any], window: Window, padding_counts: bool
) -> tuple[Array, ...]:
  def pairwise(left: Sequence[Array], right: Sequence[Array]) -> tuple[Array, ...]:
    return _as_tuple(combine(*left, *right))

  if padding_counts:  # padded explicitly, because XLA skips cells of padding
    arrays = tuple(window.padded(x, start) for x, start in zip(arrays, inits, strict=True))
    window = window.without_padding()
  return tuple(window.reduced(arrays, inits, pairwise))


def _unrolled(
  combine: ArrayFunction,
  arrays: Sequence[Array],
  inits: Sequence[Any],
  window: Window,
  padding_counts: bool,
  too_large: MakeError,
) -> tuple[Array, ...]:
  """Reduces with one step per cell of the window, in order; differentiable."""
  if window.num_cells > MAX_UNROLLED_CELLS:
    raise too_large(
      f"a window of {window.sizes} with a custom function is too large to differentiate; the limit is"
      f" {MAX_UNROLLED_CELLS} cells."
    )
  # Cells that do not count also have the initial value, so that they cannot make a derivative infinite.
  padded = [window.padded(x, start) for x, start in zip(arrays, inits, strict=True)]
  counts, step = window.counts(padded[0]), mapped(combine, padded[0].ndim)
  if not window.fits(padded[0]):
    return tuple(lax.full([max(0, count) for count in counts], 0, x.dtype) for x in arrays)
  result = tuple(jnp.broadcast_to(start, counts) for start in inits)
  if padding_counts:
    for parts in window.views(*padded):
      result = _as_tuple(step(*result, *parts))
    return result
  inside = window.padded(jnp.ones(arrays[0].shape, np.bool_), np.False_)
  for is_inside, *cells in window.views(inside, *padded):
    after = _as_tuple(step(*result, *cells))
    result = tuple(jnp.where(is_inside, new, old) for new, old in zip(after, result, strict=True))
  return result


def _as_tuple(result: Any) -> tuple[Array, ...]:
  return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def select_and_scatter(
  select: ArrayFunction, scatter: ArrayFunction, x: Array, source: Array, init: Any, window: Window, *, adds: bool
) -> Array:
  """Scatters the values of `source`, one per window, to the cells that the windows select.

  Args:
    select: `select(current, next)` returns whether to keep the current cell. Cells are visited in row-major order;
      cells of padding are never selected.
    scatter: `scatter(old, value)` returns the new value of a cell.
    x: the array in which windows select cells, any dtype.
    source: one value per window.
    init: the initial value of all cells, a scalar.
    window: along all axes of `x`, without dilations.
    adds: whether `scatter` is a sum, which is differentiable and needs no loop.
  """
  places = _selected(select, x, window).reshape(-1)
  flat, values = jnp.broadcast_to(init, (x.size,)), source.reshape(-1)
  if adds:
    return flat.at[places].add(values, mode="drop").reshape(x.shape)

  def step(total: Array, item: Any) -> Any:
    place, value = item
    return total.at[place].set(scatter(total[place], value), mode="drop"), None

  total, _ = lax.scan(step, flat, (places, values))
  return total.reshape(x.shape)


def _selected(select: ArrayFunction, x: Array, window: Window) -> Array:
  """Returns, for each window, the flat position in `x` of the cell that it selects; `x.size` if it selects none."""
  stays = mapped(select, x.ndim)
  places = window.padded(lax.iota(np.int32, x.size).reshape(x.shape), np.int32(x.size))
  best: tuple[Array, Array] | None = None
  for value, place in window.views(window.padded(lax.stop_gradient(x), lax.full((), 0, x.dtype)), places):
    if best is None:
      best = value, place
      continue
    stay = (place == x.size) | ((best[1] != x.size) & stays(best[0], value))
    best = jnp.where(stay, best[0], value), jnp.where(stay, best[1], place)
  assert best is not None, f"internal: a window of sizes {window.sizes} has no cells"
  return best[1]
