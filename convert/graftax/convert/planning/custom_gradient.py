"""Attaches the derivatives of `tf.custom_gradient` functions to the IdentityN nodes that name them.

TensorFlow wraps the results `r` and arguments `a` of a custom-gradient function in `IdentityN(r..., a...)`. It
registers a gradient function, which maps the cotangents of all outputs to cotangents of `a` and may capture tensors
of the forward pass. Reverse mode calls the gradient function. Forward mode calls its transpose. If the gradient
function is affine in the cotangents, forward mode drops the constant, as TensorFlow does. If it is not linear for
another reason (for example, it clips cotangents), it has no transpose, and forward mode raises `ForwardModeError`.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.convert.errors import ConversionError, ForwardModeError
from graftax.convert.program import CapturedTensor, CustomGradient, UnavailableCapture
from graftax.graphdef_ir import Function, Node, TensorRef, function_references, traits_of
from graftax.ops_jax import ResourceHandle, Value, fits_jax_dtype, is_known, materialize

__all__ = [
  "apply_custom_gradient",
  "attach_custom_gradients",
  "gradient_name",
  "gradient_of",
]

_ADVICE = (
  "To differentiate the forward pass instead, convert inside `with override_config('convert_custom_gradient', False):`."
)

_OP_TYPE = "_gradient_op_type"


def gradient_name(node: Node) -> str | None:
  """Returns the registered name of a node's custom gradient, or None if it has none."""
  if node.op != "IdentityN":
    return None
  op_type = node.attrs.get(_OP_TYPE)
  return op_type.decode(errors="replace") if isinstance(op_type, bytes) else None


def gradient_of(node: Node, gradients: Mapping[str, CustomGradient]) -> CustomGradient | None:
  """Returns the custom gradient that a node names, or None."""
  name = gradient_name(node) if gradients else None
  return None if name is None else gradients.get(name)


def attach_custom_gradients(
  function: Function, gradients: Mapping[str, CustomGradient], others: Callable[[], Iterable[Function]]
) -> Function:
  """Adds the tensors that custom gradients capture to the inputs of the IdentityN nodes in `function`.

  Args:
    function: the function.
    gradients: maps registered names to derivatives.
    others: returns all functions of the program; needed if a gradient in a branch captures a tensor of the caller.

  Raises:
    ConversionError: a captured tensor is not available in `function`.
  """
  if not (gradients and any(gradient_of(node, gradients) for node in function.nodes)):
    return function
  return dataclasses.replace(
    function, nodes=tuple(_attached(node, function, gradients, others) for node in function.nodes)
  )


def _attached(
  node: Node, function: Function, gradients: Mapping[str, CustomGradient], others: Callable[[], Iterable[Function]]
) -> Node:
  gradient = gradient_of(node, gradients)
  if gradient is None or len(node.inputs) > len(gradient.results):
    return node  # no custom gradient, or already attached
  refs = []
  for capture in gradient.captures:
    if isinstance(capture, CapturedTensor):
      ref = _seen_from(function, capture, others, frozenset())
      if ref is None:
        raise ConversionError(
          f"IdentityN node {node.name!r} (function {function.name!r}): its custom gradient captures "
          f"{str(capture.ref)!r} of function {capture.function!r}, which cannot be seen from where it stands. "
          f"{_ADVICE}"
        )
      refs.append(ref)
  return dataclasses.replace(node, inputs=(*node.inputs, *refs))


def _seen_from(
  function: Function, capture: CapturedTensor, others: Callable[[], Iterable[Function]], visited: frozenset[str]
) -> TensorRef | None:
  """Returns the captured tensor as a ref inside `function`, where it may be a parameter bound by a caller."""
  for name, ref in ((capture.function, capture.ref), *capture.copies):
    if name == function.name:
      return ref
  for caller in others():
    if caller.name in visited:
      continue
    for node in caller.nodes:
      if function.name not in {node.op, *(reference.name for reference in function_references(node.attrs))}:
        continue
      outer = _seen_from(caller, capture, others, visited | {function.name})
      if outer in node.inputs:
        return TensorRef(function.parameters[node.inputs.index(outer) - traits_of(node.op).first_argument].name)
  return None


