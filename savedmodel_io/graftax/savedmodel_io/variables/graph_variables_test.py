import shutil
from pathlib import Path

import numpy as np
import pytest

from graftax.graphdef_ir import DType, schema
from graftax.savedmodel_io.checkpoint.reader import CheckpointReader
from graftax.savedmodel_io.checkpoint.tensor_slice import TensorSlice
from graftax.savedmodel_io.errors import CheckpointNotFoundError, DamagedSavedModelError
from graftax.savedmodel_io.saved_model import load
from graftax.savedmodel_io.variables.graph_variables import read_graph_variables
from graftax.savedmodel_io.variables.variables import Variables

_DATA = Path(__file__).parents[1] / "testdata/2026_11_21"


def _node(name: str, op: str, *inputs: str, **attrs) -> schema.NodeDef:
  node = schema.NodeDef(name=name, op=op, input=inputs)
  for key, value in attrs.items():
    node.attr[key].CopyFrom(value)
  return node


def _strings(name: str, *values: str) -> schema.NodeDef:
  shape = schema.TensorShapeProto(dim=[schema.TensorShapeProto.Dim(size=len(values))])
  tensor = schema.TensorProto(dtype=7, tensor_shape=shape, string_val=[value.encode() for value in values])
  return _node(name, "Const", value=schema.AttrValue(tensor=tensor))


def _variable(name: str, op: str = "VarHandleOp") -> schema.NodeDef:
  dims = [schema.TensorShapeProto.Dim(size=2), schema.TensorShapeProto.Dim(size=3)]
  shape = schema.AttrValue(shape=schema.TensorShapeProto(dim=dims))
  return _node(name, op, dtype=schema.AttrValue(type=3), shape=shape)


def _meta_graph(*nodes: schema.NodeDef, restore_op: str = "save/restore_all") -> schema.MetaGraphDef:
  return schema.MetaGraphDef(
    graph_def=schema.GraphDef(node=nodes), saver_def=schema.SaverDef(restore_op_name=restore_op)
  )


_RESTORE = (
  _strings("names", "a", "b"),
  _strings("specs", "", ""),
  _node("restore", "RestoreV2", "file", "names", "specs"),
  _node("identity", "Identity", "restore:0"),
  _node("save/restore_all", "NoOp", "^shard"),
  _node("shard", "NoOp", "^assign"),
)


@pytest.fixture
def reader():
  return CheckpointReader(_DATA / "sharded/ckpt")


def test_a_variable_is_found_through_the_ops_that_restore_it(reader):
  meta_graph = _meta_graph(_variable("renamed"), *_RESTORE, _node("assign", "AssignVariableOp", "renamed", "identity"))
  (info,) = read_graph_variables(meta_graph, reader)
  assert (info.name, info.checkpoint_key, info.graph_node, info.dtype) == ("renamed", "a", "renamed", DType.INT32)


def test_without_a_saver_variables_go_by_name(reader):
  (info,) = read_graph_variables(_meta_graph(_variable("a", "VariableV2"), restore_op=""), reader)
  assert info.checkpoint_key == "a"


def _record_of_a_part(offset: list[int], shape: list[int]) -> bytes:
  part = schema.SaveSliceInfoDef(full_name="a", full_shape=[2, 3], var_offset=offset, var_shape=shape)
  return schema.VariableDef(variable_name="v:0", save_slice_info_def=part).SerializeToString()


def test_without_a_saver_pieces_of_a_variable_go_by_their_record(reader):
  meta_graph = _meta_graph(_variable("v"), restore_op="")
  meta_graph.collection_def["variables"].bytes_list.value.append(_record_of_a_part([1, 0], [1, 3]))
  (info,) = read_graph_variables(meta_graph, reader)
  assert (info.checkpoint_key, info.part) == ("a", TensorSlice(((1, 1), (0, 3))))


