import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from graftax.convert import Program, Variable, convert_program
from graftax.graphdef_ir import DType
from graftax.savedmodel_io import load, write_saved_model
from graftax.savedmodel_io.errors import (
  CheckpointWriteError,
  MissingFolderError,
  OutputExistsError,
  SaveInputError,
  TensorValueError,
  VariableValueError,
)
from graftax.testing.graph_builders import const, function, node, program

_DATA = Path(__file__).parents[1] / "testdata"


def _scale(value: float = 2.0, variable: str = "scale", name: str = "scaled") -> Program:
  """`x -> x * variable + 1`, in a function called by the function."""
  inner = function(
    "add_one", ["y"], [const("one", np.float32(1)), node("z", "AddV2", "y", "one", T=DType.FLOAT)], ["z"]
  )
  nodes = [
    node("read", "ReadVariableOp", "v", dtype=DType.FLOAT),
    node("y", "Mul", "x", "read", T=DType.FLOAT),
    node("z", "add_one", "y"),
  ]
  return program(function(name, ["x", "*v"], nodes, ["z"]), [inner], {variable: value})


def _call(folder: Path, name: str, *args):
  model = load(folder)
  fn, params = model.convert(model.functions[name])
  return fn(params, *args)[0][0]


@pytest.mark.parametrize("name", ["2026_11_21/keras_export", "2026_11_21/module", "2026_11_22/text_and_shapes"])
def test_functions_and_signatures_that_were_read_compute_the_same_once_written(tmp_path, name):
  model = load(_DATA / name)
  functions, signatures = _writable(model)
  assert functions or signatures
  write_saved_model(tmp_path / "m", functions, signatures=signatures, assets=model.assets)
  written = load(tmp_path / "m")
  assert set(written.functions) == set(functions) and set(written.signatures) == set(signatures)
  for path, (first, *_) in functions.items():
    ours = written.program_from_trace(written.functions[path], 0)
    _assert_same_program(ours, first)
    assert written.functions[path].spec.signature == model.functions[path].spec.signature
  for key, before in signatures.items():
    if key == "noise":
      continue  # the numbers that it draws depend on the name of the function
    _assert_same_program(written.program(written.signatures[key]), before)


def _writable(model):
  """Returns the functions and signatures without tables of strings."""
  functions, signatures = {}, {}
  for path, restored in model.functions.items():
    traces = [model.program_from_trace(restored, i) for i in range(len(restored.concrete_functions))]
    if all(isinstance(capture, np.ndarray) or hasattr(capture, "kind") for t in traces for capture in t.captures):
      functions[path] = traces
  for key, signature in model.signatures.items():
    made = model.program(signature)
    if all(isinstance(capture, np.ndarray) or hasattr(capture, "kind") for capture in made.captures):
      signatures[key] = made
  return functions, signatures


def _assert_same_program(ours: Program, theirs: Program) -> None:
  assert [spec.dtype for spec in ours.inputs.specs] == [spec.dtype for spec in theirs.inputs.specs]
  rng = np.random.default_rng(0)
  specs = theirs.inputs.specs
  arrays = [rng.integers(0, 3, [2 if d is None else d for d in s.shape.dims or ()]) for s in specs]
  if any(spec.dtype is DType.STRING for spec in specs):
    return
  leaves = iter([a.astype(s.dtype.numpy) for a, s in zip(arrays, specs, strict=True)])
  kept = jax.tree.map(lambda leaf: next(leaves) if hasattr(leaf, "shape") else leaf, theirs.inputs.arguments)
  results = []
  for each in (ours, theirs):
    fn, params = convert_program(each)
    bound = each.inputs.signature.bind_partial()
    bound.arguments.update({k: v for k, v in kept.items() if k in each.inputs.signature.parameters})
    results.append(fn(params, *bound.args, rng=jax.random.key(0), **bound.kwargs)[0])
  jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b), *results)


def test_a_function_has_several_names_traces_and_parents(tmp_path):
  first = _scale()
  write_saved_model(tmp_path / "m", {"__call__": first, "encoder.call": first, "encoder.other": [_scale(name="other")]})
  model = load(tmp_path / "m")
  assert list(model.functions) == ["__call__", "encoder.other"]
  assert model.functions["encoder.call"] is model.functions["__call__"]
  assert _call(tmp_path / "m", "encoder.other", np.float32(3)) == 7


def test_functions_of_one_name_that_differ_are_kept_apart(tmp_path):
  other = _scale(5.0, "other_scale")
  inner = replace(other.library["add_one"], nodes=(const("one", np.float32(10)), other.library["add_one"].nodes[1]))
  other = replace(other, library=other.library.replace({"add_one": inner}))
  write_saved_model(tmp_path / "m", {"f": _scale(), "g": other, "h": _scale()})
  assert [_call(tmp_path / "m", name, np.float32(3)) for name in "fgh"] == [7, 25, 7]
  assert len(load(tmp_path / "m").graph.library) == 4


