"""Writes long calls that are there often as calls of a function of the text."""

import ast
from collections.abc import Sequence

__all__ = ["with_shorthand"]

# With fewer calls, the text is not shorter.
_MIN_CALLS = 3
_LAYOUTS = ast.unparse(ast.parse('("NHWC", "HWIO", "NHWC")'))


def with_shorthand(definitions: Sequence[ast.stmt]) -> list[ast.stmt]:
  """Returns definitions that call `idioms.helpers.conv2d` for convolutions of images, if there are several."""
  calls = {id(node): node for tree in definitions for node in ast.walk(tree) if _is_convolution(node)}
  if len(calls) < _MIN_CALLS:
    return list(definitions)
  return [_Short().visit(tree) for tree in definitions]


def _is_convolution(node: ast.AST) -> bool:
  match node:
    case ast.Call(ast.Attribute(ast.Name("lax"), "conv_general_dilated"), [_, _, _, _], [ast.keyword(name, layouts)]):
      return name == "dimension_numbers" and ast.unparse(layouts) == _LAYOUTS
  return False


class _Short(ast.NodeTransformer):
  def visit_Call(self, node: ast.Call) -> ast.expr:
    self.generic_visit(node)
    if not _is_convolution(node):
      return node
    x, kernel, strides, padding = node.args
    keywords = [ast.keyword("strides", strides)] if ast.unparse(strides) != "(1, 1)" else []
    keywords += [ast.keyword("padding", padding)] if ast.unparse(padding) != "'SAME'" else []
    return ast.Call(ast.Name("conv2d"), [x, kernel], keywords)
