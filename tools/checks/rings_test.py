"""The ring of tests without TensorFlow keeps it out, and files find their ring."""

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from cleanroom import ROOT
from script_modules import script_module

# Written out below, it would count as a need of this file.
_LIBRARY = "tensorflow"

_PROBE = """
import importlib.util

import pytest


def test_tensorflow_is_not_there():
  assert importlib.util.find_spec("tensorflow") is None
  with pytest.raises(ModuleNotFoundError, match="No module named 'tensorflow'"):
    importlib.import_module("tensorflow")
"""


@pytest.fixture(scope="module")
def settings() -> ModuleType:
  return script_module(ROOT / "conftest.py")


_ROWS = """
import pytest


@pytest.mark.parametrize("row", [pytest.param(0, marks=pytest.mark.slow), 1, 2, 3])
def test_a_row(row):
  pass


def test_without_rows():
  pass
"""


def _output_of_pytest(tmp_path: Path, text: str, *options: str) -> str:
  (tmp_path / "probe_test.py").write_text(text)
  command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), f"--rootdir={ROOT}", "--ring=free"]
  command += ["-p", "no:cacheprovider", "-p", "conftest", *options, str(tmp_path / "probe_test.py")]
  return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT).stdout


def test_the_free_ring_has_no_tensorflow(tmp_path):
  assert "1 passed" in _output_of_pytest(tmp_path, _PROBE)


def test_the_first_rows_of_each_fast_test_can_be_chosen(tmp_path):
  assert "3 passed, 2 deselected" in _output_of_pytest(tmp_path, _ROWS, "-m", "not slow", "--most-rows=2")


_SLOW_ROWS = """
import pytest


@pytest.mark.slow
@pytest.mark.parametrize("row", range(7))
def test_a_slow_row(row):
  print(f"row {row}")


def test_that_is_fast():
  pass
"""


def test_the_parts_hold_each_slow_test_once(tmp_path):
  rows = [
    re.findall(r"row \d", _output_of_pytest(tmp_path, _SLOW_ROWS, "-s", f"--part={part}/3")) for part in (1, 2, 3)
  ]
  assert sorted(sum(rows, [])) == [f"row {row}" for row in range(7)]
  assert len(rows[1]) == 2
  assert "3 passed, 5 deselected" in _output_of_pytest(tmp_path, _SLOW_ROWS, "--part=2/3")


def test_the_parts_of_fast_tests_leave_slow_ones(tmp_path):
  options = ("-m", "not slow", "--verbose")
  parts = [
    set(re.findall(r"::(\S+) PASSED", _output_of_pytest(tmp_path, _ROWS, *options, f"--part-of-fast={part}/2")))
    for part in (1, 2)
  ]
  assert parts == [{"test_a_row[1]", "test_a_row[3]"}, {"test_a_row[2]", "test_without_rows"}]
  assert "8 passed" in _output_of_pytest(tmp_path, _SLOW_ROWS, "--part-of-fast=1/2")


@pytest.mark.parametrize("part", ["0/3", "4/3", "1", "a/b"])
def test_a_part_that_is_none_is_refused(tmp_path, part):
  assert not _output_of_pytest(tmp_path, _SLOW_ROWS, f"--part={part}")


@pytest.mark.parametrize(
  "text",
  [
    "def test_a():\n  import tensorflow as tf\n",
    "from tensorflow import keras\n",
    "import keras\n",
    "from jax.experimental import jax2tf\n",
    f"pytest.importorskip('{_LIBRARY}')\n",
    f"pytestmark = pytest.mark.{_LIBRARY}\n",
    "from graftax.testing.raw_ops import check_raw_op\n",
    "from graftax.testing._tensorflow import import_tensorflow\n",
    'def test_a():\n  """\n  >>> import tensorflow as tf\n  """\n',
  ],
)
def test_a_test_that_needs_tensorflow_is_found(settings, text, tmp_path):
  (tmp_path / "a_test.py").write_text(text)
  assert settings.needs_tensorflow(tmp_path / "a_test.py")


@pytest.mark.parametrize(
  ("name", "text"),
  [
    ("a_test.py", "from graftax.testing.tolerance import tolerance\n"),
    ("a_test.py", "message = 'import tensorflow to do this'\n"),
    ("a_test.py", "import tensorflowjs\n"),
    ("a.py", "def a():\n  import tensorflow as tf\n"),
  ],
)
def test_a_file_that_does_not_need_it_is_free(settings, name, text, tmp_path):
  (tmp_path / name).write_text(text)
  assert not settings.needs_tensorflow(tmp_path / name)


def test_a_module_whose_example_needs_it_is_found(settings, tmp_path):
  (tmp_path / "a.py").write_text('"""\n>>> import tensorflow as tf\n"""\n')
  assert settings.needs_tensorflow(tmp_path / "a.py")


def test_these_tests_are_free(settings):
  assert not settings.needs_tensorflow(Path(__file__))


def test_a_few_combinations_hold_every_value_of_each_parameter(settings):
  combinations = [frozenset({("dtype", i), ("shape", j)}) for i in range(4) for j in range(3)]
  kept = settings._each_choice(combinations)
  assert len(kept) == 4
  assert frozenset().union(*(combinations[position] for position in kept)) == frozenset().union(*combinations)


def test_all_rows_of_a_lone_parameter_are_kept(settings):
  assert settings._each_choice([frozenset({("op", i)}) for i in range(9)]) == set(range(9))
