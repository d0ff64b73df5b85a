"""Writes convolutions of images in short: calls of a function of the text, without arguments that are defaults."""

import ast
from collections.abc import Sequence

__all__ = ["with_shorthand"]

# With fewer calls, the text is not shorter, unless the function is there for others that call it.
_MIN_CALLS = 3
_CALLERS = ("conv2d_1x1", "conv2d_of_patches", "conv2d_as_product", "grouped_conv")
_LAYOUTS = ast.unparse(ast.parse('("NHWC", "HWIO", "NHWC")'))


def with_shorthand(definitions: Sequence[ast.stmt]) -> list[ast.stmt]:
  """Returns definitions that call `idioms.helpers.conv2d` for convolutions of images, if there are several."""
  nodes = [node for tree in definitions for node in ast.walk(tree)]
  calls = {id(node): node for node in nodes if _is_convolution(node)}
  has_callers = any(isinstance(node, ast.Name) and node.id in _CALLERS for node in nodes)
  if len(calls) < _MIN_CALLS and not has_callers:
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
    match node:
      case ast.Call(ast.Name("conv2d_1x1"), [x, kernel, strides], []) if ast.unparse(strides) == "(1, 1)":
        return ast.Call(node.func, [x, kernel], [])
    if not _is_convolution(node):
      return node
    x, kernel, strides, padding = node.args
    keywords = [ast.keyword("strides", strides)] if ast.unparse(strides) != "(1, 1)" else []
    keywords += [ast.keyword("padding", padding)] if ast.unparse(padding) != "'SAME'" else []
    return ast.Call(ast.Name("conv2d"), [x, kernel], keywords)
