"""TF1 reference variables: VariableV2, Assign, AssignAdd, AssignSub.

A reference edge carries a variable, here as a `ResourceHandle`. If an op needs the value, the plan reads the variable
at that point, so lowerings get handles only for inputs that TensorFlow's signature marks `Ref`.
"""

import numpy as np

from graftax.ops_jax._core.context import Context, ResourceHandle
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array
from graftax.ops_jax.state.variables import added, subtracted

__all__ = ["assign", "assign_add", "assign_sub", "is_variable_initialized", "variable_v2"]


@register("Variable", "VariableV2", ignores=("container", "dtype", "shape"))
def variable_v2(ctx: Context, *, shared_name: str = "") -> ResourceHandle:
  """Returns the handle of the variable named by `shared_name` or, without one, by the node.

  Source op: `tf.raw_ops.VariableV2`.
  """
  return ResourceHandle(shared_name or ctx.node_name)


@register("Assign", ignores=("T", "use_locking", "validate_shape"), int64_pairs="accept")
def assign(ctx: Context, ref: ResourceHandle, value: Array) -> ResourceHandle:
  """Replaces the variable's value and returns the variable.

  Source op: `tf.raw_ops.Assign`.
  """
  ctx.write(ref, value)
  return ref


@register("AssignAdd", ignores=("T", "use_locking"), int64_pairs="accept")
def assign_add(ctx: Context, ref: ResourceHandle, value: Array) -> ResourceHandle:
  """Adds `value` to the variable and returns the variable.

  Source op: `tf.raw_ops.AssignAdd`.
  """
  ctx.write(ref, added(ctx.read(ref), value))
  return ref


@register("AssignSub", ignores=("T", "use_locking"), int64_pairs="accept")
def assign_sub(ctx: Context, ref: ResourceHandle, value: Array) -> ResourceHandle:
  """Subtracts `value` from the variable and returns the variable.

  Source op: `tf.raw_ops.AssignSub`.
  """
  ctx.write(ref, subtracted(ctx.read(ref), value))
  return ref


@register("IsVariableInitialized", ignores=("dtype",))
def is_variable_initialized(ctx: Context, ref: ResourceHandle) -> np.bool_:
  """Returns true: every variable of a converted function has a value.

  Source op: `tf.raw_ops.IsVariableInitialized`.
  """
  return np.bool_(True)
