import numpy as np
import pytest

from graftax.graphdef_ir import DType, PartialShape, TensorSpec, schema
from graftax.savedmodel_io.errors import DamagedSavedModelError
from graftax.savedmodel_io.objects.structured_value import decode_structure, flatten_structure, structure_specs
from graftax.savedmodel_io.objects.type_specs import (
  BoundedTensorSpec,
  IndexedSlicesSpec,
  OpaqueTypeSpec,
  RaggedTensorSpec,
  SparseTensorSpec,
  VariableSpec,
)

_Value = schema.StructuredValue


def _shape(*dims: int) -> schema.TensorShapeProto:
  return schema.TensorShapeProto(dim=[schema.TensorShapeProto.Dim(size=dim) for dim in dims])


def _tuple(*values: schema.StructuredValue) -> schema.StructuredValue:
  return _Value(tuple_value=schema.TupleValue(values=values))


_NONE = _Value(none_value=schema.NoneValue())
_INT = _Value(int64_value=-3)
_SPEC = _Value(tensor_spec_value=schema.TensorSpecProto(name="x", shape=_shape(-1, 2), dtype=1))


@pytest.mark.parametrize(
  ("proto", "value"),
  [
    (_NONE, None),
    (_INT, -3),
    (_Value(float64_value=0.5), 0.5),
    (_Value(string_value="né"), "né"),
    (_Value(bool_value=True), True),
    (_Value(tensor_shape_value=_shape(-1, 2)), PartialShape((None, 2))),
    (_Value(tensor_shape_value=schema.TensorShapeProto(unknown_rank=True)), PartialShape(None)),
    (_Value(tensor_dtype_value=14), DType.BFLOAT16),
    (_SPEC, TensorSpec(PartialShape((None, 2)), DType.FLOAT, "x")),
    (_Value(list_value=schema.ListValue(values=[_INT, _NONE])), [-3, None]),
    (_tuple(_INT, _tuple()), (-3, ())),
    (_Value(dict_value=schema.DictValue(fields={"b": _INT, "a": _NONE})), {"a": None, "b": -3}),
  ],
)
def test_values_and_containers_become_python(proto, value):
  decoded = decode_structure(proto)
  assert decoded == value
  assert type(decoded) is type(value)


def test_dicts_come_in_key_order():
  proto = _Value(dict_value=schema.DictValue(fields=dict.fromkeys("cab", _NONE)))
  assert list(decode_structure(proto)) == ["a", "b", "c"]


def test_a_zero_is_no_missing_value():
  assert decode_structure(_Value(int64_value=0)) == 0
  assert decode_structure(_Value(string_value="")) == ""


def _named_tuple(name: str, *keys: str) -> schema.StructuredValue:
  pairs = [schema.PairValue(key=key, value=_INT) for key in keys]
  return _Value(named_tuple_value=schema.NamedTupleValue(name=name, values=pairs))


def test_named_tuples_keep_name_and_fields():
  decoded = decode_structure(_named_tuple("Point", "x", "y"))
  assert (type(decoded).__name__, decoded._fields, tuple(decoded)) == ("Point", ("x", "y"), (-3, -3))
  assert type(decoded) is type(decode_structure(_named_tuple("Point", "x", "y")))


@pytest.mark.parametrize("keys", [("a b",), ("class",), ("x", "x"), ("_private",), ("x=__import__('os')",)])
def test_field_names_that_are_no_identifiers_raise(keys):
  with pytest.raises(DamagedSavedModelError, match="named_tuple_value"):
    decode_structure(_named_tuple("Point", *keys))


def test_a_class_name_that_is_no_identifier_is_replaced():
  assert type(decode_structure(_named_tuple("a.b c", "x"))).__name__ == "NamedTuple"


def test_bounds_are_arrays():
  bound = schema.TensorProto(dtype=1, tensor_shape=_shape(), float_val=[2.0])
  proto = _Value(
    bounded_tensor_spec_value=schema.BoundedTensorSpecProto(shape=_shape(3), dtype=1, minimum=bound, maximum=bound)
  )
  decoded = decode_structure(proto)
  assert isinstance(decoded, BoundedTensorSpec)
  assert (decoded.shape, decoded.name) == (PartialShape((3,)), None)
  np.testing.assert_array_equal(decoded.minimum, np.float32(2))


def _type_spec(
  kind: int, *state: schema.StructuredValue, name: str = "", components: int = 0
) -> schema.StructuredValue:
  return _Value(
    type_spec_value=schema.TypeSpecProto(
      type_spec_class=kind, type_state=_tuple(*state), type_spec_class_name=name, num_flat_components=components
    )
  )


_ANY_BY_TWO = _Value(tensor_shape_value=_shape(4, -1, 2))
_FLOAT = _Value(tensor_dtype_value=1)
_INT64 = _Value(tensor_dtype_value=9)
_Class = schema.TypeSpecProto


def test_a_ragged_tensor_is_passed_as_values_and_row_splits():
  one = decode_structure(_type_spec(_Class.RAGGED_TENSOR_SPEC, _ANY_BY_TWO, _FLOAT, _Value(int64_value=1), _INT64))
  assert one == RaggedTensorSpec(PartialShape((4, None, 2)), DType.FLOAT, 1, DType.INT64)
  assert [str(spec) for spec in structure_specs(one)] == ["float32[?, 2]", "int64[5]"]
  two = decode_structure(_type_spec(_Class.RAGGED_TENSOR_SPEC, _ANY_BY_TWO, _FLOAT, _Value(int64_value=2), _INT64))
  assert [str(spec) for spec in structure_specs(two)] == ["float32[?]", "int64[5]", "int64[?]"]


