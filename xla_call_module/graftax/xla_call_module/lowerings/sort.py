"""`sort` with any comparator: as `lax.sort` if JAX exported it, else by integer keys if possible, else by ranks."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from graftax.xla_call_module import ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.evaluate import region_function
from graftax.xla_call_module.lax_extras.reductions import mapped
from graftax.xla_call_module.patterns import regions
from graftax.xla_call_module.registry import register

__all__: list[str] = []


@register("stablehlo.sort", attributes=("dimension", "is_stable"))
def _sort(context: Context, op: ir.Op, *operands: Array, environment: dict[int, Any]) -> Any:
  axis = op.attrs.integer("dimension", -1) % operands[0].ndim
  is_stable = op.attrs.boolean("is_stable", False)
  region = op.regions[0]
  num_keys = _num_jax_keys(region, operands, environment)
  if num_keys:
    return lax.sort(operands, axis, is_stable, num_keys)
  key = _simple_key(region, operands)
  if key is not None:
    return _sort_by_key(operands, key, axis, is_stable)
  return _sort_by_rank(operands, region_function(context, region, environment), axis)


def _num_jax_keys(region: ir.Region, operands: Sequence[Array], environment: dict[int, Any]) -> int:
  """Returns the `num_keys` for which `lax.sort` exports exactly this comparator, or 0."""
  read = {number for op in region.ops for number in op.operands}
  used = max((i // 2 + 1 for i, number in enumerate(region.args) if number in read), default=0)
  form = regions.canonical(region, environment)
  if not used or form is None:
    return 0
  specs = [jax.ShapeDtypeStruct((2,), x.dtype) for x in operands]
  return used if regions.exported_region(_jax_sort(used), "stablehlo.sort", *specs) == form else 0


@functools.cache
def _jax_sort(num_keys: int) -> Callable[..., Any]:
  return lambda *operands: lax.sort(operands, num_keys=num_keys)


def _simple_key(region: ir.Region, operands: Sequence[Array]) -> Array | None:
  """Returns an array whose ascending order is that of the comparator, or None unless it is one `<` or `>`."""
  if len(region.ops) != 1 or region.ops[0].name != "stablehlo.compare" or region.returns != region.ops[0].results:
    return None
  op = region.ops[0]
  positions = {number: i for i, number in enumerate(region.args)}
  left, right = (positions.get(number, -1) for number in op.operands)
  direction = op.attrs.text("comparison_direction")
  if left // 2 != right // 2 or left == right or left < 0 or direction not in ("LT", "GT"):
    return None
  descending = (direction == "GT") != (left > right)
  x = operands[left // 2]
  if x.dtype == np.bool_:
    x = x.astype(np.int8)
  elif jnp.issubdtype(x.dtype, jnp.floating):
    x = x.astype(np.float16) if jnp.finfo(x.dtype).bits < 8 else x  # there are no integers of its size for a bit cast
    x = _total_order_bits(x, op.attrs.get("compare_type") == "TOTALORDER")
  elif not jnp.issubdtype(x.dtype, jnp.integer):
    return None
  return lax.bitwise_not(x) if descending else x


def _total_order_bits(x: Array, is_total: bool) -> Array:
  """Maps floats to signed integers in the same total order; the two zeros are equal unless `is_total`."""
  if not is_total:
    x = jnp.where(x == 0, jnp.zeros_like(x), x)
  bits = lax.bitcast_convert_type(lax.stop_gradient(x), np.dtype(f"int{x.dtype.itemsize * 8}"))
  return jnp.where(bits < 0, bits ^ jnp.iinfo(bits.dtype).max, bits)


def _sort_by_key(operands: Sequence[Array], key: Array, axis: int, is_stable: bool) -> tuple[Array, ...]:
  if len(operands) == 1 and key is operands[0]:
    return (lax.sort(key, axis, is_stable),)
  index = lax.broadcasted_iota(np.int32, key.shape, axis)
  _, order = lax.sort((key, index), axis, is_stable, num_keys=1)
  return tuple(_permute(x, order, axis) for x in operands)


def _permute(x: Array, order: Array, axis: int) -> Array:
  return jnp.take_along_axis(x, order, axis, mode="promise_in_bounds")


def _sort_by_rank(operands: Sequence[Array], before: Callable[..., Array], axis: int) -> tuple[Array, ...]:
  """Sorts stably by any strict weak ordering: the rank of an element is the number of elements that precede it."""
  xs = tuple(jnp.moveaxis(x, axis, 0) for x in operands)
  size = xs[0].shape[0]
  if size < 2:
    return tuple(operands)
  precedes = mapped(before, xs[0].ndim)
  places = lax.broadcasted_iota(np.int32, xs[0].shape, 0)
  fixed = tuple(lax.stop_gradient(x) for x in xs)

  def step(rank: Array, item: Any) -> Any:
    j, other = item
    one = tuple(jnp.broadcast_to(value, x.shape) for value, x in zip(other, fixed, strict=True))
    is_before = precedes(*(part for pair in zip(one, fixed, strict=True) for part in pair))
    is_after = precedes(*(part for pair in zip(fixed, one, strict=True) for part in pair))
    # If the comparator is true both ways, as <= is for equal elements, the order is kept.
    return rank + jnp.where(is_before == is_after, j < places, is_before).astype(np.int32), None

  counted, _ = lax.scan(step, jnp.zeros_like(places), (jnp.arange(size, dtype=np.int32), fixed))
  order = jnp.argsort(counted, axis=0).astype(np.int32)
  return tuple(jnp.moveaxis(_permute(x, order, 0), 0, axis) for x in xs)
