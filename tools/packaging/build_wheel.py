"""Builds wheels and source archives of packages, byte for byte the same from the same sources.

    python tools/packaging/build_wheel.py --out dist ops_jax convert
    python tools/packaging/build_wheel.py --out dist --sdist ops_jax convert    # also dist/*.tar.gz

Tests, their data and caches stay out: the package is copied without them to an empty folder and built there by its own
PEP 517 backend. Relative links of the README become absolute, since an index displays it by itself.
"""

import argparse
import os
import re
import shutil
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from flit_core import buildapi

_ROOT = Path(__file__).resolve().parents[2]
# The zip format has no earlier dates.
_EPOCH_1980 = "315532800"
_NOT_SHIPPED = ("*_test.py", "conftest.py", "testdata", "__pycache__", "*.pyc", ".*")
# A relative target of a Markdown link or image; with a scheme, or within the page, it means the same everywhere.
_RELATIVE_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s]+)(?=\))")


def with_absolute_links(readme: str, project: dict[str, Any]) -> str:
  """Returns a README whose links lead to the repository, at the tag of the version.

  Args:
    readme: Markdown. Fenced code is left as it is.
    project: the table `project` of pyproject.toml. Its `Source` is the address of the package's folder,
      `<repository>/tree/main/<folder>`.
  """
  repository, _, folder = project["urls"]["Source"].partition("/tree/main/")
  base = f"{repository}/blob/v{project['version']}/{folder}/"
  parts = readme.split("```")
  parts[::2] = [_RELATIVE_LINK.sub(lambda match: urljoin(base, match[0]), part) for part in parts[::2]]
  return "```".join(parts)


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
  """Changes the working folder, since PEP 517 backends build the folder in which they are called."""
  before, epoch = Path.cwd(), os.environ.get("SOURCE_DATE_EPOCH")
  os.chdir(folder)
  os.environ["SOURCE_DATE_EPOCH"] = _EPOCH_1980
  try:
    yield
  finally:
    os.chdir(before)
    os.environ.pop("SOURCE_DATE_EPOCH")
    if epoch is not None:
      os.environ["SOURCE_DATE_EPOCH"] = epoch


def shipped_files(package: Path) -> list[Path]:
  """Returns the files in a wheel of the package, relative to the package folder.

  `not_shipped` in the table `tool.graftax` of pyproject.toml lists files and folders of the package that stay out.
  """
  settings = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8")).get("tool", {}).get("graftax", {})
  left_out = [Path("graftax", package.name, path) for path in settings.get("not_shipped", ())]
  paths = (p.relative_to(package) for p in sorted((package / "graftax").rglob("*")) if p.is_file())
  shipped = [p for p in paths if not any(fnmatch(part, pattern) for part in p.parts for pattern in _NOT_SHIPPED)]
  shipped = [p for p in shipped if not any(p.is_relative_to(path) for path in left_out)]
  return [Path("pyproject.toml"), Path("README.md"), *shipped]


def _stage(package: Path, files: Iterable[Path], license_file: Path, target: Path) -> None:
  for file in files:
    (target / file).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(package / file, target / file)
  shutil.copyfile(license_file, target / "LICENSE")
  readme = with_absolute_links((package / "README.md").read_text(encoding="utf-8"), _project(package))
  (target / "README.md").write_text(readme, encoding="utf-8")


def _project(package: Path) -> dict[str, Any]:
  return tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def archive_names(package: Path) -> tuple[str, str]:
  """Returns the names of the wheel and of the source archive that the package's pyproject.toml declares."""
  project = _project(package)
  stem = f"{project['name'].replace('-', '_')}-{project['version']}"
  return f"{stem}-py3-none-any.whl", f"{stem}.tar.gz"


def build(
  package: Path,
  out: Path,
  license_file: Path = _ROOT / "LICENSE",
  files: list[Path] | None = None,
  *,
  sdist: bool = False,
) -> Path:
  """Builds a wheel or a source archive in `out` and returns its path.

  Args:
    package: folder with pyproject.toml and README.md.
    out: folder for the result; created if missing.
    license_file: the license to include.
    files: the files to include, relative to `package`; by default all that ship.
    sdist: build the source archive instead of the wheel. It holds the files that ship, so the wheel that pip builds
      from it is the same, byte for byte.

  Raises:
    ValueError: the backend named the result differently from what pyproject.toml declares.
  """
  out = out.resolve()
  out.mkdir(parents=True, exist_ok=True)
  with tempfile.TemporaryDirectory() as folder:
    _stage(package, shipped_files(package) if files is None else files, license_file, Path(folder))
    with _inside(Path(folder)):
      name = buildapi.build_sdist(str(out)) if sdist else buildapi.build_wheel(str(out))
  expected = archive_names(package)[sdist]
  if name != expected:
    raise ValueError(f"{package.name}: the backend built {name!r}; expected {expected!r}, as pyproject.toml declares")
  return out / name


def main() -> None:
  parser = argparse.ArgumentParser(description="Build wheels and source archives, reproducibly.")
  parser.add_argument("packages", nargs="+", type=Path, help="package folders, such as ops_jax")
  parser.add_argument("--out", type=Path, required=True, help="folder for the results")
  parser.add_argument("--sdist", action="store_true", help="also build source archives")
  parser.add_argument("--license", type=Path, default=_ROOT / "LICENSE")
  parser.add_argument("--files", type=Path, help="a file that lists what the wheel of one package is made from")
  arguments = parser.parse_args()
  for package in arguments.packages:
    files = [Path(f).relative_to(package) for f in arguments.files.read_text().split("\n")] if arguments.files else None
    for sdist in (False, True) if arguments.sdist else (False,):
      built = build(package, arguments.out, arguments.license, files, sdist=sdist)
      print(f"{built.name}  {built.stat().st_size} bytes")


if __name__ == "__main__":
  main()
