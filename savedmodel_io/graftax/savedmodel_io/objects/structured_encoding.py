"""Encodes nested Python structures as SavedModels store them; the inverse of `structured_value`."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from graftax.convert import IndexedSlices, RaggedTensor, SparseTensor
from graftax.graphdef_ir import DType, PartialShape, Tensor, TensorSpec, schema, shape_to_proto
from graftax.graphdef_ir.errors import GraftaxError
from graftax.savedmodel_io.errors import SaveInputError
from graftax.savedmodel_io.objects.type_specs import (
  BoundedTensorSpec,
  IndexedSlicesSpec,
  RaggedTensorSpec,
  SparseTensorSpec,
  VariableSpec,
)
from graftax.savedmodel_io.pytrees import PyTree

__all__ = ["encode_structure", "named_tuple"]

_Value = schema.StructuredValue
_INT64 = range(-(1 << 63), 1 << 63)


def encode_structure(structure: object, what: str) -> schema.StructuredValue:
  """Returns the message that describes a structure.

  Args:
    structure: containers (mappings with string keys, lists, tuples, named tuples) of None, bool, int, float, str,
      `PartialShape`, `DType`, `TensorSpec`, arrays, the specs of `type_specs`, and composite tensors of `TensorSpec`s.
    what: what the structure is, for messages, such as `"argument 'x' of function 'f'"`.

  Raises:
    SaveInputError: it holds something that SavedModels cannot store.

  Example:
    >>> from graftax.savedmodel_io.objects.structured_value import decode_structure
    >>> decode_structure(encode_structure({"x": [1, None]}, "an example"))
    {'x': [1, None]}
  """
  if isinstance(structure, Mapping):
    return _encode_mapping(structure, what)
  if isinstance(structure, tuple) and hasattr(structure, "_fields"):
    values = [encode_structure(value, what) for value in structure]
    return named_tuple(type(structure).__name__, dict(zip(structure._fields, values, strict=True)))
  if isinstance(structure, tuple):
    return _Value(tuple_value=schema.TupleValue(values=[encode_structure(value, what) for value in structure]))
  if isinstance(structure, list):
    return _Value(list_value=schema.ListValue(values=[encode_structure(value, what) for value in structure]))
  return _encode_leaf(structure, what)


def named_tuple(name: str, values: Mapping[str, schema.StructuredValue]) -> schema.StructuredValue:
  """Returns the message of a named tuple, from its class name and its encoded fields."""
  message = schema.NamedTupleValue(name=name)
  for key, value in values.items():
    message.values.add(key=key, value=value)
  return _Value(named_tuple_value=message)


def _encode_mapping(structure: Mapping[PyTree, PyTree], what: str) -> schema.StructuredValue:
  wrong = [key for key in structure if not isinstance(key, str)]
  if wrong:
    raise SaveInputError(f"{what} has a dict with the key {wrong[0]!r}; SavedModels store only strings as keys")
  message = schema.DictValue()
  for key in sorted(structure):
    message.fields[key].CopyFrom(encode_structure(structure[key], what))
  return _Value(dict_value=message)


def _encode_leaf(leaf: object, what: str) -> schema.StructuredValue:
  for types, encode in _LEAVES:
    if isinstance(leaf, types):
      return encode(leaf)
  if isinstance(leaf, int) and leaf in _INT64:
    return _Value(int64_value=leaf)
  if hasattr(leaf, "__array__") and hasattr(leaf, "dtype"):
    try:
      return _Value(tensor_value=Tensor.from_numpy(np.asarray(leaf)).to_proto())
    except GraftaxError as e:
      raise SaveInputError(f"{what} holds an array that SavedModels cannot store: {e}") from e
  raise SaveInputError(
    f"{what} holds {leaf!r:.80} of type {type(leaf).__name__}, which SavedModels cannot store; expected None, a bool, "
    "an int of 64 bits, a float, a str, an array, or dicts, lists and tuples of them"
  )


def _encode_tensor_spec(spec: TensorSpec) -> schema.StructuredValue:
  message = schema.TensorSpecProto(name=spec.name or "", shape=shape_to_proto(spec.shape), dtype=int(spec.dtype))
  return _Value(tensor_spec_value=message)


def _encode_bounded(spec: BoundedTensorSpec) -> schema.StructuredValue:
  message = schema.BoundedTensorSpecProto(
    name=spec.name or "",
    shape=shape_to_proto(spec.shape),
    dtype=int(spec.dtype),
    minimum=Tensor.from_numpy(spec.minimum).to_proto(),
    maximum=Tensor.from_numpy(spec.maximum).to_proto(),
  )
  return _Value(bounded_tensor_spec_value=message)


def _type_spec(kind: int, name: str, num_components: int, *state: PyTree) -> schema.StructuredValue:
  message = schema.TypeSpecProto(
    type_spec_class=kind,
    type_spec_class_name=name,
    num_flat_components=num_components,
    type_state=encode_structure(state, name),
  )
  return _Value(type_spec_value=message)


def _encode_sparse_spec(spec: SparseTensorSpec) -> schema.StructuredValue:
  return _type_spec(schema.TypeSpecProto.SPARSE_TENSOR_SPEC, "SparseTensorSpec", 3, spec.shape, spec.dtype)


def _encode_ragged_spec(spec: RaggedTensorSpec) -> schema.StructuredValue:
  state = (spec.shape, spec.dtype, spec.ragged_rank, spec.row_splits_dtype)
  return _type_spec(schema.TypeSpecProto.RAGGED_TENSOR_SPEC, "RaggedTensorSpec", 1, *state)


def _encode_indexed_slices_spec(spec: IndexedSlicesSpec) -> schema.StructuredValue:
  state = (spec.shape, spec.dtype, spec.indices_dtype, spec.dense_shape_dtype, spec.indices_shape)
  num_components = 2 + (spec.dense_shape_dtype is not None)
  return _type_spec(schema.TypeSpecProto.INDEXED_SLICES_SPEC, "IndexedSlicesSpec", num_components, *state)


def _encode_variable_spec(spec: VariableSpec) -> schema.StructuredValue:
  state = (spec.shape, spec.dtype, spec.trainable, None)
  return _type_spec(schema.TypeSpecProto.VARIABLE_SPEC, "VariableSpec", 1, *state)


def _encode_sparse(tensor: SparseTensor) -> schema.StructuredValue:
  (rank,) = tensor.dense_shape.shape.dims or (None,)
  shape = PartialShape(None if rank is None else (None,) * rank)
  return _encode_sparse_spec(SparseTensorSpec(shape, tensor.values.dtype))


def _encode_ragged(tensor: RaggedTensor) -> schema.StructuredValue:
  splits = tensor.row_splits
  outer, values = splits[0].shape.dims, tensor.flat_values.shape.dims
  num_rows = None if outer is None or outer[0] is None else outer[0] - 1
  shape = PartialShape(None if values is None else (num_rows, *(None,) * len(splits), *values[1:]))
  return _encode_ragged_spec(RaggedTensorSpec(shape, tensor.flat_values.dtype, len(splits), splits[0].dtype))


def _encode_indexed_slices(tensor: IndexedSlices) -> schema.StructuredValue:
  dense = None if tensor.dense_shape is None else tensor.dense_shape.dtype
  spec = IndexedSlicesSpec(tensor.values.shape, tensor.values.dtype, tensor.indices.dtype, dense, tensor.indices.shape)
  return _encode_indexed_slices_spec(spec)


# Searched in this order: a bool and a DType are also ints.
_LEAVES: tuple[tuple[Any, Callable[[Any], schema.StructuredValue]], ...] = (
  (type(None), lambda _: _Value(none_value=schema.NoneValue())),
  (bool, lambda leaf: _Value(bool_value=leaf)),
  (DType, lambda leaf: _Value(tensor_dtype_value=int(leaf))),
  (float, lambda leaf: _Value(float64_value=float(leaf))),
  (str, lambda leaf: _Value(string_value=str(leaf))),
  (PartialShape, lambda leaf: _Value(tensor_shape_value=shape_to_proto(leaf))),
  (TensorSpec, _encode_tensor_spec),
  (BoundedTensorSpec, _encode_bounded),
  (SparseTensorSpec, _encode_sparse_spec),
  (RaggedTensorSpec, _encode_ragged_spec),
  (IndexedSlicesSpec, _encode_indexed_slices_spec),
  (VariableSpec, _encode_variable_spec),
  (SparseTensor, _encode_sparse),
  (RaggedTensor, _encode_ragged),
  (IndexedSlices, _encode_indexed_slices),
)
