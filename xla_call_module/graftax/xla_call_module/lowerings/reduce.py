"""`reduce`: sums and the other monoids, argmax/argmin, and any other reducer."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from graftax.xla_call_module import analysis, ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.evaluate import mapped, region_function
from graftax.xla_call_module.patterns import regions
from graftax.xla_call_module.registry import register
from graftax.xla_call_module.values import materialize

__all__ = ["MONOIDS", "identity", "is_identity"]

_LOGICAL = ("and", "or", "xor")

MONOIDS: dict[str, Callable[..., Any]] = {
    "add": lax.add, "multiply": lax.mul, "maximum": lax.max, "minimum": lax.min,
    "and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor,
}  # fmt: skip


def identity(name: str, dtype: np.dtype) -> np.ndarray | None:
  """The neutral element of a monoid, or None where the dtype has none (the maximum of complex numbers)."""
  if name in ("add", "or", "xor"):
    return np.zeros((), dtype)
  if name == "multiply":
    return np.ones((), dtype)
  if name == "and":
    return np.ones((), dtype) if dtype == np.bool_ else np.invert(np.zeros((), dtype))
  if jnp.issubdtype(dtype, jnp.complexfloating):
    return None
  if dtype == np.bool_:
    return np.asarray(name == "minimum")
  if jnp.issubdtype(dtype, jnp.integer):
    limits = jnp.iinfo(dtype)
    return np.asarray(limits.min if name == "maximum" else limits.max, dtype)
  limits = jnp.finfo(dtype)
  has_inf = bool(np.isinf(np.asarray(np.inf, dtype).astype(np.float32)))
  low, high = (-np.inf, np.inf) if has_inf else (limits.min, limits.max)
  return np.asarray(low if name == "maximum" else high, dtype)


def is_identity(name: str, init: Any, dtype: np.dtype) -> bool:
  """Whether a known initial value is the neutral element, so that it can be left out."""
  neutral = identity(name, dtype)
  return neutral is not None and isinstance(init, np.ndarray) and init.tobytes() == neutral.tobytes()


@register("stablehlo.reduce", takes_known=True)
def _reduce(context: Context, op: ir.Op, *operands: Any, environment: dict[int, Any]) -> Any:
  half = len(operands) // 2
  inits, axes = operands[half:], tuple(op.attrs["dimensions"])
  # The specification lets the reducer work in a wider type than the operand's.
  arrays = [_converted(materialize(x), kind.dtype) for x, kind in zip(operands[:half], op.types, strict=True)]
  if not axes:
    return arrays  # as XLA has it; how often the initial value takes part is left open
  name = regions.reducer(op.regions[0]) if half == 1 else None
  if name is not None:
    result = _reduce_monoid(name, arrays[0], inits[0], axes)
    if result is not None:
      return result
  if half == 2 and len(axes) == 1:
    found = _arg_extremum(context, op, arrays, inits, axes[0], environment)
    if found is not None:
      return found
  return _reduce_general(context, op, arrays, inits, axes, environment)


def _converted(x: Array, dtype: np.dtype) -> Array:
  return x if x.dtype == dtype else lax.convert_element_type(x, dtype)


def _reduce_monoid(name: str, x: Array, init: Any, axes: tuple[int, ...]) -> Array | None:
  neutral = identity(name, x.dtype)
  if neutral is None or (name in _LOGICAL and x.dtype.kind not in "iub"):  # JAX's own take no 4-bit integers
    return None
  if 0 in (x.shape[axis] for axis in axes):  # the derivative of an empty maximum would be NaN
    return lax.broadcast(materialize(init), [dim for axis, dim in enumerate(x.shape) if axis not in axes])
  result = lax.reduce(x, neutral, MONOIDS[name], axes)
  if is_identity(name, init, x.dtype):
    return result
  init = materialize(init)
  return MONOIDS[name](result, lax.broadcast(init, result.shape) if result.ndim else init)


def _arg_extremum(
  context: Context, op: ir.Op, arrays: Sequence[Any], inits: Sequence[Any], axis: int, environment: dict[int, Any]
) -> Any:
  """`argmax`/`argmin` with the extremum, where the op is exactly what JAX writes for one of them."""
  x, index = arrays
  if index.dtype.kind not in "iu" or not _is_iota(context, op.operands[1], axis, environment):
    return None
  form = regions.canonical(op.regions[0], environment)
  spec = jax.ShapeDtypeStruct((2,), x.dtype)
  for function, extremum, name in ((lax.argmax, lax.max, "maximum"), (lax.argmin, lax.min, "minimum")):
    template = regions.exported_region(_ARG[function, np.dtype(index.dtype).name], "stablehlo.reduce", spec)
    if form is None or form != template:
      continue
    zero = isinstance(inits[1], np.ndarray) and not inits[1].any()
    if not (zero and is_identity(name, inits[0], x.dtype)):
      return None
    return lax.reduce(x, identity(name, x.dtype), extremum, (axis,)), function(x, axis, index.dtype)
  return None


_ARG = {
  (function, name): (lambda x, function=function, name=name: function(x, 0, np.dtype(name)))
  for function in (lax.argmax, lax.argmin)
  for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
}


def _is_iota(context: Context, number: int, axis: int, environment: dict[int, Any]) -> bool:
  """Whether a value counts along the axis: an iota, or a broadcast of one."""
  value = environment[number]
  if isinstance(value, np.ndarray):
    shape = [1] * value.ndim
    shape[axis] = -1
    return bool(np.array_equal(value, np.broadcast_to(np.arange(value.shape[axis]).reshape(shape), value.shape)))
  return analysis.iota_offset(context, number) == (axis, 0)


def _reduce_general(
  context: Context,
  op: ir.Op,
  arrays: Sequence[Any],
  inits: Sequence[Any],
  axes: tuple[int, ...],
  environment: dict[int, Any],
) -> Any:
  """Any reducer: `lax.reduce` for the value, and the derivative of the same reduction as a tree of pairs.

  Where the initial values are not known, the tree also computes the value: JAX does not batch them.
  """
  combine = region_function(context, op.regions[0], environment)
  num = len(arrays)

  def pairwise(left: Any, right: Any) -> Any:
    result = combine(*left, *right)
    return (result,) if num == 1 else result

  @jax.custom_jvp
  def run(arrays: Any, inits: Any) -> Any:
    return tuple(lax.reduce(tuple(arrays), tuple(inits), pairwise, axes))

  @run.defjvp
  def _(primals: Any, tangents: Any) -> Any:
    return jax.jvp(lambda xs, starts: _tree(pairwise, xs, starts, axes), primals, tangents)

  starts = tuple(materialize(x) for x in inits)
  if not all(isinstance(x, np.ndarray) for x in inits):
    return _tree(pairwise, arrays, starts, axes)
  return run(tuple(arrays), starts)


def _tree(combine: Callable[..., Any], arrays: Sequence[Any], inits: Sequence[Any], axes: tuple[int, ...]) -> Any:
  """The reduction as log2(n) elementwise steps, each differentiable. Neighbours are combined, so the order is kept."""
  rank = jnp.ndim(arrays[0])
  rest = [axis for axis in range(rank) if axis not in axes]
  kept = tuple(arrays[0].shape[axis] for axis in rest)
  count = math.prod(arrays[0].shape[axis] for axis in axes)
  xs = tuple(lax.transpose(x, (*axes, *rest)).reshape(count, *kept) for x in arrays)
  step = mapped(combine, 1 + len(kept))
  starts = tuple(jnp.broadcast_to(start, (1, *kept)) for start in inits)
  while xs[0].shape[0] > 1:
    even = xs[0].shape[0] // 2 * 2
    odd = tuple(x[even:] for x in xs)
    xs = step(tuple(x[0:even:2] for x in xs), tuple(x[1:even:2] for x in xs))
    xs = tuple(jnp.concatenate(pair) for pair in zip(xs, odd, strict=True))
  if xs[0].shape[0]:
    starts = step(starts, xs)
  return tuple(x.reshape(kept) for x in starts)
