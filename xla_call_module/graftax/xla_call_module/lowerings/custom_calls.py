"""`custom_call`: applies the rule of a target; calls a target without a rule through `jax.ffi`."""

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from graftax.xla_call_module import communication, contracts, ir
from graftax.xla_call_module.attributes import element_dtype
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.registry import custom_calls, register
from graftax.xla_call_module.values import TOKEN, as_dims, materialize

__all__ = ["backend_config", "ffi_call", "settings"]


def settings(op: ir.Op) -> ir.Attributes:
  """Returns the settings of a custom call by name; none if they are a text, as those of older calls."""
  found = backend_config(op)
  return found if isinstance(found, ir.Attributes) else ir.Attributes()


def backend_config(op: ir.Op) -> ir.Attribute:
  """Returns the settings of a custom call: `Attributes` for typed FFI calls, text for older ones."""
  for name in ("mhlo.backend_config", "backend_config"):
    if name in op.attrs:
      return op.attrs[name]
  return ir.Attributes()


# Attributes are not checked here, because they may belong to the target, such as `error_message` of shape assertions.
@register("stablehlo.custom_call", takes_known=True, attributes=None)
def _custom_call(context: Context, op: ir.Op, *operands: Any) -> Any:
  target = op.attrs.text("call_target_name")
  own = context.options.custom_calls.get(target)
  if own is not None:
    return own(op, *operands)
  # The last operands of a call with results of dynamic shape are those shapes.
  num_operands = min(_shape_operands(context, op), default=len(operands))
  shapes, operands = operands[num_operands:], operands[:num_operands]
  rule = custom_calls.get(target) or custom_calls.get(_linalg_family(target))
  if contracts.is_kernel(target):
    contracts.check_lifted(op, operands)
  op = _with_sizes(context, op, shapes)
  if rule is not None:
    if unknown := rule.unknown_attributes(op.attrs):
      raise context.does_not_know(op, unknown)
    return rule.function(context, op, *(operands if rule.takes_known else map(materialize, operands)))
  if target in communication.HOST_CALLBACKS:
    raise context.unsupported(op, f"{target} calls a function of the process that exported it.", embeds=False)
  return ffi_call(context, op, operands)


def _shape_operands(context: Context, op: ir.Op) -> tuple[int, ...]:
  try:
    return op.attrs.integers("indices_of_shape_operands", ())
  except TypeError as e:
    raise context.unsupported(op, str(e)) from e


def _with_sizes(context: Context, op: ir.Op, shapes: Sequence[Any]) -> ir.Op:
  """Returns the op with sizes of its results that are known while tracing in place of open ones."""
  if len(shapes) != len(op.types):
    return op
  kinds = [_with_known(context, op, kind, as_dims(shape)) for kind, shape in zip(op.types, shapes, strict=True)]
  return dataclasses.replace(op, types=tuple(kinds))


def _with_known(context: Context, op: ir.Op, kind: ir.TensorType, sizes: tuple[Any, ...] | None) -> ir.TensorType:
  if not isinstance(kind, ir.TensorType) or sizes is None:
    return kind
  shape = tuple(size if declared is None else declared for declared, size in zip(kind.shape, sizes, strict=False))
  if len(sizes) != len(kind.shape) or any(isinstance(n, int) and n != m for n, m in zip(sizes, shape, strict=True)):
    raise context.unsupported(op, f"its operand for the shape of {kind} is {sizes}.")
  return dataclasses.replace(kind, shape=shape)


def _linalg_family(target: str) -> str:
  """Returns the name of a routine without library, type and suffix: "linalg.getrf" for `lapack_dgetrf_ffi`."""
  match = re.match(r"^(?:lapack_|blas_)[sdcz](\w+?)(?:_ffi)?$", target)
  if match:
    return f"linalg.{_ROUTINES.get(match[1], match[1])}"
  # Without this suffix, the settings are in bytes; `patterns.old_gpu_solvers` rewrites the calls that it understands.
  match = re.match(r"^(?:cu|hip|roc)(?:solver|sparse|blas)_(\w+)_ffi$", target)
  return f"linalg.{_ROUTINES.get(match[1], match[1])}" if match else ""


_ROUTINES = {
  "heevd": "syevd",
  "ungqr": "orgqr",
  "unmqr": "ormqr",
  "hetrd": "sytrd",
  "syevj": "syevd",
  "gesvdj": "gesvd_v",
  "gesvdp": "gesvd_v",
}


def ffi_call(context: Context, op: ir.Op, operands: Sequence[Any]) -> Any:
  """Calls the same target through `jax.ffi`. It has no derivative; `vmap` runs it once per element.

  Raises:
    CustomCallError: no rule says what the target accepts and the caller does not allow it, or the call has other types.
  """
  attrs, target = op.attrs, op.attrs.text("call_target_name")
  arrays = [materialize(x) for x in operands if x is not TOKEN]
  kinds = [kind for kind in op.types if isinstance(kind, ir.TensorType)]
  if any(not isinstance(kind, (ir.TensorType, ir.TokenType)) for kind in op.types):
    raise context.unsupported(op, f"{target} returns {', '.join(map(str, op.types))}.")
  if any(not isinstance(dim, int) for kind in kinds for dim in kind.shape):
    raise context.unsupported(op, f"{target} returns {', '.join(map(str, kinds))}, of open sizes.")
  if target not in context.options.allow_custom_calls:
    contracts.check_called(op, operands)
    contracts.initialize(contracts.needs([target]))
  config, version = backend_config(op), attrs.integer("api_version", 1)
  is_typed = isinstance(config, ir.Attributes)
  call = jax.ffi.ffi_call(
    target,
    [jax.ShapeDtypeStruct(kind.shape, kind.dtype) for kind in kinds],
    has_side_effect=bool(attrs.get("has_side_effect", False)),
    vmap_method="sequential",
    input_layouts=_layouts(attrs.get("operand_layouts"), len(arrays)),
    output_layouts=_layouts(attrs.get("result_layouts"), len(kinds)),
    custom_call_api_version=4 if is_typed else version,
    legacy_backend_config=None if is_typed else _text(config),
  )
  note = f"{target} is called through jax.ffi; it has no derivative"
  context.record("custom call", op, note, (target, 4 if is_typed else version))
  results = iter(call(*arrays, **{name: _ffi_attribute(value) for name, value in settings(op).items()}))
  return tuple(next(results) if isinstance(kind, ir.TensorType) else TOKEN for kind in op.types)


def _layouts(layouts: ir.Attribute, num_layouts: int) -> list[tuple[int, ...]] | None:
  """Converts StableHLO's minor-to-major layouts of arrays, which come first, to major-to-minor ones for `jax.ffi`."""
  if layouts is None:
    return None
  if not isinstance(layouts, tuple):
    raise TypeError(f"its layouts are {layouts!r}; expected a list.")
  return [tuple(int(axis) for axis in np.asarray(layout).reshape(-1)[::-1]) for layout in layouts[:num_layouts]]


def _text(value: ir.Attribute) -> str:
  return value.decode() if isinstance(value, bytes) else str(value)


def _ffi_attribute(value: ir.Attribute) -> ir.Attribute | np.generic:
  if isinstance(value, (ir.TypedInt, ir.TypedFloat)):
    dtype = element_dtype(value.spelling)
    return value if dtype is None else dtype.type(value)
  return np.int64(value) if isinstance(value, int) and not isinstance(value, bool) else value
