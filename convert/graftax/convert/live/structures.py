"""Reads the nested inputs and outputs of a ConcreteFunction as `InputStructure` and `OutputStructure`."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import tree

from graftax.convert._tensorflow import TensorFlow, TfFunction
from graftax.convert.errors import ConversionError
from graftax.convert.live.arguments import marked_argument
from graftax.convert.pytrees import Leaf, PyTree
from graftax.convert.structures.composite import IndexedSlices, RaggedTensor, SparseTensor
from graftax.convert.structures.named_tuples import as_named_tuple, stored_attributes
from graftax.convert.structures.nested import InputStructure, OutputStructure, keyword_structure
from graftax.graphdef_ir import DType, Function, PartialShape, TensorSpec

__all__ = ["input_structure", "output_structure"]


def input_structure(tf: TensorFlow, concrete: TfFunction, source: TfFunction, function: Function) -> InputStructure:
  """Returns the structure of the arguments of a ConcreteFunction.

  Args:
    tf: TensorFlow.
    concrete: the ConcreteFunction.
    source: the function that it was traced from, or None.
    function: the ConcreteFunction as a `Function`, for the names of its parameters.

  Raises:
    ConversionError: an argument has no JAX counterpart.
  """
  if concrete.structured_input_signature is None:
    return _flat_structure(concrete, function)
  args, kwargs = _specs(tf, concrete.structured_input_signature, concrete, "takes")
  if source is not None and source is not concrete:
    return InputStructure(tuple(args), dict(kwargs), inspect.signature(source))
  function_type = getattr(concrete, "function_type", None)
  if function_type is None:
    return keyword_structure(dict(kwargs), {})
  kinds = [inspect.Parameter(p.name, p.kind) for p in function_type.parameters.values()]
  return InputStructure(tuple(args), dict(kwargs), inspect.Signature(kinds))


def output_structure(tf: TensorFlow, concrete: TfFunction) -> OutputStructure:
  """Returns the structure of the results of a ConcreteFunction.

  Raises:
    ConversionError: a result has no JAX counterpart.
  """
  return OutputStructure(_specs(tf, concrete.structured_outputs, concrete, "returns"))


def _flat_structure(concrete: TfFunction, function: Function) -> InputStructure:
  """Returns the inputs of a TF1 function (old hub modules), whose tensors are passed by name, without a structure."""
  own = function.parameters[: len(function.parameters) - len(concrete.captured_inputs)]
  specs = {p.name: _spec(tensor) for p, tensor in zip(own, concrete.inputs, strict=False)}
  kinds = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in specs]
  return InputStructure(tuple(specs.values()), {}, inspect.Signature(kinds))


def _specs(tf: TensorFlow, structure: PyTree, concrete: TfFunction, verb: str) -> PyTree:
  return tree.map_structure(lambda leaf: _leaf(tf, leaf, concrete, verb), _plain_containers(structure))


def _plain_containers(structure: PyTree) -> PyTree:
  """Returns `structure` without the wrappers that TensorFlow puts around containers assigned to a module."""
  structure = getattr(structure, "__wrapped__", structure) if _is_wrapper(structure) else structure
  if isinstance(structure, tuple) and hasattr(structure, "_fields"):
    return type(structure)(*map(_plain_containers, structure))
  if isinstance(structure, tuple):
    return tuple(map(_plain_containers, structure))
  if isinstance(structure, list):
    return [_plain_containers(value) for value in structure]
  if type(structure) is dict or _is_wrapper(structure):
    return {key: _plain_containers(value) for key, value in structure.items()}
  return structure


def _is_wrapper(structure: PyTree) -> bool:
  return type(structure).__module__.endswith("trackable.data_structures")


def _leaf(tf: TensorFlow, leaf: Leaf, concrete: TfFunction, verb: str) -> PyTree:
  if isinstance(leaf, tf.TensorSpec | tf.Tensor):
    return _spec(leaf)
  makers: tuple[tuple[Any, Callable[[list[TensorSpec]], Any]], ...] = (
    ((tf.RaggedTensor, tf.RaggedTensorSpec), _ragged),
    ((tf.SparseTensor, tf.SparseTensorSpec), lambda parts: SparseTensor(*parts)),
    ((tf.IndexedSlices, tf.IndexedSlicesSpec), lambda parts: IndexedSlices(*parts)),
  )
  for kinds, make in makers:
    if isinstance(leaf, kinds):
      parts = [_spec(part) for part in tf.nest.flatten(leaf, expand_composites=True)]
      return make(parts)
  spec = leaf if isinstance(leaf, tf.TypeSpec) else getattr(leaf, "_type_spec", None)
  if spec is not None:
    return _components(tf, spec, concrete, verb)
  if hasattr(leaf, "__tf_flatten__"):
    return _flattened(tf, leaf, concrete, verb)
  return marked_argument(leaf)


def _components(tf: TensorFlow, spec: Leaf, concrete: TfFunction, verb: str) -> PyTree:
  """Returns the components of any other composite tensor, nested as it nests them; of an extension type by name."""
  if getattr(spec, "_tf_extension_type_is_packed", True) is False:
    # TensorFlow flattens the fields in the order in which the constructor of the spec sets them. Fields without tensors
    # are fixed by the spec, and need not be of a kind that JAX can pass on.
    fields = {
      name: _specs(tf, _plain_mappings(value), concrete, verb)
      for name, value in vars(spec).items()
      if spec._tf_extension_type_has_field(name) and any(isinstance(x, tf.TypeSpec) for x in tf.nest.flatten(value))
    }
    return as_named_tuple(spec.value_type.__name__, fields)
  parts = spec._component_specs
  if any(
    isinstance(part, tf.TensorSpec) and part.dtype in (tf.variant, tf.resource) for part in tf.nest.flatten(parts)
  ):
    raise ConversionError(
      f"{_name(concrete)}: {verb} {spec!r}, which has no JAX counterpart; expected tensors, or composite tensors that "
      f"consist of tensors."
    )
  found: PyTree = tf.nest.map_structure(lambda part: _leaf(tf, part, concrete, verb), parts)
  return found


def _plain_mappings(value: PyTree) -> PyTree:
  """Returns a field of the spec of an extension type with dicts in place of TensorFlow's own mappings."""
  if isinstance(value, Mapping):
    return {key: _plain_mappings(item) for key, item in value.items()}
  return tuple(map(_plain_mappings, value)) if type(value) is tuple else value


