"""Builds the functions of a program from a traced JAX function."""

import dataclasses
import functools

import numpy as np
import tree

from graftax.convert.jax2tf.gradient_functions import GradientFunctions, differentiable_body, flat_function
from graftax.convert.jax2tf.large_constants import digests
from graftax.convert.jax2tf.module_nodes import FunctionBody, function_names, identities, prevent_gradient, tensor_spec
from graftax.convert.jax2tf.nested_structures import LeafIndex
from graftax.convert.jax2tf.node_forms import NodeForm, unique_name
from graftax.convert.jax2tf.traced_function import TracedFunction
from graftax.convert.pytrees import PyTree
from graftax.graphdef_ir import DType, Function, Node, Parameter, PartialShape, Tensor, TensorRef, TensorSpec

__all__ = ["NO_GRADIENT", "ProgramAssembly"]

NO_GRADIENT = (
  "The jax2tf-converted function does not support gradients. Use `with_gradient` parameter to enable gradients"
)
"""The message of TensorFlow's error if a function without gradient is differentiated; that of jax2tf."""


@dataclasses.dataclass(frozen=True)
class ProgramAssembly:
  """The parts of a program, in JAX's order and in TensorFlow's.

  JAX's flat arguments are the parameters, then the arguments. A function in TensorFlow has the arguments first, in the
  order of `tf.nest`, then the variables.

  Attributes:
    traced: the function; its first flat arguments are the parameters.
    variables: the names of the variables, one for each parameter.
    arguments: `(args, kwargs)` with a `LeafIndex` for each other flat argument.
    results: the nested result with a `LeafIndex` for each flat result.
    form: how traced functions become nodes.
    constants: the values of the last inputs of `traced`, which are constants.
  """

  traced: TracedFunction
  variables: tuple[str, ...]
  arguments: PyTree
  results: PyTree
  form: NodeForm
  constants: tuple[np.ndarray, ...] = ()

  @functools.cached_property
  def input_specs(self) -> PyTree:
    """Returns `(args, kwargs)` with a `TensorSpec` for each flat argument."""
    return self._with_specs(self.arguments, self._argument_specs)

  @functools.cached_property
  def output_specs(self) -> PyTree:
    """Returns the nested result with a `TensorSpec` for each flat result."""
    return self._with_specs(self.results, self._result_specs)

  def functions(self, order: int | None) -> tuple[Function, GradientFunctions]:
    """Returns the function, and its gradients up to an order; if that is None, differentiation raises an error."""
    reads, operands = self._reads()
    found = GradientFunctions(self._unique_name, self.form)
    name = f"__inference_{self._unique_name}"
    if order is not None:
      body = differentiable_body(self.traced, operands, inside=name, found=found, order=order)
    else:
      body = self.form.body(self.traced, operands, name)
      found.functions.update(body.functions)
      body = identities(prevent_gradient(body, NO_GRADIENT))
    positions = _leaf_positions(self.results)
    body = FunctionBody(
      (*reads, *body.nodes),
      tuple(body.results[i] for i in positions),
      tuple(body.specs[i] for i in positions),
      effects=body.effects,
    )
    return flat_function(name, self._parameters, body, [self.traced.output_names[i] for i in positions]), found

  @functools.cached_property
  def _unique_name(self) -> str:
    """Returns a name for the library, of the function, its variables and the structure of its arguments and results."""
    structures = tree.flatten(self.input_specs), tree.flatten(self.output_specs)
    return unique_name(self.form, self.traced, self.variables, *structures, *digests(self.constants))

  @property
  def _argument_specs(self) -> list[TensorSpec]:
    names, specs = self.traced.input_names, self.traced.inputs
    return [
      tensor_spec(spec, name, where=f"{self.traced.name}: argument {name!r}")
      for name, spec in list(zip(names, specs, strict=True))[len(self.variables) :]
    ]

  @property
  def _variable_specs(self) -> list[TensorSpec]:
    specs = self.traced.inputs[: len(self.variables)]
    return [
      tensor_spec(spec, name, where=f"{self.traced.name}: parameter {name!r}")
      for name, spec in zip(self.variables, specs, strict=True)
    ]

  @property
  def _result_specs(self) -> list[TensorSpec]:
    return [
      tensor_spec(spec, name, where=f"{self.traced.name}: result {name!r}")
      for name, spec in zip(self.traced.output_names, self.traced.outputs, strict=True)
    ]

  @functools.cached_property
  def _parameters(self) -> tuple[Parameter, ...]:
    specs = [self._argument_specs[i] for i in _leaf_positions(self.arguments)]
    names = function_names([*(str(spec.name) for spec in specs), *self.variables])
    arguments = [Parameter(name, spec.dtype, spec.shape) for name, spec in zip(names, specs, strict=False)]
    resources = [
      Parameter(name, DType.RESOURCE, PartialShape(()), handle_spec=TensorSpec(spec.shape, spec.dtype))
      for name, spec in zip(names[len(specs) :], self._variable_specs, strict=True)
    ]
    return (*arguments, *resources)

  def _reads(self) -> tuple[list[Node], list[TensorRef]]:
    """Returns the nodes that read variables and constants, and the tensors for the inputs of the traced function."""
    positions = _leaf_positions(self.arguments)
    arguments, resources = self._parameters[: len(positions)], self._parameters[len(positions) :]
    reads = [
      Node(
        f"{resource.name}/ReadVariableOp", "ReadVariableOp", (TensorRef(resource.name),), attrs={"dtype": spec.dtype}
      )
      for resource, spec in zip(resources, self._variable_specs, strict=True)
    ]
    by_position = dict(zip(positions, arguments, strict=True))
    constants = [
      Node(f"constant_{i}/Const", "Const", attrs={"dtype": tensor.dtype, "value": tensor})
      for i, tensor in enumerate(map(Tensor.from_numpy, self.constants))
    ]
    return [*reads, *constants], [
      *(TensorRef(read.name) for read in reads),
      *(TensorRef(by_position[i].name) for i in range(len(positions))),
      *(TensorRef(constant.name) for constant in constants),
    ]

  def _with_specs(self, structure: object, specs: list[TensorSpec]) -> PyTree:
    return tree.map_structure(lambda leaf: specs[leaf.index] if isinstance(leaf, LeafIndex) else leaf, structure)


def _leaf_positions(structure: object) -> list[int]:
  """Returns, for each flat tensor in TensorFlow's order, its position in JAX's order."""
  return [leaf.index for leaf in tree.flatten(structure) if isinstance(leaf, LeafIndex)]
