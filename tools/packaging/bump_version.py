"""Sets the version of all packages and gives the unreleased changes of each CHANGELOG.md that version.

    python tools/packaging/bump_version.py 0.2.0    # as `make bump VERSION=0.2.0`
    python tools/packaging/bump_version.py --check v0.2.0    # before publishing the tag v0.2.0

The packages are released together. Each requires its siblings from the same minor version and not older than itself,
so `graftax-convert` 0.2.3 requires `graftax-ops-jax>=0.2.3,<0.3`. The wheel `graftax` pins exactly its own version.
"""

import argparse
import datetime
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from cleanroom import PACKAGES, ROOT

_UNRELEASED = "## Unreleased\n"
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_OWN_VERSION = re.compile(r'(?<=^version = ")[^"]+', re.MULTILINE)
# MODULE.bazel indents it, and has versions of other modules in other places.
_MODULE_VERSION = re.compile(r'(?<=^    version = ")[^"]+', re.MULTILINE)
_BAZEL_VERSION = re.compile(r'(?<=^VERSION = ")[^"]+', re.MULTILINE)
_MODULE_ATTRIBUTE = re.compile(r'(?<=^__version__ = ")[^"]+', re.MULTILINE)
_SIBLING = re.compile(r"(?<=\"graftax-)([a-z-]+)(>=[^\"]+|==[^\"]+)")


def project_files(root: Path) -> list[Path]:
  """Returns the pyproject.toml of each wheel."""
  return [root / package / "pyproject.toml" for package in (*PACKAGES, "tools/packaging/umbrella")]


def _other_places(root: Path) -> list[tuple[Path, re.Pattern[str]]]:
  """Returns the files that name the version besides each pyproject.toml, with where they do."""
  modules = [(root / package / "graftax" / package / "__init__.py", _MODULE_ATTRIBUTE) for package in PACKAGES]
  bazel = [(root / "MODULE.bazel", _MODULE_VERSION), (root / "tools/build_defs/version.bzl", _BAZEL_VERSION)]
  return [*modules, *bazel]


def _changelogs(root: Path) -> list[Path]:
  return [root / package / "CHANGELOG.md" for package in PACKAGES]


def _sibling_pin(version: str, old_pin: str) -> str:
  if old_pin.startswith("=="):
    return f"=={version}"
  major, minor, _ = _parts(version)
  return f">={version},<{major}.{minor + 1}"


def _parts(version: str) -> tuple[int, int, int]:
  match = _VERSION.fullmatch(version)
  if not match:
    raise ValueError(f"version {version!r} is not MAJOR.MINOR.PATCH, such as '0.2.0'")
  major, minor, patch = map(int, match.groups())
  return major, minor, patch


def _with_version(text: str, version: str) -> str:
  text = _OWN_VERSION.sub(version, text)
  return _SIBLING.sub(lambda match: match[1] + _sibling_pin(version, match[2]), text)


def roll(changelog: str, version: str, date: datetime.date) -> str:
  """Returns a changelog in which what was unreleased is that of `version`.

  Raises:
    ValueError: there is no `## Unreleased` section, or there is one of this version already.
  """
  if changelog.count(_UNRELEASED) != 1:
    raise ValueError(f"expected one section {_UNRELEASED.strip()!r}, found {changelog.count(_UNRELEASED)}")
  if f"## {version} " in changelog:
    raise ValueError(f"there is a section of version {version} already")
  before, _, changes = changelog.partition(_UNRELEASED)
  entries = changes.partition("\n## ")[0].strip()
  section = f"## {version} ({date.isoformat()})\n"
  return before + _UNRELEASED + "\n" + section + ("" if entries else "\nNo changes.\n") + changes


def new_texts(root: Path, version: str, date: datetime.date) -> dict[Path, str]:
  """Returns the files that a new version changes, with their new text."""
  _parts(version)
  texts = {path: _with_version(path.read_text(), version) for path in project_files(root)}
  texts |= {path: pattern.sub(version, path.read_text(), count=1) for path, pattern in _other_places(root)}
  for path in _changelogs(root):
    try:
      texts[path] = roll(path.read_text(), version, date)
    except ValueError as e:
      raise ValueError(f"{path.relative_to(root)}: {e}") from e
  return texts


def problems(root: Path, version: str) -> Iterator[str]:
  """Yields what is not as a release of `version` needs it."""
  for path in project_files(root):
    text = path.read_text()
    if text != _with_version(text, version):
      yield f"{path.relative_to(root)} declares another version, or pins a sibling to one"
  for path, pattern in _other_places(root):
    if pattern.findall(path.read_text())[:1] != [version]:
      yield f"{path.relative_to(root)} declares another version"
  for path in _changelogs(root):
    if f"## {version} " not in path.read_text():
      yield f"{path.relative_to(root)} has no section of this version"


def main() -> None:
  parser = argparse.ArgumentParser(description="Set the version of all packages and roll their changelogs.")
  parser.add_argument("version", help="such as 0.2.0; with --check, the tag, such as v0.2.0")
  parser.add_argument("--check", action="store_true", help="change nothing; fail if the tree is not of this version")
  arguments = parser.parse_args()
  version = arguments.version.removeprefix("v") if arguments.check else arguments.version
  if arguments.check:
    found = list(problems(ROOT, version))
    if found:
      sys.exit("\n".join([f"The tree is not ready to be released as {version}:", *found]))
    return
  for path, text in new_texts(ROOT, version, datetime.datetime.now(datetime.UTC).date()).items():
    path.write_text(text)
    print(path.relative_to(ROOT))


if __name__ == "__main__":
  main()
