"""`tf.custom_gradient`: an IdentityN node that names its derivative, as a `jax.custom_vjp`.

TensorFlow wraps the results `r` and arguments `a` of a custom-gradient function in `IdentityN(r..., a...)`, and
registers a function from the cotangents of all its outputs (and from tensors of the forward pass that it captures) to
cotangents of `a`.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.convert.effects import first_argument
from graftax.convert.errors import ConversionError
from graftax.graphdef_ir import Function, Node, TensorRef, function_references
from graftax.ops_jax import ResourceHandle, Value, materialize

__all__ = [
  "CapturedTensor",
  "CustomGradient",
  "apply_custom_gradient",
  "attach_custom_gradients",
  "gradient_name",
  "gradient_of",
]

_OP_TYPE = "_gradient_op_type"


@dataclasses.dataclass(frozen=True, slots=True)
class CapturedTensor:
  """A tensor of the forward pass: output `ref` in the body of `function`."""

  function: str
  ref: TensorRef


@dataclasses.dataclass(frozen=True, slots=True)
class CustomGradient:
  """The derivative of one IdentityN node.

  Attributes:
    function: name of the gradient function in the library; its parameters are the cotangents of the node's outputs
      whose `takes` is true, then the captures.
    takes: for each output of the node, whether the gradient function has a parameter for its cotangent.
    results: for each input of the node, which result of the gradient function is its cotangent, or None for zero.
    captures: what the gradient function closes over.
  """

  function: str
  takes: tuple[bool, ...]
  results: tuple[int | None, ...]
  captures: tuple[CapturedTensor | ResourceHandle | np.ndarray, ...]


def gradient_name(node: Node) -> str | None:
  """The name under which a node's derivative is registered, or None where it has none of its own."""
  op_type = node.attrs.get(_OP_TYPE)
  return op_type.decode(errors="replace") if isinstance(op_type, bytes) and node.op == "IdentityN" else None


def gradient_of(node: Node, gradients: Mapping[str, CustomGradient]) -> CustomGradient | None:
  """The derivative that a node names, or None."""
  name = gradient_name(node)
  return None if name is None else gradients.get(name)


def attach_custom_gradients(
  function: Function, gradients: Mapping[str, CustomGradient], others: Callable[[], Iterable[Function]]
) -> Function:
  """`function` with the tensors that its custom gradients capture as further inputs of the nodes that need them.

  Args:
    function: the function.
    gradients: registered name -> derivative.
    others: all functions of the program, for a branch whose gradient captures a tensor of the function around it.

  Raises:
    ConversionError: a captured tensor cannot be seen from `function`.
  """
  if not any(gradient_of(node, gradients) for node in function.nodes):
    return function
  return dataclasses.replace(
    function, nodes=tuple(_attached(node, function, gradients, others) for node in function.nodes)
  )


def _attached(
  node: Node, function: Function, gradients: Mapping[str, CustomGradient], others: Callable[[], Iterable[Function]]
) -> Node:
  gradient = gradient_of(node, gradients)
  if gradient is None or len(node.inputs) > len(gradient.results):
    return node  # no gradient, or attached already
  refs = []
  for capture in gradient.captures:
    if isinstance(capture, CapturedTensor):
      ref = _seen_from(function, capture, others, frozenset())
      if ref is None:
        raise ConversionError(
          f"IdentityN node {node.name!r} (function {function.name!r}): its custom gradient captures "
          f"{str(capture.ref)!r} of function {capture.function!r}, which cannot be seen from where it stands. Convert "
          f"with convert_custom_gradient=False to differentiate the forward pass instead."
        )
      refs.append(ref)
  return dataclasses.replace(node, inputs=(*node.inputs, *refs))


def _seen_from(
  function: Function, capture: CapturedTensor, others: Callable[[], Iterable[Function]], visited: frozenset[str]
) -> TensorRef | None:
  """The captured tensor as a ref inside `function`: itself, or the parameter through which a caller hands it in."""
  if capture.function == function.name:
    return capture.ref
  for caller in others():
    if caller.name in visited:
      continue
    for node in caller.nodes:
      if function.name not in {node.op, *(reference.name for reference in function_references(node.attrs))}:
        continue
      outer = _seen_from(caller, capture, others, visited | {function.name})
      if outer in node.inputs:
        return TensorRef(function.parameters[node.inputs.index(outer) - first_argument(node)].name)
  return None


def apply_custom_gradient(
  gradient: CustomGradient,
  inputs: Sequence[Value],
  read: Callable[[ResourceHandle], Value],
  call: Callable[[Mapping[ResourceHandle, Value], Sequence[Value]], Sequence[Value]],
) -> tuple[Value, ...]:
  """The node's outputs, which are its inputs, with the custom derivative attached.

  Args:
    gradient: the derivative.
    inputs: the node's own inputs, then its captured tensors.
    read: the value of a variable now.
    call: runs the gradient function on arguments, with the given values of variables.
  """
  num_outputs = len(gradient.results)
  outputs = [jnp.asarray(materialize(value)) for value in inputs[:num_outputs]]
  captures = _captures(gradient, inputs[num_outputs:])
  handles = [value for value in captures if isinstance(value, ResourceHandle) and value.kind == "variable"]
  # Everything that the derivative reads is an argument, so that derivatives of any order see all dependencies.
  residuals = [None if isinstance(value, ResourceHandle) else jnp.asarray(materialize(value)) for value in captures]
  variables = [jnp.asarray(read(handle)) for handle in handles]

  @jax.custom_vjp
  def identity(outputs: Any, residuals: Any, variables: Any) -> Any:
    return outputs

  def forward(outputs: Any, residuals: Any, variables: Any) -> Any:
    return outputs, (outputs, residuals, variables)

  def backward(saved: Any, cotangents: Any) -> Any:
    outputs, residuals, variables = saved
    taken = [_dense(c, o) for c, o, takes in zip(cotangents, outputs, gradient.takes, strict=True) if takes]
    arguments = [h if r is None else r for h, r in zip(captures, residuals, strict=True)]
    results = call(dict(zip(handles, variables, strict=True)), [*taken, *arguments])
    gradients = [
      None if i is None else _cotangent(results[i], o) for i, o in zip(gradient.results, outputs, strict=True)
    ]
    return gradients, [None] * len(residuals), [None] * len(variables)

  identity.defvjp(forward, backward)
  return tuple(identity(outputs, residuals, variables))


def _captures(gradient: CustomGradient, tensors: Sequence[Value]) -> list[Value]:
  remaining = iter(tensors)
  return [next(remaining) if isinstance(capture, CapturedTensor) else capture for capture in gradient.captures]


def _dense(cotangent: Any, output: Any) -> Any:
  """A cotangent as TensorFlow passes it: zeros of the output's dtype where JAX has none."""
  return jnp.zeros_like(output) if cotangent.dtype == jax.dtypes.float0 else cotangent


def _cotangent(result: Any, output: Any) -> Any:
  if not jnp.issubdtype(output.dtype, jnp.inexact):
    return None
  return jnp.asarray(result).astype(output.dtype).reshape(output.shape)
