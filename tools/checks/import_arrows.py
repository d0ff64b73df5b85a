"""Import-linter contracts for packages that form a graph, and for the rooms inside a package, which form a stack.

import-linter's own `layers` contract does not fit: here each package names exactly the siblings it may import, and a
`*_test.py` module may import more than the module it tests.
"""

import ast
import importlib.util
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import grimp
from importlinter import Contract, ContractCheck, fields, output

_NAMESPACE = "graftax."


def _package(module: str) -> str:
  """Returns the package of a module: `ops_jax` for `graftax.ops_jax.nn.conv`."""
  return module.removeprefix(_NAMESPACE).partition(".")[0]


def _room(module: str) -> str:
  """Returns the room of a module: `nn` for `graftax.ops_jax.nn.conv`, and "" for the package itself."""
  return module.removeprefix(_NAMESPACE).partition(".")[2].partition(".")[0]


def _is_test(module: str) -> bool:
  return module.endswith(("_test", ".conftest"))


def parse_arrows(lines: list[str]) -> dict[str, frozenset[str]]:
  """Returns `{"convert": {"graphdef_ir", ...}}` for lines like `convert -> graphdef_ir ops_jax`."""
  arrows = {}
  for line in lines:
    importer, _, imported = line.partition("->")
    arrows[importer.strip()] = frozenset(imported.split())
  return arrows


@cache
def _listed(package: str) -> frozenset[str]:
  """Returns `__all__` of a package without importing it."""
  spec = importlib.util.find_spec(package)
  if spec is None or spec.origin is None:
    return frozenset()
  for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body:
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
      return frozenset(ast.literal_eval(node.value))
  return frozenset()


def parse_rooms(line: str) -> tuple[str, dict[str, int]]:
  """Returns `("ops_jax", {"binding": 0, "nn": 1, "image": 1, ...})` for `ops_jax: binding > nn image > ...`.

  Raises:
    ValueError: a room is listed twice.
  """
  package, _, stack = line.partition(":")
  levels: dict[str, int] = {}
  for level, names in enumerate(stack.split(">")):
    for name in names.split():
      if name in levels:
        raise ValueError(f"rooms of {package}: {name!r} is listed twice.")
      levels[name] = level
  return package.strip(), levels


def _line_numbers(graph: grimp.ImportGraph, importer: str, imported: str) -> str:
  details = graph.get_import_details(importer=importer, imported=imported)
  return ", ".join(str(line) for line in sorted({d["line_number"] for d in details}))


def _strings() -> list[str]:
  """Returns a setting that lists strings."""
  # import-linter replaces this attribute of a contract by the setting's value.
  return fields.ListField(subfield=fields.StringField())  # type: ignore[return-value]


class _ProblemsContract(Contract):
  """A contract that is kept if a list of problems is empty."""

  def _problems(self, graph: grimp.ImportGraph) -> list[str]:
    raise NotImplementedError

  def check(self, graph: grimp.ImportGraph, verbose: bool) -> ContractCheck:
    problems = self._problems(graph)
    return ContractCheck(kept=not problems, metadata={"problems": problems})

  def render_broken_contract(self, check: ContractCheck) -> None:
    for problem in check.metadata["problems"]:
      output.print_error(problem)


class RoomsContract(_ProblemsContract):
  """Kept if a room of a package imports only rooms below it. A module beside the rooms counts as a room of its own."""

  type_name = "rooms"

  rooms = _strings()

  def _problems(self, graph: grimp.ImportGraph) -> list[str]:
    problems = []
    for package, levels in map(parse_rooms, self.rooms):
      modules = {m for m in graph.modules if _package(m) == package and _room(m) and not _is_test(m)}
      unlisted = sorted({_room(m) for m in modules} - levels.keys())
      problems += [f"{package}: {room!r} is not in the list of rooms in pyproject.toml" for room in unlisted]
      gone = sorted(levels.keys() - {_room(m) for m in modules})
      problems += [f"{package}: there is no room {room!r}; remove it from pyproject.toml" for room in gone]
      problems += [
        f"{importer} (line {_line_numbers(graph, importer, imported)}) imports {imported}: {_room(importer)} is not "
        f"above {_room(imported)} in the list of rooms in pyproject.toml"
        for importer in sorted(modules)
        for imported in sorted(graph.find_modules_directly_imported_by(importer) & modules)
        if _room(importer) != _room(imported)
        and levels.get(_room(importer), -1) >= levels.get(_room(imported), len(levels))
      ]
    return problems


class ArrowsContract(_ProblemsContract):
  """Kept when every import between packages, of JAX and of TensorFlow is one that the settings allow."""

  type_name = "arrows"

  arrows = _strings()
  test_arrows = _strings()
  public_modules = _strings()
  no_jax = _strings()
  tensorflow_doors = _strings()

  def _problems(self, graph: grimp.ImportGraph) -> list[str]:
    problems = []
    for importer in sorted(m for m in graph.modules if m.startswith(_NAMESPACE)):
      for imported in sorted(graph.find_modules_directly_imported_by(importer)):
        problem = self._problem(importer, imported)
        if problem:
          problems.append(f"{importer} (line {_line_numbers(graph, importer, imported)}) imports {imported}: {problem}")
    return problems

  def _problem(self, importer: str, imported: str) -> str | None:
    """Returns why this import is not allowed, or None if it is."""
    if imported.startswith(_NAMESPACE):
      return self._sibling_problem(importer, imported)
    if _is_test(importer):
      return None
    library = imported.partition(".")[0]
    if library in ("jax", "jaxlib") and _package(importer) in self.no_jax:
      return "this package runs without JAX"
    if library == "tensorflow" and not any(fnmatchcase(importer, door) for door in self.tensorflow_doors):
      return f"TensorFlow is imported in {', '.join(self.tensorflow_doors)} alone"
    return None

  def _sibling_problem(self, importer: str, imported: str) -> str | None:
    source, target = _package(importer), _package(imported)
    if source == target:
      return None
    arrows = parse_arrows(self.arrows)
    allowed = arrows[source]
    if _is_test(importer):
      allowed |= frozenset(self.test_arrows)
    if target not in allowed:
      return f"{source} may import {', '.join(sorted(allowed)) or 'no sibling'}"
    if imported not in self.public_modules and not self._is_public_name(imported):
      return f"it is private to graftax.{target}; public_modules in pyproject.toml lists what siblings may import"
    return None

  def _is_public_name(self, imported: str) -> bool:
    """Returns whether `imported` is in `__all__` of a public module; grimp reports it as a submodule."""
    parent, _, name = imported.rpartition(".")
    return parent in self.public_modules and name in _listed(parent)