@pytest.mark.parametrize(("offset", "shape"), [([1], [1]), ([1, 0], [2, 3]), ([-1, 0], [2, 3])])
def test_a_record_of_a_piece_that_does_not_fit_its_tensor_raises(reader, offset, shape):
  meta_graph = _meta_graph(_variable("v"), restore_op="")
  meta_graph.collection_def["variables"].bytes_list.value.append(_record_of_a_part(offset, shape))
  with pytest.raises(DamagedSavedModelError, match="'v': slice .* (has 1 dimensions|leaves shape)"):
    Variables(read_graph_variables(meta_graph, reader), reader)


@pytest.mark.parametrize(("op", "inputs"), [("RestoreSlice", ("file", "name", "spec")), ("Restore", ("file", "name"))])
def test_the_ops_of_the_first_format_are_understood(reader, op, inputs):
  nodes = [_strings("name", "a"), _strings("spec", ""), _node("old", op, *inputs)]
  meta_graph = _meta_graph(_variable("v"), *nodes, _node("save/restore_all", "Assign", "v", "old"))
  assert read_graph_variables(meta_graph, reader)[0].checkpoint_key == "a"


def test_a_circle_of_identities_ends(reader):
  circle = (_node("i", "Identity", "j"), _node("j", "Identity", "i"))
  meta_graph = _meta_graph(_variable("v"), *circle, _node("save/restore_all", "Assign", "v", "i"))
  assert read_graph_variables(meta_graph, reader)[0].checkpoint_key is None


@pytest.mark.parametrize(
  ("names", "specs", "message"),
  [
    (_strings("names"), _strings("specs"), "0 tensor names for output 0"),
    (_strings("names", "a"), _strings("specs", "5 3 x"), "shape_and_slices entry '5 3 x'"),
    (_node("names", "Placeholder"), _strings("specs", ""), "input 1 is not a constant of strings"),
    (_strings("names", "gone"), _strings("specs", ""), "tensor 'gone', which the checkpoint does not have"),
  ],
)
def test_damaged_restore_ops_are_errors(reader, names, specs, message):
  restore = _node("restore", "RestoreV2", "file", "names", "specs")
  meta_graph = _meta_graph(_variable("v"), names, specs, restore, _node("save/restore_all", "Assign", "v", "restore"))
  with pytest.raises(DamagedSavedModelError, match=message):
    read_graph_variables(meta_graph, reader)


def test_a_variable_that_is_not_saved_takes_its_constant_initializer(reader):
  value = schema.TensorProto(dtype=3, tensor_shape=_variable("x").attr["shape"].shape, int_val=[7])
  meta_graph = _meta_graph(
    _variable("v"),
    _node("seven", "Const", value=schema.AttrValue(tensor=value)),
    _node("init", "AssignVariableOp", "v", "seven"),
  )
  record = schema.VariableDef(variable_name="v:0", initializer_name="init")
  meta_graph.collection_def["variables"].bytes_list.value.append(record.SerializeToString())
  (info,) = read_graph_variables(meta_graph, reader)
  assert info.initial_value.numpy().tolist() == [[7, 7, 7], [7, 7, 7]]
  assert not info.trainable


def test_a_tf1_model_has_its_variables_pieces_and_trainability():
  model = load(_DATA / "tf1_partitioned", "serve")
  assert model.is_tf1
  assert {name: value.tolist() for name, value in model.variables.items()} == {
    "matrix/part_0": [[0, 1, 2], [3, 4, 5]],
    "matrix/part_1": [[6, 7, 8], [9, 10, 11]],
    "bias": [1, 2, 3],
    "fixed": [0.5],
  }
  info = model.variables.info("matrix/part_1")
  assert (info.checkpoint_key, info.part) == ("matrix", TensorSlice(((2, 2), (0, 3))))
  assert [info.trainable for info in model.variables.infos.values()] == [True, True, True, False]
  assert not model.variables["matrix/part_1"].flags.owndata
  np.testing.assert_array_equal(model.variables.read("matrix/part_1", (slice(1, 2), slice(0, 2))), [[9, 10]])


def test_a_tf1_model_without_its_checkpoint_is_an_error(tmp_path):
  shutil.copy(_DATA / "tf1_partitioned/saved_model.pb", tmp_path)
  with pytest.raises((CheckpointNotFoundError, DamagedSavedModelError), match="matrix|variables"):
    load(tmp_path, "serve")
