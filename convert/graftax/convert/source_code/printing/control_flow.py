"""Statements of loops, branches, reductions by a function, linear solvers and checkpoints, with their bodies."""

import ast
from collections.abc import Callable, Mapping, Sequence

import jax

from graftax.convert.source_code.errors import SourceError
from graftax.convert.source_code.printing import syntax
from graftax.convert.source_code.printing.function_writer import FunctionWriter
from graftax.convert.source_code.printing.marks import MAX_INLINE, width
from graftax.convert.source_code.printing.syntax import expression
from graftax.convert.source_code.program import Equation
from graftax.convert.source_code.spelling.texts import text

__all__ = ["CONTROL_FLOW"]


def _scan(writer: FunctionWriter, e: Equation) -> list[ast.stmt]:
  count = int(e.settings["num_carry"])
  body = e.bodies["body"]
  name = writer.local("step")
  carry, xs = body.inputs[:count], body.inputs[count:]
  unpack: list[ast.stmt] = []
  first = writer.argument(carry, "carry", unpack)
  second = writer.argument(xs, "row", unpack)
  definition = writer.nested(name, body, unpack, [first, second])
  results = writer.operands(body.results)
  definition.body.append(ast.Return(ast.Tuple([syntax.packed(results[:count]), syntax.packed(results[count:])])))
  operands = writer.operands(e.inputs)
  keywords: list[ast.keyword] = []
  if not xs:
    keywords.append(ast.keyword("length", writer.size(e.settings["length"])))
  if e.settings["reverse"]:
    keywords.append(ast.keyword("reverse", ast.Constant(True)))
  if e.settings["unroll"] != 1:
    keywords.append(ast.keyword("unroll", expression(text(e.settings["unroll"]))))
  call = ast.Call(
    expression("lax.scan"), [ast.Name(name), syntax.packed(operands[:count]), syntax.packed(operands[count:])], keywords
  )
  targets = ast.Tuple([writer.targets(e.outputs[:count], "carry"), writer.targets(e.outputs[count:], "rows")])
  return [definition, syntax.assign([targets], call)]


def _loop(writer: FunctionWriter, e: Equation) -> list[ast.stmt]:
  statements: list[ast.stmt] = []
  names: dict[str, str] = {}
  for role in ("condition", "body"):
    block = e.bodies[role]
    unpack: list[ast.stmt] = []
    names[role] = writer.local(role)
    argument = writer.argument(block.inputs, "carry", unpack)
    definition = writer.nested(names[role], block, unpack, [argument])
    definition.body = syntax.returned(definition.body, syntax.packed(writer.operands(block.results)))
    statements.append(definition)
  init = syntax.packed(writer.operands(e.inputs))
  call = ast.Call(expression("lax.while_loop"), [ast.Name(names["condition"]), ast.Name(names["body"]), init], [])
  return [*statements, syntax.assign([writer.targets(e.outputs, "carry")], call)]


def _reduction(writer: FunctionWriter, e: Equation) -> list[ast.stmt]:
  """Calls a reduction by a function."""
  body = e.bodies["body"]
  count = len(e.outputs)
  name = writer.local("combined")
  unpack: list[ast.stmt] = []
  first = writer.argument(body.inputs[:count], "total", unpack)
  second = writer.argument(body.inputs[count:], "item", unpack)
  definition = writer.nested(name, body, unpack, [first, second])
  definition.body = syntax.returned(definition.body, syntax.packed(writer.operands(body.results)))
  operands = writer.operands(e.inputs)
  arguments = [syntax.packed(operands[:count]), syntax.packed(operands[count:]), ast.Name(name)]
  if e.op == "reduce":
    arguments.append(expression(text(e.settings["dimensions"])))
    keywords: list[ast.keyword] = []
  else:
    arguments += [expression(text(e.settings[key])) for key in ("window_dimensions", "window_strides", "padding")]
    keywords = [
      ast.keyword(key, expression(text(e.settings[key])))
      for key in ("base_dilation", "window_dilation")
      if any(size != 1 for size in e.settings[key])
    ]
  call = ast.Call(expression(f"lax.{e.op}"), arguments, keywords)
  return [definition, syntax.assign([writer.targets(e.outputs)], call)]


