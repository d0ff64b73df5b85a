"""`custom_call`: registered targets, called TF functions, and any other FFI target through `jax.ffi`."""

import re
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from graftax.xla_call_module import analysis, communication, errors, ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.registry import custom_calls, register, register_custom_call
from graftax.xla_call_module.values import TOKEN, materialize

__all__ = ["backend_config", "ffi_call"]


def backend_config(op: ir.Op) -> Any:
  """The settings that a custom call carries: a dict for typed FFI calls, text for older ones."""
  for name in ("mhlo.backend_config", "backend_config"):
    if name in op.attrs:
      return op.attrs[name]
  return {}


@register("stablehlo.custom_call", takes_known=True)
def _custom_call(context: Context, op: ir.Op, *operands: Any) -> Any:
  target = op.attrs["call_target_name"]
  own = context.options.custom_calls.get(target)
  if own is not None:
    return own(op, *operands)
  # Calls with results of dynamic shape take those shapes as further operands.
  shapes = op.attrs.get("indices_of_shape_operands")
  if shapes is not None:
    operands = operands[: min(int(i) for i in np.asarray(shapes).reshape(-1))]
  rule = custom_calls.get(target)
  if rule is None:
    rule = custom_calls.get(_linalg_family(target))
  if rule is not None:
    return rule.function(context, op, *(operands if rule.takes_known else map(materialize, operands)))
  if target in communication.HOST_CALLBACKS:
    raise context.unsupported(op, f"{target} calls back into the process that exported it, which is gone.")
  return ffi_call(context, op, operands)


def _linalg_family(target: str) -> str:
  """`lapack_dgetrf_ffi` and `cusolver_getrf_ffi` both as `getrf`: the routine without library, type and suffix."""
  match = re.match(r"^(?:lapack_|blas_)[sdcz](\w+?)(?:_ffi)?$", target)
  if match:
    return f"linalg.{_ROUTINES.get(match[1], match[1])}"
  match = re.match(r"^(?:cu|hip|roc)?(?:solver|sparse|blas)_(\w+?)(?:_ffi)?$", target)
  return f"linalg.{_ROUTINES.get(match[1], match[1])}" if match else ""


_ROUTINES = {
  "heevd": "syevd",
  "ungqr": "orgqr",
  "hetrd": "sytrd",
  "syevj": "syevd",
  "gesvdj": "gesvd_v",
  "gesvdp": "gesvd_v",
}


def ffi_call(context: Context, op: ir.Op, operands: Sequence[Any]) -> Any:
  """The same custom call again. It has no derivative, and batches one element at a time."""
  attrs = op.attrs
  arrays = [materialize(x) for x in operands if x is not TOKEN]
  kinds = [kind for kind in op.types if isinstance(kind, ir.TensorType)]
  if any(not isinstance(kind, (ir.TensorType, ir.TokenType)) for kind in op.types):
    raise context.unsupported(op, f"{attrs['call_target_name']} returns {', '.join(map(str, op.types))}.")
  config, version = backend_config(op), int(attrs.get("api_version", 1))
  is_typed = isinstance(config, dict)
  call = jax.ffi.ffi_call(
    attrs["call_target_name"],
    [jax.ShapeDtypeStruct(kind.shape, kind.dtype) for kind in kinds],
    has_side_effect=bool(attrs.get("has_side_effect", False)),
    vmap_method="sequential",
    input_layouts=_layouts(attrs.get("operand_layouts")),
    output_layouts=_layouts(attrs.get("result_layouts")),
    custom_call_api_version=4 if is_typed else version,
    legacy_backend_config=None if is_typed else _text(config),
  )
  settings = {name: _ffi_attribute(value) for name, value in config.items()} if is_typed else {}
  target = attrs["call_target_name"]
  note = f"{target} is called through jax.ffi; it has no derivative"
  context.record("custom call", op, note, (target, 4 if is_typed else version))
  results = iter(call(*arrays, **settings))
  return tuple(next(results) if isinstance(kind, ir.TensorType) else TOKEN for kind in op.types)


def _layouts(layouts: Any) -> Any:
  """Minor-to-major orders of StableHLO as the major-to-minor orders of `jax.ffi`."""
  if layouts is None:
    return None
  return [tuple(int(axis) for axis in np.asarray(layout).reshape(-1)[::-1]) for layout in layouts]


def _text(value: Any) -> str:
  return value.decode() if isinstance(value, bytes) else str(value)


def _ffi_attribute(value: Any) -> Any:
  return np.int64(value) if isinstance(value, int) and not isinstance(value, bool) else value


