"""Writes `<package>/rooms.bzl`, the Bazel targets of a package's rooms with what each of them imports.

    python tools/checks/room_targets.py

`make bazel-rooms` calls it. A test compares the files with the imports, so that the deps of a target are those of its
sources. `[tool.importlinter]` in pyproject.toml says which room may import which.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from cleanroom import PACKAGES, ROOT
from pip._vendor.packaging.utils import canonicalize_name

_HEAD = '"""The rooms of this package and what each imports; `make bazel-rooms` writes this file."""\n\nROOMS = {\n'
# Libraries whose module has another name.
_DISTRIBUTIONS = {"tree": "dm-tree", "google": "protobuf"}


def is_shipped(path: Path) -> bool:
  """Returns whether a Python file is neither a test nor the settings of tests."""
  return not path.name.endswith("_test.py") and path.name != "conftest.py" and "testdata" not in path.parts


@cache
def imported_modules(path: Path) -> frozenset[str]:
  """Returns dotted names of all modules imported in the file, those of `from a import b` as `a` and as `a.b`."""
  names: set[str] = set()
  for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
    if isinstance(node, ast.Import):
      names |= {alias.name for alias in node.names}
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
      names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
  return frozenset(names)


def rooms(package: str) -> dict[str, list[Path]]:
  """Returns the sources of each room: a subpackage, or a module beside the subpackages."""
  folder = ROOT / package / "graftax" / package
  found: dict[str, list[Path]] = {}
  for path in filter(is_shipped, sorted(folder.rglob("*.py"))):
    name = path.relative_to(folder).parts[0]
    # A folder without an __init__ holds examples, which import the package.
    if path.parent == folder or (folder / name / "__init__.py").exists():
      found.setdefault(name.removesuffix(".py"), []).append(path)
  del found["__init__"]
  return found


def dependencies(package: str) -> dict[str, list[str]]:
  """Returns the Bazel labels of what each room imports.

  Raises:
    ValueError: a room imports the package around it, which imports the rooms.
  """
  own = rooms(package)
  libraries = _libraries(package)
  return {room: sorted(set(_labels(package, paths, room, own, libraries)), key=_order) for room, paths in own.items()}


def _labels(
  package: str, paths: list[Path], room: str, own: dict[str, list[Path]], libraries: dict[str, str]
) -> Iterator[str]:
  for path in paths:
    for module in imported_modules(path):
      first, *rest = module.split(".")
      if first != "graftax":
        yield from [libraries[first]] if first in libraries else []
      elif rest and rest[0] != package:
        yield from [f"//{rest[0]}"] if rest[0] in PACKAGES else []
      elif len(rest) > 1 and rest[1] in own:
        yield from [f":{rest[1]}"] if rest[1] != room else []
      elif len(rest) > 1 and rest[1] != "__version__":
        raise ValueError(f"{path.relative_to(ROOT)} imports {module} of its own package; import it from its module.")


def _libraries(package: str) -> dict[str, str]:
  """Returns the labels of libraries that the package depends on, by the names of their modules."""
  labels = re.findall(r'^ {8}"(@pypi//[\w.-]+)",$', _deps(package), re.MULTILINE)
  names = {canonicalize_name(label.rpartition("/")[2]): label for label in labels}
  modules = {name.replace("-", "_"): label for name, label in names.items()}
  return modules | {module: names[name] for module, name in _DISTRIBUTIONS.items() if name in names}


def _deps(package: str) -> str:
  """Returns the text of the list `deps` in the BUILD file of a package; it is the last one there."""
  text = (ROOT / package / "BUILD").read_text(encoding="utf-8")
  return text[text.index("\n    deps = [") :].partition("],")[0]


def _order(label: str) -> tuple[int, str]:
  """Returns the place of a label in buildifier's order: those of this package, others, other repositories."""
  return (":@".find(label[0]) % 3 if label[0] in ":@" else 1, label)


def text(package: str) -> str:
  """Returns the content of a package's `rooms.bzl`."""
  lines = []
  for room, labels in sorted(dependencies(package).items()):
    if len(labels) < 2:
      lines.append(f'    "{room}": [{"".join(f"{chr(34)}{label}{chr(34)}" for label in labels)}],\n')
    else:
      lines += [f'    "{room}": [\n', *(f'        "{label}",\n' for label in labels), "    ],\n"]
  return f"{_HEAD}{''.join(lines)}}}\n"


def main() -> None:
  for package in PACKAGES:
    (ROOT / package / "rooms.bzl").write_text(text(package), encoding="utf-8")


if __name__ == "__main__":
  main()
