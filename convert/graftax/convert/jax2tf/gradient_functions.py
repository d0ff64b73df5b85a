"""The gradient functions of a traced function, as TensorFlow finds them after reloading.

The gradient of order 1 is a function of the cotangents of all outputs of the IdentityN in the function, and captures
the function's arguments. Its own body ends in an IdentityN, whose gradient is the one of order 2, and so on. TensorFlow
does not load a gradient that refers to itself, so the number of orders is finite.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from graftax.convert.jax2tf.module_nodes import FunctionBody, function_names, identities, register_gradient, tensor_spec
from graftax.convert.jax2tf.node_forms import NodeForm
from graftax.convert.jax2tf.traced_function import TracedFunction
from graftax.convert.program import CapturedTensor, CustomGradient
from graftax.graphdef_ir import Function, Node, Parameter, Result, TensorRef, TensorSpec

if TYPE_CHECKING:
  import jax

__all__ = ["GradientFunctions", "differentiable_body", "flat_function"]


@dataclasses.dataclass(slots=True)
class GradientFunctions:
  """Collects gradient functions.

  Attributes:
    name: the beginning of the names of all functions and registered gradients.
    form: how traced functions become nodes.
    functions: the gradient functions and those that nodes call, by name.
    gradients: the registered gradients, by name.
  """

  name: str
  form: NodeForm
  functions: dict[str, Function] = dataclasses.field(default_factory=dict)
  gradients: dict[str, CustomGradient] = dataclasses.field(default_factory=dict)


def differentiable_body(
  traced: TracedFunction,
  operands: Sequence[TensorRef],
  *,
  inside: str,
  found: GradientFunctions,
  order: int,
) -> FunctionBody:
  """Returns the body of a function that runs a traced function, and adds its gradients up to an order.

  Args:
    traced: the traced function.
    operands: the tensors for its inputs.
    inside: the name of the function that has this body.
    found: the gradient functions are added to this.
    order: how many orders of derivatives there are. Beyond these, TensorFlow raises an error that names
      `gradient_order`, or differentiates the nodes itself, depending on their form. The form also decides what
      happens if JAX cannot differentiate so often.
  """
  is_differentiable = bool(traced.differentiable_inputs and traced.differentiable_outputs)
  make = found.form.last_derivative if is_differentiable and order == 0 else found.form.body
  level = len(found.gradients) + 1
  body = make(traced, operands, f"{inside}_{level}")
  found.functions.update(body.functions)
  if not is_differentiable or order == 0:
    return identities(body, stop_gradient=not is_differentiable)
  error = _missing_derivative(traced, found.form)
  if error is not None:
    return identities(found.form.without_derivative(body, traced, error, level - 1))
  specs = _specs(traced.inputs, traced.input_names)
  moving = _moving(traced)
  name = f"CustomGradient-{found.name}-{level}"
  captures = tuple(CapturedTensor(inside, operand) for operand in operands)
  inner = f"__inference_{found.name}_vjp_{level}"
  num_outputs = len(traced.outputs)
  results: list[int | None] = [None] * (num_outputs + len(moving))
  for number, position in enumerate(traced.differentiable_inputs):
    results[num_outputs + moving.index(position)] = number
  found.gradients[name] = CustomGradient(inner, (True,) * len(results), tuple(results), captures)
  found.functions[inner] = _gradient_function(traced, inner, found, order - 1)
  return identities(register_gradient(body, [operands[i] for i in moving], [specs[i] for i in moving], name))


def _missing_derivative(traced: TracedFunction, form: NodeForm) -> Exception | None:
  """Returns why a function has no derivative, in JAX or in any model of a form, or None if it has one."""
  try:
    return form.refusal(traced.gradient())
  except Exception as e:  # rules of primitives and of custom_vjp raise what they like
    return e


def _moving(traced: TracedFunction) -> list[int]:
  """Returns the positions of the inputs that are not constants."""
  return [i for i in range(len(traced.inputs)) if i not in traced.fixed]


def _gradient_function(traced: TracedFunction, name: str, found: GradientFunctions, order: int) -> Function:
  """Returns the function of the cotangents of all results and arguments of `traced`, and of its arguments.

  Constants among the arguments have no cotangents.
  """
  gradient = traced.gradient()
  outputs = _specs(traced.outputs, traced.output_names)
  inputs = _specs(traced.inputs, traced.input_names)
  differentiated = (*outputs, *(inputs[i] for i in _moving(traced)))
  wanted = [f"{spec.name}_cotangent" for spec in differentiated]
  names = function_names([*wanted, *traced.input_names])
  parameters = [
    Parameter(name, spec.dtype, spec.shape) for name, spec in zip(names, (*differentiated, *inputs), strict=True)
  ]
  captured = [_copy(parameter) for parameter in parameters[len(wanted) :]]
  operands = [
    *(TensorRef(node.name) for node in captured),
    *(TensorRef(names[i]) for i in traced.differentiable_outputs),
  ]
  body = differentiable_body(gradient, operands, inside=name, found=found, order=order)
  body = dataclasses.replace(body, nodes=(*captured, *body.nodes))
  return flat_function(name, parameters, body, gradient.output_names)


def _copy(parameter: Parameter) -> Node:
  """Returns a node that copies a captured tensor, for the gradient of the next order to capture.

  If `tf.saved_model.save` writes a model that was loaded, it follows a captured tensor that is itself captured to the
  function where it comes from. The next gradient would then capture a tensor that is out of its reach.
  """
  return Node(f"{parameter.name}/Identity", "Identity", (TensorRef(parameter.name),), attrs={"T": parameter.dtype})


def flat_function(
  name: str, parameters: Sequence[Parameter], body: FunctionBody, result_names: Sequence[str]
) -> Function:
  """Returns a function with the results of a body."""
  named = zip(function_names(result_names), body.results, body.specs, strict=True)
  # XlaCallModule and ReadVariableOp count as stateful in TensorFlow, and so does what contains them.
  return Function(
    name,
    tuple(parameters),
    tuple(Result(result, ref, spec.dtype) for result, ref, spec in named),
    body.nodes,
    body.effects,
    is_stateful=True,
  )


def _specs(specs: "Sequence[jax.ShapeDtypeStruct]", names: Sequence[str]) -> tuple[TensorSpec, ...]:
  return tuple(tensor_spec(spec, name, where=repr(name)) for spec, name in zip(specs, names, strict=True))
