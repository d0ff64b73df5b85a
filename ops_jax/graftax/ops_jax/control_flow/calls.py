"""Calls of library functions and their derivatives: PartitionedCall, SymbolicGradient."""

import jax
import jax.numpy as jnp

from graftax.graphdef_ir import DType, FunctionRef
from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Value, materialize

__all__ = ["call", "symbolic_gradient"]

_CALL_ATTRS = ("Tin", "Tout", "config", "config_proto", "executor_type")


@register("PartitionedCall", "StatefulPartitionedCall", ignores=_CALL_ATTRS, int64_pairs="accept")
def call(ctx: Context, args: list[Array], *, f: FunctionRef) -> tuple[Value, ...]:
  """Calls a library function.

  Source op: `tf.raw_ops.PartitionedCall`.
  """
  return ctx.call(f, args)


@register("SymbolicGradient", ignores=("Tin",))
def symbolic_gradient(
  ctx: Context, input: list[Array], *, f: FunctionRef, Tout: tuple[DType, ...]
) -> tuple[Value, ...]:
  """Computes the derivative of a library function with respect to its arguments.

  Source op: `tf.raw_ops.SymbolicGradient`.

  Args:
    ctx: the program that contains the node.
    input: the arguments of `f`, then a cotangent for each of its results.
    f: the function.
    Tout: dtypes of the arguments.

  Returns:
    The derivatives, one per argument, of its shape and dtype; zeros for integers.
  """
  args = [jnp.asarray(materialize(x)) for x in input[: len(Tout)]]
  cotangents = [jnp.asarray(materialize(x)) for x in input[len(Tout) :]]
  pure = ctx.pure(f, args)
  state = [ctx.read(handle) for handle in pure.written]
  wanted = [i for i, x in enumerate(args) if jnp.issubdtype(x.dtype, jnp.inexact)]

  def function(*values: Array) -> list[Array]:
    filled: list[Array] = list(args)
    for i, value in zip(wanted, values, strict=True):
      filled[i] = value
    results, _ = pure.apply(state, filled, ctx.key)
    return [y for y in map(jnp.asarray, results) if jnp.issubdtype(y.dtype, jnp.inexact)]

  _, pull = jax.vjp(function, *[args[i] for i in wanted])
  # TensorFlow's gradient of a complex function is the conjugate of JAX's.
  pulled = pull([jnp.conj(c) for c in cotangents if jnp.issubdtype(c.dtype, jnp.inexact)])
  gradients: list[Value] = [jnp.zeros_like(x) for x in args]
  for i, gradient in zip(wanted, pulled, strict=True):
    gradients[i] = jnp.conj(gradient)
  return tuple(gradients)
