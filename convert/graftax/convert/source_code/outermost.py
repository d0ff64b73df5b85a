"""The outermost function of a text: its arguments, and results with the structure that the program gives them."""

import ast
from collections.abc import Mapping

import jax
import numpy as np

from graftax.convert.pytrees import PyTree
from graftax.convert.source_code.errors import SourceError
from graftax.convert.source_code.folding import Folded
from graftax.convert.source_code.grouping import WrittenFunction
from graftax.convert.source_code.printing import Printed, marked
from graftax.convert.source_code.program import Value
from graftax.convert.source_code.traced_program import LeafExpression, TracedProgram

__all__ = ["outermost"]


def outermost(
  program: TracedProgram,
  function: WrittenFunction,
  folded: Folded,
  constants: Mapping[Value, np.ndarray],
  is_module: bool,
) -> Printed:
  """Returns the outermost function."""
  prelude: dict[Value, ast.expr] = {}
  hints: dict[str, str] = {}
  given = {name: marked("value", "argument", i) for i, name in enumerate(program.arguments)}
  hints.update({mark: name for name, mark in given.items()})
  for value, argument, keys in program.tensors():
    found: ast.expr = ast.Name(given[argument])
    for key in keys:
      found = ast.Subscript(found, ast.Constant(key))
    prelude[value] = found
  arguments = list(given.values())
  others = [value for value in constants if value.parameter is None]
  if others and not is_module:
    arguments.insert(0, "constants")
  for value in others:
    name = ast.Constant(value.name)
    prelude[value] = (
      ast.Name(marked("constant", value.name)) if is_module else ast.Subscript(ast.Name("constants"), name)
    )
  printed = folded.main(function, prelude, arguments)
  printed.hints.update(hints)
  _result(program, printed)
  return printed


def _result(program: TracedProgram, printed: Printed) -> None:
  """Gives the results their structure."""
  last = printed.tree.body[-1]
  assert isinstance(last, ast.Return)
  count = len(jax.tree.leaves(program.results)) - len(program.unchanged)
  value = last.value or ast.Constant(None)
  flat = list(value.elts) if count > 1 and isinstance(value, ast.Tuple) else [value]
  results, updates = program.nested_results(flat[:count])
  last.value = _expression(results)
  if updates:
    new = ast.Dict([ast.Constant(path) for path in updates], list(updates.values()))
    last.value = ast.Tuple([last.value, new])


def _expression(tree: PyTree) -> ast.expr:
  """Returns the expression of a result."""
  if isinstance(tree, LeafExpression):
    return tree.tree
  if tree is None:
    return ast.Constant(None)
  if isinstance(tree, Mapping):
    return ast.Dict([ast.Constant(key) for key in tree], [_expression(value) for value in tree.values()])
  if isinstance(tree, list):
    return ast.List([_expression(value) for value in tree])
  if isinstance(tree, tuple):
    return ast.Tuple([_expression(value) for value in tree])
  raise SourceError(f"a result is a {type(tree).__name__}; return dicts, lists and tuples of arrays.")
