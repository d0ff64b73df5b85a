"""Tries the wheels on several versions of Python and JAX and prints a table. `make matrix` calls it.

    python tools/checks/version_matrix.py --wheels dist xla_call_module
    python tools/checks/version_matrix.py --wheels dist --tests --python 3.13 --jax 0.12.0 graphdef_ir ops_jax
    python tools/checks/version_matrix.py --wheels dist --tests --python 3.13 --pre    # `make ceiling`

pip chooses the newest versions of everything else; with `--pre` of JAX, too, pre-releases among them. The smoke test of
a package runs in a virtual environment that has nothing but the package and its dependencies. With `--tests` the fast
tests without TensorFlow run, from the installed wheels, in one environment for each combination.
"""

import argparse
import contextlib
import functools
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cleanroom import PACKAGES, ROOT, smoke_command

_PYTHONS = ("3.11", "3.12", "3.13")
# The oldest that the packages declare; of later minor versions, the newest patch is tried.
_OLDEST_JAX = (0, 10, 0)
# Selects the newest version of every requirement, pre-releases included.
_NEWEST = "newest"
_TEST_REQUIREMENTS = (
  "graftax-convert[equinox,flax,haiku,image,keras,text]",
  "graftax-savedmodel-io[keras,orbax,progress,safetensors]",
  "graftax-hub-io[kaggle]",
  "graftax-testing",
  "pytest",
  "hypothesis",
  "pytest-xdist",
  "flatbuffers",
)
_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
# Packages import their modules when a name is first used.
_USE_ALL_NAMES = "import graftax.{0}; [getattr(graftax.{0}, name) for name in graftax.{0}.__all__]"


@dataclass(frozen=True, slots=True)
class Row:
  """One line of the table.

  Attributes:
    import_s: of all public names of the package, with their dependencies, in a fresh process.
    passed: whether all of it worked.
    result: the last line of the tests with the names of those that failed, or the last line of the error.
  """

  package: str
  python: str
  jax: str
  wheel_bytes: int
  num_dependencies: int
  install_s: float
  import_s: float
  passed: bool
  result: str


def find_pythons(versions: tuple[str, ...] = _PYTHONS) -> dict[str, Path]:
  """Returns the interpreters found on PATH or under pyenv, by minor version; those that do not run are left out."""
  found = {}
  for version in versions:
    candidates = [shutil.which(f"python{version}"), *Path.home().glob(f".pyenv/versions/{version}.*/bin/python")]
    for candidate in filter(None, candidates):
      command = [str(candidate), "-c", "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"]
      run = subprocess.run(command, capture_output=True, text=True, check=False)
      if run.stdout.strip() == version:
        found.setdefault(version, Path(candidate))
  return found


def jax_versions(python_version: str) -> list[str]:
  """Returns the oldest supported JAX and the newest patch of each minor version that has wheels for a Python."""
  command = [*_PIP, "index", "versions", "jax", "--json", "--only-binary", ":all:", "--python-version", python_version]
  listed = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["versions"]
  return choose_versions(listed)


def choose_versions(listed: list[str]) -> list[str]:
  """Returns the oldest supported version of a list, and the newest patch of each minor version since."""
  # JAX corrects single releases with a fourth number.
  numbers = [tuple(map(int, v.split("."))) for v in listed if re.fullmatch(r"\d+(\.\d+){2,3}", v)]
  supported = sorted(n for n in numbers if n >= _OLDEST_JAX)
  newest = {n[:2]: n for n in supported}
  return [".".join(map(str, n)) for n in sorted({*supported[:1], *newest.values()})]


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
  return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


def _copy_tree(target: Path) -> None:
  """Copies the tree without the modules of the packages, so that tests find all files and import only the wheels.

  The modules of `testing` stay: conftest.py reads them to decide which tests need TensorFlow.
  """
  listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
  for name in filter(None, listed.split("\0")):
    if name.startswith("testing/") or not is_module_of_a_package(name):
      copy = target / name
      copy.parent.mkdir(parents=True, exist_ok=True)
      shutil.copyfile(ROOT / name, copy)


