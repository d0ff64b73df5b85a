import pytest

from graftax.graphdef_ir import DType, PartialShape, schema
from graftax.savedmodel_io.errors import DamagedSavedModelError
from graftax.savedmodel_io.objects.object_graph import (
  AssetObject,
  BareFunctionObject,
  CapturedTensorObject,
  ConstantObject,
  FunctionObject,
  ResourceObject,
  SlotVariable,
  UserObject,
  VariableObject,
  read_object_graph,
)

_Reference = schema.TrackableObjectGraph.TrackableObject.ObjectReference


def _object(children: dict[str, int] | None = None, **fields) -> schema.SavedObject:
  references = [_Reference(local_name=name, node_id=i) for name, i in (children or {}).items()]
  return schema.SavedObject(children=references, **fields)


def _graph(*nodes: schema.SavedObject) -> schema.SavedObjectGraph:
  return schema.SavedObjectGraph(nodes=nodes)


def test_objects_are_found_by_attribute_path():
  graph = read_object_graph(
    _graph(_object({"layers": 1, "again": 2}), _object({"0": 2, "a.b": 3}), _object({"up": 0}), _object())
  )
  assert [graph.path(i) for i in range(4)] == [(), ("layers",), ("again",), ("layers", "a.b")]
  for path in ("layers.0", "layers[0]", "again", "layers[0].up.again"):
    assert graph.find(path).id == 2
  assert graph.find("layers.a.b").id == graph.find("layers['a.b']").id == 3
  assert graph.find("").id == 0
  assert graph.find("layers.1") is None


def test_every_kind_of_object_is_read():
  shape = schema.TensorShapeProto(dim=[schema.TensorShapeProto.Dim(size=-1)])
  graph = read_object_graph(
    _graph(
      _object(user_object=schema.SavedUserObject(identifier="_generic_user_object", metadata="{}")),
      _object(variable=schema.SavedVariable(name="w:0", dtype=1, shape=shape, trainable=True)),
      _object(constant=schema.SavedConstant(operation="Const")),
      _object(function=schema.SavedFunction(concrete_functions=["f_1", "f_2"])),
      _object(bare_concrete_function=schema.SavedBareConcreteFunction(concrete_function_name="g")),
      _object(resource=schema.SavedResource()),
      _object(asset=schema.SavedAsset(asset_file_def_index=3)),
      _object(captured_tensor=schema.CapturedTensor(name="t:0", concrete_function="g")),
      _object(registered_name="Custom.Class"),
    )
  )
  assert [node.content for node in graph.nodes] == [
    UserObject("_generic_user_object", "{}"),
    VariableObject("w", DType.FLOAT, PartialShape((None,)), True),
    ConstantObject("Const"),
    FunctionObject(("f_1", "f_2"), None),
    BareFunctionObject("g", (), 0, None),
    ResourceObject(),
    AssetObject(3),
    CapturedTensorObject("t:0", "g"),
    UserObject("Custom.Class"),
  ]
  assert [node.id for node in graph.of_kind(VariableObject)] == [1]


def test_slot_variables_are_kept():
  slot = schema.TrackableObjectGraph.TrackableObject.SlotVariableReference(
    original_variable_node_id=1, slot_name="momentum", slot_variable_node_id=2
  )
  graph = read_object_graph(_graph(_object(slot_variables=[slot]), _object(), _object()))
  assert graph.nodes[0].slot_variables == (SlotVariable(1, "momentum", 2),)


def test_circles_have_finite_paths():
  graph = read_object_graph(_graph(_object({"a": 1}), _object({"b": 1, "root": 0})))
  assert [graph.path(i) for i in range(2)] == [(), ("a",)]


@pytest.mark.parametrize("target", [2, -1])
def test_a_reference_to_nowhere_is_an_error(target):
  with pytest.raises(DamagedSavedModelError, match="saved object 0 refers to an object beyond the 2"):
    read_object_graph(_graph(_object({"a": target}), _object()))


def test_an_unknown_dtype_names_the_variable():
  with pytest.raises(DamagedSavedModelError, match="variable 'w' has dtype 99"):
    read_object_graph(_graph(_object(variable=schema.SavedVariable(name="w", dtype=99))))


def test_an_empty_object_graph_has_no_objects():
  assert read_object_graph(_graph()).nodes == ()


def test_a_chain_without_end_is_an_error():
  chain = [_object({"next": i + 1}) for i in range(2000)]
  with pytest.raises(DamagedSavedModelError, match="more than 1000 attributes below the root"):
    read_object_graph(_graph(*chain, _object()))
