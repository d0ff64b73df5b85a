"""The signatures of a SavedModel: named entry points with named inputs and outputs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from graftax.graphdef_ir import DType, Tensor, TensorRef, TensorSpec, schema
from graftax.graphdef_ir.errors import GraftaxError
from graftax.savedmodel_io.errors import DamagedSavedModelError, UnknownSignatureError
from graftax.savedmodel_io.objects.functions import ConcreteFunction
from graftax.savedmodel_io.objects.object_graph import BareFunctionObject, FunctionObject, ObjectGraph
from graftax.savedmodel_io.objects.restored_functions import FunctionReader
from graftax.savedmodel_io.objects.spec_text import listed, named_specs_text, structure_text
from graftax.savedmodel_io.objects.structured_value import decode_structure
from graftax.savedmodel_io.objects.type_specs import SparseTensorSpec, partial_shape

__all__ = ["INIT_SIGNATURE", "RESERVED_SIGNATURES", "Signature", "Signatures", "init_op", "read_signatures"]

# Loaders run these by themselves; they are not entry points.
INIT_SIGNATURE = "__saved_model_init_op"
RESERVED_SIGNATURES = (INIT_SIGNATURE, "__saved_model_train_op")
_INIT_COLLECTIONS = ("saved_model_main_op", "legacy_init_op")


@dataclass(frozen=True, slots=True)
class Signature:
  """A named entry point.

  Attributes:
    name: its key.
    method_name: what it is for, such as `"tensorflow/serving/predict"`.
    inputs: input name -> spec; Any because sparse and ragged inputs have specs of `type_specs`.
    outputs: output name -> spec.
    defaults: values of inputs that a caller may leave out.
    input_tensors: input name -> tensors of the graph that are fed; several for a composite input.
    output_tensors: output name -> tensors of the graph that are fetched.
    function: the concrete function behind it; None in a TF1 model, where it is a part of the graph.
  """

  name: str
  method_name: str
  inputs: Mapping[str, Any]
  outputs: Mapping[str, Any]
  defaults: Mapping[str, Tensor]
  input_tensors: Mapping[str, tuple[TensorRef, ...]]
  output_tensors: Mapping[str, tuple[TensorRef, ...]]
  function: ConcreteFunction | None

  def __repr__(self) -> str:
    return f"<Signature {self.name}({named_specs_text(self.inputs)}) -> {structure_text(dict(self.outputs))}>"


class Signatures(Mapping[str, Signature]):
  """Signature name -> signature."""

  def __init__(self, signatures: Mapping[str, Signature]):
    self._signatures = dict(signatures)

  def __getitem__(self, name: str) -> Signature:
    try:
      return self._signatures[name]
    except KeyError:
      raise UnknownSignatureError(f"no signature {name!r}; {listed(name, self)}") from None

  def __contains__(self, name: object) -> bool:
    return name in self._signatures

  def __iter__(self) -> Iterator[str]:
    return iter(self._signatures)

  def __len__(self) -> int:
    return len(self._signatures)

  def __repr__(self) -> str:
    return (
      "\n".join(["<Signatures>", *(f"  {signature!r}" for signature in self.values())])
      if self
      else "<Signatures: none>"
    )


def read_signatures(meta_graph: schema.MetaGraphDef, reader: FunctionReader) -> Signatures:
  """Returns all signatures of a MetaGraph, by name.

  Raises:
    DamagedSavedModelError: a signature's record is damaged.
  """
  functions = _signature_functions(reader.objects)
  signatures = {}
  for name in sorted(meta_graph.signature_def):
    if name not in RESERVED_SIGNATURES:
      function = reader.concrete_function(functions[name]) if name in functions else None
      signatures[name] = _read_signature(name, meta_graph.signature_def[name], function)
  return Signatures(signatures)


def init_op(meta_graph: schema.MetaGraphDef) -> str | None:
  """Returns the graph node that fills the tables of a TF1 model, or None."""
  if INIT_SIGNATURE in meta_graph.signature_def:
    outputs = meta_graph.signature_def[INIT_SIGNATURE].outputs
    if INIT_SIGNATURE in outputs:
      return outputs[INIT_SIGNATURE].name.partition(":")[0]
  for collection in _INIT_COLLECTIONS:
    if collection in meta_graph.collection_def:
      nodes = meta_graph.collection_def[collection].node_list.value
      if nodes:
        return str(nodes[0]).partition(":")[0]
  return None


def _signature_functions(objects: ObjectGraph) -> dict[str, str]:
  """Returns signature name -> concrete function, from the object graph."""
  root = objects.nodes[0] if objects.nodes else None
  holder = None if root is None else root.children.get("signatures")
  if holder is None:
    return {}
  functions = {}
  for name, child in objects.nodes[holder].children.items():
    match objects.nodes[child].content:
      case BareFunctionObject(concrete_function=function) | FunctionObject(concrete_functions=(function, *_)):
        functions[name] = function
  return functions


def _read_signature(name: str, proto: schema.SignatureDef, function: ConcreteFunction | None) -> Signature:
  # Message maps have no order of their own; TensorFlow flattens dicts by sorted key.
  inputs = {key: proto.inputs[key] for key in sorted(proto.inputs)}
  outputs = {key: proto.outputs[key] for key in sorted(proto.outputs)}
  try:
    return Signature(
      name=name,
      method_name=proto.method_name,
      inputs={key: _spec(key, info) for key, info in inputs.items()},
      outputs={key: _spec(key, info) for key, info in outputs.items()},
      defaults={key: Tensor.from_proto(proto.defaults[key]) for key in sorted(proto.defaults)},
      input_tensors={key: _tensors(info) for key, info in inputs.items()},
      output_tensors={key: _tensors(info) for key, info in outputs.items()},
      function=function,
    )
  except (GraftaxError, ValueError) as e:
    raise DamagedSavedModelError(f"signature {name!r}: {e}") from e


def _spec(key: str, info: schema.TensorInfo) -> Any:
  match info.WhichOneof("encoding"):
    case "coo_sparse":
      return SparseTensorSpec(partial_shape(info.tensor_shape), DType(info.dtype))
    case "composite_tensor":
      return decode_structure(schema.StructuredValue(type_spec_value=info.composite_tensor.type_spec))
  return TensorSpec(partial_shape(info.tensor_shape), DType(info.dtype), key)


def _tensors(info: schema.TensorInfo) -> tuple[TensorRef, ...]:
  match info.WhichOneof("encoding"):
    case "coo_sparse":
      sparse = info.coo_sparse
      names = (sparse.indices_tensor_name, sparse.values_tensor_name, sparse.dense_shape_tensor_name)
      return tuple(TensorRef.parse(name) for name in names)
    case "composite_tensor":
      return tuple(ref for component in info.composite_tensor.components for ref in _tensors(component))
  return (TensorRef.parse(info.name),)
