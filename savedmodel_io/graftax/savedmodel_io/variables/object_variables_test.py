from pathlib import Path

from graftax.graphdef_ir import schema
from graftax.savedmodel_io.checkpoint.reader import CheckpointReader
from graftax.savedmodel_io.objects.object_graph import read_object_graph
from graftax.savedmodel_io.variables.object_variables import read_object_variables

_DATA = Path(__file__).parents[1] / "testdata/2026_11_21"


def _variables(*names: str, captured: int | None = None):
  children = schema.TrackableObjectGraph.TrackableObject.ObjectReference
  root = schema.SavedObject(children=[children(local_name=f"v{i}", node_id=i + 1) for i in range(len(names))])
  variables = [schema.SavedObject(variable=schema.SavedVariable(name=name, dtype=3)) for name in names]
  graph = schema.SavedObjectGraph(nodes=[root, *variables])
  if captured is not None:
    graph.concrete_functions["f"].bound_inputs.append(captured)
  return read_object_graph(graph)


def test_the_matched_key_comes_before_the_name():
  reader = CheckpointReader(_DATA / "sharded/ckpt")
  (info,) = read_object_variables(_variables("a"), reader, {1: {"VARIABLE_VALUE": "b"}})
  assert (info.checkpoint_key, info.path, info.node_id) == ("b", ("v0",), 1)


def test_a_name_based_checkpoint_is_matched_by_variable_names():
  reader = CheckpointReader(_DATA / "sharded/ckpt")
  infos = read_object_variables(_variables("a", "gone"), reader, {})
  assert [info.checkpoint_key for info in infos] == ["a", None]


def test_names_also_match_with_the_suffix_of_object_based_keys():
  reader = CheckpointReader(_DATA / "training/ckpt-2")
  (info,) = read_object_variables(_variables("step"), reader, {})
  assert info.checkpoint_key == "step/.ATTRIBUTES/VARIABLE_VALUE"


def test_without_a_checkpoint_no_variable_has_a_value():
  (info,) = read_object_variables(_variables("a"), None, {})
  assert not info.has_value


def test_a_captured_variable_keeps_the_plain_name():
  infos = read_object_variables(_variables("w", "w", captured=2), None, {})
  assert [info.name for info in infos] == ["w_1", "w"]


def test_variables_of_frozen_layers_are_not_trained():
  children = schema.TrackableObjectGraph.TrackableObject.ObjectReference

  def listed(*ids: int) -> schema.SavedObject:
    references = [children(local_name=str(i), node_id=node_id) for i, node_id in enumerate(ids)]
    return schema.SavedObject(
      children=references, user_object=schema.SavedUserObject(identifier="trackable_list_wrapper")
    )

  def graph(**lists: int) -> schema.SavedObjectGraph:
    references = [children(local_name=name, node_id=node_id) for name, node_id in lists.items()]
    references += [children(local_name=name, node_id=i + 1) for i, name in enumerate("ab")]
    variables = [schema.SavedObject(variable=schema.SavedVariable(name=n, dtype=3, trainable=True)) for n in "ab"]
    return schema.SavedObjectGraph(
      nodes=[schema.SavedObject(children=references), *variables, listed(1), listed(1, 2), listed(2)]
    )

  # What Keras 3 exports, what layers of Keras 2 have, and an object without lists.
  for lists, wanted in (
    ({"trainable_variables": 3, "non_trainable_variables": 5}, [True, False]),
    ({"variables": 4, "trainable_variables": 3}, [True, False]),
    ({"variables": 4, "trainable_variables": 4}, [True, True]),
    ({"variables": 4}, [True, True]),
  ):
    infos = read_object_variables(read_object_graph(graph(**lists)), None, {})
    assert [info.trainable for info in infos] == wanted, lists
