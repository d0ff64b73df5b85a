"""Runs the tests in two rings: those that import TensorFlow, and those that prove to work without it.

`--ring=free` runs the files that do not need TensorFlow and makes importing it fail, as on a machine without it.
`--ring=tensorflow` runs the others. Without the option everything runs in one process.

A test file needs TensorFlow if its own text says so: an import of TensorFlow, of a library built on it, or of a
module of graftax.testing that compares with TensorFlow, anywhere in the file; or, if another helper imports it, the
marker `pytestmark = pytest.mark.tensorflow`. In a module that is not a test, only the doctests and the imports at the
top of the module count.
"""

import gc
import os
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import distributions
from pathlib import Path
from types import ModuleType
from typing import Any

import hypothesis
import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# TensorFlow enables oneDNN by default on some CPUs only. Without it TensorFlow raises for grouped, dilated and NCHW
# convolutions, and FusedBatchNorm returns a reserve space of another shape.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
# Compiling takes most of the time of the tests, and half of that is LLVM's optimizations. They change results only by
# rounding. Benchmarks and users run with them.
_XLA_FLAGS = ["--xla_backend_optimization_level=0", "--xla_llvm_disable_expensive_passes=true"]
# Under Bazel, tests of graphdef_ir have no jaxlib. That of JAX 0.12 aborts if it is given this option.
if any(jaxlib.version.startswith("0.10.") for jaxlib in distributions(name="jaxlib")):
  # XLA's older emitters of kernels take less than half the time, about as much as those of JAX 0.12.
  _XLA_FLAGS.append("--xla_cpu_use_fusion_emitters=false")
