"""The signatures of a `JaxModule` as programs, which are written without TensorFlow."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from graftax.convert import InputStructure, Program, jax_program, keyword_structure
from graftax.savedmodel_io.errors import SaveInputError
from graftax.savedmodel_io.export.input_specs import InputSpec, checked_signature, default_values, named_specs
from graftax.savedmodel_io.export.module_methods import ModuleMethod
from graftax.savedmodel_io.export.module_parameters import ModuleParameters
from graftax.savedmodel_io.pytrees import Leaf, PyTree
from graftax.savedmodel_io.writing.jax_function import JaxFunction, symbolic_arguments

__all__ = ["ServingPrograms", "serving_programs"]

_DEFAULT_GRADIENT_ORDER = 2


@dataclass(frozen=True)
class ServingPrograms:
  """One method for one input signature.

  Attributes:
    call: takes the inputs by position, nested as they are.
    signature: takes the flat inputs by name.
  """

  call: Program
  signature: Program


def serving_programs(
  parameters: ModuleParameters, method: ModuleMethod, input_signature: Sequence[PyTree], where: str
) -> ServingPrograms:
  """Returns the programs of a method for one input signature.

  Raises:
    SaveInputError: the input signature contradicts itself or the method's input_polymorphic_shape, or an input is text.
    ConversionError: TensorFlow cannot run the method.
  """
  signature = checked_signature(input_signature, where)
  defaults = default_values(signature, where)
  specs = named_specs(signature, where)
  names, structure = [spec.name for spec in jax.tree.leaves(specs)], jax.tree.structure(specs)
  for spec in jax.tree.leaves(specs):
    _check_numeric(spec, where)
  inputs = _symbolic(method, specs, where)

  def call(values: Mapping[str, Leaf], *inputs: PyTree) -> PyTree:
    return method.apply_fn(parameters.structure.rebuilt([values[name] for name in parameters.names]), *inputs)

  def call_by_name(values: Mapping[str, Leaf], **by_name: PyTree) -> PyTree:
    return call(values, *jax.tree.unflatten(structure, [by_name[name] for name in names]))

  # Tracing needs no values, and would gather arrays that are spread over devices.
  values = {
    name: jax.ShapeDtypeStruct(value.shape, value.dtype)
    for name, value in zip(parameters.names, parameters.values, strict=True)
  }
  by_position = _program(call, method, values, inputs, {})
  by_name = _program(call_by_name, method, values, (), dict(zip(names, jax.tree.leaves(inputs), strict=True)))
  return ServingPrograms(
    call=_with_inputs(by_position, _positional_structure(by_position, defaults)),
    signature=_with_inputs(by_name, keyword_structure(by_name.inputs.kwargs, _flat_defaults(names, specs, defaults))),
  )


def _check_numeric(spec: InputSpec, where: str) -> None:
  if spec.dtype == object or spec.dtype.kind in "SU":
    raise SaveInputError(f"{where}: input {spec.name!r} is text, which JAX does not have; pass a tf_preprocessor")
  if spec.shape is None:
    raise SaveInputError(f"{where}: the rank of input {spec.name!r} is not known; JAX needs the number of dimensions")


def _symbolic(method: ModuleMethod, inputs: Sequence[PyTree], where: str) -> tuple[PyTree, ...]:
  shapes = method.shape_specs(len(inputs))
  function = JaxFunction(
    method.apply_fn,
    inputs,
    polymorphic_shapes=None if all(shape is None for shape in shapes) else shapes,
    constraints=tuple(method.options.get("polymorphic_constraints", ())),
  )
  named = symbolic_arguments(function, where)[0]
  # A size that the signature gives is fixed in it, even if other signatures leave that dimension open.
  return jax.tree.map(_with_given_sizes, named, tuple(inputs))


def _with_given_sizes(named: jax.ShapeDtypeStruct | InputSpec, given: InputSpec) -> jax.ShapeDtypeStruct:
  sizes = zip(named.shape or (), given.shape or (), strict=True)
  return jax.ShapeDtypeStruct(tuple(name if size is None else size for name, size in sizes), named.dtype)


def _program(
  function: Callable[..., Any],
  method: ModuleMethod,
  values: Mapping[str, Leaf],
  args: tuple[PyTree, ...],
  kwargs: Mapping[str, PyTree],
) -> Program:
  options = method.options
  return jax_program(
    function,
    args,
    kwargs,
    params=values,
    name=_name(method.apply_fn),
    with_gradient=options["with_gradient"],
    gradient_order=options.get("gradient_order", _DEFAULT_GRADIENT_ORDER),
    platforms=options.get("native_serialization_platforms"),
    disabled_checks=options.get("native_serialization_disabled_checks", ()),
    lowering=options.get("lowering", "stablehlo"),
  )


def _name(function: Callable[..., Any]) -> str:
  name = getattr(function, "__name__", "<lambda>")
  return "apply_fn" if name == "<lambda>" else name


def _with_inputs(program: Program, inputs: InputStructure) -> Program:
  return dataclasses.replace(program, inputs=inputs)


def _positional_structure(program: Program, defaults: Sequence[PyTree]) -> InputStructure:
  kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
  parameters = [inspect.Parameter(f"inputs_{i}", kind, default=value) for i, value in enumerate(defaults)]
  return InputStructure(program.inputs.args, {}, inspect.Signature(parameters))


def _flat_defaults(names: Sequence[str], specs: Sequence[PyTree], defaults: Sequence[PyTree]) -> dict[str, np.ndarray]:
  flat: list[Leaf] = []
  for spec, default in zip(specs, defaults, strict=True):
    leaves = jax.tree.leaves(spec)
    flat.extend([None] * len(leaves) if default is inspect.Parameter.empty else jax.tree.leaves(default))
  return {name: np.asarray(value) for name, value in zip(names, flat, strict=True) if value is not None}
