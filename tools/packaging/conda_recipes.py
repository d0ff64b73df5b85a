"""Writes the recipes of the packages for conda-forge from each pyproject.toml, so that requirements cannot differ.

    python tools/packaging/conda_recipes.py                 # renews tools/packaging/conda/*/recipe.yaml
    python tools/packaging/conda_recipes.py --dist dist     # with the hashes of the source archives of a release

Extras have no counterpart in conda: users install the libraries that they need beside the package.
"""

import argparse
import hashlib
import json
import tomllib
from pathlib import Path

from build_wheel import archive_names
from cleanroom import PACKAGES, ROOT

FOLDER = ROOT / "tools/packaging/conda"
# Distributions that conda-forge has under another name.
_CONDA_NAMES = {"flatbuffers": "python-flatbuffers"}
_NO_HASH = "0" * 64

_RECIPE = """\
# Made by tools/packaging/conda_recipes.py from {package}/pyproject.toml. Do not edit.
schema_version: 1

context:
  version: "{version}"
  python_min: "{python}"

package:
  name: {name}
  version: ${{{{ version }}}}

source:
  url: {repository}/releases/download/v${{{{ version }}}}/{archive}
  sha256: "{sha256}"

build:
  number: 0
  noarch: python
  script: ${{{{ PYTHON }}}} -m pip install . -vv --no-deps --no-build-isolation
{entry_points}
requirements:
  host:
    - python ${{{{ python_min }}}}.*
    - pip
    - {backend}
  run:
    - python >=${{{{ python_min }}}}
{run}

tests:
  - python:
      imports:
        - {module}
      pip_check: true
      python_version: ${{{{ python_min }}}}.*

about:
  homepage: {repository}
  repository: {repository}
  documentation: {documentation}
  summary: {summary}
  license: {license}
  license_file: LICENSE

extra:
  recipe-maintainers: []
"""


def requirement(line: str) -> str:
  """Returns a requirement without markers as conda writes it: `"jax>=0.10"` as `"jax >=0.10"`."""
  end = next((i for i, c in enumerate(line) if c in "<>=!~"), len(line))
  name = line[:end].strip()
  return f"{_CONDA_NAMES.get(name, name)} {line[end:].strip()}".strip()


def recipe(package: str, dist: Path | None = None) -> str:
  """Returns the recipe of a package.

  Args:
    package: name of the package folder.
    dist: folder with the source archive of a release; without it, the hash is zero.
  """
  settings = tomllib.loads((ROOT / package / "pyproject.toml").read_text(encoding="utf-8"))
  project, (backend,) = settings["project"], settings["build-system"]["requires"]
  archive = archive_names(ROOT / package)[1]
  scripts = [f"      - {name} = {function}" for name, function in project.get("scripts", {}).items()]
  return _RECIPE.format(
    package=package,
    version=project["version"],
    python=project["requires-python"].removeprefix(">="),
    name=project["name"],
    repository=project["urls"]["Homepage"],
    archive=archive.replace(project["version"], "${{ version }}"),
    sha256=hashlib.sha256((dist / archive).read_bytes()).hexdigest() if dist else _NO_HASH,
    entry_points="\n".join(["  python:", "    entry_points:", *scripts, ""]) if scripts else "",
    backend=requirement(backend).replace("flit_core", "flit-core"),
    run="\n".join(f"    - {requirement(line)}" for line in project["dependencies"]),
    module=settings["tool"]["flit"]["module"]["name"],
    documentation=project["urls"]["Documentation"],
    summary=json.dumps(project["description"]),
    license=project["license"],
  )


def main() -> None:
  parser = argparse.ArgumentParser(description="Write the recipes for conda-forge.")
  parser.add_argument("--dist", type=Path, help="folder with the source archives of a release")
  parser.add_argument("--out", type=Path, default=FOLDER, help="folder for the recipes")
  arguments = parser.parse_args()
  for package in PACKAGES:
    path = arguments.out / f"graftax-{package.replace('_', '-')}" / "recipe.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(recipe(package, arguments.dist), encoding="utf-8")


if __name__ == "__main__":
  main()