@register_custom_call("tf.call_tf_function", takes_known=True)
def _call_tf_function(context: Context, op: ir.Op, *operands: Any) -> Any:
  """A TF function of the graph around the XlaCallModule node, through the callback that the caller supplied."""
  config = backend_config(op)
  config = config.get("tf.backend_config", config) if isinstance(config, dict) else {}
  config = op.attrs.get("tf.backend_config", config)
  index = config.get("called_index")
  functions = context.options.function_list
  if index is None or not 0 <= index < len(functions):
    raise context.unsupported(
      op, f"called_index={index!r} names no entry of the function_list, which has {len(functions)}."
    )
  if context.options.call_tf_function is None:
    raise context.unsupported(op, f"it calls the TF function {functions[index]!r}; pass call_tf_function.")
  arrays = [materialize(x) for x in operands if x is not TOKEN]
  results = list(context.options.call_tf_function(functions[index], *arrays))
  wanted = [kind for kind in op.types if isinstance(kind, ir.TensorType)]
  if len(results) != len(wanted):
    raise errors.ArgumentError(
      f"call_tf_function({functions[index]!r}) returned {len(results)} values; the module expects {len(wanted)}."
    )
  merged = iter(jnp.asarray(value) for value in results)
  return tuple(next(merged) if isinstance(kind, ir.TensorType) else TOKEN for kind in op.types)


@register_custom_call("jax.global_constant", takes_known=True)
def _global_constant(context: Context, op: ir.Op, *operands: Any) -> Any:
  return operands


@register_custom_call("LayoutConstraint", "annotate_device_placement", "mhlo.layout_constraint", takes_known=True)
def _annotation(context: Context, op: ir.Op, *operands: Any) -> Any:
  context.record("annotation", op, f"dropped {op.attrs['call_target_name']}")
  return operands


@register_custom_call("ApproxTopK", "stablehlo.dynamic_approx_top_k", takes_known=True)
def _approx_top_k(context: Context, op: ir.Op, *operands: Any) -> Any:
  """`lax.approx_max_k`/`approx_min_k`; the comparator's name tells which."""
  config = backend_config(op)
  callee = op.attrs["called_computations"][0]
  direction = _compares(context.program.functions[callee].body)
  if direction not in ("GT", "LT"):
    raise context.unsupported(op, f"its comparator {callee!r} is neither greater-than nor less-than.")
  function = lax.approx_max_k if direction == "GT" else lax.approx_min_k
  axis = config["reduction_dim"]
  size = int(config.get("top_k", op.types[0].shape[axis]))
  values, order = function(
    materialize(operands[0]),
    size,
    reduction_dimension=axis,
    recall_target=config["recall_target"],
    reduction_input_size_override=config.get("reduction_input_size_override", -1),
    aggregate_to_topk=bool(config.get("aggregate_to_topk", True)),
  )
  if analysis.iota_offset(context, op.operands[1]) == (axis % values.ndim, 0):
    return values, order
  index = materialize(operands[1])
  own = jnp.take_along_axis(jnp.asarray(index), order, axis, mode="promise_in_bounds")
  return values, own


def _compares(comparator: ir.Region) -> str | None:
  """How a comparator orders its first two arguments, where one comparison of them is all that it does."""
  if [op.name for op in comparator.ops] != ["stablehlo.compare"]:
    return None
  (op,) = comparator.ops
  is_in_order = op.operands == comparator.args[:2] and comparator.returns == op.results
  return op.attrs["comparison_direction"] if is_in_order else None


@register_custom_call("TopK", "mhlo.topk")
def _top_k(context: Context, op: ir.Op, x: Array) -> Any:
  config = op.attrs.get("mhlo.attributes", backend_config(op))
  if isinstance(config, dict) and not config.get("largest", True):
    raise context.unsupported(op, "it takes the smallest elements.")
  return lax.top_k(x, op.types[0].shape[-1])


_OLD_CHLO = {
    "mhlo.erf": lax.erf, "mhlo.tan": lax.tan, "mhlo.asin": lax.asin, "mhlo.acos": lax.acos, "mhlo.sinh": lax.sinh,
    "mhlo.cosh": lax.cosh, "mhlo.asinh": lax.asinh, "mhlo.acosh": lax.acosh, "mhlo.atanh": lax.atanh,
}  # fmt: skip

for _name, _function in _OLD_CHLO.items():
  register_custom_call(_name)(lambda context, op, x, function=_function: function(x))
