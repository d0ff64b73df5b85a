"""Tests of the layering contract on small import graphs."""

import grimp
import pytest
from import_arrows import ArrowsContract, parse_arrows
from importlinter import ContractCheck

_OPTIONS = {
  "arrows": ["low ->", "high -> low"],
  "test_arrows": ["helpers"],
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
    ("graftax.high.a", "graftax.low.b"),
    ("graftax.high.a", "graftax.high._b"),
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
    ("graftax.high.a", "graftax.low._b", "private to its package"),
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