def _cond(writer: FunctionWriter, e: Equation) -> list[ast.stmt]:
  statements: list[ast.stmt] = []
  branches: list[ast.expr] = []
  for role, block in e.bodies.items():
    inner = writer.statements(block)
    result = syntax.packed(writer.operands(block.results))
    if not inner and width(result) <= MAX_INLINE:
      branches.append(ast.Lambda(syntax.arguments([]), result))
      continue
    name = writer.local(role)
    statements.append(syntax.definition(name, [], syntax.returned(inner, result)))
    branches.append(ast.Name(name))
  if "platforms" in e.settings:
    choice = ast.Call(expression("lax.platform_dependent"), [], _platforms(e.settings["platforms"], branches))
    return [*statements, syntax.assign([writer.targets(e.outputs)], choice)]
  index = writer.operand(e.inputs[0])
  predicate = _predicate(index) if len(branches) == 2 else None
  if predicate is not None:
    call = ast.Call(expression("lax.cond"), [predicate, branches[1], branches[0]], [])
  else:
    call = ast.Call(expression("lax.switch"), [index, ast.List(branches)], [])
  return [*statements, syntax.assign([writer.targets(e.outputs)], call)]


def _linear_solve(writer: FunctionWriter, e: Equation) -> list[ast.stmt]:
  statements: list[ast.stmt] = []
  names: dict[str, ast.expr] = {}
  for role, block in e.bodies.items():
    name = writer.local(role)
    unpack: list[ast.stmt] = []
    given = writer.argument(block.inputs, "vector", unpack)
    definition = writer.nested(name, block, unpack, [given] if role == "matvec" else ["_", given])
    definition.body = syntax.returned(definition.body, syntax.packed(writer.operands(block.results)))
    statements.append(definition)
    names[role] = ast.Name(name)
  arguments = [names["matvec"], syntax.packed(writer.operands(e.inputs)), names["solve"]]
  keywords = [ast.keyword("symmetric", ast.Constant(True))] if e.settings["symmetric"] else []
  if "transpose_solve" in names:
    arguments.append(names["transpose_solve"])
  call = ast.Call(expression("lax.custom_linear_solve"), arguments, keywords)
  return [*statements, syntax.assign([writer.targets(e.outputs)], call)]


def _checkpoint(writer: FunctionWriter, e: Equation) -> list[ast.stmt]:
  block = e.bodies["body"]
  name = writer.local("block")
  arguments = [writer.define(value) for value in block.inputs]
  definition = writer.nested(name, block, [], arguments)
  definition.body = syntax.returned(definition.body, syntax.packed(writer.operands(block.results)))
  keywords: list[ast.keyword] = []
  if e.settings.get("policy") is not None:
    keywords.append(ast.keyword("policy", expression(_policy(e))))
  if not e.settings.get("prevent_cse", True):
    keywords.append(ast.keyword("prevent_cse", ast.Constant(False)))
  call = ast.Call(ast.Call(expression("jax.checkpoint"), [ast.Name(name)], keywords), writer.operands(e.inputs), [])
  return [definition, syntax.assign([writer.targets(e.outputs)], call)]


def _predicate(index: ast.expr) -> ast.expr | None:
  """Returns the truth value that an index of two branches was made of."""
  match index:
    case ast.Call(ast.Attribute(value, "astype"), [ast.Attribute(ast.Name("jnp"), "int32")]):
      return value
  return None


def _platforms(platforms: Sequence[Sequence[str] | None], branches: Sequence[ast.expr]) -> list[ast.keyword]:
  """Returns branches by the platforms that they are for; None is any other platform."""
  found: list[ast.keyword] = []
  for names, branch in zip(platforms, branches, strict=True):
    for name in ["default"] if names is None else names:
      found.append(ast.keyword(str(name), branch))
  return found


def _policy(e: Equation) -> str:
  for name in dir(jax.checkpoint_policies):
    if getattr(jax.checkpoint_policies, name) is e.settings["policy"]:
      return f"jax.checkpoint_policies.{name}"
  raise SourceError(
    f"checkpoint in scope {'/'.join(e.scope)!r} has the policy {e.settings['policy']!r}, a function of Python; "
    "policies that jax.checkpoint_policies names can be written."
  )


CONTROL_FLOW: Mapping[str, Callable[[FunctionWriter, Equation], list[ast.stmt]]] = {
  "scan": _scan,
  "while": _loop,
  "cond": _cond,
  "checkpoint": _checkpoint,
  "custom_linear_solve": _linear_solve,
  "reduce": _reduction,
  "reduce_window": _reduction,
}
"""How operations with bodies are written, by their names."""
