"""Ops that return their input: Identity, StopGradient, CheckNumerics, EnsureShape, Placeholder; also NoOp, Assert."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import checkify

from graftax.graphdef_ir import PartialShape
from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Value, is_known

__all__ = [
  "assert_",
  "check_numerics",
  "ensure_shape",
  "identity",
  "identity_n",
  "no_op",
  "placeholder",
  "placeholder_with_default",
  "prevent_gradient",
  "stop_gradient",
]


@register(
  "Identity",
  "Snapshot",
  "DeepCopy",
  "DebugGradientIdentity",
  "DebugGradientRefIdentity",
  "RefIdentity",
  "Copy",
  "CopyHost",
  "GuaranteeConst",
  "_EagerConst",
  ignores=("T", "tensor_name", "debug_ops_spec"),
  symbolic=True,
  data_inputs=("input",),
)
def identity(input: Value) -> Value:
  """Returns the input itself: array, resource handle or tensor list."""
  return input


@register(
  "IdentityN",
  "_ListToArray",
  "_ArrayToList",
  ignores=("T", "N", "Tin", "out_types"),
  symbolic=True,
  data_inputs=("input",),
)
def identity_n(input: list[Value]) -> list[Value]:
  """Returns the inputs themselves."""
  return input


@register("StopGradient", ignores=("T",), symbolic=True, data_inputs=("input",))
def stop_gradient(input: Value) -> Value:
  """Returns the input as a constant for differentiation."""
  return input if is_known(input) else lax.stop_gradient(input)


@register("PreventGradient", ignores=("T",), symbolic=True, data_inputs=("input",))
def prevent_gradient(ctx: Context, input: Value, *, message: str = "") -> Value:
  """Returns the input, which must not be differentiated.

  Source op: `tf.raw_ops.PreventGradient`.

  Args:
    ctx: tells whether to raise (`LoweringOptions.raise_on_prevent_gradient`) or to pass the gradient.
    input: any shape and dtype.
    message: part of the error that is raised if it is differentiated.

  Raises:
    LookupError: from `jax.grad`, `jax.jvp` and the like.
  """
  if is_known(input) or not ctx.options.raise_on_prevent_gradient:
    return input
  where = f"PreventGradient node {ctx.node_name!r} (function {ctx.function_name!r})"

  @jax.custom_jvp
  def undifferentiable(x: Array) -> Array:
    return x

  def refuse(primals: Any, tangents: Any) -> Any:
    raise LookupError(f"{where} refuses differentiation: {message}")

  undifferentiable.defjvp(refuse)
  return undifferentiable(input)


@register("CheckNumerics", "CheckNumericsV2", ignores=("T",))
def check_numerics(ctx: Context, tensor: Array, *, message: str = "") -> Array:
  """Returns the input. With `LoweringOptions.enable_checkify_for_asserts`, checkify checks that it is finite.

  Differs from TF: without that option nothing is checked, since a compiled JAX program cannot raise.
  """
  if ctx.options.enable_checkify_for_asserts:
    checkify.check(jnp.all(jnp.isfinite(tensor)), f"{message} : Tensor had Inf or NaN values")
  return tensor


@register("EnsureShape", ignores=("T",), symbolic=True, data_inputs=("input",))
def ensure_shape(input: Array, *, shape: PartialShape) -> Array:
  """Returns the input, whose shape must be compatible with `shape`.

  Raises:
    InvalidInputError: it is not. A symbolic dimension is compatible with any size.
  """
  dims = shape.dims
  compatible = dims is None or (
    len(dims) == input.ndim
    and all(
      want is None or not isinstance(got, int) or want == got for want, got in zip(dims, input.shape, strict=True)
    )
  )
  if not compatible:
    raise InvalidInputError(f"EnsureShape: got shape {input.shape}, which is not compatible with {shape}.")
  return input


@register("Placeholder", "PlaceholderV2")
def placeholder(ctx: Context, *, dtype: np.dtype, shape: PartialShape | None = None) -> Array:
  """Raises an error: the caller did not feed the placeholder.

  Raises:
    InvalidInputError: always, naming the placeholder that was not fed.
  """
  raise InvalidInputError(
    f"Placeholder {ctx.node_name!r} (function {ctx.function_name!r}) of dtype {dtype} and shape {shape} was not fed; "
    f"make it an input of the converted function."
  )


@register("PlaceholderWithDefault", ignores=("dtype", "shape"), symbolic=True, data_inputs=("input",))
def placeholder_with_default(input: Value) -> Value:
  """Returns the default of a placeholder that was not fed."""
  return input


@register("NoOp", "ControlTrigger")
def no_op() -> tuple[()]:
  """Returns nothing; the node only orders other nodes."""
  return ()


@register("Assert", ignores=("T", "summarize"), known_inputs=("data",))
def assert_(ctx: Context, condition: Array, data: list[Value]) -> tuple[()]:
  """Returns nothing. With `LoweringOptions.enable_checkify_for_asserts`, checkify checks the condition.

  Source op: `tf.raw_ops.Assert`.

  Args:
    ctx: tells whether to check.
    condition: bool scalar.
    data: what the message shows, if it is known while tracing.

  Differs from TF: without that option nothing is checked, since a compiled JAX program cannot raise. A condition that
  is known to be false raises nothing either: the node may be in a branch that is never taken.
  """
  if ctx.options.enable_checkify_for_asserts:
    text = " ".join(_text(d) for d in data if is_known(d))
    where = f"Assert node {ctx.node_name!r} (function {ctx.function_name!r})"
    message = f"{where}: assertion failed: {text}".replace("{", "{{").replace("}", "}}")
    checkify.check(jnp.all(jnp.asarray(condition)), message)
  return ()


def _text(value: np.ndarray) -> str:
  return " ".join(v.decode(errors="replace") if isinstance(v, bytes) else str(v) for v in np.asarray(value).flat)
