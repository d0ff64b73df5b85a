"""Parts of Python's syntax, as trees."""

import ast
from collections.abc import Sequence

__all__ = [
  "Replaced",
  "arguments",
  "assign",
  "definition",
  "expression",
  "indexed",
  "is_name",
  "packed",
  "rename",
  "returned",
  "target",
]


def expression(source: str) -> ast.expr:
  """Returns the tree of an expression."""
  return ast.parse(source, mode="eval").body


def indexed(name: str, key: Sequence[str]) -> ast.expr:
  """Returns the tree of `name[key[0]][key[1]]` and so on."""
  found: ast.expr = ast.Name(name)
  for part in key:
    found = ast.Subscript(found, ast.Constant(part))
  return found


def arguments(names: list[str]) -> ast.arguments:
  """Returns the arguments of a definition, by position."""
  return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


def definition(name: str, parameters: list[str], body: list[ast.stmt]) -> ast.FunctionDef:
  """Returns the definition of a function."""
  tree = ast.FunctionDef(name, arguments(parameters), body, [])
  # Python 3.12 needs the field, and others ignore it.
  setattr(tree, "type_params", [])  # noqa: B010
  return tree


def assign(targets: list[ast.expr], value: ast.expr) -> ast.stmt:
  """Returns the statement that assigns a value."""
  return ast.Assign(targets, value, lineno=0)


def target(names: list[str], always: bool = False) -> ast.expr:
  """Returns what a value is assigned to: a name, or a tuple of several, and of one with `always`."""
  if len(names) == 1 and not always:
    return ast.Name(names[0])
  return ast.Tuple([ast.Name(name) for name in names])


def packed(values: Sequence[ast.expr]) -> ast.expr:
  """Returns one value as it is, several as a tuple, and none as None."""
  if not values:
    return ast.Constant(None)
  return values[0] if len(values) == 1 else ast.Tuple(list(values))


def returned(statements: list[ast.stmt], value: ast.expr) -> list[ast.stmt]:
  """Returns statements and the return of a value; one that the last statement defines is returned at once."""
  match statements, value:
    case [*before, ast.Assign([ast.Name(assigned)], last)], ast.Name(name) if assigned == name:
      return [*before, ast.Return(last)]
  return [*statements, ast.Return(value)]


def is_name(tree: ast.expr) -> bool:
  """Returns whether an expression is a name, or a parameter."""
  while isinstance(tree, ast.Subscript):
    tree = tree.value
  return isinstance(tree, ast.Name)


def rename(tree: ast.AST, names: dict[str, str]) -> None:
  """Changes names in a tree, in place."""
  for node in ast.walk(tree):
    if isinstance(node, ast.Name) and node.id in names:
      node.id = names[node.id]


class Replaced(ast.NodeTransformer):
  """Puts expressions in the place of names."""

  def __init__(self, expressions: dict[str, ast.expr]) -> None:
    self._expressions = expressions

  def visit_Name(self, node: ast.Name) -> ast.expr:
    return self._expressions.get(node.id, node)
