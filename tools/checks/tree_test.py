"""Rules that hold for the whole tree and that no single tool checks."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from cleanroom import PACKAGES, ROOT
from import_arrows import parse_arrows
from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.utils import canonicalize_name
from room_targets import imported_modules, is_shipped

# Files of other kinds are not checked in, except below `testdata`: logs, dumps and archives have no place in the tree.
_TEXT = {
  ".py",
  ".pyi",
  ".md",
  ".toml",
  ".json",
  ".bazel",
  ".bzl",
  ".bzlmod",
  ".in",
  ".txt",
  ".proto",
  ".sh",
  ".typed",
  ".yaml",
  ".yml",
  ".svg",
  ".css",
  ".js",
  ".ipynb",
  ".c",
  "",
}
_BINARY = {".binpb", ".npz", ".pb"}
# The SavedModel of the demo; TensorFlow chose the names.
_SAVED_MODEL = {".index", ".data-00000-of-00001"}
_NOT_OURS = re.compile(
  r"^(\.(?!ci\b|github\b|bazelrc$|gitignore$|ruff\.toml$)|bazel-|dist$|build$|__pycache__$|LICENSE$|testdata$)"
)
_PRIVATE_JAX = re.compile(r"\bjax\.(_src)\b|\bfrom jax import\b.*\b(_src)\b")
_MACHINE_PATH = re.compile(r"(?<![\w./])/(?:work|root|home|tmp)/[\w.-]+")
_REGISTRY_HOST = re.compile(r"files\.python(?:hosted)|pypi\.(?:org)|(?:--|extra-)index-url", re.IGNORECASE)
_MLIR = ("jax.extend.mlir", "jax.interpreters.mlir")


def _walk(folder: Path) -> Iterator[Path]:
  for path in sorted(folder.iterdir()):
    if not _NOT_OURS.match(path.name):
      if path.is_dir():
        yield from _walk(path)
      else:
        yield path


def _sources(package: str) -> list[Path]:
  """Returns the modules that ship, without tests."""
  found = (ROOT / package / "graftax").rglob("*.py")
  return sorted(filter(is_shipped, found))


@cache
def _project(package: str) -> dict:
  return tomllib.loads((ROOT / package / "pyproject.toml").read_text())["project"]


def _declared(package: str, *, extras: bool) -> set[str]:
  """Returns the canonical names of the requirements in pyproject.toml."""
  project = _project(package)
  lines = list(project["dependencies"])
  if extras:
    lines += [line for group in project.get("optional-dependencies", {}).values() for line in group]
  return {canonicalize_name(Requirement(line).name) for line in lines}


def _build_call(package: str) -> dict[str, object]:
  """Returns the arguments of `graftax_package` in the BUILD file, which is parsed as Python."""
  for node in ast.walk(ast.parse((ROOT / package / "BUILD").read_text())):
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "graftax_package":
      values = {keyword.arg or "": keyword.value for keyword in node.keywords}
      return {name: ast.literal_eval(value) for name, value in values.items() if not isinstance(value, ast.Name)}
  raise AssertionError(f"{package}/BUILD does not call graftax_package")


def _arrows() -> dict[str, frozenset[str]]:
  settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
  return parse_arrows(settings["contracts"][0]["arrows"])


def _public_names(path: Path) -> frozenset[str] | None:
  """Returns the names in `__all__`, or None if it is missing or computed."""
  for node in ast.parse(path.read_text(encoding="utf-8"), str(path)).body:
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    if isinstance(target, ast.Name) and target.id == "__all__":
      try:
        return frozenset(ast.literal_eval(node.value))
      except ValueError:
        return None
  return None


def test_names_that_other_modules_import_are_public():
  public = {
    ".".join(path.relative_to(ROOT / package).with_suffix("").parts): _public_names(path)
    for package in PACKAGES
    for path in _sources(package)
  }
  missing = set()
  for package in PACKAGES:
    for path in _sources(package):
      for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        listed = public.get(node.module or "") if isinstance(node, ast.ImportFrom) else None
        if isinstance(node, ast.ImportFrom) and listed is not None and "._" not in (node.module or ""):
          names = {alias.name for alias in node.names if f"{node.module}.{alias.name}" not in public}
          missing |= {f"{path.relative_to(ROOT)}: {node.module}.{name}" for name in names - listed}
  assert not missing


def test_the_namespace_has_no_init_file():
  assert not [*ROOT.glob("*/graftax/__init__.py"), *ROOT.glob("tools/packaging/*/graftax/__init__.py")]


def test_bazel_does_not_write_one_either():
  assert "build --incompatible_default_to_explicit_init_py" in (ROOT / ".bazelrc").read_text().splitlines()


@pytest.mark.parametrize("package", PACKAGES)
def test_no_import_starts_at_the_repository_root(package):
  wrong = {
    f"{path.relative_to(ROOT)}: {name}"
    for path in (ROOT / package).rglob("*.py")
    for name in imported_modules(path)
    if name.partition(".")[0] in PACKAGES
  }
  assert not wrong


@pytest.mark.parametrize("package", PACKAGES)
def test_mlir_is_imported_in_one_module_or_one_folder_at_most(package):
  users = {
    str((path.parent if path.parent.name == "mlir" else path).relative_to(ROOT))
    for path in _sources(package)
    if any(name.startswith(_MLIR) for name in imported_modules(path))
  }
  assert len(users) <= 1, users


# Ways to ask which JAX is installed. A manifest may record the version.
_JAX_PROBE = re.compile(
  r"^(?!.*\"jax_version\":).*(?:\bjax(?:lib)?\.(?:__version__|version)\b|\bhasattr\((?:jax|jaxlib|jnp|lax)\b"
  r"|\bgetattr\((?:jax|jaxlib|jnp|lax)\b[^,]*, *[\"'][^,]*,|\b[Uu]ntil jax(?:lib)?\s*[>=<])"
)


def _probes(text: str) -> list[str]:
  """Returns the lines that ask which JAX is installed, or say that they differ by its version."""
  return [line.strip() for line in text.splitlines() if _JAX_PROBE.search(line)]


@pytest.mark.parametrize("package", PACKAGES)
def test_differences_between_versions_of_jax_are_in_one_module(package):
  found = {str(path.relative_to(ROOT)): _probes(path.read_text()) for path in _sources(package)}
  # The last runs in environments of all versions of JAX, to write files with them.
  allowed = ("/jax_versions.py", "/artifacts/exported_functions.py")
  assert {path: lines for path, lines in found.items() if lines and not path.endswith(allowed)} == {}


@pytest.mark.parametrize(
  ("line", "asks"),
  [
    ("if jax.__version__ >= '0.11':", True),
    ("new = jaxlib.version.__version_info__ > (0, 11)", True),
    ("if hasattr(jax.lax, 'ragged_dot'):", True),
    ("dot = getattr(lax, 'ragged_dot', None)", True),
    ("x = 1  # Until jax>=0.11: a reason", True),
    ("op = getattr(lax, name)", False),
    ('"jax_version": jax.__version__,', False),
  ],
)
def test_a_line_that_asks_for_the_version_of_jax_is_found(line, asks):
  assert bool(_probes(line)) == asks


# These run in separate environments, with other libraries and without graftax.
_RUN_ELSEWHERE = (
  "jax_consumers/run_jax2onnx.py",
  "jax_libraries/programs",
  "matched_models/pairs",
  "consumers/run_iree.py",
  "consumers/run_onnx.py",
  "consumers/run_tensorflow.py",
  "consumers/run_tfjs.py",
  "consumers/run_tflite.py",
  "benchmarks/runtimes/contestants.py",
  "codegen/generate_missing_ops.py",
)


# These start where graftax is not on the search path: in isolated processes, or in other environments.
_WITHOUT_GRAFTAX = (
  "savedmodel_io/graftax/savedmodel_io/keras_files/h5_probe.py",
  "xla_call_module/graftax/xla_call_module/mlir/subprocess_worker.py",
  "testing/graftax/testing/consumers/_results.py",
  "testing/graftax/testing/consumers/run_*.py",
  "testing/graftax/testing/jax_libraries/run_in_tensorflow.py",
  "testing/graftax/testing/rewritten_models/*_models.py",
  "testing/graftax/testing/written_models/run_written.py",
  "tools/graftax/tools/benchmarks/runtimes/contestants.py",
  "tools/graftax/tools/benchmarks/runtimes/worker.py",
)


def _imports_at_start(path: Path) -> set[str]:
  """Returns the modules that a file imports when it is imported, without those that its functions import."""
  body = ast.parse(path.read_text(encoding="utf-8"), str(path)).body
  whole = [node for node in body if not isinstance(node, ast.FunctionDef | ast.ClassDef)]
  nodes = [node for part in whole for node in ast.walk(part)]
  return {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names} | {
    node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)
  }


@pytest.mark.parametrize("pattern", _WITHOUT_GRAFTAX)
def test_scripts_that_run_elsewhere_import_nothing_of_graftax(pattern):
  paths = sorted(ROOT.glob(pattern))
  assert paths
  found = {path.name: {name for name in _imports_at_start(path) if name.startswith("graftax")} for path in paths}
  assert found == {path.name: set() for path in paths}


@pytest.mark.parametrize("package", PACKAGES)
def test_third_party_imports_are_declared(package):
  distributions = packages_distributions()
  declared = _declared(package, extras=True)
  if "tensorflow" in declared:
    declared.add("tensorflow-cpu")
  undeclared = set()
  for path in _sources(package):
    if any(place in str(path) for place in _RUN_ELSEWHERE):
      continue
    # Type checkers have typing_extensions; it is imported for them alone.
    ours = {"graftax", "typing_extensions"}
    for name in {module.partition(".")[0] for module in imported_modules(path)} - ours - sys.stdlib_module_names:
      owners = {canonicalize_name(d) for d in distributions.get(name, [name])}
      if not owners & declared:
        undeclared.add(f"{path.relative_to(ROOT)}: {name}")
  assert not undeclared


@pytest.mark.parametrize("package", PACKAGES)
def test_bazel_and_pyproject_declare_the_same(package):
  call = _build_call(package)
  deps = {str(d).rpartition("/")[2] for d in call["deps"]}  # type: ignore[attr-defined]
  assert {d if d in PACKAGES else canonicalize_name(d) for d in deps} == {
    d.removeprefix("graftax-").replace("-", "_") if d.startswith("graftax-") else d
    for d in _declared(package, extras=False)
  }


def _left_out(package: str) -> list[str]:
  settings = tomllib.loads((ROOT / package / "pyproject.toml").read_text())["tool"]
  return settings.get("graftax", {}).get("not_shipped", [])


@pytest.mark.parametrize("package", PACKAGES)
def test_bazel_and_pyproject_leave_the_same_out_of_the_wheel(package):
  assert _build_call(package).get("not_shipped", []) == _left_out(package)
  assert [path for path in _left_out(package) if not (ROOT / package / "graftax" / package / path).exists()] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_what_is_shipped_imports_nothing_that_is_not(package):
  absent = {
    f"graftax.testing.{path.removesuffix('.py').replace('/', '.')}"
    for path in _left_out("testing")
    if not path.endswith(".txt")
  }
  left_out = [ROOT / package / "graftax" / package / path for path in _left_out(package)]
  shipped = [path for path in _sources(package) if not any(path.is_relative_to(folder) for folder in left_out)]
  wrong = {
    f"{path.relative_to(ROOT)}: {name}"
    for path in shipped
    for name in imported_modules(path)
    if any(f"{name}.".startswith(f"{missing}.") for missing in absent)
  }
  assert not wrong


@pytest.mark.parametrize("package", PACKAGES)
def test_declared_siblings_are_those_the_arrows_allow(package):
  siblings = {d for d in _declared(package, extras=True) if d.startswith("graftax-")}
  assert {d.removeprefix("graftax-").replace("-", "_") for d in siblings} == _arrows()[package]


def _offences(pattern: re.Pattern[str]) -> list[str]:
  found = []
  for path in _walk(ROOT):
    if path.suffix in _TEXT and path != Path(__file__):
      try:
        text = path.read_text(encoding="utf-8")
      except UnicodeDecodeError:
        continue
      found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in pattern.finditer(text)]
  return found


def test_every_file_is_of_a_kind_that_belongs_in_the_tree():
  known = _TEXT | _BINARY | _SAVED_MODEL
  strange = [str(path.relative_to(ROOT)) for path in _walk(ROOT) if path.suffix not in known]
  assert not strange, "logs, dumps and scratch files do not belong in the tree; see _TEXT for the kinds that do"


def test_private_jax_is_not_used():
  assert not [o for o in _offences(_PRIVATE_JAX) if o.partition(":")[0].endswith(".py")]


def test_no_path_of_a_machine_is_written_down():
  assert not _offences(_MACHINE_PATH)


def test_no_path_of_a_machine_is_in_test_data():
  # TensorFlow gives files that it generates such a name itself.
  path = re.compile(rb"/(?:work|root|home)/[\w.-]+|/tmp/(?!__autograph_generated_file)[\w.-]+")
  files = [file for package in PACKAGES for file in (ROOT / package).rglob("testdata/**/*") if file.is_file()]
  assert files
  assert not [str(file.relative_to(ROOT)) for file in files if path.search(file.read_bytes())]


def test_no_registry_is_named():
  assert not _offences(_REGISTRY_HOST)
