"""The docstring of a package, and of each of its rooms (subpackages), is its table of contents."""

import ast
import re
from pathlib import Path

import pytest
from cleanroom import ROOT


def _docstring(path: Path) -> str:
  return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def _entries(room: Path) -> dict[str, str]:
  """Returns the list in the docstring of a room: name -> text."""
  found = re.findall(r"^- `(\w+)`: (.+(?:\n  .+)*)", _docstring(room / "__init__.py"), re.MULTILINE)
  return {name: " ".join(text.split()) for name, text in found}


def _modules(room: Path) -> list[Path]:
  return [path for path in room.glob("*.py") if not path.stem.endswith(("_test", "__init__", "conftest"))]


def _rooms() -> list[Path]:
  """Returns the packages and their rooms."""
  return sorted(path.parent for path in ROOT.glob("*/graftax/*/**/__init__.py"))


_PACKAGES = [room for room in _rooms() if room.parent.name == "graftax"]
_LISTED = [room for room in _rooms() if _entries(room)]
# Each entry is the first sentence of the module's docstring; these two lists are shorter than that.
_LISTED_BY_SENTENCE = [
  room
  for room in _LISTED
  if room.is_relative_to(ROOT / "ops_jax") and room.name not in ("_core", "tf2xla") or room.name == "planning"
]


def _names(room: Path) -> set[str]:
  """Returns what the docstring of a room lists, also several names in one line."""
  return set(re.findall(r"(?:^- |; |;\n  |, )`(\w+)`(?=[:,])", _docstring(room / "__init__.py"), re.MULTILINE))


@pytest.mark.parametrize("room", _LISTED, ids=lambda room: str(room.relative_to(ROOT)))
def test_a_list_of_contents_names_every_module_and_nothing_else(room):
  names = _names(room)
  modules = {path.stem for path in _modules(room) if not path.stem.startswith("_")}
  packages = {path.parent.name for path in room.glob("*/__init__.py")}
  assert modules - names == set()
  assert set(_entries(room)) <= modules | packages


@pytest.mark.parametrize("package", _PACKAGES, ids=lambda package: package.name)
def test_a_package_lists_its_rooms(package):
  assert {path.parent.name for path in package.glob("*/__init__.py")} - _names(package) == set()


@pytest.mark.parametrize("room", _LISTED_BY_SENTENCE, ids=lambda room: str(room.relative_to(ROOT)))
def test_the_contents_list_every_module_with_its_first_sentence(room):
  listed = {name: text for name, text in _entries(room).items() if (room / f"{name}.py").exists()}
  sentences = {path.stem: " ".join(_docstring(path).partition("\n\n")[0].split()) for path in _modules(room)}
  assert listed == sentences


def test_every_room_with_several_modules_lists_them():
  # The modules of these are cases of one kind, found by name, or tools that are called one by one.
  alike = {"cases", "recipes", "grammar", "templates", "programs", "functions", "models", "benchmarks", "codegen"}
  missing = [room for room in _rooms() if len(_modules(room)) > 5 and not _entries(room) and room.name not in alike]
  assert [str(room.relative_to(ROOT)) for room in missing if not room.is_relative_to(ROOT / "testing")] == []


def test_every_room_of_lowerings_lists_its_modules():
  rooms = [
    room for room in _rooms() if room.is_relative_to(ROOT / "ops_jax/graftax/ops_jax") and len(_modules(room)) > 1
  ]
  assert [room.name for room in rooms if not _entries(room)] == []