def _flattened(tf: TensorFlow, leaf: Leaf, concrete: TfFunction, verb: str) -> PyTree:
  """Returns the components of an object that flattens itself, by the names of its attributes if they are attributes."""
  _, components = leaf.__tf_flatten__()
  attributes = stored_attributes(leaf)
  names = [next((name for name, value in attributes.items() if value is part), "") for part in components]
  values = [_specs(tf, part, concrete, verb) for part in components]
  if not all(names) or len(set(names)) < len(names):
    return tuple(values)
  return as_named_tuple(type(leaf).__name__, dict(zip(names, values, strict=True)))


def _ragged(parts: list[TensorSpec]) -> Leaf:
  """Returns a ragged tensor; a plain tensor if no dimension is ragged."""
  return RaggedTensor(parts[0], tuple(parts[1:])) if len(parts) > 1 else parts[0]


def _name(concrete: TfFunction) -> str:
  name: str = concrete.name.decode() if isinstance(concrete.name, bytes) else concrete.name
  return name


def _spec(leaf: Leaf) -> TensorSpec:
  dims = leaf.shape.as_list() if leaf.shape.rank is not None else None
  shape = PartialShape(None if dims is None else tuple(dims))
  return TensorSpec(shape, DType(leaf.dtype.as_datatype_enum), getattr(leaf, "name", None))
