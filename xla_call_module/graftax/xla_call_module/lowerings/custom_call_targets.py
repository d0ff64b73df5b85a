"""Custom calls by target: called TF functions, annotations, top k, and elementwise functions of older exporters."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.extend.random import threefry2x32_p

from graftax.xla_call_module import analysis, errors, ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.lowerings.custom_calls import settings
from graftax.xla_call_module.registry import register, register_custom_call
from graftax.xla_call_module.values import TOKEN, materialize

__all__ = ["approx_top_k"]


@register_custom_call("tf.call_tf_function", takes_known=True)
def _call_tf_function(context: Context, op: ir.Op, *operands: Any) -> Any:
  """Calls a TF function of the graph around the XlaCallModule node with the callback that the caller supplied."""
  # Errors of Python in this call are those of the caller's function, so attributes of other kinds are told apart here.
  config = op.attrs.get("tf.backend_config", settings(op).get("tf.backend_config", settings(op)))
  index = config.get("called_index") if isinstance(config, ir.Attributes) else None
  functions = context.options.function_list
  if not isinstance(index, int) or not 0 <= index < len(functions):
    raise context.unsupported(
      op, f"called_index={index!r} is not an index of the function_list, which has {len(functions)} entries."
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
  context.record("annotation", op, f"dropped {op.attrs.text('call_target_name')}")
  return operands


@register("mhlo.copy", takes_known=True)
def _copy(context: Context, op: ir.Op, x: Any) -> Any:
  """Returns the operand: the importer of HLO keeps copies, which are for buffers."""
  return x


@register_custom_call("dce_sink", takes_known=True, attributes=())
def _dce_sink(context: Context, op: ir.Op, *operands: Any) -> tuple[()]:
  """Drops a call that only keeps its operands alive on JAX's way to XLA."""
  return ()


@register_custom_call("AllocateBuffer", attributes=())
def _allocate_buffer(context: Context, op: ir.Op) -> Array:
  """Returns zeros, as `lax.empty` does on CPUs: the contents of a new buffer are not defined."""
  return lax.full(op.type.static_shape, 0, op.type.dtype)


@register_custom_call("cu_threefry2x32", "cu_threefry2x32_ffi", "hip_threefry2x32", "hip_threefry2x32_ffi")
def _threefry(context: Context, op: ir.Op, *operands: Array) -> Any:
  return threefry2x32_p.bind(*operands[:4])


@register_custom_call("ApproxTopK", takes_known=True)
def _approx_top_k(context: Context, op: ir.Op, *operands: Any) -> Any:
  axis = settings(op).integer("reduction_dim")
  return approx_top_k(context, op, operands, settings(op).integer("top_k", op.types[0].static_shape[axis]))


def approx_top_k(context: Context, op: ir.Op, operands: Sequence[Any], size: int) -> Any:
  """Returns the `size` largest or smallest values and their indices, depending on the comparator of a call."""
  config = settings(op)
  callee = op.attrs.texts("called_computations")[0]
  direction = _compares(context.ir.functions[callee].body)
  if direction not in ("GT", "LT"):
    raise context.unsupported(op, f"its comparator {callee!r} is neither greater-than nor less-than.")
  function = lax.approx_max_k if direction == "GT" else lax.approx_min_k
  axis = config.integer("reduction_dim")
  values, order = function(
    materialize(operands[0]),
    size,
    reduction_dimension=axis,
    recall_target=config.real("recall_target"),
    reduction_input_size_override=config.integer("reduction_input_size_override", -1),
    aggregate_to_topk=bool(config.get("aggregate_to_topk", True)),
  )
  if analysis.iota_offset(context, op.operands[1]) == (axis % values.ndim, 0):
    return values, order
  index = materialize(operands[1])
  own = jnp.take_along_axis(jnp.asarray(index), order, axis, mode="promise_in_bounds")
  return values, own


def _compares(comparator: ir.Region) -> str | None:
  """Returns the direction of a comparator that only compares its first two arguments, or None for others."""
  if [op.name for op in comparator.ops] != ["stablehlo.compare"]:
    return None
  (op,) = comparator.ops
  is_in_order = op.operands == comparator.args[:2] and comparator.returns == op.results
  return op.attrs.text("comparison_direction") if is_in_order else None


# lax.top_k is always stable.
@register("mhlo.topk", attributes=("k", "largest"), ignores=("is_stable",))
def _top_k_op(context: Context, op: ir.Op, x: Array) -> Any:
  return _top_k(context, op, x, op.attrs)


@register_custom_call("TopK", "mhlo.topk")
def _top_k_call(context: Context, op: ir.Op, x: Array) -> Any:
  return _top_k(context, op, x, op.attrs.fields("mhlo.attributes", settings(op)))


def _top_k(context: Context, op: ir.Op, x: Array, config: ir.Attributes) -> Any:
  if not config.get("largest", True):
    raise context.unsupported(
      op, "it selects the smallest elements, which JAX does not support; negate the operand instead."
    )
  return lax.top_k(x, op.types[0].static_shape[-1])


_OLD_CHLO = {
    "mhlo.erf": lax.erf, "mhlo.tan": lax.tan, "mhlo.asin": lax.asin, "mhlo.acos": lax.acos, "mhlo.sinh": lax.sinh,
    "mhlo.cosh": lax.cosh, "mhlo.asinh": lax.asinh, "mhlo.acosh": lax.acosh, "mhlo.atanh": lax.atanh,
}  # fmt: skip

for _name, _function in _OLD_CHLO.items():
  register_custom_call(_name)(lambda context, op, x, function=_function: function(x))
