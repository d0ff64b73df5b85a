"""Cuts a program down to the part between some of its tensors."""

import dataclasses
import difflib
import inspect
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence

from graftax.convert.errors import ConversionError
from graftax.convert.planning.custom_gradient import attach_custom_gradients
from graftax.convert.planning.effects import EffectAnalysis
from graftax.convert.program import Program, validated
from graftax.convert.shown_names import shown
from graftax.convert.structures.nested import InputStructure, OutputStructure, keyword_structure
from graftax.graphdef_ir import (
  Budget,
  DType,
  Function,
  GraftaxError,
  GraphError,
  Limits,
  PartialShape,
  Result,
  TensorRef,
  TensorSpec,
  ancestors,
  cut_function,
  inline_calls,
  reachable_functions,
  tensor_spec,
  traits_of,
)
from graftax.graphdef_ir.errors import UnknownOpError

__all__ = ["TensorNames", "cut", "inlined", "with_inlined_calls"]

# One tensor name, several for positional arguments, or a dict from argument name to tensor name.
TensorNames = str | Sequence[str] | Mapping[str, str]


def inlined(program: Program, limits: Limits | Budget | None = None) -> Function:
  """Returns the program's function with every call replaced by the body of the called function.

  Node `inner` of the function that node `outer` calls is named `outer/inner`.

  Raises:
    GraphError: the calls cannot be inlined.
  """
  library = {name: program.library[name] for name in reachable_functions(program.function, program.library)}
  everything = [program.function, *library.values()]

  def attached(function: Function) -> Function:
    # Before inlining, because gradients identify the tensors that they capture by function name.
    return attach_custom_gradients(function, program.gradients, lambda: everything)

  bodies = {name: attached(function) for name, function in library.items()}
  return inline_calls(attached(program.function), bodies, signatures=program.signatures, limits=limits)


def with_inlined_calls(program: Program, limits: Limits | Budget | None = None) -> Program:
  """Returns the program with its calls inlined; its nodes are validated before.

  They cannot be validated afterwards: an IdentityN node with a custom gradient then has the tensors that the gradient
  captures as inputs, besides those that its attributes declare.

  Raises:
    GraphError: a node is not well-formed, or the calls cannot be inlined.
  """
  return dataclasses.replace(validated(program), function=inlined(program, limits), is_validated=True)


def cut(program: Program, inputs: TensorNames | None, outputs: TensorNames | None = None) -> Program:
  """Returns the part of a program that computes `outputs` from `inputs`.

  Nodes that only compute `inputs` do not run.

  Args:
    program: the whole program.
    inputs: names of the tensors (`"node"`, `"node:1"`) that become inputs: one name, a list for positional arguments,
      or a dict from argument name to tensor name. Nodes of called functions are named `call/node`. Inputs of the
      program that are still needed must be among them. None keeps the inputs of the program.
    outputs: names of the results, in the same form; None keeps the results of the program.

  Raises:
    ConversionError: the program does not have a tensor of that name, or an input is missing.
  """
  feeds = _own_inputs(program) if inputs is None else [_parse(name, program) for name in _flat(inputs)]
  if len(set(feeds)) < len(feeds):
    raise ConversionError(f"{program.name}: an input is given twice in {inputs!r}; expected each tensor once.")
  fetches = None if outputs is None else [_parse(name, program) for name in _flat(outputs)]
  program = _with_tensors(program, [*feeds, *(fetches or ())])
  whole = program.function
  specs = [_spec(ref, whole, program) for ref in feeds]
  _check_types_of_inputs(feeds, specs, whole, program)
  fetched = _fetch(whole, fetches, program)
  fed = dict(zip(feeds, specs, strict=True))
  part = cut_function(fetched, fed, lambda cut_off: _kept(cut_off, fetched, feeds, program))
  _check_fed(part, len(feeds), whole, program)
  captured = {parameter.name for parameter in part.parameters[len(feeds) :]}
  names = whole.parameters[len(whole.parameters) - len(program.captures) :]
  captures = tuple(c for c, p in zip(program.captures, names, strict=True) if p.name in captured)
  return dataclasses.replace(
    program,
    function=part,
    captures=captures,
    inputs=program.inputs if inputs is None else _input_structure(inputs, feeds, specs),
    outputs=program.outputs if outputs is None else _output_structure(outputs, part.results),
  )


def _own_inputs(program: Program) -> list[TensorRef]:
  parameters = program.function.parameters
  return [TensorRef(parameter.name) for parameter in parameters[: len(parameters) - len(program.captures)]]


def _flat(names: TensorNames) -> list[str]:
  """Returns tensor names in the order in which the tensors are passed; dicts are sorted by key."""
  if isinstance(names, str):
    return [names]
  return [names[key] for key in sorted(names)] if isinstance(names, Mapping) else list(names)


def _parse(name: str, program: Program) -> TensorRef:
  try:
    return TensorRef.parse(name)
  except GraftaxError as e:
    raise ConversionError(f"{program.name}: {e}") from e


def _with_tensors(program: Program, refs: Sequence[TensorRef]) -> Program:
  """Returns the program, with its calls inlined if some of the tensors are in called functions."""
  missing = _missing(program.function, refs)
  if missing:
    program = with_inlined_calls(program)
    missing = _missing(program.function, refs)
  if missing:
    function = program.function
    known = [*(parameter.name for parameter in function.parameters), *(node.name for node in function.nodes)]
    raise ConversionError(f"{program.name}: has no tensors {shown(missing)}{_similar(missing, known)}")
  return program


