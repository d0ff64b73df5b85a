"""Each wheel works with the dependencies that it declares and no others: the fast form of `make cleanroom`."""

import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from build_wheel import build
from cleanroom import PACKAGES, ROOT, smoke_command
from import_roots import installed_distributions, link_roots, requirement_closures
from pip._vendor.packaging.metadata import Metadata
from pip._vendor.packaging.utils import canonicalize_name


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> dict[str, Path]:
  """Returns the wheels by distribution name."""
  out = tmp_path_factory.mktemp("wheels")
  return {f"graftax-{p.replace('_', '-')}": build(ROOT / p, out) for p in PACKAGES}


@pytest.fixture(scope="module")
def unpacked(wheels, tmp_path_factory) -> dict[str, Path]:
  """Returns the folders with the wheels' content, by distribution name."""
  folders = {}
  for name, wheel in wheels.items():
    folders[name] = tmp_path_factory.mktemp(name)
    with zipfile.ZipFile(wheel) as archive:
      archive.extractall(folders[name])
  return folders


@pytest.fixture(scope="module")
def roots(tmp_path_factory) -> Path:
  """Returns a folder with one import root per installed distribution."""
  installed, site_packages = installed_distributions(Path(sys.prefix))
  target = tmp_path_factory.mktemp("roots")
  link_roots(installed, site_packages, target)
  return target


@pytest.fixture(scope="module")
def closures() -> dict[str, list[str]]:
  return requirement_closures(installed_distributions(Path(sys.prefix))[0])


def _declared(folder: Path) -> list[str]:
  (metadata,) = folder.glob("*.dist-info/METADATA")
  requirements = Metadata.from_email(metadata.read_bytes(), validate=False).requires_dist or []
  return [canonicalize_name(r.name) for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})]


def _paths(name: str, unpacked: dict[str, Path], roots: Path, closures: dict[str, list[str]]) -> set[Path]:
  """Returns sys.path for a package: its own content and that of all its requirements."""
  paths = {unpacked[name]}
  for required in _declared(unpacked[name]):
    if required in unpacked:
      paths |= _paths(required, unpacked, roots, closures)
    else:
      paths |= {roots / root for root in closures[required]}
  return paths


def _smoke(package: str, paths: Iterable[Path]) -> subprocess.CompletedProcess[str]:
  command = smoke_command(Path(sys.executable), package, sorted(paths))
  return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")


@pytest.mark.parametrize("package", PACKAGES)
def test_a_wheel_runs_on_what_it_declares(package, unpacked, roots, closures):
  paths = _paths(f"graftax-{package.replace('_', '-')}", unpacked, roots, closures)
  result = _smoke(package, paths)
  assert result.returncode == 0, result.stderr
  assert "smoke test passed" in result.stdout


@pytest.mark.parametrize(("package", "missing"), [("graphdef_ir", "protobuf"), ("xla_call_module", "numpy")])
def test_a_dependency_that_is_not_declared_is_not_found(package, missing, unpacked, roots, closures):
  paths = _paths(f"graftax-{package.replace('_', '-')}", unpacked, roots, closures)
  result = _smoke(package, paths - {roots / missing})
  assert result.returncode != 0
  assert "ModuleNotFoundError" in result.stderr


def test_wheels_are_the_same_when_built_again(tmp_path):
  for package in PACKAGES:
    first, second = (build(ROOT / package, tmp_path / folder) for folder in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()


def test_wheels_hold_data_files_and_no_tests(wheels):
  for package, wheel in zip(PACKAGES, wheels.values(), strict=True):
    with zipfile.ZipFile(wheel) as archive:
      names = archive.namelist()
    assert f"graftax/{package}/py.typed" in names
    assert "graftax/__init__.py" not in names
    assert not [n for n in names if n.endswith(("_test.py", "conftest.py", ".pyc")) or "testdata" in n]
    assert any(n.endswith("licenses/LICENSE") for n in names)
