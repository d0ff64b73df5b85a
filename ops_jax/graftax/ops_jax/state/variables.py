"""Resource variables: VarHandleOp, ReadVariableOp, AssignVariableOp. The evaluator carries the values."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from graftax.ops_jax._core.context import Context, ResourceHandle
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Value, shape_vector
from graftax.ops_jax.int64_pairs import arithmetic_ops
from graftax.ops_jax.int64_pairs.pairs import fits_jax_dtype, to_jax_array

__all__ = [
  "added",
  "assign_add_variable_op",
  "assign_sub_variable_op",
  "assign_variable_op",
  "read_variable_op",
  "subtracted",
  "var_handle_op",
  "var_is_initialized_op",
  "variable_shape",
]


@register("VarHandleOp", ignores=("allowed_devices", "container", "debug_name", "dtype", "shape"))
def var_handle_op(ctx: Context, *, shared_name: str = "") -> ResourceHandle:
  """Returns the handle of the variable named by `shared_name` or, without one, by the node.

  Source op: `tf.raw_ops.VarHandleOp`.
  """
  return ResourceHandle(shared_name or ctx.node_name)


@register("ReadVariableOp", ignores=("dtype",))
def read_variable_op(ctx: Context, resource: ResourceHandle) -> Array:
  """Reads the variable's current value.

  Source op: `tf.raw_ops.ReadVariableOp`.
  """
  return ctx.read(resource)


@register("AssignVariableOp", ignores=("dtype", "validate_shape"), int64_pairs="accept")
def assign_variable_op(ctx: Context, resource: ResourceHandle, value: Array) -> tuple[()]:
  """Replaces the variable's value.

  Source op: `tf.raw_ops.AssignVariableOp`.
  """
  ctx.write(resource, value)
  return ()


@register("AssignAddVariableOp", ignores=("dtype",), int64_pairs="accept")
def assign_add_variable_op(ctx: Context, resource: ResourceHandle, value: Array) -> tuple[()]:
  """Adds to the variable's value.

  Source op: `tf.raw_ops.AssignAddVariableOp`.
  """
  ctx.write(resource, added(ctx.read(resource), value))
  return ()


@register("AssignSubVariableOp", ignores=("dtype",), int64_pairs="accept")
def assign_sub_variable_op(ctx: Context, resource: ResourceHandle, value: Array) -> tuple[()]:
  """Subtracts from the variable's value.

  Source op: `tf.raw_ops.AssignSubVariableOp`.
  """
  ctx.write(resource, subtracted(ctx.read(resource), value))
  return ()


def added(before: Value, value: Value) -> Value:
  """Returns the sum of a variable's value and another."""
  return _changed(operator.add, arithmetic_ops.add, before, value)


def subtracted(before: Value, value: Value) -> Value:
  """Returns the difference of a variable's value and another."""
  return _changed(operator.sub, arithmetic_ops.sub, before, value)


def _changed(
  change: Callable[[Any, Any], Value], change_pairs: Callable[..., Value], before: Value, value: Value
) -> Value:
  before, value = to_jax_array(before), to_jax_array(value)
  if fits_jax_dtype(before) and fits_jax_dtype(value):
    return change(before, value)
  return change_pairs(before, value, T=np.result_type(before.dtype, value.dtype))


@register("VariableShape")
def variable_shape(ctx: Context, input: ResourceHandle, *, out_type: np.dtype) -> Array:
  """Returns the shape of the variable's value, `[rank]` of `out_type`.

  Source op: `tf.raw_ops.VariableShape`.
  """
  return shape_vector(ctx.read(input).shape, out_type)


@register("VarIsInitializedOp")
def var_is_initialized_op(ctx: Context, resource: ResourceHandle) -> np.bool_:
  """Returns true: every variable of a converted function has a value.

  Source op: `tf.raw_ops.VarIsInitializedOp`.
  """
  return np.bool_(True)