def _missing(function: Function, refs: Iterable[TensorRef]) -> list[str]:
  known = {parameter.name for parameter in function.parameters} | {node.name for node in function.nodes}
  return [str(ref) for ref in refs if ref.node not in known]


def _similar(missing: Sequence[str], known: Sequence[str]) -> str:
  found = [name for text in missing for name in difflib.get_close_matches(text.partition(":")[0], known, n=3)]
  return f"; similar names are {found!r}." if found else f"; it has {len(known)} nodes, such as {known[:5]!r}."


def _spec(ref: TensorRef, function: Function, program: Program) -> TensorSpec:
  parameters = {parameter.name: i for i, parameter in enumerate(function.parameters)}
  if ref.node in parameters:
    position = parameters[ref.node]
    own = program.inputs.specs
    if position < len(own):
      return own[position]
    parameter = function.parameters[position]
    return TensorSpec(parameter.shape, parameter.dtype, parameter.name)
  try:
    return tensor_spec(ref, function.node(ref.node), program.library, program.signatures)
  except UnknownOpError:
    return TensorSpec(PartialShape(None), _type_from_readers(ref, function, program), ref.node)
  except GraphError as e:
    raise ConversionError(f"{program.name}: {e}") from e


def _check_types_of_inputs(
  feeds: Sequence[TensorRef], specs: Sequence[TensorSpec], function: Function, program: Program
) -> None:
  wrong = [ref for ref, spec in zip(feeds, specs, strict=True) if spec.dtype is DType.INVALID]
  if wrong:
    raise ConversionError(
      f"{program.name}: the element type of the input {str(wrong[0])!r} is unknown, because op "
      f"{function.node(wrong[0].node).op!r} is not one of TensorFlow's. Pass its OpDef, as in convert(graph, "
      f"extra_ops=OpList)."
    )


def _type_from_readers(ref: TensorRef, function: Function, program: Program) -> DType:
  """Returns the element type that the readers of a tensor declare; INVALID if none does."""
  for node in function.nodes:
    signature = program.library.signature(node.op) or program.signatures.get(node.op)
    if signature is None or ref not in node.inputs:
      continue
    try:
      return signature.input_types(signature.with_defaults(node.attrs))[node.inputs.index(ref)]
    except (GraphError, IndexError):
      continue
  return DType.INVALID


def _fetch(function: Function, fetches: Sequence[TensorRef] | None, program: Program) -> Function:
  if fetches is None:
    return function
  results = tuple(Result(str(ref), ref, _spec(ref, function, program).dtype) for ref in fetches)
  return dataclasses.replace(function, results=results)


def _kept(cut_off: Function, whole: Function, feeds: Sequence[TensorRef], program: Program) -> set[str]:
  """Returns the names of the nodes that the results and the remaining effects need.

  Args:
    cut_off: the function without the edges from the fed tensors.
    whole: the function with these edges.
    feeds: the fed tensors.
    program: for its library and signatures.
  """
  nodes = {node.name: node for node in cut_off.nodes}
  for_results = ancestors(nodes, [result.ref.node for result in cut_off.results], control=False)
  # The caller computes the fed tensors, and with them the side effects of the nodes that compute these.
  fed_nodes = {ref.node for ref in feeds}
  bypassed = ancestors({node.name: node for node in whole.nodes}, fed_nodes, control=False) - for_results
  rest = dataclasses.replace(cut_off, nodes=tuple(node for node in cut_off.nodes if node.name not in bypassed))
  # In TF1 control flow, control edges determine the branch or loop of a constant.
  with_control = any(traits_of(node.op).control_flow_v1 for node in cut_off.nodes)
  needed = EffectAnalysis(program.library, program.signatures).needed_nodes(rest)
  return ancestors(nodes, needed, control=with_control)


def _check_fed(part: Function, num_inputs: int, whole: Function, program: Program) -> None:
  own = {parameter.name for parameter in whole.parameters[: len(whole.parameters) - len(program.captures)]}
  missing = [parameter.name for parameter in part.parameters[num_inputs:] if parameter.name in own]
  missing += (node.name for node in part.nodes if traits_of(node.op).makes == "placeholder")
  if missing:
    raise ConversionError(
      f"{program.name}: the part between the given inputs and outputs also needs {shown(missing)}; add these to "
      "the inputs."
    )


def _input_structure(names: TensorNames, feeds: Sequence[TensorRef], specs: Sequence[TensorSpec]) -> InputStructure:
  if isinstance(names, Mapping):
    return keyword_structure(dict(zip(sorted(names), specs, strict=True)), {})
  taken: set[str] = set()
  kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
  parameters = [inspect.Parameter(_python_name(ref, taken), kind) for ref in feeds]
  return InputStructure(tuple(specs), {}, inspect.Signature(parameters))


def _python_name(ref: TensorRef, taken: set[str]) -> str:
  """Returns a valid name for a Python parameter, similar to the name of the tensor."""
  name = re.sub(r"\W", "_", str(ref)).lower()
  if not name.isidentifier() or keyword.iskeyword(name):
    name = f"tensor_{name}"
  while name in taken:
    name += "_"
  taken.add(name)
  return name


def _output_structure(names: TensorNames, results: Sequence[Result]) -> OutputStructure:
  specs = [TensorSpec(PartialShape(None), result.dtype, result.name) for result in results]
  if isinstance(names, str):
    return OutputStructure(specs[0])
  return OutputStructure(dict(zip(sorted(names), specs, strict=True)) if isinstance(names, Mapping) else tuple(specs))
