"""Builds a release and installs it as users will, but from a local folder. `make release-rehearsal` calls it.

    python tools/packaging/rehearse_release.py --tools .venv-release/bin

`dist/` then holds what would be published, and `build/graftax.cdx.json` lists what `graftax[all]` installs, with
licenses (CycloneDX). The first stage that fails ends the rehearsal.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from bump_version import project_files
from cleanroom import PACKAGES, ROOT, write_constraints

_DIST = ROOT / "dist"
_UMBRELLA = ROOT / "tools/packaging/umbrella"
_TYPED_USE = ROOT / "tools/packaging/typed_use.py"
# As in the repository's own settings: mypy reads neither JAX nor TensorFlow, which are large.
_MYPY_SETTINGS = "[mypy]\nstrict = True\n\n[mypy-jax.*,jaxlib.*,tensorflow.*]\nfollow_imports = skip\n"
_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
# Licenses that the metadata of a wheel does not name in a form that the tool reads.
_LICENSES = {"protobuf": "BSD-3-Clause"}
_PERMISSIVE = re.compile(r"Apache|MIT\b|BSD|ISC\b|PSF|Zlib|CC0")

# Has rattler-build read and render recipes; it raises for unknown fields and values.
_RENDER = """
import pathlib, sys
from rattler_build import Stage0Recipe, VariantConfig
for path in sys.argv[1:]:
  assert Stage0Recipe.from_yaml(pathlib.Path(path).read_text()).render(VariantConfig())
"""

_Result = TypeVar("_Result")


def _timed(stage: str, work: Callable[[], _Result]) -> _Result:
  print(f"== {stage}", flush=True)
  start = time.perf_counter()
  result = work()
  print(f"   {time.perf_counter() - start:.1f} s", flush=True)
  return result


def _run(*command: object, cwd: Path = ROOT, **variables: str) -> None:
  """Runs a command without the caller's import paths; raises CalledProcessError if it fails."""
  environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "MYPYPATH")} | variables
  subprocess.run([str(part) for part in command], check=True, cwd=cwd, env=environment)


def _build(root: Path, out: Path) -> dict[str, str]:
  """Builds all wheels and source archives of a tree and returns the hash of each by its name."""
  packages = [path.parent.relative_to(ROOT) for path in project_files(ROOT)]
  _run(sys.executable, root / "tools/packaging/build_wheel.py", "--out", out, "--sdist", *packages, cwd=root)
  return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(out.iterdir())}


def _copy_tree(target: Path) -> None:
  """Copies the tracked files, as they are in the working tree."""
  listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
  for name in filter(None, listed.split("\0")):
    if (ROOT / name).is_file():
      (target / name).parent.mkdir(parents=True, exist_ok=True)
      shutil.copyfile(ROOT / name, target / name)


def build_in_two_folders(folder: Path) -> None:
  """Builds `dist/`, and the same again from a copy of the tree in another folder.

  Raises:
    ValueError: the bytes differ.
  """
  shutil.rmtree(_DIST, ignore_errors=True)
  first = _build(ROOT, _DIST)
  _copy_tree(folder / "copy")
  second = _build(folder / "copy", folder / "dist")
  different = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
  if different:
    raise ValueError(f"not the same bytes when built from a copy of the tree: {', '.join(different)}")
  print(f"   {len(first)} files, the same bytes from both folders")


def download(index: Path, folder: Path) -> None:
  """Fills a folder with everything that `graftax[all]` requires, at the locked versions."""
  shutil.copytree(_DIST, index)
  constraints = write_constraints(folder)
  options = ["--only-binary", ":all:", "--constraint", constraints, "--find-links", index, "--dest", index]
  _run(*_PIP, "download", *options, "graftax[all]")


