"""Statements that call other functions of the text, and that assign parameters."""

import ast
from collections.abc import Callable, Mapping

from graftax.convert.source_code.grouping import Loop, WrittenFunction
from graftax.convert.source_code.printing import syntax
from graftax.convert.source_code.printing.function_writer import FunctionWriter
from graftax.convert.source_code.printing.marks import marked
from graftax.convert.source_code.printing.syntax import expression
from graftax.convert.source_code.program import ASSIGN, Equation, Value

__all__ = ["CALLS"]


def _rule(writer: FunctionWriter, e: Equation) -> list[ast.stmt]:
  rule = e.settings["rule"]
  writer.callees.append(rule)
  call = ast.Call(ast.Name(marked("function", id(rule))), writer.operands(e.inputs), [])
  return [syntax.assign([writer.targets(e.outputs)], call)]


def _call(writer: FunctionWriter, e: Equation) -> list[ast.stmt]:
  callee = e.settings["function"]
  assert isinstance(callee, WrittenFunction)
  writer.callees.append(callee)
  tensors = writer.operands(e.inputs[: callee.num_tensors])
  call = ast.Call(
    ast.Name(marked("function", id(callee))), [*_sub(writer, callee), *tensors, *_given_dims(writer, callee)], []
  )
  return [syntax.assign([writer.targets(e.outputs)], call)]


def _repeated(writer: FunctionWriter, e: Equation) -> list[ast.stmt]:
  loop = e.settings["loop"]
  assert isinstance(loop, Loop)
  first = loop.functions[0]
  writer.callees.extend(loop.functions)
  operands = writer.operands(e.inputs)
  statements: list[ast.stmt] = []
  targets: dict[int, ast.expr] = {}
  for position, output in loop.carried:
    given, value = operands[position], e.inputs[position]
    if isinstance(given, ast.Name) and isinstance(value, Value) and writer.counts[value] == 1 and value in writer.here:
      # Nothing else reads the value, so the loop may change it.
      name = given.id
      writer.env[e.outputs[output]] = given
    else:
      name = writer.define(e.outputs[output])
      statements.append(syntax.assign([ast.Name(name)], given))
    targets[output] = operands[position] = ast.Name(name)
  rest = [targets.get(i, ast.Name("_")) for i in range(len(e.outputs))]
  printed = writer.resolve(first)
  arguments = [*operands[: first.num_tensors], *_given_dims(writer, first)]
  over: ast.expr
  if printed.has_parameters:
    writer.subs.append(loop)
    over, item = ast.Name(marked("sub", len(writer.subs) - 1)), marked("item", len(writer.subs) - 1)
    arguments = [ast.Name(item), *arguments]
  else:
    over, item = expression(f"range({len(loop.functions)})"), "_"
  call = ast.Call(ast.Name(marked("function", id(first))), arguments, [])
  step = syntax.assign([rest[0] if len(rest) == 1 else ast.Tuple(rest)], call)
  return [*statements, ast.For(ast.Name(item), over, [step], [], lineno=0)]


def _assignment(writer: FunctionWriter, e: Equation) -> list[ast.stmt]:
  """Assigns a parameter, after all that reads its old value."""
  parameter, leaf = e.inputs[0], writer.operand(e.inputs[0])
  assert isinstance(parameter, Value) and isinstance(leaf, ast.Name)
  value = writer.operand(e.inputs[1])
  reading = [
    v for v, tree in writer.pending.items() if leaf.id in (n.id for n in ast.walk(tree) if isinstance(n, ast.Name))
  ]
  if parameter in writer.results:
    reading.append(parameter)
  before: list[ast.stmt] = []
  for v in reading:
    tree = writer.env[v]
    before.append(syntax.assign([ast.Name(writer.define(v))], tree))
  return [*before, syntax.assign([ast.Subscript(leaf, ast.Constant(...))], value)]


def _sub(writer: FunctionWriter, callee: WrittenFunction) -> list[ast.expr]:
  if not writer.resolve(callee).has_parameters:
    return []
  writer.subs.append(callee)
  return [ast.Name(marked("sub", len(writer.subs) - 1))]


def _given_dims(writer: FunctionWriter, callee: WrittenFunction) -> list[ast.expr]:
  return [ast.Name(marked("dim", name)) for name in writer.resolve(callee).dims]


CALLS: Mapping[str, Callable[[FunctionWriter, Equation], list[ast.stmt]]] = {
  "custom_jvp": _rule,
  "custom_vjp": _rule,
  "call": _call,
  "loop": _repeated,
  ASSIGN: _assignment,
}
"""How calls are written, by the names of operations."""
