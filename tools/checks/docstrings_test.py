"""Docstrings of public functions keep their descriptions of parameters and their examples."""

import pytest
from docstrings import GOLDEN, Function, by_package, golden, public_functions, without_args, without_example

_FUNCTIONS = public_functions()


@pytest.mark.parametrize("package", golden())
def test_shares_with_args_and_with_an_example_do_not_fall(package):
  found, lowest = by_package(_FUNCTIONS)[package], golden()[package]
  here = [function for function in _FUNCTIONS if function.package == package]
  assert found.args >= lowest.args, (
    f"fewer functions have Args than {GOLDEN.name} asks for; without: {_addresses(without_args(here))}"
  )
  assert found.examples >= lowest.examples, (
    f"fewer functions have an example than {GOLDEN.name} asks for; without: {_addresses(without_example(here))}"
  )


def test_every_package_with_public_functions_has_a_row():
  assert golden().keys() == by_package(_FUNCTIONS).keys()


def test_args_describe_all_parameters_of_the_signature_and_no_others():
  described = {f.address: set(f.documented) ^ set(f.parameters) for f in _FUNCTIONS if f.documented}
  assert {address: names for address, names in described.items() if names} == {}


def test_several_parameters_may_share_a_description():
  doc = "Returns a sum.\n\nArgs:\n  x, y: numbers.\n  *rest: more\n    numbers: any.\n\nReturns:\n  total: it.\n"
  function = Function("convert", "graftax.convert.total", False, ("x", "y", "rest"), doc)
  assert function.documented == ("x", "y", "rest")
  assert without_args([function, function._replace(doc="Returns a sum of x: any.")]) == [
    function._replace(doc="Returns a sum of x: any.")
  ]


def _addresses(functions):
  return ", ".join(function.address for function in functions)
