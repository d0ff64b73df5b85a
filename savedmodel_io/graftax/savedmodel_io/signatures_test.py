import pytest

from graftax.graphdef_ir import DType, PartialShape, TensorRef, schema
from graftax.savedmodel_io.errors import DamagedSavedModelError
from graftax.savedmodel_io.files.assets import Assets
from graftax.savedmodel_io.objects.object_graph import read_object_graph
from graftax.savedmodel_io.objects.restored_functions import FunctionReader
from graftax.savedmodel_io.objects.type_specs import RaggedTensorSpec, SparseTensorSpec
from graftax.savedmodel_io.signatures import Signatures, init_op, read_signatures

_Info = schema.TensorInfo


def _shape(*dims: int) -> schema.TensorShapeProto:
  return schema.TensorShapeProto(dim=[schema.TensorShapeProto.Dim(size=dim) for dim in dims])


def _read(**signature) -> Signatures:
  meta_graph = schema.MetaGraphDef(signature_def={"s": schema.SignatureDef(**signature)})
  objects = read_object_graph(schema.SavedObjectGraph())
  return read_signatures(meta_graph, FunctionReader(objects, {}, Assets(()), lambda name: None, {}))


def test_inputs_and_outputs_come_in_key_order_with_graph_tensors():
  inputs = {key: _Info(name=f"{key}:1", dtype=1, tensor_shape=_shape(-1)) for key in "bca"}
  signature = _read(inputs=inputs, outputs={}, method_name="predict")["s"]
  assert list(signature.inputs) == ["a", "b", "c"]
  assert signature.input_tensors["b"] == (TensorRef("b", 1),)
  assert (signature.inputs["b"].name, str(signature.inputs["b"])) == ("b", "float32[?]")
  assert signature.method_name == "predict"


def test_a_sparse_input_is_three_tensors():
  sparse = _Info.CooSparse(indices_tensor_name="i:0", values_tensor_name="v:0", dense_shape_tensor_name="d:0")
  signature = _read(inputs={"x": _Info(coo_sparse=sparse, dtype=1, tensor_shape=_shape(-1, 3))})["s"]
  assert signature.inputs["x"] == SparseTensorSpec(PartialShape((None, 3)), DType.FLOAT)
  assert [str(ref) for ref in signature.input_tensors["x"]] == ["i", "v", "d"]


def test_a_composite_input_is_its_components():
  state = schema.StructuredValue(
    tuple_value=schema.TupleValue(
      values=[
        schema.StructuredValue(tensor_shape_value=_shape(-1, -1)),
        schema.StructuredValue(tensor_dtype_value=1),
        schema.StructuredValue(int64_value=1),
        schema.StructuredValue(tensor_dtype_value=9),
      ]
    )
  )
  spec = schema.TypeSpecProto(type_spec_class=schema.TypeSpecProto.RAGGED_TENSOR_SPEC, type_state=state)
  composite = _Info.CompositeTensor(type_spec=spec, components=[_Info(name="values:0"), _Info(name="splits:0")])
  signature = _read(outputs={"y": _Info(composite_tensor=composite)})["s"]
  assert isinstance(signature.outputs["y"], RaggedTensorSpec)
  assert [str(ref) for ref in signature.output_tensors["y"]] == ["values", "splits"]


def test_defaults_are_values():
  default = schema.TensorProto(dtype=1, tensor_shape=_shape(), float_val=[0.5])
  signature = _read(inputs={"x": _Info(name="x:0", dtype=1)}, defaults={"x": default})["s"]
  assert signature.defaults["x"].numpy()[()] == 0.5


@pytest.mark.parametrize("info", [_Info(name="", dtype=1), _Info(name="x:y", dtype=1), _Info(name="x:0", dtype=99)])
def test_a_damaged_input_names_the_signature(info):
  with pytest.raises(DamagedSavedModelError, match="signature 's': "):
    _read(inputs={"x": info})


def test_the_init_signature_is_no_signature_but_the_init_op():
  info = _Info(name="init:0")
  definition = schema.SignatureDef(outputs={"__saved_model_init_op": info})
  meta_graph = schema.MetaGraphDef(signature_def={"__saved_model_init_op": definition})
  assert init_op(meta_graph) == "init"
  objects = read_object_graph(schema.SavedObjectGraph())
  assert not read_signatures(meta_graph, FunctionReader(objects, {}, Assets(()), lambda name: None, {}))


@pytest.mark.parametrize("collection", ["saved_model_main_op", "legacy_init_op"])
def test_old_models_name_the_init_op_in_a_collection(collection):
  meta_graph = schema.MetaGraphDef()
  assert init_op(meta_graph) is None
  meta_graph.collection_def[collection].node_list.value.append("group_deps")
  assert init_op(meta_graph) == "group_deps"
