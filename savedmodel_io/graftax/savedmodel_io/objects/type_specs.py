"""Specs of the leaves of a saved structure that are not plain tensors: composite tensors and other typed leaves."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graftax.graphdef_ir import DType, PartialShape, TensorSpec, schema

__all__ = [
  "BoundedTensorSpec",
  "CompositeSpec",
  "IndexedSlicesSpec",
  "OpaqueTypeSpec",
  "RaggedTensorSpec",
  "SparseTensorSpec",
  "VariableSpec",
  "partial_shape",
  "spec_components",
]


def partial_shape(proto: schema.TensorShapeProto) -> PartialShape:
  """Returns the shape that a message describes; any negative size is an unknown one."""
  if proto.unknown_rank:
    return PartialShape(None)
  return PartialShape(tuple(dim.size if dim.size >= 0 else None for dim in proto.dim))


@dataclass(frozen=True, slots=True)
class BoundedTensorSpec:
  """A tensor with values in [minimum, maximum]; both broadcast to the shape."""

  shape: PartialShape
  dtype: DType
  name: str | None
  minimum: np.ndarray = field(compare=False)
  maximum: np.ndarray = field(compare=False)


@dataclass(frozen=True, slots=True)
class SparseTensorSpec:
  """A `tf.SparseTensor`: passed as indices `[n, rank]` int64, values `[n]`, dense shape `[rank]` int64."""

  shape: PartialShape
  dtype: DType


@dataclass(frozen=True, slots=True)
class RaggedTensorSpec:
  """A `tf.RaggedTensor`: passed as its flat values, then its row splits from the outermost in."""

  shape: PartialShape
  dtype: DType
  ragged_rank: int
  row_splits_dtype: DType
  flat_values: Any = None  # a spec, where the values are composite themselves


@dataclass(frozen=True, slots=True)
class IndexedSlicesSpec:
  """A `tf.IndexedSlices`: passed as values, indices and, if `dense_shape_dtype` is given, the dense shape."""

  shape: PartialShape
  dtype: DType
  indices_dtype: DType
  dense_shape_dtype: DType | None
  indices_shape: PartialShape


@dataclass(frozen=True, slots=True)
class VariableSpec:
  """A variable passed as an argument: one resource handle."""

  shape: PartialShape
  dtype: DType
  trainable: bool | None = None


@dataclass(frozen=True, slots=True)
class OpaqueTypeSpec:
  """Any other `tf.TypeSpec`: datasets, iterators, optionals, extension types.

  Attributes:
    kind: the class that wrote it.
    state: what that class needs to restore it, decoded.
    num_components: how many tensors it is passed as; 0 where the file does not say.
  """

  kind: str
  state: Any = field(compare=False)
  num_components: int = 0


CompositeSpec = SparseTensorSpec | RaggedTensorSpec | IndexedSlicesSpec | VariableSpec | OpaqueTypeSpec


def spec_components(spec: object) -> tuple[TensorSpec, ...] | None:
  """Returns the tensors of a leaf, in TensorFlow's order, or None if the leaf is not a spec.

  Example:
      >>> ragged = RaggedTensorSpec(PartialShape((None, None)), DType.FLOAT, 1, DType.INT64)
      >>> [str(component) for component in spec_components(ragged)]
      ['float32[?]', 'int64[?]']
  """
  match spec:
    case TensorSpec():
      return (spec,)
    case BoundedTensorSpec():
      return (TensorSpec(spec.shape, spec.dtype, spec.name),)
    case SparseTensorSpec():
      return _sparse_components(spec)
    case RaggedTensorSpec():
      return _ragged_components(spec)
    case IndexedSlicesSpec():
      return _indexed_slices_components(spec)
    case VariableSpec():
      return (TensorSpec(PartialShape(()), DType.RESOURCE),)
    case OpaqueTypeSpec():
      return (TensorSpec(PartialShape(None), DType.VARIANT),) * spec.num_components
  return None


def _sparse_components(spec: SparseTensorSpec) -> tuple[TensorSpec, ...]:
  rank = spec.shape.rank
  return (
    TensorSpec(PartialShape((None, rank)), DType.INT64),
    TensorSpec(PartialShape((None,)), spec.dtype),
    TensorSpec(PartialShape((rank,)), DType.INT64),
  )


def _ragged_components(spec: RaggedTensorSpec) -> tuple[TensorSpec, ...]:
  if spec.ragged_rank == 0:
    return spec_components(spec.flat_values) or (TensorSpec(spec.shape, spec.dtype),)
  dims = spec.shape.dims
  values_shape = PartialShape(None) if dims is None else PartialShape((None, *dims[spec.ragged_rank + 1 :]))
  values = spec_components(spec.flat_values) or (TensorSpec(values_shape, spec.dtype),)
  num_rows = dims[0] if dims else None
  outer = TensorSpec(PartialShape((None if num_rows is None else num_rows + 1,)), spec.row_splits_dtype)
  inner = TensorSpec(PartialShape((None,)), spec.row_splits_dtype)
  return (*values, outer, *(inner,) * (spec.ragged_rank - 1))


def _indexed_slices_components(spec: IndexedSlicesSpec) -> tuple[TensorSpec, ...]:
  components = (TensorSpec(spec.shape, spec.dtype), TensorSpec(spec.indices_shape, spec.indices_dtype))
  if spec.dense_shape_dtype is None:
    return components
  return (*components, TensorSpec(PartialShape((spec.shape.rank,)), spec.dense_shape_dtype))
