"""Documents name files and rooms of the tree that exist, where the text says they are."""

import os
import re
import subprocess
from functools import cache
from pathlib import Path, PurePosixPath

import pytest
from cleanroom import PACKAGES, ROOT

# Changelogs and measurements say what was.
_DOCUMENTS = sorted(
  str(path.relative_to(ROOT))
  for pattern in ("*.md", "docs/*.md", "docs/*/*.md", *(f"{package}/*.md" for package in PACKAGES))
  for path in ROOT.glob(pattern)
  if path.name != "CHANGELOG.md" and not path.name.startswith("measurements-")
)
# `a/b.py, c.py` names two files of one folder.
_FILES = re.compile(r"(?<![\w./<-])((?:[\w-]+/)*)([\w-]+\.py)((?:, [\w-]+\.py)*)(?![\w(])")
_FOLDER = re.compile(r"`((?:[\w.-]+/)+)`")
_ROOM = re.compile(r"`([a-z]\w*(?:/\w+)*)`")
# Names of examples, what commands and libraries write, and the file that must not exist.
_MADE_UP = {
  "foo.py",
  "foo_test.py",
  "model.py",
  "params.py",
  "my_model_source/check.py",
  "params/",
  "graftax/__init__.py",
}
_NOT_OURS = re.compile(r"\.(?!ci$|github$)|bazel-|(dist|build|__pycache__)/?$")


@cache
def _paths() -> frozenset[str]:
  """Returns the files of the tree, with and without the repeated part: `ops_jax/_core/values.py`."""
  paths = []
  for folder, folders, files in os.walk(ROOT):
    folders[:] = [name for name in folders if not _NOT_OURS.match(name)]
    paths += [(Path(folder) / name).relative_to(ROOT).as_posix() for name in files]
  return frozenset(paths).union(re.sub(r"^(\w+)/graftax/\1/", r"\1/", path) for path in paths)


@cache
def _folders() -> frozenset[str]:
  return frozenset(f"{folder}/" for path in _paths() for folder in PurePosixPath(path).parents)


def _sections(text: str) -> list[tuple[list[str], str]]:
  """Returns the sections of a document, each with the rooms that its heading names."""
  parts = re.split(r"^(#+ .*)\n", text, flags=re.MULTILINE)
  return [(_ROOM.findall(heading), body) for heading, body in zip(["", *parts[1::2]], parts[::2], strict=True)]


def _missing_files(text: str) -> list[str]:
  """Returns the Python files that a document names and the tree does not have.

  A name without folders, in a section whose heading names rooms, is a file of these rooms. Other names are the end of
  a path.
  """
  found = []
  for rooms, body in _sections(text):
    for folder, first, others in _FILES.findall(body):
      for name in [first, *re.findall(r"[\w-]+\.py", others)]:
        below = [f"{room}/" for room in rooms if not folder] or [""]
        if f"{folder}{name}" not in _MADE_UP and not any(
          f"/{path}".endswith(f"/{folder}{name}") for path in _paths() for room in below if path.startswith(room)
        ):
          found.append(f"{' '.join(rooms)}: {folder}{name}".removeprefix(": "))
  return found


def _missing_folders(text: str) -> list[str]:
  named = {name for name in _FOLDER.findall(text) if not _NOT_OURS.match(name)} - _MADE_UP
  return sorted(name for name in named if not any(f"/{folder}".endswith(f"/{name}") for folder in _folders()))


def _listed_rooms(text: str) -> dict[str, set[str]]:
  """Returns the rooms of each package in ARCHITECTURE.md's list of packages."""
  (block,) = re.findall(r"## Packages and layers\n.*?```\n(.*?)```", text, re.DOTALL)
  listed: dict[str, set[str]] = {}
  package = ""
  for line in block.splitlines():
    if match := re.match(r"\w+", line):
      package = match[0]
    if "outside the wheel" not in line:
      listed.setdefault(package, set()).update(re.findall(r"(\w+)/", line))
  return listed


def _rooms(package: str) -> set[str]:
  prefix = f"{package}/"
  inits = [path.removeprefix(prefix) for path in _paths() if path.startswith(prefix)]
  return {path.partition("/")[0] for path in inits if re.fullmatch(r"\w+/__init__\.py", path)}


@pytest.mark.parametrize("document", _DOCUMENTS)
def test_files_that_a_document_names_exist(document):
  assert _missing_files((ROOT / document).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("document", _DOCUMENTS)
def test_folders_that_a_document_names_exist(document):
  assert _missing_folders((ROOT / document).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_the_architecture_lists_the_rooms_of_each_package(package):
  listed = _listed_rooms((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
  assert listed[package] == _rooms(package)


@pytest.mark.parametrize(
  ("text", "missing"),
  [
    ("`plan.py` and `planning/plan.py`", []),
    ("the registry (`ops_jax/_core/registry.py, kernel.py`)", ["ops_jax/_core/kernel.py"]),
    ("see `no_such_file.py`", ["no_such_file.py"]),
    ("## The plan: `convert/planning`\n`plan.py`, and `support_check.py`", ["convert/planning: support_check.py"]),
    ("## The plan: `convert/planning`\n`convert/support_check.py`", []),
  ],
)
def test_a_file_that_does_not_exist_is_found(text, missing):
  assert _missing_files(text) == missing


def _files_of(commit: str) -> list[str] | None:
  """Returns the files that a commit changed, or None if this copy of the tree does not have the commit."""
  command = ["git", "show", "--name-only", "--format=", commit]
  try:
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8")
  except FileNotFoundError:
    return None
  return shown.stdout.splitlines() if shown.returncode == 0 else None


def test_commits_that_are_examples_change_files_that_still_exist():
  recipes = re.findall(
    r"^\*\*.*\*\* \(([0-9a-f]{7})\b", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE
  )
  assert len(recipes) >= 5
  found = {commit: _files_of(commit) for commit in recipes}
  if None in found.values():
    pytest.skip("a copy of the tree without its history")
  assert {commit: [file for file in files or () if not (ROOT / file).exists()] for commit, files in found.items()} == {
    commit: [] for commit in recipes
  }
