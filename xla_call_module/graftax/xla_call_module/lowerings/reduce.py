"""`reduce` with monoids, argmax, argmin, or any other reducer."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import Array, lax

from graftax.xla_call_module import analysis, ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.evaluate import region_function
from graftax.xla_call_module.lax_extras import monoids
from graftax.xla_call_module.lax_extras.reductions import reduce_arrays
from graftax.xla_call_module.patterns import regions
from graftax.xla_call_module.registry import register
from graftax.xla_call_module.values import materialize


@register("stablehlo.reduce", takes_known=True, attributes=("dimensions",))
def _reduce(context: Context, op: ir.Op, *operands: Any, environment: dict[int, Any]) -> Any:
  half = len(operands) // 2
  axes = op.attrs.integers("dimensions")
  # The specification allows a reducer with a wider type than those of the operands and initial values.
  inits = [_converted_init(x, kind.dtype) for x, kind in zip(operands[half:], op.types, strict=True)]
  arrays = [_converted(materialize(x), kind.dtype) for x, kind in zip(operands[:half], op.types, strict=True)]
  if not axes:
    return arrays  # as in XLA; the specification does not define how often the initial value is used
  name = regions.reducer(op.regions[0]) if half == 1 else None
  if name is not None:
    result = monoids.reduce_monoid(name, arrays[0], materialize(inits[0]), axes)
    if result is not None:
      return result
  if half == 2 and len(axes) == 1:
    found = _arg_extremum(context, op, arrays, inits, axes[0], environment)
    if found is not None:
      return found
  combine = region_function(context, op.regions[0], environment)
  return reduce_arrays(combine, arrays, [materialize(x) for x in inits], axes)


def _converted(x: Array, dtype: np.dtype) -> Array:
  return x if x.dtype == dtype else lax.convert_element_type(x, dtype)


def _converted_init(x: Any, dtype: np.dtype) -> Any:
  """Returns an initial value of another type; a known one stays known."""
  if x.dtype == dtype:
    return x
  return x.astype(dtype) if isinstance(x, np.ndarray) else _converted(materialize(x), dtype)


def _arg_extremum(
  context: Context, op: ir.Op, arrays: Sequence[Any], inits: Sequence[Any], axis: int, environment: dict[int, Any]
) -> Any:
  """Returns the extremum and its `argmax` or `argmin`, or None unless the op is exactly what JAX exports for them."""
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
    if not (zero and monoids.is_identity(name, inits[0], x.dtype)):
      return None
    return lax.reduce(x, monoids.identity(name, x.dtype), extremum, (axis,)), function(x, axis, index.dtype)
  return None


_ARG = {
  (function, name): (lambda x, function=function, name=name: function(x, 0, np.dtype(name)))
  for function in (lax.argmax, lax.argmin)
  for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
}


def _is_iota(context: Context, number: int, axis: int, environment: dict[int, Any]) -> bool:
  """Returns whether a value is an iota along the axis, or a broadcast of one."""
  value = environment[number]
  if isinstance(value, np.ndarray):
    shape = [1] * value.ndim
    shape[axis] = -1
    return bool(np.array_equal(value, np.broadcast_to(np.arange(value.shape[axis]).reshape(shape), value.shape)))
  return analysis.iota_offset(context, number) == (axis, 0)