def is_module_of_a_package(name: str) -> bool:
  """Returns whether a file of the tree is a module that a package has and that is not a test.

  Example:
    >>> [is_module_of_a_package(f"convert/graftax/convert/{name}.py") for name in ("api", "api_test", "examples/text")]
    [True, False, False]
  """
  package, *rest = name.split("/")
  is_source = rest[:2] == ["graftax", package] and name.endswith(".py") and not {"examples", "testdata"} & {*rest}
  return is_source and not name.endswith(("_test.py", "conftest.py"))


def _add_suites(python: Path, package: str, folder: Path) -> None:
  """Puts what the wheel leaves out, which the tests use, beside the installed modules."""
  settings = tomllib.loads((ROOT / package / "pyproject.toml").read_text(encoding="utf-8"))["tool"].get("graftax", {})
  if not settings:
    return
  where = _run([str(python), "-c", f"import graftax.{package} as p; print(p.__path__[0])"], folder).stdout.strip()
  for name in settings["not_shipped"]:
    source, target = ROOT / package / "graftax" / package / name, Path(where) / name
    if source.is_dir():
      shutil.copytree(source, target, dirs_exist_ok=True)
    else:
      shutil.copyfile(source, target)


def _tests(python: Path, package: str, folder: Path) -> tuple[bool, str]:
  if not (folder / "conftest.py").exists():
    _copy_tree(folder)
  _add_suites(python, package, folder)
  options = ["--ring=free", "-m", "not slow", "-q", "-p", "no:cacheprovider", "-o", "pythonpath=", "-n", "2"]
  # The modules of `testing` that conftest.py reads are copies of the installed ones. Their examples would import them a
  # second time, and each registry would get each of its entries twice.
  options += ["-o", "addopts=--import-mode=importlib --strict-markers"]
  # Generators write files of the tree, which an installed module does not find.
  options += ["--ignore-glob=*/codegen/*", f"{package}/graftax/{package}"]
  run = _run([str(python), "-m", "pytest", *options], folder)
  return run.returncode == 0, summary_of_tests(run.stdout or run.stderr)


def summary_of_tests(text: str) -> str:
  """Returns the last line of pytest's output, followed by the tests that failed.

  Example:
    >>> summary_of_tests("FAILED tests/a_test.py::test_a - assert 1 == 2\\n== 1 failed, 2 passed in 3.00s ==")
    '1 failed, 2 passed in 3.00s, FAILED tests/a_test.py::test_a'
  """
  failed = [line.split(" - ")[0] for line in text.splitlines() if line.startswith(("FAILED ", "ERROR "))]
  return ", ".join([_last_line(text), *failed])


def _smoke(python: Path, package: str, folder: Path) -> tuple[bool, str]:
  run = _run(smoke_command(python, package), folder)
  return run.returncode == 0, _last_line(run.stderr if run.returncode else run.stdout)


def _last_line(text: str) -> str:
  return (text.strip().splitlines() or ["no output"])[-1].strip("= ")


@dataclass(frozen=True, slots=True)
class Environment:
  """A virtual environment with wheels of graftax and a version of JAX.

  Attributes:
    folder: holds the environment, and the tests that run in it.
    error: the last line of pip's, if it failed.
  """

  folder: Path
  python: Path
  version: str
  jax: str
  wheels: Path
  install_s: float
  error: str | None

  @property
  def num_dependencies(self) -> int:
    return len(list(self.folder.glob("venv/lib/python3*/site-packages/*.dist-info"))) - 1