def test_one_function_bound_to_two_variables_is_stored_twice(tmp_path):
  a, b = _scale(2.0, "a"), _scale(3.0, "b")
  write_saved_model(tmp_path / "m", {"f": a, "g": replace(b, function=a.function, library=a.library)})
  assert [_call(tmp_path / "m", name, np.float32(3)) for name in "fg"] == [7, 10]


def test_variables_are_shared_by_name_and_found_by_attribute(tmp_path):
  w = np.arange(3, dtype=np.float32)
  write_saved_model(
    tmp_path / "m",
    {"f": _scale(), "g": _scale(name="again")},
    params={"w": w},
    attributes={"params": {"dense": {"w.0/x": "w"}, "all": ["scale", "w"]}},
    trainable={"w": False},
  )
  model = load(tmp_path / "m")
  assert {name: info.trainable for name, info in model.variables.infos.items()} == {"w": False, "scale": True}
  assert model.objects.find("params.all.1").id == model.variables.info("w").node_id
  assert model.variables.info("w").checkpoint_key == "variables/0/.ATTRIBUTES/VARIABLE_VALUE"
  np.testing.assert_array_equal(model.variables["w"], w)


def test_new_values_and_assets_are_written(tmp_path):
  words = tmp_path / "words.txt"
  words.write_text("a\nb\n")
  write_saved_model(tmp_path / "m", {"f": _scale()}, params={"scale": np.float32(4)}, assets=[words])
  assert _call(tmp_path / "m", "f", np.float32(3)) == 13
  assert load(tmp_path / "m").assets["words.txt"].read_text() == "a\nb\n"


def test_nothing_of_tensorflow_is_imported(tmp_path):
  code = (
    "import sys; sys.modules['tensorflow'] = None\n"
    "from graftax.savedmodel_io import load, write_saved_model\n"
    "model = load(sys.argv[1]); write_saved_model(sys.argv[2], {'f': model.program('serve')})"
  )
  subprocess.run([sys.executable, "-c", code, _DATA / "2026_11_21/keras_export", tmp_path / "m"], check=True)
  assert list(load(tmp_path / "m").functions) == ["f"]


def _with_value(value) -> Program:
  return replace(_scale(), variables={"scale": Variable(np.asarray(value), "scale:0")})


@pytest.mark.parametrize(
  ("functions", "options", "error", "message"),
  [
    ({"": _scale()}, {}, SaveInputError, "function '': expected an attribute path"),
    ({"a b": _scale()}, {}, SaveInputError, "function 'a b'"),
    ({"a..b": _scale()}, {}, SaveInputError, "function 'a..b'"),
    ({3: _scale()}, {}, SaveInputError, "function 3"),
    ({"variables": _scale()}, {}, SaveInputError, "SavedModels keep something else in 'variables'"),
    ({"signatures.f": _scale()}, {}, SaveInputError, "'signatures.f'"),
    ({"f": []}, {}, SaveInputError, "function 'f' is \\[\\]; expected a Program"),
    ({"f": abs}, {}, SaveInputError, "function 'f' is <built-in"),
    ({"f": _scale(), "f.g": _scale()}, {}, SaveInputError, "attribute of function 'f'"),
    ({"params": _scale()}, {"attributes": {"params": {"w": "scale"}}}, SaveInputError, "another attribute 'params'"),
    ({"params.f": _scale()}, {"attributes": {"params": ["scale"]}}, SaveInputError, "another attribute 'params'"),
    ({"f": _scale()}, {"attributes": {"variables": []}}, SaveInputError, "attribute 'variables'"),
    ({"f": _scale()}, {"attributes": {"a": {"b": "none"}}}, SaveInputError, "no variable 'none'"),
    ({"f": _scale()}, {"attributes": {"a": {1: "scale"}}}, SaveInputError, "key 1"),
    ({"f": _scale()}, {"attributes": {"a": np.ones(2)}}, SaveInputError, "attribute 'a': no variable array"),
    ({"f": _scale()}, {"signatures": {"s": "g"}}, SaveInputError, "signature 's' is 'g'; .*\\['f'\\]"),
    ({"f": _scale()}, {"signatures": {"": "f"}}, SaveInputError, "signature ''"),
    (
      {"f": _scale()},
      {"signatures": {"__saved_model_init_op": "f"}},
      SaveInputError,
      "'__saved_model_init_op': .* none",
    ),
    ({"f": _scale()}, {"signatures": {"s": ["f"]}}, SaveInputError, "signature 's' is \\['f'\\]; .*"),
    ({"f": [_scale(), _scale(name="b")]}, {"signatures": {"s": "f"}}, SaveInputError, "has 2 traces"),
    ({"f": _scale()}, {"trainable": {"other": True}}, SaveInputError, "\\['other'\\]; .*scale"),
    ({"f": _scale()}, {"assets": ["no/such.txt"]}, SaveInputError, "no/such.txt is not a file"),
    ({"f": _scale()}, {"assets": {"../up": __file__}}, SaveInputError, "asset '../up'"),
    ({"f": _scale()}, {"assets": [__file__, __file__]}, SaveInputError, "two assets are named"),
    ({"f": _scale()}, {"tags": [""]}, SaveInputError, "tags"),
    ({"f": _scale()}, {"regularization_losses": [_scale()]}, SaveInputError, "'scaled' has 1 arguments"),
    ({"f": _scale()}, {"regularization_losses": [abs]}, SaveInputError, "loss is <built-in"),
    ({"f": _scale(), "g": _scale(3.0)}, {}, VariableValueError, "'scale' has another value in program"),
    ({"f": replace(_scale(), variables={})}, {}, VariableValueError, "'scale' of program .* has no value"),
    ({"f": _scale()}, {"params": {"scale": np.float64(1)}}, VariableValueError, "'scale' is float32"),
    ({"f": _scale()}, {"params": {"scale": np.ones(3, np.float32)}}, VariableValueError, "value is float32 \\[3\\]"),
    ({"f": _scale()}, {"params": {"scale": 1.0}}, TensorValueError, "variable 'scale' is 1.0 of type float"),
    (
      {"f": _scale()},
      {"params": {"scale": jax.ShapeDtypeStruct((), np.float32)}},
      VariableValueError,
      "only a shape and a dtype",
    ),
    ({"f": _scale(), "g": _with_value([1.0, 2.0])}, {}, VariableValueError, "variable 'scale' is "),
  ],
)
def test_bad_input_raises_before_anything_is_written(tmp_path, functions, options, error, message):
  with pytest.raises(error, match=message):
    write_saved_model(tmp_path / "m", functions, **options)
  assert not list(tmp_path.iterdir())