def apply_custom_gradient(
  gradient: CustomGradient,
  inputs: Sequence[Value],
  read: Callable[[ResourceHandle], Value],
  call: Callable[[Mapping[ResourceHandle, Value], Sequence[Value], jax.Array | None], Sequence[Value]],
  key: jax.Array | None,
) -> tuple[Value, ...]:
  """Returns the node's outputs, which equal its inputs, with the custom derivative attached.

  Args:
    gradient: the custom gradient.
    inputs: the inputs of the node, then the captured tensors.
    read: returns the current value of a variable.
    call: runs the gradient function on arguments, with the given values of variables and PRNG key.
    key: PRNG key of the call, or None.
  """
  # Imported here because the import is slow and few graphs need it.
  from graftax.xla_call_module.lax_extras import call_with_tangents, closed, is_inexact, linear_call

  num_outputs = len(gradient.results)
  # Integers beyond 32 bits have no derivative, and are returned as they are; only their shapes matter below.
  wide = {i: value for i, value in enumerate(inputs[:num_outputs]) if not fits_jax_dtype(value)}
  outputs = [
    jnp.zeros(value.shape, np.int32) if i in wide else jnp.asarray(materialize(value))
    for i, value in enumerate(inputs[:num_outputs])
  ]
  captures = _captures(gradient, inputs[num_outputs:])
  handles = [value for value in captures if isinstance(value, ResourceHandle) and value.kind == "variable"]
  # All values that the derivative reads are operands; otherwise, higher derivatives would miss dependencies.
  traced = [i for i, value in enumerate(captures) if not _is_constant(value)]
  residuals = [*(jnp.asarray(captures[i]) for i in traced), *(jnp.asarray(read(handle)) for handle in handles)]
  keys = [] if key is None else [key]
  positions = [i for i, output in enumerate(outputs) if is_inexact(output)]

  def pullback(operands: Sequence[Any], *inexact: Any) -> list[Any]:
    outputs, rest = operands[:num_outputs], operands[num_outputs:]
    given = dict(zip(positions, inexact, strict=True))
    # TensorFlow passes zeros of the output's dtype if there is no cotangent.
    cotangents = [_conjugate(given.get(i, jnp.zeros_like(output))) for i, output in enumerate(outputs)]
    taken = [cotangent for cotangent, takes in zip(cotangents, gradient.takes, strict=True) if takes]
    arguments = list(captures)
    for i, value in zip(traced, rest, strict=False):
      arguments[i] = value
    variables = dict(zip(handles, rest[len(traced) :], strict=False))
    results = call(variables, [*taken, *arguments], rest[-1] if keys else None)
    return [_cotangent(results, gradient.results[i], outputs[i]) for i in positions]

  def rule(operands: Sequence[Any], results: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    out: list[Any] = [None] * num_outputs
    # What computes an input without a cotangent is not differentiated. With a cotangent of zeros it would be, and
    # infinite derivatives times zero are NaN.
    tangents = [None if index is None else tangents[i] for i, index in enumerate(gradient.results)]
    # Other operands with a tangent affect the outputs only through the inputs of the node.
    if any(tangents[i] is not None for i in positions):
      specs = [jax.ShapeDtypeStruct(results[i].shape, results[i].dtype) for i in positions]
      pull = closed(functools.partial(pullback, operands), *specs)
      push = _Transposed(pull.function, tuple(specs), gradient.function)
      given = [jnp.zeros_like(results[i]) if tangents[i] is None else tangents[i] for i in positions]
      for position, tangent in zip(positions, linear_call(push, pull.function, pull.values, given, specs), strict=True):
        out[position] = tangent
    return out

  operands = [*outputs, *residuals, *keys]
  found = call_with_tangents(lambda *operands: list(operands[:num_outputs]), rule, operands)
  return tuple(wide.get(i, value) for i, value in enumerate(found))


@dataclasses.dataclass(frozen=True, slots=True, weakref_slot=True)  # JAX's caches refer to functions weakly
class _Transposed:
  """The function `(*values, *tangents) -> tangents`, the transpose of `pull(*values, *cotangents) -> cotangents`.

  Attributes:
    pull: the function.
    cotangents: shapes and dtypes of the cotangents.
    name: the gradient function, for messages.
  """

  pull: Callable[..., list[Any]]
  cotangents: tuple[jax.ShapeDtypeStruct, ...]
  name: str

  def __call__(self, *operands: Any) -> list[Any]:
    num = len(operands) - len(self.cotangents)
    try:
      transposed = jax.linear_transpose(functools.partial(self.pull, *operands[:num]), *self.cotangents)
      return list(transposed(list(operands[num:])))
    except Exception as e:  # primitives that are not linear raise various errors
      raise ForwardModeError(
        f"a custom gradient (function {self.name!r}) has no forward mode: what it computes is not linear in the "
        f"cotangents ({type(e).__name__}: {str(e) or 'of a product of cotangents'}). Use reverse mode. {_ADVICE}"
      ) from e


def _captures(gradient: CustomGradient, tensors: Sequence[Value]) -> list[Value]:
  remaining = iter(tensors)
  return [next(remaining) if isinstance(capture, CapturedTensor) else capture for capture in gradient.captures]


def _is_constant(value: Value) -> bool:
  """Returns whether a capture has no tangent: it is a resource, or its value is known (a shape, for example)."""
  return isinstance(value, ResourceHandle | UnavailableCapture) or is_known(value)


def _cotangent(results: Sequence[Value], index: int | None, output: Any) -> Any:
  """Returns result `index` of the gradient function as a cotangent of `output`; zeros if `index` is None."""
  if index is None:
    return jnp.zeros_like(output)
  return _conjugate(jnp.asarray(materialize(results[index])).astype(output.dtype).reshape(output.shape))


def _conjugate(x: jax.Array) -> jax.Array:
  """Converts between derivatives of complex functions in JAX and in TensorFlow, which are complex conjugates."""
  return jnp.conj(x) if jnp.iscomplexobj(x) else x
