"""Nested Python structures as SavedModels store them: arguments, results, defaults."""

from collections.abc import Callable
from typing import Any

from graftax.convert import as_named_tuple, named_tuple_class
from graftax.graphdef_ir import DType, PartialShape, Tensor, TensorSpec, schema
from graftax.graphdef_ir.errors import GraftaxError
from graftax.savedmodel_io.errors import DamagedSavedModelError
from graftax.savedmodel_io.objects.type_specs import (
  BoundedTensorSpec,
  IndexedSlicesSpec,
  OpaqueTypeSpec,
  RaggedTensorSpec,
  SparseTensorSpec,
  VariableSpec,
  partial_shape,
  spec_components,
)
from graftax.savedmodel_io.pytrees import Leaf, PyTree

__all__ = ["decode_structure", "flatten_structure", "structure_specs"]

_MAX_RANK = 254  # TensorFlow's
_MAX_COMPONENTS = 1 << 16


def decode_structure(proto: schema.StructuredValue) -> PyTree:
  """Returns the Python structure that a message describes.

  Containers come back as dict (in key order), list, tuple and named tuples; leaves as None, bool, int, float, str,
  `PartialShape`, `DType`, `TensorSpec`, `np.ndarray`, or a spec of `type_specs`.

  Raises:
    DamagedSavedModelError: the message holds nothing, or something that cannot be.
  """
  kind = proto.WhichOneof("kind")
  if kind is None:
    raise DamagedSavedModelError("a saved structure holds nothing we know; expected a container, a spec or a value")
  try:
    return _DECODERS[kind](getattr(proto, kind))
  except DamagedSavedModelError:
    raise
  except RecursionError as e:
    raise DamagedSavedModelError("a saved structure has too many levels of containers inside each other") from e
  except (GraftaxError, ValueError, TypeError) as e:
    raise DamagedSavedModelError(f"a saved structure has a damaged {kind}: {e}") from e


def flatten_structure(structure: object) -> list[Leaf]:
  """Returns the leaves in TensorFlow's order: dicts by sorted key; None is a leaf, and an empty container has none."""
  if isinstance(structure, dict):
    return [leaf for key in sorted(structure) for leaf in flatten_structure(structure[key])]
  if isinstance(structure, list | tuple):
    return [leaf for item in structure for leaf in flatten_structure(item)]
  return [structure]


def structure_specs(structure: object) -> tuple[TensorSpec, ...]:
  """Returns one spec per tensor of the structure, in order; composite leaves have one per component."""
  return tuple(spec for leaf in flatten_structure(structure) for spec in spec_components(leaf) or ())


def _decode_tensor_spec(proto: schema.TensorSpecProto) -> TensorSpec:
  return TensorSpec(partial_shape(proto.shape), DType(proto.dtype), proto.name or None)


def _decode_bounded(proto: schema.BoundedTensorSpecProto) -> BoundedTensorSpec:
  return BoundedTensorSpec(
    partial_shape(proto.shape),
    DType(proto.dtype),
    proto.name or None,
    Tensor.from_proto(proto.minimum).numpy(),
    Tensor.from_proto(proto.maximum).numpy(),
  )


def _decode_dict(proto: schema.DictValue) -> dict[str, PyTree]:
  # Message maps are not ordered; sorting the keys makes the result deterministic.
  return {key: decode_structure(proto.fields[key]) for key in sorted(proto.fields)}


def _decode_named_tuple(proto: schema.NamedTupleValue) -> PyTree:
  cls = named_tuple_class(proto.name, tuple(pair.key for pair in proto.values))
  return cls(*(decode_structure(pair.value) for pair in proto.values))


def _decode_type_spec(proto: schema.TypeSpecProto) -> Leaf:
  state = decode_structure(proto.type_state) if proto.HasField("type_state") else None
  if proto.type_spec_class == schema.TypeSpecProto.EXTENSION_TYPE_SPEC:
    return _extension_type(proto.type_spec_class_name, state)
  decode = _TYPE_SPECS.get(proto.type_spec_class)
  if decode is not None:
    if not isinstance(state, tuple):
      raise DamagedSavedModelError(f"type spec {proto.type_spec_class_name!r} has state {state!r}; expected a tuple")
    return decode(*state)
  if not 0 <= proto.num_flat_components <= _MAX_COMPONENTS:
    raise DamagedSavedModelError(f"type spec {proto.type_spec_class_name!r} has {proto.num_flat_components} components")
  return OpaqueTypeSpec(
    proto.type_spec_class_name or f"class {proto.type_spec_class}", state, proto.num_flat_components
  )