def test_a_table_that_was_filled_from_a_file_is_written_with_its_contents(tmp_path):
  model = load(_DATA / "2026_11_21/module")
  write_saved_model(tmp_path / "m", {"look_up": model.program("look_up")})
  tables = [program.captures[0] for program in (model.program("look_up"), load(tmp_path / "m").program("look_up"))]
  assert len(tables[0].keys) > 1
  np.testing.assert_array_equal(tables[1].keys, tables[0].keys)
  np.testing.assert_array_equal(tables[1].values, tables[0].values)


def test_only_a_saved_model_is_replaced_and_only_if_asked_for(tmp_path):
  write_saved_model(tmp_path / "m", {"f": _scale()})
  with pytest.raises(OutputExistsError, match="overwrite=True"):
    write_saved_model(tmp_path / "m", {"f": _scale(3.0)})
  write_saved_model(tmp_path / "m", {"f": _scale(3.0)}, overwrite=True)
  assert _call(tmp_path / "m", "f", np.float32(3)) == 10
  (tmp_path / "other").mkdir()
  (tmp_path / "other/file").touch()
  with pytest.raises(OutputExistsError, match="holds no saved_model.pb"):
    write_saved_model(tmp_path / "other", {"f": _scale()}, overwrite=True)
  with pytest.raises(MissingFolderError):
    write_saved_model(tmp_path / "other/file/m", {"f": _scale()})
  write_saved_model(tmp_path / "new/folders/m", {"f": _scale(3.0)})
  assert _call(tmp_path / "new/folders/m", "f", np.float32(3)) == 10


def test_ops_of_other_libraries_keep_their_signatures(tmp_path):
  program = load(_DATA / "golden/2026_11_23_text/tensorflow_2.21.0/text_bert_uncased").program()
  write_saved_model(tmp_path / "m", {"f": program})
  written = load(tmp_path / "m").program("f").signatures
  assert written["CaseFoldUTF8"] == program.signatures["CaseFoldUTF8"]


def test_a_full_disk_leaves_the_old_model_and_nothing_else(tmp_path, monkeypatch):
  write_saved_model(tmp_path / "m", {"f": _scale()})

  def full(*_):
    raise OSError(28, "No space left on device")

  monkeypatch.setattr(Path, "write_bytes", full)
  with pytest.raises(CheckpointWriteError, match="No space left"):
    write_saved_model(tmp_path / "m", {"f": _scale(3.0)}, overwrite=True)
  assert [path.name for path in tmp_path.iterdir()] == ["m"]
  assert _call(tmp_path / "m", "f", np.float32(3)) == 7


_KILLED = """
import os, signal, sys
from graftax.savedmodel_io import load, write_saved_model
model = load(sys.argv[1])
kill = lambda written, total: os.kill(os.getpid(), signal.SIGKILL)
write_saved_model(sys.argv[2], {"f": model.program("serve")}, overwrite=True, progress=kill)
"""


def test_a_writer_that_is_killed_leaves_the_old_model(tmp_path):
  write_saved_model(tmp_path / "m", {"f": _scale()})
  killed = subprocess.run([sys.executable, "-c", _KILLED, _DATA / "2026_11_21/keras_export", tmp_path / "m"])
  assert killed.returncode == -9
  assert _call(tmp_path / "m", "f", np.float32(3)) == 7
  assert all(name == "m" or name.endswith(".graftax-partial") for name in os.listdir(tmp_path))
