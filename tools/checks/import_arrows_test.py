"""Tests of the layering contract on small import graphs."""

import grimp
import pytest
from import_arrows import ArrowsContract, parse_arrows
from importlinter import ContractCheck

_OPTIONS = {
  "arrows": ["low ->", "high -> low xla_call_module"],
  "test_arrows": ["helpers"],
  "public_modules": ["graftax.low", "graftax.helpers", "graftax.xla_call_module"],
  "no_jax": ["low"],
  "tensorflow_doors": ["graftax.high._tensorflow"],
}


def _check(importer: str, imported: str) -> ContractCheck:
  graph = grimp.ImportGraph()
  for module in (importer, imported):
    graph.add_module(module)
  graph.add_import(importer=importer, imported=imported, line_number=3, line_contents="")
  contract = ArrowsContract(name="arrows", session_options={}, contract_options=_OPTIONS)
  return contract.check(graph, verbose=False)


@pytest.mark.parametrize(
  ("importer", "imported"),
  [
    ("graftax.high.a", "graftax.low"),
    ("graftax.high.a", "graftax.high._b"),
    # A function in `__all__` that has the name of the module it is in.
    ("graftax.high.a", "graftax.xla_call_module.lift"),
    ("graftax.low.a_test", "graftax.helpers"),
    ("graftax.low.a_test", "tensorflow"),
    ("graftax.high.a", "jax"),
    ("graftax.high._tensorflow", "tensorflow"),
  ],
)
def test_allowed_imports_keep_the_contract(importer, imported):
  assert _check(importer, imported).kept


@pytest.mark.parametrize(
  ("importer", "imported", "message"),
  [
    ("graftax.low.a", "graftax.high.b", "low may import no sibling"),
    ("graftax.low.a", "graftax.helpers", "low may import no sibling"),
    ("graftax.low.a_test", "graftax.high.b", "low may import helpers"),
    ("graftax.high.a", "graftax.low.b", "private to graftax.low"),
    ("graftax.high.a_test", "graftax.low.b", "private to graftax.low"),
    ("graftax.high.a", "graftax.xla_call_module.ir", "private to graftax.xla_call_module"),
    ("graftax.low.a", "jax", "without JAX"),
    ("graftax.high.a", "tensorflow", "graftax.high._tensorflow alone"),
  ],
)
def test_other_imports_break_it_and_say_why(importer, imported, message):
  check = _check(importer, imported)
  assert not check.kept
  assert check.metadata["problems"][0].startswith(f"{importer} (line 3) imports {imported}: ")
  assert message in check.metadata["problems"][0]


def test_a_package_without_siblings_has_no_arrows():
  assert parse_arrows(["low ->", "high -> low"]) == {"low": frozenset(), "high": frozenset({"low"})}
