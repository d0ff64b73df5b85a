from pathlib import Path

import numpy as np
import pytest

from graftax.graphdef_ir import schema
from graftax.savedmodel_io.checkpoint.reader import CheckpointReader
from graftax.savedmodel_io.errors import DamagedCheckpointError
from graftax.savedmodel_io.objects.object_graph import read_object_graph
from graftax.savedmodel_io.objects.trackable_graph import OBJECT_GRAPH_KEY, match_checkpoint, read_trackable_graph

_DATA = Path(__file__).parents[1] / "testdata/2026_11_21"
_Object = schema.TrackableObjectGraph.TrackableObject


def _children(names: dict[str, int]) -> list[_Object.ObjectReference]:
  return [_Object.ObjectReference(local_name=name, node_id=i) for name, i in names.items()]


def _saved(*nodes: dict[str, int], slots: tuple[int, str, int] | None = None) -> schema.SavedObjectGraph:
  graph = schema.SavedObjectGraph(nodes=[schema.SavedObject(children=_children(node)) for node in nodes])
  if slots:
    graph.nodes[1].slot_variables.append(_slot(*slots))
  return graph


def _slot(original: int, name: str, slot: int) -> _Object.SlotVariableReference:
  return _Object.SlotVariableReference(original_variable_node_id=original, slot_name=name, slot_variable_node_id=slot)


def _trackable(*nodes: tuple[dict[str, int], str], slots: tuple[int, str, int] | None = None):
  graph = schema.TrackableObjectGraph()
  for children, key in nodes:
    attributes = [_Object.SerializedTensor(name="VARIABLE_VALUE", checkpoint_key=key)] if key else []
    graph.nodes.append(_Object(children=_children(children), attributes=attributes))
  if slots:
    graph.nodes[1].slot_variables.append(_slot(*slots))
  return graph


def test_objects_are_matched_by_names_not_numbers():
  saved = read_object_graph(_saved({"a": 1, "b": 2}, {}, {}))
  trackable = _trackable(({"b": 1, "a": 2, "only_here": 1}, ""), ({}, "key of b"), ({}, "key of a"))
  assert match_checkpoint(saved, trackable) == {
    1: {"VARIABLE_VALUE": "key of a"},
    2: {"VARIABLE_VALUE": "key of b"},
  }


def test_an_object_under_two_names_keeps_the_first_match():
  saved = read_object_graph(_saved({"a": 1, "b": 1}, {}))
  trackable = _trackable(({"b": 2, "a": 1}, ""), ({}, "first"), ({}, "second"))
  assert match_checkpoint(saved, trackable) == {1: {"VARIABLE_VALUE": "first"}}


def test_slot_variables_are_matched_through_their_variable():
  saved = read_object_graph(_saved({"optimizer": 1, "w": 2}, {}, {}, {}, slots=(2, "momentum", 3)))
  trackable = _trackable(
    ({"w": 3, "optimizer": 1}, ""), ({}, ""), ({}, "momentum of w"), ({}, "w"), slots=(3, "momentum", 2)
  )
  assert match_checkpoint(saved, trackable) == {
    2: {"VARIABLE_VALUE": "w"},
    3: {"VARIABLE_VALUE": "momentum of w"},
  }


def test_circles_end():
  saved = read_object_graph(_saved({"a": 1}, {"a": 1, "root": 0}))
  trackable = _trackable(({"a": 1}, ""), ({"a": 1, "root": 0}, "key"))
  assert match_checkpoint(saved, trackable) == {1: {"VARIABLE_VALUE": "key"}}


def test_a_name_based_checkpoint_has_no_object_graph():
  assert read_trackable_graph(CheckpointReader(_DATA / "sharded/ckpt")) is None
  assert match_checkpoint(read_object_graph(_saved({})), None) == {}


def test_a_training_checkpoint_has_an_object_graph():
  graph = read_trackable_graph(CheckpointReader(_DATA / "training/ckpt-2"))
  assert {child.local_name for child in graph.nodes[0].children} == {"step", "net", "save_counter"}


class _FakeReader(dict):
  path_prefix = "ckpt"

  def read(self, key, *, verify):
    return self[key]


@pytest.mark.parametrize(
  ("value", "message"),
  [
    (np.array(b"\xff\xff", object), "cannot be parsed"),
    (np.zeros(3), "expected one string"),
    (np.array(_trackable(({"a": 5}, "")).SerializeToString(), object), "beyond the 1"),
  ],
)
def test_a_damaged_object_graph_is_an_error(value, message):
  with pytest.raises(DamagedCheckpointError, match=f"ckpt: {OBJECT_GRAPH_KEY}.*{message}"):
    read_trackable_graph(_FakeReader({OBJECT_GRAPH_KEY: value}))
