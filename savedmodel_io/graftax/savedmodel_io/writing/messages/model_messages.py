"""Puts the content of a SavedModel into messages: objects, functions, graph and signatures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graftax.convert import Program
from graftax.graphdef_ir import Function, OpSignatures, function_to_proto, node_to_proto, schema, signature_to_proto
from graftax.savedmodel_io.errors import SaveInputError
from graftax.savedmodel_io.objects.structured_encoding import encode_structure
from graftax.savedmodel_io.objects.trackable_graph import OBJECT_GRAPH_KEY
from graftax.savedmodel_io.pytrees import PyTree
from graftax.savedmodel_io.writing.bundles.stored_tensor import StoredTensor, stored_tensor
from graftax.savedmodel_io.writing.messages.captured_objects import CapturedObjects
from graftax.savedmodel_io.writing.messages.function_records import (
  concrete_function,
  function_spec,
  gradient_function,
  keyword_spec,
)
from graftax.savedmodel_io.writing.messages.graph_nodes import GraphBuilder, collections, init_signature, table_keys
from graftax.savedmodel_io.writing.messages.merged_library import MergedLibrary, merge_libraries
from graftax.savedmodel_io.writing.messages.object_builder import ROOT, ObjectBuilder
from graftax.savedmodel_io.writing.messages.prepared_program import prepared_program
from graftax.savedmodel_io.writing.messages.signature_functions import SignatureFunction, signature_function
from graftax.savedmodel_io.writing.model_content import ModelContent

__all__ = ["ModelMessages", "model_messages"]

_SCHEMA_VERSION = 1
# Of TensorFlow 2.15. Readers interpret graphs of older producers as those did, and refuse graphs only by
# `min_consumer`, which is that of all TensorFlow 2.
_PRODUCER, _MIN_CONSUMER = 1645, 12

_TABLES = "_lookup_tables"


@dataclass(frozen=True, slots=True)
class ModelMessages:
  """A SavedModel, ready to be written.

  Attributes:
    saved_model: the contents of `saved_model.pb`.
    tensors: checkpoint key -> tensor.
  """

  saved_model: schema.SavedModel
  tensors: Mapping[str, StoredTensor]


def model_messages(content: ModelContent, tags: Sequence[str], tensorflow_version: str) -> ModelMessages:
  """Returns the messages of a model. Reads no values of variables.

  Raises:
    SaveInputError, UnsupportedSavedModelError: a program cannot be saved, or not under its name.
  """
  programs = {id(p): p for p in _all_programs(content)}
  library = merge_libraries([prepared_program(program) for program in programs.values()])
  merged = dict(zip(programs, library.programs, strict=True))
  objects, graph = ObjectBuilder(), GraphBuilder()
  captured = CapturedObjects(objects, graph)
  captured.add_variables(content.variables)
  assets = captured.add_assets(content.assets)
  _add_attributes(content, captured, assets)
  _add_functions(content, merged, objects)
  signatures = _signature_functions(content, merged, library)
  _add_signature_objects(signatures, objects)
  records = _function_records(library, signatures, captured)
  if captured.tables:
    # TensorFlow saves a loaded model again only if its attributes lead to all tables.
    objects.attach(ROOT, _TABLES, objects.add_list(captured.tables))
  meta_graph = schema.MetaGraphDef(asset_file_def=captured.asset_records)
  meta_graph.meta_info_def.tags.extend(tags)
  meta_graph.meta_info_def.tensorflow_version = tensorflow_version
  for signature in signatures:
    definition = graph.add_signature(signature, captured.tensors(signature.program.captures))
    meta_graph.signature_def[signature.name].CopyFrom(definition)
  records.update(captured.records)
  keys = objects.checkpoint_keys()
  tensors = _add_saver(content, captured, keys, meta_graph)
  _add_init_op(graph, meta_graph)
  meta_graph.object_graph_def.nodes.extend(objects.saved_objects())
  for name, record in records.items():
    meta_graph.object_graph_def.concrete_functions[name].CopyFrom(record)
  functions = [*(signature.function for signature in signatures), *captured.functions.values()]
  _fill_graph(meta_graph.graph_def, graph, library, functions)
  meta_graph.meta_info_def.stripped_op_list.op.extend(_ops_of_libraries(meta_graph.graph_def, library))
  return ModelMessages(schema.SavedModel(saved_model_schema_version=_SCHEMA_VERSION, meta_graphs=[meta_graph]), tensors)


def _all_programs(content: ModelContent) -> list[Program]:
  traces = [program for programs in content.functions.values() for program in programs]
  return [*traces, *content.signatures.values(), *content.losses]


def _add_attributes(content: ModelContent, captured: CapturedObjects, assets: Mapping[str, int]) -> None:
  objects = captured.objects
  for name, nested in content.attributes.items():
    objects.attach(ROOT, name, _add_nested(nested, captured))
  trainable = [captured.variables[name] for name, variable in content.variables.items() if variable.trainable]
  objects.attach(ROOT, "variables", objects.add_list(list(captured.variables.values())))
  objects.attach(ROOT, "trainable_variables", objects.add_list(trainable))
  if assets:
    files = objects.add_dict()
    for filename, asset in assets.items():
      objects.attach(files, filename, asset)
    objects.attach(ROOT, "assets", files)


def _add_nested(nested: PyTree, captured: CapturedObjects) -> int:
  objects = captured.objects
  if isinstance(nested, str):
    return captured.variables[nested]
  if isinstance(nested, Mapping):
    made = objects.add_dict()
    for key, value in nested.items():
      objects.attach(made, key, _add_nested(value, captured))
    return made
  return objects.add_list([_add_nested(value, captured) for value in nested])


def _add_functions(content: ModelContent, merged: Mapping[int, Program], objects: ObjectBuilder) -> None:
  made: dict[int, int] = {}
  for path, programs in content.functions.items():
    *parents, name = path.split(".")
    parent = _module(parents, objects, path)
    if objects.child(parent, name) is not None:
      raise SaveInputError(f"function {path!r}: the model has another attribute {name!r} there; choose another name")
    if id(programs) not in made:
      made[id(programs)] = _add_function(path, programs, merged, objects)
    objects.attach(parent, name, made[id(programs)])
  losses = [_add_function(f"regularization loss {p.name!r}", (p,), merged, objects) for p in content.losses]
  objects.attach(ROOT, "regularization_losses", objects.add_list(losses))


def _module(parents: Sequence[str], objects: ObjectBuilder, path: str) -> int:
  """Returns the object at an attribute path; makes modules of what is not there."""
  current = ROOT
  for name in parents:
    child = objects.child(current, name)
    if child is None:
      child = objects.add_module()
      objects.attach(current, name, child)
    if not objects.is_module(child):
      raise SaveInputError(f"function {path!r}: the model has another attribute {name!r} there; choose another name")
    current = child
  return current


def _add_function(path: str, programs: Sequence[Program], merged: Mapping[int, Program], objects: ObjectBuilder) -> int:
  message = schema.SavedFunction(
    concrete_functions=[merged[id(program)].function.name for program in programs],
    function_spec=function_spec(programs[0].inputs.signature, f"function {path!r}"),
  )
  return objects.add(schema.SavedObject(function=message))


def _signature_functions(
  content: ModelContent, merged: Mapping[int, Program], library: MergedLibrary
) -> list[SignatureFunction]:
  taken = library.functions
  made: list[SignatureFunction] = []
  for number, (name, program) in enumerate(content.signatures.items()):
    function = f"__inference_signature_wrapper_{number}"
    while function in taken:
      function += "_0"
    made.append(signature_function(name, merged[id(program)], function))
  return made


def _add_signature_objects(signatures: Sequence[SignatureFunction], objects: ObjectBuilder) -> None:
  by_name = objects.add_signature_map()
  for signature in signatures:
    names = list(signature.inputs)
    message = schema.SavedBareConcreteFunction(
      concrete_function_name=signature.function.name,
      argument_keywords=names,
      allowed_positional_arguments=len(names),
      function_spec=keyword_spec(names),
    )
    objects.attach(by_name, signature.name, objects.add(schema.SavedObject(bare_concrete_function=message)))
  objects.attach(ROOT, "signatures", by_name)


def _function_records(
  library: MergedLibrary, signatures: Sequence[SignatureFunction], captured: CapturedObjects
) -> dict[str, schema.SavedConcreteFunction]:
  records: dict[str, schema.SavedConcreteFunction] = {}
  for program in library.programs:
    records[program.function.name] = concrete_function(program, captured.object_ids(program.captures))
    for gradient in program.gradients.values():
      function = library.functions[gradient.function]
      records[function.name] = gradient_function(gradient, function, captured.object_ids(gradient.captures))
  for signature in signatures:
    what = f"signature {signature.name!r}"
    inputs = {key: _renamed(spec, key) for key, spec in signature.inputs.items()}
    outputs = {key: _renamed(spec, key) for key, spec in signature.outputs.items()}
    records[signature.function.name] = schema.SavedConcreteFunction(
      bound_inputs=captured.object_ids(signature.program.captures),
      canonicalized_input_signature=encode_structure(((), inputs), what),
      output_signature=encode_structure(outputs, what),
    )
  return records


def _add_saver(
  content: ModelContent, captured: CapturedObjects, keys: Mapping[int, str], meta_graph: schema.MetaGraphDef
) -> dict[str, StoredTensor]:
  """Adds what saves and restores variables and tables, and returns the tensors of the checkpoint."""
  by_name = {name: keys[object_id] for name, object_id in captured.variables.items()}
  objects = captured.objects.checkpoint_objects(keys).SerializeToString(deterministic=True)
  variables = {by_name[name]: (captured.handles[name], v.spec.dtype) for name, v in content.variables.items()}
  tables = {keys[object_id]: table for object_id, table in captured.changing.items()}
  handles = {key: (table.handle, (table.keys.dtype, table.values.dtype)) for key, table in tables.items()}
  meta_graph.saver_def.CopyFrom(captured.graph.add_saver(variables, handles, {OBJECT_GRAPH_KEY: objects}))
  tensors = {by_name[name]: variable.tensor for name, variable in content.variables.items()}
  for key, table in tables.items():
    tensors.update(zip(table_keys(key), (table.keys, table.values), strict=True))
  return {**tensors, OBJECT_GRAPH_KEY: stored_tensor(objects, "the object graph")}


def _add_init_op(graph: GraphBuilder, meta_graph: schema.MetaGraphDef) -> None:
  init_op = graph.add_init_op()
  for name, collection in collections(init_op).items():
    meta_graph.collection_def[name].CopyFrom(collection)
  name, signature = init_signature(init_op)
  meta_graph.signature_def[name].CopyFrom(signature)


def _fill_graph(
  message: schema.GraphDef, graph: GraphBuilder, library: MergedLibrary, functions: Sequence[Function]
) -> None:
  message.node.extend(node_to_proto(node) for node in graph.nodes)
  message.library.function.extend(library.messages.values())
  message.library.function.extend(function_to_proto(function) for function in functions)
  gradients = {name: gradient for program in library.programs for name, gradient in program.gradients.items()}
  for name, gradient in gradients.items():
    message.library.registered_gradients.add(registered_op_type=name, gradient_func=gradient.function)
  message.versions.producer, message.versions.min_consumer = _PRODUCER, _MIN_CONSUMER


def _ops_of_libraries(message: schema.GraphDef, library: MergedLibrary) -> list[schema.OpDef]:
  """Returns the OpDefs of ops that TensorFlow does not have itself, such as those of TensorFlow Text, as it does."""
  known = OpSignatures()
  used = {node.op for nodes in (message.node, *(f.node_def for f in message.library.function)) for node in nodes}
  found = []
  for op in sorted(used - library.messages.keys()):
    signature = None if op in known else next((p.signatures[op] for p in library.programs if op in p.signatures), None)
    if signature is not None:
      found.append(signature_to_proto(signature))
  return found


def _renamed(spec: Any, name: str) -> Any:
  return type(spec)(spec.shape, spec.dtype, name)
