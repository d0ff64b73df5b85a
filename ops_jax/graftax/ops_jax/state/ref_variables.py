"""TF1 reference variables: edges that carry a variable rather than a value.

Such an edge holds a `ResourceHandle` here. Where an op takes a value, the plan reads the variable at that point, so a
lowering meets a handle only where TensorFlow's signature says `Ref`.
"""

import numpy as np

from graftax.ops_jax._core.context import Context, ResourceHandle
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array

__all__ = ["assign", "assign_add", "assign_sub", "is_variable_initialized", "variable_v2"]


@register("Variable", "VariableV2", ignores=("container", "dtype", "shape"))
def variable_v2(ctx: Context, *, shared_name: str = "") -> ResourceHandle:
  """The variable that the node is, or `shared_name` where that is given.

  Source op: `tf.raw_ops.VariableV2`.
  """
  return ResourceHandle(shared_name or ctx.node_name)


@register("Assign", ignores=("T", "use_locking", "validate_shape"))
def assign(ctx: Context, ref: ResourceHandle, value: Array) -> ResourceHandle:
  """The variable, with its value replaced.

  Source op: `tf.raw_ops.Assign`.
  """
  ctx.write(ref, value)
  return ref


@register("AssignAdd", ignores=("T", "use_locking"))
def assign_add(ctx: Context, ref: ResourceHandle, value: Array) -> ResourceHandle:
  """The variable, with `value` added.

  Source op: `tf.raw_ops.AssignAdd`.
  """
  ctx.write(ref, ctx.read(ref) + value)
  return ref


@register("AssignSub", ignores=("T", "use_locking"))
def assign_sub(ctx: Context, ref: ResourceHandle, value: Array) -> ResourceHandle:
  """The variable, with `value` subtracted.

  Source op: `tf.raw_ops.AssignSub`.
  """
  ctx.write(ref, ctx.read(ref) - value)
  return ref


@register("IsVariableInitialized", ignores=("dtype",))
def is_variable_initialized(ctx: Context, ref: ResourceHandle) -> Array:
  """True: every variable of a converted function has a value.

  Source op: `tf.raw_ops.IsVariableInitialized`.
  """
  return np.bool_(True)
