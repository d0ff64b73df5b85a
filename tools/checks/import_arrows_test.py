"""Tests of the contracts between packages and between rooms on small import graphs."""

import grimp
import pytest
from import_arrows import ArrowsContract, RoomsContract, parse_arrows, parse_rooms
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


def _check_rooms(*imports: tuple[str, str], rooms: str = "low: top > left right > core") -> list[str]:
  graph = grimp.ImportGraph()
  for module in ("low", "low.top.x", "low.left.x", "low.right.x", "low.core", "low.core_test"):
    graph.add_module(f"graftax.{module}")
  for importer, imported in imports:
    graph.add_import(
      importer=f"graftax.low.{importer}", imported=f"graftax.low.{imported}", line_number=3, line_contents=""
    )
  contract = RoomsContract(name="rooms", session_options={}, contract_options={"rooms": [rooms]})
  return contract.check(graph, verbose=False).metadata["problems"]


def test_rooms_may_import_rooms_below_them():
  assert _check_rooms(("top.x", "left.x"), ("top.x", "core"), ("right.x", "core"), ("core_test", "top.x")) == []


@pytest.mark.parametrize(("importer", "imported"), [("core", "left.x"), ("left.x", "right.x")])
def test_rooms_may_not_import_rooms_above_or_beside_them(importer, imported):
  (problem,) = _check_rooms((importer, imported))
  assert problem.startswith(f"graftax.low.{importer} (line 3) imports graftax.low.{imported}: ")


def test_each_room_is_listed_and_each_listed_room_exists():
  problems = _check_rooms(rooms="low: top > left wing > core")
  assert [problem.partition(";")[0] for problem in problems] == [
    "low: 'right' is not in the list of rooms in pyproject.toml",
    "low: there is no room 'wing'",
  ]


def test_a_room_that_is_listed_twice_is_an_error():
  with pytest.raises(ValueError, match="'left' is listed twice"):
    parse_rooms("low: top > left > left")
