"""Placeholders for names that are chosen later, in trees of Python's syntax."""

import ast
import re

__all__ = ["MARK", "MAX_INLINE", "dims_marked", "marked", "width"]

MARK = "§"
"""Separates the parts of a placeholder: `marked("value", 3)`, the fourth value, is "§value§3"."""
MAX_INLINE = 60
"""The greatest width of an expression that is written where it is read."""
# Values that a function defines. Their marks hold numbers, which are not what is written.
_VALUES = re.compile(rf"{MARK}value{MARK}\d+{MARK}\d+")


def marked(kind: str, *parts: object) -> str:
  """Returns a placeholder for a name; Python has no such names, so it cannot be mistaken for one."""
  return MARK.join(["", kind, *map(str, parts)])


def width(tree: ast.AST, value_width: int = 24) -> int:
  """Returns about how many characters a tree has; values, whose names are not chosen yet, have `value_width` each."""
  return len(_VALUES.sub("x" * value_width, ast.unparse(tree)))


class _Marked(ast.NodeTransformer):
  def __init__(self, names: set[str]) -> None:
    self._names = names

  def visit_Name(self, node: ast.Name) -> ast.expr:
    return ast.Name(marked("dim", node.id)) if node.id in self._names else node


def dims_marked(tree: ast.expr, names: set[str]) -> ast.expr:
  """Returns a tree with placeholders for names of sizes."""
  found: ast.expr = _Marked(names).visit(tree)
  return found
