import ast

import pytest

from graftax.convert.source_code.printing import syntax
from graftax.convert.source_code.printing.marks import marked, width


@pytest.mark.parametrize(("num_values", "text"), [(0, "None"), (1, "v0"), (2, "(v0, v1)")])
def test_results_are_a_value_a_tuple_or_none(num_values, text):
  assert ast.unparse(syntax.packed([ast.Name(f"v{i}") for i in range(num_values)])) == text


def test_a_single_name_is_a_tuple_only_where_one_is_taken_apart():
  assert ast.unparse(syntax.assign([syntax.target(["a"])], ast.Name("x"))) == "a = x"
  assert ast.unparse(syntax.assign([syntax.target(["a"], always=True)], ast.Name("x"))) == "a, = x"
  assert ast.unparse(syntax.assign([syntax.target(["a", "_"])], ast.Name("x"))) == "a, _ = x"


def _function(body):
  return ast.unparse(ast.fix_missing_locations(syntax.definition("f", ["x"], body)))


def test_what_the_last_statement_assigns_is_returned_at_once():
  statements = [syntax.assign([ast.Name("y")], syntax.expression("x + 1"))]
  assert _function(syntax.returned(statements, ast.Name("y"))) == "def f(x):\n    return x + 1"
  assert _function(syntax.returned(statements, ast.Name("x"))) == "def f(x):\n    y = x + 1\n    return x"
  several = syntax.packed([ast.Name("y"), ast.Name("x")])
  assert _function(syntax.returned(statements, several)) == "def f(x):\n    y = x + 1\n    return (y, x)"


@pytest.mark.parametrize(("text", "is_name"), [("x", True), ("p['w'][0]", True), ("x.T", False), ("f(x)", False)])
def test_parameters_are_names(text, is_name):
  assert syntax.is_name(syntax.expression(text)) == is_name


def test_keys_lead_to_a_parameter():
  assert ast.unparse(syntax.indexed("p", ["layer", "w"])) == "p['layer']['w']"


def test_values_without_a_name_are_as_wide_as_each_other():
  def tree(number):
    return ast.BinOp(ast.Name(marked("value", 0, number)), ast.Add(), ast.Name("x"))

  assert width(tree(3)) == width(tree(12_345)) == 24 + len(" + x")
