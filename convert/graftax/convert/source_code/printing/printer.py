"""Prints the functions of a program, with the rules of their derivatives."""

import ast
from collections.abc import Callable

from graftax.convert.source_code.grouping import WrittenFunction
from graftax.convert.source_code.printing import syntax
from graftax.convert.source_code.printing.calls import CALLS
from graftax.convert.source_code.printing.control_flow import CONTROL_FLOW
from graftax.convert.source_code.printing.function_writer import FunctionWriter, Printed, WritingRules
from graftax.convert.source_code.printing.marks import marked
from graftax.convert.source_code.printing.syntax import expression
from graftax.convert.source_code.program import Block, Rule, Value
from graftax.convert.source_code.spelling.choosing import Speller
from graftax.convert.source_code.spelling.texts import text

__all__ = ["Printer"]


class Printer:
  """Prints the functions of one program."""

  def __init__(self, speller: Speller, resolve: Callable[[object], Printed]) -> None:
    """Args: `resolve` returns the function that is written for a `WrittenFunction` or a `Rule`."""
    self._rules = WritingRules(speller, {**CONTROL_FLOW, **CALLS}, resolve)

  def function(
    self, function: WrittenFunction, prelude: dict[Value, ast.expr] | None = None, arguments: list[str] | None = None
  ) -> Printed:
    """Returns a function without a name.

    Args:
      function: the function.
      prelude: expressions of tensors, for the outermost function.
      arguments: its arguments besides parameters, if `prelude` is given.
    """
    writer = FunctionWriter(self._rules, function.block)
    if prelude is None or arguments is None:
      arguments = [writer.define(value) for value in function.block.inputs[: function.num_tensors]]
    else:
      writer.env.update(prelude)
    for i, value in enumerate(function.parameters):
      writer.env[value] = ast.Name(marked("leaf", i))
      writer.leaves.append(value)
    body = writer.body(function.block)
    return writer.printed(arguments, body, function.block.inputs, function.names)

  def rule(self, rule: Rule) -> Printed:
    """Returns a function with the rule of its derivative."""
    printed = self._plain(rule.primal, rule)
    printed.tree.decorator_list = [expression(f"jax.custom_{rule.kind}")]
    if rule.error:
      error = ast.Raise(ast.Call(ast.Name("NotImplementedError"), [ast.Constant(rule.error)], []))
      printed.extras = [_defjvp(syntax.definition("", ["primals", "tangents"], [error]))]
    elif rule.kind == "jvp":
      self._add_jvp(printed, rule)
    else:
      self._add_vjp(printed, rule)
    return printed

  def _add_jvp(self, printed: Printed, rule: Rule) -> None:
    """Adds the definition of a derivative in forward mode."""
    block = rule.blocks["jvp"]
    num_inputs, num_results = len(rule.primal.inputs), len(rule.primal.results)
    inner = FunctionWriter(self._rules, block)
    primals = [inner.define(value) for value in block.inputs[:num_inputs]]
    given = iter([inner.define(value) for value in block.inputs[num_inputs:]])
    tangents = [next(given) if moving else "_" for moving in rule.differentiable]
    unpack = [
      syntax.assign([syntax.target(primals, always=True)], ast.Name("primals")),
      syntax.assign([syntax.target(tangents, always=True)], ast.Name("tangents")),
    ]
    statements = inner.statements(block)
    results = inner.operands(block.results[:num_results])
    moved = iter(inner.operands(block.results[num_results:]))
    zeros = [
      next(moved) if moving else expression(f"np.zeros({text(value.shape)}, jax.dtypes.float0)")
      for moving, value in zip(rule.results_differentiable, rule.primal.results, strict=True)
    ]
    statements.append(ast.Return(ast.Tuple([syntax.packed(results), syntax.packed(zeros)])))
    whole = inner.printed(["primals", "tangents"], [*unpack, *statements], block.inputs, (rule.name,), len(unpack))
    printed.extras = [_defjvp(whole.tree)]
    inner.finish(printed)

  def _add_vjp(self, printed: Printed, rule: Rule) -> None:
    """Adds the definitions of a derivative in reverse mode."""
    forward = self._plain(rule.blocks["fwd"], rule, num_results=len(rule.primal.results))
    forward.tree.name = marked("self", "fwd")
    backward = self._backward(rule)
    backward.tree.name = marked("self", "bwd")
    defined = ast.Expr(expression("x.defvjp(f, b)"))
    syntax.rename(defined, {"x": marked("self"), "f": forward.tree.name, "b": backward.tree.name})
    printed.extras = [forward.tree, backward.tree, defined]
    for other in (forward, backward):
      printed.callees += other.callees
      printed.hints.update(other.hints)

  def _plain(self, block: Block, rule: Rule, num_results: int | None = None) -> Printed:
    writer = FunctionWriter(self._rules, block)
    arguments = [writer.define(value) for value in block.inputs]
    statements = writer.statements(block)
    results = writer.operands(block.results)
    if num_results is None:
      statements = syntax.returned(statements, syntax.packed(results))
    else:
      statements.append(ast.Return(ast.Tuple([syntax.packed(results[:num_results]), ast.Tuple(results[num_results:])])))
    return writer.printed(arguments, statements, block.inputs, (rule.name,))

  def _backward(self, rule: Rule) -> Printed:
    block = rule.blocks["bwd"]
    writer = FunctionWriter(self._rules, block)
    residuals = [writer.define(value) for value in block.inputs[: rule.num_residuals]]
    given = iter([writer.define(value) for value in block.inputs[rule.num_residuals :]])
    cotangents = [next(given) if moving else "_" for moving in rule.results_differentiable]
    arguments = ["residuals", "cotangents"]
    unpack: list[ast.stmt] = []
    if residuals:
      unpack.append(syntax.assign([syntax.target(residuals, always=True)], ast.Name("residuals")))
    if len(cotangents) == 1:
      arguments[1] = cotangents[0]
    else:
      unpack.append(syntax.assign([syntax.target(cotangents)], ast.Name("cotangents")))
    statements = [*unpack, *writer.statements(block)]
    found = iter(writer.operands(block.results))
    results = [next(found) if moving else ast.Constant(None) for moving in rule.differentiable]
    statements.append(ast.Return(ast.Tuple(results)))
    return writer.printed(arguments, statements, block.inputs, (rule.name,), len(unpack))


def _defjvp(definition: ast.FunctionDef) -> ast.FunctionDef:
  """Makes a function the rule of the function before it, in place."""
  definition.name = marked("self", "jvp")
  definition.decorator_list = [expression("x.defjvp")]
  syntax.rename(definition.decorator_list[0], {"x": marked("self")})
  return definition
