import sys

import pytest

from graftax.tools.errors import PythonObjectError
from graftax.tools.inputs.python_objects import attribute_of, load_module, split_name


def test_a_file_may_import_its_neighbor(tmp_path):
  (tmp_path / "neighbor_of_model.py").write_text("SIZE = 3\n")
  (tmp_path / "my_model.py").write_text("from neighbor_of_model import SIZE\nclass Net:\n  size = SIZE\n")
  before = list(sys.path)
  module = load_module(str(tmp_path / "my_model.py"))
  assert attribute_of(module, "Net.size", "my_model.py") == 3
  assert sys.path == before


def test_a_module_is_found_by_its_name():
  assert attribute_of(load_module("os.path"), "join", "os.path")("a", "b") == "a/b"


@pytest.mark.parametrize("text", ["model.py", ":predict", "model.py:"])
def test_a_name_without_both_parts_is_an_error(text):
  with pytest.raises(PythonObjectError, match="FILE.py:FUNCTION"):
    split_name(text)


@pytest.mark.parametrize(
  ("code", "message"),
  [
    ("raise ValueError('no weights')", "raises ValueError while it runs: no weights"),
    ("import no_such_library", "no_such_library"),
    ("def f(:", "SyntaxError"),
  ],
)
def test_a_file_that_does_not_run_is_an_error(tmp_path, code, message):
  (tmp_path / "broken_model.py").write_text(code)
  with pytest.raises(PythonObjectError, match=message):
    load_module(str(tmp_path / "broken_model.py"))


def test_what_is_not_there_is_named(tmp_path):
  with pytest.raises(PythonObjectError, match=r"no such file .*absent\.py"):
    load_module(str(tmp_path / "absent.py"))
  with pytest.raises(PythonObjectError, match="no_such_module_here"):
    load_module("no_such_module_here")
  (tmp_path / "small_model.py").write_text("import os\nPARAMS = 3\ndef predict(x): return x\n")
  with pytest.raises(PythonObjectError, match=r"no 'predct'; the names there are \['PARAMS', 'predict'\]"):
    attribute_of(load_module(str(tmp_path / "small_model.py")), "predct", "small_model.py")