def _extension_type(name: str, state: object) -> PyTree:
  """Returns the fields of the spec of an extension type that hold tensors, as a named tuple."""
  if not isinstance(state, tuple) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in state):
    raise DamagedSavedModelError(f"type spec {name!r} has state {state!r}; expected names and values of fields")
  if any(not isinstance(key, str) for key, _ in state):
    raise DamagedSavedModelError(f"type spec {name!r} has a field whose name is not a text")
  # The other fields are fixed. A packed extension type is one variant.
  if any(key == "_tf_extension_type_is_packed" and value for key, value in state):
    return OpaqueTypeSpec(name, state, 1)
  fields = {key: value for key, value in state if any(spec_components(leaf) for leaf in flatten_structure(value))}
  return as_named_tuple(name.removesuffix(".Spec").rpartition(".")[2], fields)


def _row_partition_spec(num_rows: object, _num_values: object, _row_length: object, dtype: object) -> TensorSpec:
  sizes = _shape(num_rows).dims
  num_splits = None if not sizes or sizes[0] is None else sizes[0] + 1
  return TensorSpec(PartialShape((num_splits,)), _dtype(dtype))


def _sparse_spec(shape: object, dtype: object) -> SparseTensorSpec:
  return SparseTensorSpec(_shape(shape), _dtype(dtype))


def _ragged_spec(
  shape: object, dtype: object, ragged_rank: object, row_splits_dtype: object, values: object = None
) -> RaggedTensorSpec:
  if not isinstance(ragged_rank, int) or not 0 <= ragged_rank <= _MAX_RANK:
    raise ValueError(f"ragged rank {ragged_rank!r}; expected 0 to {_MAX_RANK}")
  return RaggedTensorSpec(_shape(shape), _dtype(dtype), ragged_rank, _dtype(row_splits_dtype), values)


def _indexed_slices_spec(
  shape: object, dtype: object, indices_dtype: object, dense_shape_dtype: object, indices_shape: object
) -> IndexedSlicesSpec:
  dense = None if dense_shape_dtype is None else _dtype(dense_shape_dtype)
  return IndexedSlicesSpec(_shape(shape), _dtype(dtype), _dtype(indices_dtype), dense, _shape(indices_shape))


def _variable_spec(shape: object, dtype: object, trainable: bool | None = None, *_alias: object) -> VariableSpec:
  return VariableSpec(_shape(shape), _dtype(dtype), trainable)


def _shape(value: object) -> PartialShape:
  if not isinstance(value, PartialShape):
    raise TypeError(f"{value!r} where a shape is expected")
  return value


def _dtype(value: object) -> DType:
  if not isinstance(value, DType):
    raise TypeError(f"{value!r} where a dtype is expected")
  return value


_DECODERS: dict[str, Callable[[Any], Any]] = {
  "none_value": lambda _: None,
  "float64_value": float,
  "int64_value": int,
  "string_value": str,
  "bool_value": bool,
  "tensor_shape_value": partial_shape,
  "tensor_dtype_value": DType,
  "tensor_spec_value": _decode_tensor_spec,
  "bounded_tensor_spec_value": _decode_bounded,
  "type_spec_value": _decode_type_spec,
  "list_value": lambda proto: [decode_structure(value) for value in proto.values],
  "tuple_value": lambda proto: tuple(decode_structure(value) for value in proto.values),
  "dict_value": _decode_dict,
  "named_tuple_value": _decode_named_tuple,
  "tensor_value": lambda proto: Tensor.from_proto(proto).numpy(),
  "numpy_value": lambda proto: Tensor.from_proto(proto).numpy(),
}

_TYPE_SPECS: dict[int, Callable[..., Any]] = {
  schema.TypeSpecProto.SPARSE_TENSOR_SPEC: _sparse_spec,
  schema.TypeSpecProto.INDEXED_SLICES_SPEC: _indexed_slices_spec,
  schema.TypeSpecProto.RAGGED_TENSOR_SPEC: _ragged_spec,
  schema.TypeSpecProto.VARIABLE_SPEC: _variable_spec,
  schema.TypeSpecProto.ROW_PARTITION_SPEC: _row_partition_spec,
}
