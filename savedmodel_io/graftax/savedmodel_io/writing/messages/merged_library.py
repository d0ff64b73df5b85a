"""Brings the functions of several programs into one function library, without two functions of one name."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graftax.convert import CapturedTensor, CustomGradient, LookupTable, Program, StringTable, gradient_name
from graftax.graphdef_ir import (
  Function,
  FunctionLibrary,
  FunctionRef,
  GraphError,
  Node,
  OpSignatures,
  function_references,
  function_to_proto,
  reachable_functions,
  schema,
)
from graftax.savedmodel_io.errors import UnsupportedSavedModelError
from graftax.savedmodel_io.writing.messages.table_functions import table_key

__all__ = ["MergedLibrary", "gradient_functions_of", "merge_libraries"]

_GRADIENT = "_gradient_op_type"


@dataclass(frozen=True, slots=True)
class MergedLibrary:
  """The functions of some programs.

  Attributes:
    functions: name -> function, in the order of the programs; a function comes before those that it calls.
    messages: the same functions as they are stored.
    programs: the programs with the names that their functions have here, in the order in which they were given.
  """

  functions: Mapping[str, Function]
  messages: Mapping[str, schema.FunctionDef]
  programs: tuple[Program, ...]


def merge_libraries(programs: Sequence[Program]) -> MergedLibrary:
  """Returns all functions that some programs need: what they call, and their custom gradients.

  Equal functions of one name are stored once. If they differ, the later one gets another name, and so do those that
  refer to it.

  Raises:
    UnsupportedSavedModelError: a function cannot be stored.
  """
  merged = _Merged({}, {}, {}, {})
  renamed = tuple(_add(program, merged) for program in programs)
  library = FunctionLibrary(merged.functions)
  messages = {name: _message(name, merged, library) for name in merged.functions}
  return MergedLibrary(merged.functions, messages, renamed)


def gradient_functions_of(program: Program) -> dict[str, Function]:
  """Returns the gradient functions of a program, by their names in its library."""
  return {gradient.function: program.library[gradient.function] for gradient in program.gradients.values()}


@dataclass(frozen=True, slots=True)
class _Merged:
  """What was merged so far.

  Attributes:
    functions: all functions by name.
    gradients: all gradients by registered name.
    origins: function name -> the program that it came with.
    roots: function name -> the program whose function it is, with the new names.
  """

  functions: dict[str, Function]
  gradients: dict[str, CustomGradient]
  origins: dict[str, Program]
  roots: dict[str, Program]


def _add(program: Program, merged: _Merged) -> Program:
  own = {function.name: function for function in _closure(program)}
  functions, gradients = _new_names(program, own, merged)
  for name, function in own.items():
    if functions[name] not in merged.functions:
      new = _renamed_function(function, functions, gradients)
      merged.functions[new.name] = new
      merged.origins[new.name] = program
  new_gradients = {
    gradients[name]: _renamed_gradient(gradient, functions) for name, gradient in program.gradients.items()
  }
  merged.gradients.update(new_gradients)
  function = merged.functions[functions[program.function.name]]
  renamed = dataclasses.replace(program, function=function, gradients=new_gradients)
  merged.roots.setdefault(function.name, renamed)
  return renamed


def _closure(program: Program) -> Iterator[Function]:
  """Yields the functions that a program needs, each once."""
  seen: set[str] = set()
  for root in (program.function, *gradient_functions_of(program).values()):
    for function in (root, *(program.library[name] for name in reachable_functions(root, program.library))):
      if function.name not in seen:
        seen.add(function.name)
        yield function


def _new_names(program: Program, own: Mapping[str, Function], merged: _Merged) -> tuple[dict[str, str], dict[str, str]]:
  """Returns the new names of functions and of registered gradients: mostly the old ones."""
  functions = {name for name, body in own.items() if name in merged.functions and merged.functions[name] != body}
  root = program.function.name
  if root in merged.roots and not _same_root(merged.roots[root], program):
    functions.add(root)
  gradients: set[str] = set()
  changed = True
  while changed:  # what refers to something that is renamed differs from what is stored under its own name
    others = {
      name
      for name, gradient in program.gradients.items()
      if name in merged.gradients and (name in gradients or _differs(gradient, merged.gradients[name], functions))
    }
    callers = functions | {program.gradients[name].function for name in others}
    callers |= {name for name, body in own.items() if name in merged.functions and _mentions(body, callers, others)}
    changed = (callers, others) != (functions, gradients)
    functions, gradients = callers, others
  taken_functions, taken_gradients = {*merged.functions, *own}, {*merged.gradients, *program.gradients}
  return (
    {name: _free(name, taken_functions) if name in functions else name for name in own},
    {name: _free(name, taken_gradients) if name in gradients else name for name in program.gradients},
  )


def _same_root(a: Program, b: Program) -> bool:
  """Returns whether two programs with equal functions are also called alike and bound to the same captures."""
  return (
    (a.inputs.args, dict(a.inputs.kwargs), a.outputs.nested) == (b.inputs.args, dict(b.inputs.kwargs), b.outputs.nested)
    and len(a.captures) == len(b.captures)
    and all(map(_same_capture, a.captures, b.captures))
  )


def _differs(a: CustomGradient, b: CustomGradient, renamed: set[str]) -> bool:
  return not _same_gradient(a, b) or not renamed.isdisjoint(_functions(a))


def _free(name: str, taken: set[str]) -> str:
  number, free = 1, f"{name}_1"
  while free in taken:
    number += 1
    free = f"{name}_{number}"
  taken.add(free)
  return free


def _mentions(function: Function, functions: set[str], gradients: set[str]) -> bool:
  return any(
    node.op in functions
    or gradient_name(node) in gradients
    or any(reference.name in functions for reference in function_references(node.attrs))
    for node in function.nodes
  )


def _functions(gradient: CustomGradient) -> Iterator[str]:
  yield gradient.function
  yield from (capture.function for capture in gradient.captures if isinstance(capture, CapturedTensor))


def _same_gradient(a: CustomGradient, b: CustomGradient) -> bool:
  if a is b:
    return True
  same_call = (a.function, a.takes, a.results, len(a.captures)) == (b.function, b.takes, b.results, len(b.captures))
  return same_call and all(_same_capture(x, y) for x, y in zip(a.captures, b.captures, strict=True))


def _same_capture(a: Any, b: Any) -> bool:
  if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
    return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
  tables = (LookupTable, StringTable)
  if isinstance(a, tables) and isinstance(b, tables):
    return table_key(a) == table_key(b)
  return bool(a == b)


def _renamed_function(function: Function, functions: Mapping[str, str], gradients: Mapping[str, str]) -> Function:
  changes = {old for names in (functions, gradients) for old, new in names.items() if old != new}
  if function.name not in changes and not _mentions(function, changes, changes):
    return function
  nodes = tuple(_renamed_node(node, functions, gradients) for node in function.nodes)
  return dataclasses.replace(function, name=functions[function.name], nodes=nodes)


def _renamed_node(node: Node, functions: Mapping[str, str], gradients: Mapping[str, str]) -> Node:
  attrs = {name: _renamed_value(value, functions) for name, value in node.attrs.items()}
  gradient = gradient_name(node)
  if gradient is not None and gradient in gradients:
    attrs[_GRADIENT] = gradients[gradient].encode()
  return dataclasses.replace(node, op=functions.get(node.op, node.op), attrs=attrs)


def _renamed_value(value: object, functions: Mapping[str, str]) -> Any:
  if isinstance(value, FunctionRef):
    attrs = {name: _renamed_value(inner, functions) for name, inner in value.attrs.items()}
    return FunctionRef(functions.get(value.name, value.name), attrs)
  if isinstance(value, tuple) and not hasattr(value, "_fields"):
    return tuple(_renamed_value(element, functions) for element in value)
  return value


def _renamed_gradient(gradient: CustomGradient, functions: Mapping[str, str]) -> CustomGradient:
  captures = tuple(
    dataclasses.replace(capture, function=functions.get(capture.function, capture.function))
    if isinstance(capture, CapturedTensor)
    else capture
    for capture in gradient.captures
  )
  return dataclasses.replace(gradient, function=functions[gradient.function], captures=captures)


def _message(name: str, merged: _Merged, library: FunctionLibrary) -> schema.FunctionDef:
  function, program = merged.functions[name], merged.origins[name]
  stored = program.library.stored_message(name)
  # A function that was renamed, or is not the library's, is not the one that was stored under its name.
  if stored is not None and name in program.library and program.library[name] is function:
    return stored
  return _serialized(function, library, program.signatures)


def _serialized(function: Function, library: FunctionLibrary, signatures: OpSignatures) -> schema.FunctionDef:
  try:
    return function_to_proto(function, library, signatures=signatures)
  except GraphError as e:
    raise UnsupportedSavedModelError(f"{e} So the function cannot be saved.") from e
