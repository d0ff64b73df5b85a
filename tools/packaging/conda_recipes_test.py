"""The recipes for conda-forge say what each pyproject.toml says."""

import re
import tomllib

import pytest
import yaml
from build_wheel import build
from cleanroom import PACKAGES, ROOT
from conda_recipes import FOLDER, recipe
from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.utils import canonicalize_name


def _project(package: str) -> dict:
  return tomllib.loads((ROOT / package / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _path(package: str):
  return FOLDER / _project(package)["name"] / "recipe.yaml"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_recipe_is_renewed_when_its_metadata_changes(package):
  assert _path(package).read_text(encoding="utf-8") == recipe(package), "run tools/packaging/conda_recipes.py"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_recipe_requires_what_the_wheel_requires(package):
  """Reads both files with parsers that we did not write."""
  project, parsed = _project(package), yaml.safe_load(_path(package).read_text(encoding="utf-8"))
  declared = {canonicalize_name(r.name): r.specifier for r in map(Requirement, project["dependencies"])}
  lines = [re.sub(r"^python-flatbuffers", "flatbuffers", line) for line in parsed["requirements"]["run"]]
  required = {canonicalize_name(r.name): r.specifier for r in map(Requirement, lines[1:])}
  assert lines[0] == "python >=${{ python_min }}"
  assert parsed["context"] == {
    "version": project["version"],
    "python_min": project["requires-python"].removeprefix(">="),
  }
  assert required == declared
  assert parsed["build"].get("python", {}).get("entry_points", []) == [
    f"{name} = {function}" for name, function in project.get("scripts", {}).items()
  ]
  assert parsed["about"]["license"] == project["license"]


def test_each_package_has_one_recipe():
  assert {path.name for path in FOLDER.iterdir()} == {_project(package)["name"] for package in PACKAGES}


def test_the_hash_is_that_of_the_source_archive(tmp_path):
  build(ROOT / "hub_io", tmp_path, sdist=True)
  parsed = yaml.safe_load(recipe("hub_io", tmp_path))
  assert len(parsed["source"]["sha256"]) == 64
  assert parsed["source"]["sha256"] != "0" * 64