def test_a_sparse_tensor_is_passed_as_indices_values_and_shape():
  sparse = decode_structure(_type_spec(_Class.SPARSE_TENSOR_SPEC, _ANY_BY_TWO, _FLOAT))
  assert sparse == SparseTensorSpec(PartialShape((4, None, 2)), DType.FLOAT)
  assert [str(spec) for spec in structure_specs(sparse)] == ["int64[?, 3]", "float32[?]", "int64[3]"]


def test_indexed_slices_are_passed_with_or_without_dense_shape():
  indices_shape = _Value(tensor_shape_value=_shape(-1))
  state = (_ANY_BY_TWO, _FLOAT, _INT64, _INT64, indices_shape)
  slices = decode_structure(_type_spec(_Class.INDEXED_SLICES_SPEC, *state))
  assert isinstance(slices, IndexedSlicesSpec)
  assert [str(spec) for spec in structure_specs(slices)] == ["float32[4, ?, 2]", "int64[?]", "int64[3]"]
  no_shape = decode_structure(_type_spec(_Class.INDEXED_SLICES_SPEC, *state[:3], _NONE, indices_shape))
  assert len(structure_specs(no_shape)) == 2


def test_a_variable_is_passed_as_a_handle():
  spec = decode_structure(_type_spec(_Class.VARIABLE_SPEC, _ANY_BY_TWO, _FLOAT, _Value(bool_value=True), _NONE))
  assert spec == VariableSpec(PartialShape((4, None, 2)), DType.FLOAT, True)
  assert [spec.dtype for spec in structure_specs(spec)] == [DType.RESOURCE]


def test_other_type_specs_stay_opaque():
  spec = decode_structure(_type_spec(_Class.DATA_DATASET_SPEC, _INT, name="DatasetSpec", components=1))
  assert spec == OpaqueTypeSpec("DatasetSpec", (-3,), 1)
  assert [spec.dtype for spec in structure_specs(spec)] == [DType.VARIANT]


def test_an_extension_type_is_a_named_tuple_of_its_fields_with_tensors():
  def field(name, value):
    return _tuple(_Value(string_value=name), value)

  vector = _Value(tensor_spec_value=schema.TensorSpecProto(shape=_shape(3), dtype=1))
  fields = (field("_values", vector), field("label", _Value(string_value="x")), field("parts", _tuple(vector, vector)))
  spec = decode_structure(_type_spec(_Class.EXTENSION_TYPE_SPEC, *fields, name="library.Masked.Spec", components=3))
  assert (type(spec).__name__, spec._fields) == ("Masked", ("values", "parts"))
  assert [str(spec) for spec in structure_specs(spec)] == ["float32[3]"] * 3
  both = (field("_values", vector), field("values", vector), field("_in", vector))
  spec = decode_structure(_type_spec(_Class.EXTENSION_TYPE_SPEC, *both, name="Masked.Spec", components=3))
  assert spec._fields == ("values_", "values", "field_in")
  packed = field("_tf_extension_type_is_packed", _Value(bool_value=True))
  assert isinstance(decode_structure(_type_spec(_Class.EXTENSION_TYPE_SPEC, *fields, packed)), OpaqueTypeSpec)


def test_a_row_partition_is_passed_as_its_row_splits():
  one, unknown = (_Value(tensor_shape_value=_shape(size)) for size in (4, -1))
  spec = decode_structure(_type_spec(_Class.ROW_PARTITION_SPEC, one, unknown, unknown, _INT64))
  assert str(spec) == "int64[5]"


def test_structures_are_flattened_as_tensorflow_does():
  structure = ({"b": 1, "a": [2, None]}, (), 3)
  assert flatten_structure(structure) == [2, None, 1, 3]


@pytest.mark.parametrize(
  "proto",
  [
    _Value(),
    _tuple(_Value()),
    _Value(tensor_dtype_value=77),
    _Value(tensor_spec_value=schema.TensorSpecProto(dtype=77)),
    _Value(type_spec_value=schema.TypeSpecProto(type_spec_class=_Class.SPARSE_TENSOR_SPEC)),
    _Value(type_spec_value=schema.TypeSpecProto(type_spec_class=_Class.EXTENSION_TYPE_SPEC)),
    _type_spec(_Class.EXTENSION_TYPE_SPEC, _INT),
    _type_spec(_Class.EXTENSION_TYPE_SPEC, _tuple(_INT, _INT)),
    _type_spec(_Class.ROW_PARTITION_SPEC, _INT),
    _type_spec(_Class.SPARSE_TENSOR_SPEC, _FLOAT),
    _type_spec(_Class.SPARSE_TENSOR_SPEC, _FLOAT, _ANY_BY_TWO),
    _type_spec(_Class.RAGGED_TENSOR_SPEC, _ANY_BY_TWO, _FLOAT, _Value(int64_value=1 << 40), _INT64),
    _type_spec(_Class.RAGGED_TENSOR_SPEC, _ANY_BY_TWO, _FLOAT, _NONE, _INT64),
    _type_spec(_Class.OPTIONAL_SPEC, name="OptionalSpec", components=1 << 30),
    _Value(bounded_tensor_spec_value=schema.BoundedTensorSpecProto(dtype=1)),
    _Value(tensor_value=schema.TensorProto(dtype=1, tensor_shape=_shape(1000), tensor_content=b"abc")),
  ],
)
def test_a_damaged_structure_is_an_error(proto):
  with pytest.raises(DamagedSavedModelError, match="saved structure|type spec"):
    decode_structure(proto)
