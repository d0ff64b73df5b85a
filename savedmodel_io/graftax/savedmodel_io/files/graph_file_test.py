"""Files with one graph, read by `load`. What TensorFlow writes is in `artifacts_test.py`."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format

from graftax.convert import convert
from graftax.graphdef_ir import schema
from graftax.savedmodel_io import CheckpointReader, load, write_checkpoint
from graftax.savedmodel_io.errors import (
  CheckpointNotFoundError,
  NotASavedModelError,
  SavedModelNotFoundError,
  UnknownTagsError,
  UnsupportedSavedModelError,
)
from graftax.testing.resource_limits import within_limits

_FLOAT = {"T": schema.AttrValue(type=1)}
_SIZES = schema.AttrValue(shape=schema.TensorShapeProto(dim=[schema.TensorShapeProto.Dim(size=2)]))


def _graph(*nodes: schema.NodeDef) -> schema.GraphDef:
  return schema.GraphDef(node=nodes, versions=schema.VersionDef(producer=1000))


def _node(name: str, op: str, *inputs: str, **attrs: schema.AttrValue) -> schema.NodeDef:
  return schema.NodeDef(name=name, op=op, input=inputs, attr=attrs)


def _placeholder(name: str) -> schema.NodeDef:
  return _node(name, "Placeholder", dtype=schema.AttrValue(type=1), shape=_SIZES)


_FROZEN = _graph(_placeholder("a"), _placeholder("b"), _node("sum", "AddV2", "a", "b", **_FLOAT))


def _unfrozen() -> schema.GraphDef:
  variable = _node("v", "VariableV2", dtype=schema.AttrValue(type=1), shape=_SIZES)
  return _graph(_placeholder("a"), variable, _node("sum", "AddV2", "a", "v", **_FLOAT))


def _check_sum(model) -> None:
  fn, params = model.convert()
  a, b = np.float32([1, 2]), np.float32([10, 20])
  np.testing.assert_array_equal(fn(params, a=a, b=b)[0]["sum"], a + b)


def test_a_frozen_graph_is_a_model_with_one_signature(tmp_path):
  (tmp_path / "frozen.pb").write_bytes(_FROZEN.SerializeToString())
  model = load(tmp_path / "frozen.pb")
  assert (model.kind, list(model.signatures), model.fingerprint) == ("GraphDef", ["serving_default"], None)
  _check_sum(model)


def test_a_frozen_graph_in_text_form_is_read_alike(tmp_path):
  text = text_format.MessageToString(_FROZEN)  # type: ignore[type-var]  # ours are duck-typed
  (tmp_path / "frozen.pbtxt").write_text(text)
  _check_sum(load(tmp_path / "frozen.pbtxt"))
  fn, params = convert(tmp_path / "frozen.pbtxt", inputs=["b", "a"], outputs="sum")
  np.testing.assert_array_equal(fn(params, np.float32([1, 2]), np.float32([3, 4]))[0], [4, 6])


def _write_meta_graph(folder: Path, name: str = "model.ckpt-3") -> Path:
  path = folder / f"{name}.meta"
  path.write_bytes(schema.MetaGraphDef(graph_def=_unfrozen()).SerializeToString())
  write_checkpoint(folder / name, {"v": np.float32([5, 7])})
  return path


def test_a_meta_graph_has_the_values_of_its_checkpoint(tmp_path):
  path = _write_meta_graph(tmp_path)
  model = load(path)
  assert model.kind == "MetaGraph" and model.variables["v"].tolist() == [5, 7]
  for fn, params in (model.convert(), convert(path)):
    np.testing.assert_array_equal(fn(params, a=np.float32([1, 2]))[0]["sum"], [6, 9])
  fn, params = convert(path, inputs="a", outputs="sum")
  np.testing.assert_array_equal(fn(params, np.float32([1, 2]))[0], [6, 9])


def test_of_a_training_folder_the_newest_checkpoint_is_read(tmp_path):
  path = _write_meta_graph(tmp_path)
  state = 'model_checkpoint_path: "{}"\nall_model_checkpoint_paths: "{}"\n'
  # The folder was moved after TensorFlow had written its absolute path.
  (tmp_path / "checkpoint").write_text(state.format(*["/was/here/model.ckpt-3"] * 2))
  assert load(tmp_path).path == str(path)
  assert CheckpointReader(tmp_path)["v"].tolist() == [5, 7]
  (tmp_path / "other.meta").write_bytes(path.read_bytes())
  assert load(tmp_path / "other.meta").variables["v"].tolist() == [5, 7]


def test_variables_without_values_are_an_error(tmp_path):
  (tmp_path / "graph.pb").write_bytes(_unfrozen().SerializeToString())
  with pytest.raises(CheckpointNotFoundError, match="1 variables, but a GraphDef holds no values; freeze it"):
    load(tmp_path / "graph.pb")
  path = _write_meta_graph(tmp_path)
  shutil.move(path, tmp_path / "moved.meta")
  with pytest.raises(CheckpointNotFoundError, match="no checkpoint beside it"):
    load(tmp_path / "moved.meta")


def test_the_file_of_a_saved_model_names_its_folder():
  folder = Path(__file__).parents[1] / "testdata/2026_11_21/keras_export"
  assert load(folder / "saved_model.pb").path == str(folder)


def test_a_training_graph_ends_with_its_loss(tmp_path):
  shared = {"dtype": schema.AttrValue(type=1), "shape": _SIZES}
  graph = _graph(
    _placeholder("x"),
    _node("v", "VariableV2", **shared),
    _node("loss", "Mul", "x", "v", **_FLOAT),
    _node("gradients/loss_grad/Mul", "Mul", "x", "loss", **_FLOAT),
    _node("update", "AssignSub", "v", "gradients/loss_grad/Mul", **_FLOAT),
    _node("init/zeros", "ZerosLike", "v", **_FLOAT),
  )
  path = tmp_path / "m.meta"
  path.write_bytes(schema.MetaGraphDef(graph_def=graph).SerializeToString())
  write_checkpoint(tmp_path / "m", {"v": np.float32([5, 7])})
  assert list(load(path).signatures["serving_default"].outputs) == ["loss"]


@pytest.mark.parametrize(
  "name, data, message",
  [
    ("x.pb", b"PK\x03\x04" + bytes(99), "zip archive"),
    ("x.pb", b"\x89HDF\r\n\x1a\n" + bytes(99), "read_weights"),
    ("x.pb", b"\x1f\x8b" + bytes(99), "gzip"),
    ("x.pb", b"", "no graph"),
    ("x.pb", b"\x08\x01", "no graph"),
    ("x.pb", b"\xff" * 30, "cannot be parsed"),
    ("x.pb", _FROZEN.SerializeToString()[:-1], "cannot be parsed"),
    ("x.pbtxt", b"node { name: 3 }", "text form"),
    ("x.pbtxt", b"node { op: ''" + b"attr {" * 1000, "text form"),
    ("x.meta", b"\n\x05ab", "cannot be parsed"),
    ("x.meta", b"graph_def { node { op: 1 } }", "text form"),
  ],
)
def test_other_and_damaged_files_are_errors(tmp_path, name, data, message):
  (tmp_path / name).write_bytes(data)
  with within_limits(), pytest.raises(NotASavedModelError, match=message):
    load(tmp_path / name)


def test_a_huge_file_of_another_kind_is_not_read(tmp_path):
  with open(tmp_path / "x.pb", "wb") as f:
    f.truncate(1 << 34)
  with pytest.raises(NotASavedModelError, match="17179869184 bytes"):
    load(tmp_path / "x.pb")


def test_what_a_graph_file_does_not_have_is_an_error(tmp_path):
  (tmp_path / "frozen.pb").write_bytes(_FROZEN.SerializeToString())
  with pytest.raises(UnknownTagsError, match="expected .'serve'."):
    load(tmp_path / "frozen.pb", "serve")
  with pytest.raises(UnsupportedSavedModelError, match="write_saved_model"):
    load(tmp_path / "frozen.pb").save(tmp_path / "copy")
  with pytest.raises(SavedModelNotFoundError, match=r"There are graphs in .*frozen\.pb"):
    load(tmp_path)