def check_archives(tools: Path) -> None:
  """Checks metadata, READMEs and content of the wheels, each pyproject.toml, and the recipes for conda-forge."""
  _run(tools / "twine", "--no-color", "check", "--strict", *sorted(_DIST.iterdir()))
  _run(tools / "check-wheel-contents", *sorted(_DIST.glob("*.whl")))
  _run(tools / "validate-pyproject", *project_files(ROOT))
  recipes = ROOT / "build/conda"
  script = ROOT / "tools/packaging/conda_recipes.py"
  _run(sys.executable, script, "--dist", _DIST, "--out", recipes, PYTHONPATH=str(ROOT / "tools/checks"))
  _run(tools / "python", "-c", _RENDER, *(recipes / name / "recipe.yaml" for name in map(_distribution, PACKAGES)))


def _distribution(package: str) -> str:
  return f"graftax-{package.replace('_', '-')}"


def install(index: Path, environment: Path) -> Path:
  """Installs `graftax[all]` from the folder alone and returns the interpreter that has it."""
  venv.create(environment)
  python = environment / "bin/python"
  _run(*_PIP, "--python", python, "install", "--no-index", "--find-links", index, "graftax[all]")
  _run(*_PIP, "--python", python, "check")
  return python


def check_types(python: Path, folder: Path) -> None:
  """Has mypy check a typed program against the installed wheels."""
  settings = folder / "mypy.ini"
  settings.write_text(_MYPY_SETTINGS)
  _run(sys.executable, "-m", "mypy", "--config-file", settings, "--python-executable", python, _TYPED_USE, cwd=folder)


def write_bill_of_materials(tools: Path, python: Path) -> None:
  """Writes `build/graftax.cdx.json`, which lists what is installed.

  Raises:
    ValueError: a package declares no license, or one that is not permissive.
  """
  target = ROOT / "build/graftax.cdx.json"
  target.parent.mkdir(exist_ok=True)
  options = ["--pyproject", _UMBRELLA / "pyproject.toml", "--output-reproducible", "--output-file", target]
  _run(tools / "cyclonedx-py", "environment", *options, python)
  bill = json.loads(target.read_text())
  for component in bill["components"]:
    if not component.get("licenses") and component["name"] in _LICENSES:
      component["licenses"] = [{"license": {"id": _LICENSES[component["name"]]}}]
  licenses = {component["name"]: _license_of(component) for component in bill["components"]}
  others = {name: text for name, text in licenses.items() if not _is_permissive(text)}
  if others:
    raise ValueError(f"licenses that are missing or not known to be permissive: {others}")
  target.write_text(json.dumps(bill, indent=2) + "\n")
  print(f"   {len(licenses)} packages with permissive licenses, listed in {target.relative_to(ROOT)}")


def _license_of(component: dict[str, Any]) -> str:
  """Returns the license expression of a component of the bill, or "" if there is none."""
  entries = component.get("licenses", [])
  names = [e.get("expression") or e["license"].get("id") or e["license"]["name"] for e in entries]
  return " AND ".join(names)


def _is_permissive(expression: str) -> bool:
  return all(_PERMISSIVE.search(part) for part in expression.split(" AND "))


def use(python: Path, folder: Path) -> None:
  """Runs the command and the demo from the installed wheels, outside of the tree."""
  _run(python, "-m", "graftax", "--help", cwd=folder, COLUMNS="80")
  _run(python, "-m", "graftax.tools.demo", cwd=folder)


def main() -> None:
  parser = argparse.ArgumentParser(description="Build a release, install it from a local folder, and use it.")
  parser.add_argument("--tools", type=Path, required=True, help="folder with the commands of release.txt")
  tools = parser.parse_args().tools.absolute()
  with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    index = folder / "index"
    _timed("build twice", lambda: build_in_two_folders(folder))
    _timed("check metadata, contents and recipes", lambda: check_archives(tools))
    _timed("download the requirements", lambda: download(index, folder))
    python = _timed("install graftax[all] without an index", lambda: install(index, folder / "venv"))
    _timed("mypy against the installed wheels", lambda: check_types(python, folder))
    _timed("bill of materials", lambda: write_bill_of_materials(tools, python))
    _timed("demo", lambda: use(python, folder))


if __name__ == "__main__":
  main()
