"""Resource variables: VarHandleOp, ReadVariableOp, AssignVariableOp. The evaluator carries the values."""

import numpy as np

from graftax.ops_jax._core.context import Context, ResourceHandle
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, shape_vector

__all__ = [
  "assign_add_variable_op",
  "assign_sub_variable_op",
  "assign_variable_op",
  "read_variable_op",
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


@register("AssignAddVariableOp", ignores=("dtype",))
def assign_add_variable_op(ctx: Context, resource: ResourceHandle, value: Array) -> tuple[()]:
  """Adds to the variable's value.

  Source op: `tf.raw_ops.AssignAddVariableOp`.
  """
  ctx.write(resource, ctx.read(resource) + value)
  return ()


@register("AssignSubVariableOp", ignores=("dtype",))
def assign_sub_variable_op(ctx: Context, resource: ResourceHandle, value: Array) -> tuple[()]:
  """Subtracts from the variable's value.

  Source op: `tf.raw_ops.AssignSubVariableOp`.
  """
  ctx.write(resource, ctx.read(resource) - value)
  return ()


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