os.environ["XLA_FLAGS"] = " ".join([*_XLA_FLAGS, os.environ.get("XLA_FLAGS", "")]).strip()
# The same examples on every run, so that failures are reproducible.
hypothesis.settings.register_profile("repository", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("repository")

# A test with more combinations of parameters than this runs in part only under `make test`.
_MOST_COMBINATIONS = 4
# Slow tests take about this many times as long as others.
_TIME_OF_SLOW_TESTS = 20
_RINGS = ("all", "free", "tensorflow")
_LIBRARIES = r"(?:tensorflow|tensorflow_hub|tf_keras|keras|tf2jax|jax\.experimental\.jax2tf)\b"
_IMPORT = rf"(?:import\s+{_LIBRARIES}|from\s+{_LIBRARIES}|from\s+jax\.experimental\s+import\s+jax2tf\b)"
_OUR_DOOR = r"from\s+graftax\.testing\._tensorflow\b"
_ANYWHERE = re.compile(
  rf"^\s*(?:>>>\s+|\.\.\.\s+)?(?:{_IMPORT}|{_OUR_DOOR})|importorskip\(\s*[\"']{_LIBRARIES}|mark\.tensorflow\b",
  re.MULTILINE,
)
_AT_THE_TOP = re.compile(rf"^(?:{_IMPORT}|\s*(?:>>>|\.\.\.)\s+{_IMPORT})", re.MULTILINE)
_TESTING = re.compile(r"^\s*(?:from|import)\s+graftax\.testing(?:\.(\w+)|\s+import\s+(.+))", re.MULTILINE)
# Packages of it that import TensorFlow only in child processes, and only if that is asked for.
_WITHOUT_TENSORFLOW = ("hostile",)
_TESTING_FOLDER = Path(__file__).parent / "testing/graftax/testing"


def _compares_with_tensorflow(module: str) -> bool:
  """Returns whether a module of graftax.testing, or a name that its `__init__` exports, imports TensorFlow."""
  path = _TESTING_FOLDER / f"{module}.py"
  if module in _WITHOUT_TENSORFLOW:
    return False
  return not path.exists() or _ANYWHERE.search(path.read_text(encoding="utf-8")) is not None


@cache
def needs_tensorflow(path: Path) -> bool:
  """Returns whether a file runs in the ring with TensorFlow."""
  text = path.read_text(encoding="utf-8")
  if not path.name.endswith("_test.py"):
    return _AT_THE_TOP.search(text) is not None
  helpers = {name for module, names in _TESTING.findall(text) for name in re.findall(r"\w+", module or names)}
  return _ANYWHERE.search(text) is not None or any(_compares_with_tensorflow(name) for name in helpers)


class _WithoutTensorFlow(PathFinder):
  """Finds all installed modules except TensorFlow."""

  @classmethod
  def find_spec(
    cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
  ) -> ModuleSpec | None:
    return None if fullname.partition(".")[0] == "tensorflow" else super().find_spec(fullname, path, target)


def pytest_addoption(parser: pytest.Parser) -> None:
  parser.addoption("--ring", choices=_RINGS, default="all", help="which test files to run, by their need of TensorFlow")
  parser.addoption(
    "--most-rows", type=int, metavar="N", help="run the first N parameter sets of each test (default: all)"
  )
  for option, tests in (("--part", "slow"), ("--part-of-fast", "fast")):
    parser.addoption(
      option, type=_part, default="1/1", metavar="K/N", help=f"run every N-th of the {tests} tests, from the K-th on"
    )


def _part(text: str) -> tuple[int, int]:
  """Returns the two numbers of the options `--part` and `--part-of-fast`."""
  first, _, step = text.partition("/")
  if not 1 <= int(first) <= int(step or 0):
    raise ValueError("expected K/N with 1 <= K <= N")
  return int(first), int(step)


def pytest_configure(config: pytest.Config) -> None:
  if config.getoption("ring") == "free":
    sys.meta_path[:] = [_WithoutTensorFlow if finder is PathFinder else finder for finder in sys.meta_path]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
  """Explains a failed import of TensorFlow in the ring without it."""
  reports = terminalreporter.stats.get("failed", []) + terminalreporter.stats.get("error", [])
  if config.getoption("ring") == "free" and any("No module named 'tensorflow" in str(r.longrepr) for r in reports):
    terminalreporter.write_line(
      "TensorFlow cannot be imported in this ring. A test that needs it says `pytestmark = pytest.mark.tensorflow` "
      "(see conftest.py)."
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
  """Leaves out the files of the other ring, data folders, and files for the clean room only."""
  if collection_path.is_dir():
    return True if collection_path.name == "testdata" else None
  if collection_path.name == "smoke.py":
    return True
  ring = config.getoption("ring")
  if ring == "all" or collection_path.suffix != ".py":
    return None
  return True if needs_tensorflow(collection_path) != (ring == "tensorflow") else None


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before pytest selects by marker, and after it
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
  """Marks combinations that only `make test-all` runs as slow, applies `--most-rows` and the parts, and sorts files."""
  groups: dict[str, list[pytest.Function]] = {}
  for item in items:
    if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
      groups.setdefault(item.nodeid.partition("[")[0], []).append(item)
  _mark_combinations(groups.values())
  most_rows = config.getoption("most_rows")
  if most_rows is not None:
    _deselect_rows(config, items, groups.values(), most_rows)
  for option, is_slow in (("part", True), ("part_of_fast", False)):
    first, step = config.getoption(option)
    found = [item for item in items if (item.get_closest_marker("slow") is not None) == is_slow]
    _deselect(config, items, set(found) - set(found[first - 1 :: step]))
  yield
  if hasattr(config, "workerinput"):
    _put_long_files_first(items)


def _put_long_files_first(items: list[pytest.Item]) -> None:
  """Sorts files by the time that they take, roughly: one that starts last would keep one of the workers busy alone."""
  weights: Counter[Path] = Counter()
  for item in items:
    weights[item.path] += 1 if item.get_closest_marker("slow") is None else _TIME_OF_SLOW_TESTS
  items.sort(key=lambda item: (-weights[item.path], item.path))


def _mark_combinations(groups: Iterable[Sequence[pytest.Function]]) -> None:
  """Marks as slow most combinations of stacked `parametrize` marks; those that stay hold every row of each mark."""
  for group in groups:
    if len(group) > _MOST_COMBINATIONS:
      kept = _each_choice([_rows(item) for item in group])
      for position, item in enumerate(group):
        if position not in kept:
          item.add_marker("slow")


def _deselect_rows(
  config: pytest.Config, items: list[pytest.Item], groups: Iterable[Sequence[pytest.Function]], most_rows: int
) -> None:
  """Removes all but the first tests of each group, without counting those that are marked as slow."""
  dropped = {
    item for group in groups for item in [i for i in group if i.get_closest_marker("slow") is None][most_rows:]
  }
  _deselect(config, items, dropped)


def _deselect(config: pytest.Config, items: list[pytest.Item], dropped: Collection[pytest.Item]) -> None:
  config.hook.pytest_deselected(items=[item for item in items if item in dropped])
  items[:] = [item for item in items if item not in dropped]


def _rows(item: pytest.Function) -> frozenset[tuple[object, ...]]:
  """Returns which row of each `parametrize` mark an item has; rows are told apart by the identity of their values."""
  rows = []
  for mark in item.iter_markers("parametrize"):
    names = mark.args[0].replace(" ", "").split(",") if isinstance(mark.args[0], str) else mark.args[0]
    rows.append((*names, *(id(item.callspec.params.get(name)) for name in names)))
  return frozenset(rows)


def _each_choice(combinations: Sequence[frozenset[Any]]) -> set[int]:
  """Returns positions of a few combinations that together hold every element that occurs in any, found greedily."""
  missing = frozenset().union(*combinations)
  kept: set[int] = set()
  if all(len(combination) == 1 for combination in combinations):
    return set(range(len(combinations)))
  while missing:
    best = max(range(len(combinations)), key=lambda position: len(combinations[position] & missing))
    kept.add(best)
    missing -= combinations[best]
  return kept


@pytest.fixture(autouse=True, scope="module")
def _compiled_programs_end_with_their_file() -> Iterator[None]:
  """Clears JAX's compiled programs after each test file, since they would fill the memory of a small machine."""
  yield
  jax = sys.modules.get("jax")
  if jax is not None:
    jax.clear_caches()
    gc.collect()