@contextlib.contextmanager
def installed(python: Path, version: str, jax: str, wheels: Path, requirements: list[str]) -> Iterator[Environment]:
  """Yields a temporary environment in which pip has installed the requirements."""
  with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    subprocess.run([str(python), "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    inside = folder / "venv/bin/python"
    options = ["--quiet", "--only-binary", ":all:", "--find-links", str(wheels.resolve())]
    options += ["--pre"] if jax == _NEWEST else []
    start = time.perf_counter()
    run = _run([*_PIP, "--python", str(inside), "install", *options, *requirements], folder)
    install_s = time.perf_counter() - start
    error = _last_line(run.stderr) if run.returncode else None
    found = [path.stem.split("-")[1] for path in folder.glob("venv/lib/python3*/site-packages/jax-*.dist-info")]
    yield Environment(folder, inside, version, *(found or [jax]), wheels, install_s, error)


def _distribution(package: str) -> str:
  return f"graftax-{package.replace('_', '-')}"


def try_package(package: str, environment: Environment, tests: bool) -> Row:
  """Imports a package and runs its smoke test or its tests in an environment that has its wheel."""
  (wheel,) = environment.wheels.glob(f"{_distribution(package).replace('-', '_')}-*.whl")
  row = functools.partial(Row, package, environment.version, environment.jax, wheel.stat().st_size)
  if environment.error is not None:
    return row(0, environment.install_s, 0.0, False, environment.error)
  folder = environment.folder / "tree"
  folder.mkdir(exist_ok=True)
  start = time.perf_counter()
  imported = _run([str(environment.python), "-I", "-c", _USE_ALL_NAMES.format(package)], folder)
  import_s = time.perf_counter() - start
  if imported.returncode:
    passed, result = False, _last_line(imported.stderr)
  else:
    passed, result = (_tests if tests else _smoke)(environment.python, package, folder)
  return row(environment.num_dependencies, environment.install_s, import_s, passed, result)


def try_combination(
  packages: Sequence[str], python: Path, version: str, jax: str, wheels: Path, tests: bool
) -> Iterator[Row]:
  """Yields the row of each package with a version of JAX. Tests share one environment; smoke tests have one each."""
  pins = [] if jax == _NEWEST else [f"jax=={jax}"]
  if tests:
    requirements = [*map(_distribution, packages), *pins, *_TEST_REQUIREMENTS]
    with installed(python, version, jax, wheels, requirements) as environment:
      for package in packages:
        yield try_package(package, environment, tests)
    return
  for package in packages:
    requirements = [_distribution(package), *(pins if package != "graphdef_ir" else [])]
    with installed(python, version, jax, wheels, requirements) as environment:
      yield try_package(package, environment, tests)


def _line(row: Row) -> str:
  return (
    f"| {row.package} | {row.python} | {row.jax} | {row.wheel_bytes / 1000:.0f} | {row.num_dependencies} "
    f"| {row.install_s:.1f} | {row.import_s:.1f} | {row.result if row.passed else 'FAILED: ' + row.result} |"
  )


def main() -> None:
  parser = argparse.ArgumentParser(description="Try wheels on several versions of Python and JAX.")
  parser.add_argument("packages", nargs="*", default=PACKAGES, help="package folders (default: all)")
  parser.add_argument("--wheels", type=Path, required=True, help="folder with all wheels of graftax")
  parser.add_argument(
    "--tests", action="store_true", help="run the fast tests without TensorFlow, not only smoke tests"
  )
  parser.add_argument("--python", action="append", help="minor version, such as 3.13 (default: all that are found)")
  jax_choice = parser.add_mutually_exclusive_group()
  jax_choice.add_argument(
    "--jax", action="append", help="version (default: 0.10.0 and the newest of each minor version)"
  )
  jax_choice.add_argument(
    "--pre", dest="jax", action="store_const", const=[_NEWEST], help="the newest pre-releases of everything"
  )
  arguments = parser.parse_args()
  pythons = find_pythons(tuple(arguments.python or _PYTHONS))
  missing = sorted({*(arguments.python or _PYTHONS)} - pythons.keys())
  if missing:
    print(f"not found, so not tried: Python {', '.join(missing)}")
  print("| package | Python | JAX | wheel kB | dependencies | install s | import s | result |")
  print("| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
  passed = True
  for version, python in pythons.items():
    for jax in arguments.jax or jax_versions(version):
      for row in try_combination(arguments.packages, python, version, jax, arguments.wheels, arguments.tests):
        print(_line(row), flush=True)
        passed &= row.passed
  sys.exit(not passed)


if __name__ == "__main__":
  main()
