"""Makes a `Program`, which `graftax.convert` converts, of a SavedModel's signature or restored function."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import jax

from graftax.convert import (
  InputStructure,
  OutputStructure,
  PlacedVariable,
  Program,
  ResourceHandle,
  Variable,
  keyword_structure,
)
from graftax.graphdef_ir import DType, Function, TensorRef, validate_nodes
from graftax.savedmodel_io.checkpoint.read_options import Report
from graftax.savedmodel_io.errors import AmbiguousFunctionError, UnknownSignatureError
from graftax.savedmodel_io.model_parts import ModelParts
from graftax.savedmodel_io.objects.functions import ConcreteFunction, RestoredFunction
from graftax.savedmodel_io.objects.spec_text import listed
from graftax.savedmodel_io.programs.closure import convert_capture, custom_gradients_of, variable_capture
from graftax.savedmodel_io.programs.tables import graph_tables
from graftax.savedmodel_io.programs.trace_choice import choose_trace, narrowed, plain, plain_tree, trace_structure
from graftax.savedmodel_io.pytrees import PyTree
from graftax.savedmodel_io.signatures import Signature
from graftax.savedmodel_io.variables.progress import VariablesProgress

__all__ = ["program_from_entry", "program_from_trace"]

# A reference type has the number of its base type plus this.
_REF_OFFSET = 100


def program_from_entry(
  model: ModelParts, entry: str | Signature | RestoredFunction, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
) -> Program:
  """Returns a signature or restored function as a `Program`.

  Args:
    model: a loaded model.
    entry: a signature's name, or the attribute path of a restored function; or one of `model.signatures` or
      `model.functions`, which tells a signature and a function of the same name apart.
    args: specs of positional arguments, to choose among several traces of a function.
    kwargs: specs by keyword, likewise; for a signature they narrow the shapes of its inputs.

  Raises:
    UnknownSignatureError: the model has neither a signature nor a function of that name, or it is another model's.
    AmbiguousFunctionError: several traces fit the specs, or none does.
    ConversionError: the function captures something that JAX cannot hold.
  """
  if isinstance(entry, Signature | RestoredFunction):
    _check_own(model, entry)
  found = _find(model, entry) if isinstance(entry, str) else entry
  if isinstance(found, Signature):
    return _program_from_signature(model, found, args, kwargs)
  if isinstance(found, RestoredFunction):
    return _program_from_function(model, found, args, kwargs)
  signatures, functions = (listed(str(entry), names) for names in (model.signatures, model.functions))
  raise UnknownSignatureError(
    f"{model.path}: no signature or function {entry!r}; of signatures {signatures}; of functions {functions}"
  )


def program_from_trace(model: ModelParts, function: RestoredFunction, concrete: ConcreteFunction) -> Program:
  """Returns one trace of a function as a program, whichever trace a call would choose.

  Raises:
    UnknownSignatureError: it is a function of another model.
    ConversionError: the trace takes, returns or captures something that JAX cannot hold.
  """
  _check_own(model, function)
  return _program_from_concrete_function(
    model, function.path, concrete, trace_structure(function, concrete), _outputs(concrete)
  )


def _find(model: ModelParts, name: str) -> Signature | RestoredFunction | None:
  if name in model.signatures:
    return model.signatures[name]
  return model.functions[name] if name in model.functions else None


def _check_own(model: ModelParts, entry: Signature | RestoredFunction) -> None:
  """Refuses entries of other models: graph functions are found by name, so one of this model might run instead."""
  own: Signature | RestoredFunction | None
  if isinstance(entry, Signature):
    own = model.signatures.get(entry.name)
  else:
    own = model.functions[entry.path] if entry.path in model.functions else None
  if own is not entry:
    raise UnknownSignatureError(
      f"{model.path}: {entry!r} does not belong to this model; take it from the model that it is used with."
    )


def _program_from_signature(
  model: ModelParts, signature: Signature, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
) -> Program:
  unknown = sorted(set(kwargs) - set(signature.inputs))
  if unknown or args:
    problem = f"has no inputs {unknown}" if unknown else f"takes its inputs by name, got {len(args)} positional specs"
    hint = ". Choices for the conversion come as options=ConvertOptions(...)" if "options" in unknown else ""
    if "training" in unknown:
      several = [path for path, function in model.functions.items() if len(function.concrete_functions) > 1]
      hint += ". A signature is a single trace, for inference or for training as it was saved"
      hint += f". Functions with several traces: {several}" if several else "; no function of the model has another one"
    raise AmbiguousFunctionError(
      f"signature {signature.name!r} {problem}; its inputs are {list(signature.inputs)}{hint}"
    )
  inputs = {key: narrowed(plain(spec, key), kwargs.get(key), key) for key, spec in signature.inputs.items()}
  # A signature input that has a default may be left out.
  defaults = {key: value.numpy() for key, value in signature.defaults.items()}
  structure = keyword_structure(inputs, defaults)
  if signature.function is None:
    outputs = {key: plain(spec, key) for key, spec in signature.outputs.items()}
    return _program_from_graph_signature(model, signature, structure, OutputStructure(outputs))
  return _program_from_concrete_function(
    model, signature.name, signature.function, structure, _outputs(signature.function)
  )


def _program_from_function(
  model: ModelParts, function: RestoredFunction, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
) -> Program:
  concrete, inputs = choose_trace(function, args, kwargs)
  return _program_from_concrete_function(model, function.path, concrete, inputs, _outputs(concrete))


def _outputs(concrete: ConcreteFunction) -> OutputStructure:
  return OutputStructure(plain_tree(concrete.outputs))


def _program_from_concrete_function(
  model: ModelParts, name: str, concrete: ConcreteFunction, inputs: InputStructure, outputs: OutputStructure
) -> Program:
  captures = tuple(convert_capture(model, capture, name) for capture in concrete.captures)
  return Program(
    name=name,
    function=model.graph.library[concrete.name],
    library=model.graph.library,
    signatures=model.graph.signatures,
    captures=captures,
    variables=_variables(model, (c.name for c in captures if isinstance(c, ResourceHandle) and c.kind == "variable")),
    gradients=custom_gradients_of(model, model.graph.library[concrete.name]),
    inputs=inputs,
    outputs=outputs,
    part_code=_part_code(model, name),
    folder=model.folder,
  )


def _program_from_graph_signature(
  model: ModelParts, signature: Signature, inputs: InputStructure, outputs: OutputStructure
) -> Program:
  """Returns a TF1 signature: the part of the graph between its inputs and outputs, with the variables as captures."""
  # The program holds only what its outputs need of the graph.
  validate_nodes(model.graph)
  feeds = [ref for key in inputs.kwargs for ref in signature.input_tensors[key]]
  fetches = [ref for key in outputs.nested for ref in signature.output_tensors[key]]
  whole = model.graph.subgraph(feeds, fetches, name=signature.name)
  used = {node.name for node in whole.nodes}
  infos = model.variables.infos
  names = {info.graph_node: name for name, info in infos.items() if info.graph_node in used}
  tables = graph_tables(model, used)
  captured = [TensorRef(node) for node in (*names, *tables) if node is not None]
  function = model.graph.subgraph([*feeds, *captured], fetches, name=signature.name)
  return Program(
    name=signature.name,
    function=_with_references(function, len(feeds), len(feeds) + len(names)),
    library=model.graph.library,
    signatures=model.graph.signatures,
    captures=(*(variable_capture(model, infos[name]) for name in names.values()), *tables.values()),
    variables=_variables(model, (name for name in names.values() if infos[name].dtype.base is not DType.STRING)),
    inputs=inputs,
    outputs=outputs,
    part_code=_part_code(model, signature.name),
    folder=model.folder,
    is_validated=True,
  )


def _part_code(model: ModelParts, name: str) -> str:
  return f"graftax.convert.convert_subgraph(graftax.savedmodel_io.load({model.path!r}).program({name!r})"


def _with_references(function: Function, start: int, stop: int) -> Function:
  """Returns `function` with the parameters `start` to `stop`, which are variables, typed as TF1 references."""
  references = [
    parameter
    if parameter.dtype is DType.RESOURCE
    else replace(parameter, dtype=DType(parameter.dtype.base + _REF_OFFSET))
    for parameter in function.parameters[start:stop]
  ]
  return replace(function, parameters=(*function.parameters[:start], *references, *function.parameters[stop:]))


def _variables(model: ModelParts, names: Iterable[str]) -> dict[str, Variable | PlacedVariable]:
  unique = tuple(dict.fromkeys(names))
  sizes = {name: model.variables.size_bytes(name) for name in unique}
  variables: dict[str, Variable | PlacedVariable] = {}
  progress = VariablesProgress(model._progress, sum(sizes.values()))
  for name in unique:
    with progress.of_variable(sizes[name]) as report:
      variables[name] = _variable(model, name, report)
  return variables


def _variable(model: ModelParts, name: str, report: Report | None) -> Variable | PlacedVariable:
  info, value = model.variables.infos[name], model.variables.value(name, report)
  tf_name = f"{info.tf_name}:0"
  if isinstance(value, jax.Array):
    return PlacedVariable(value, tf_name, info.trainable)
  return Variable(value, tf_name, info.trainable)
