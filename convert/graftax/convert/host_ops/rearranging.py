"""Runs JAX's lowerings of ops that only move, repeat and compare elements on strings: Reshape, GatherV2, Equal.

Strings are numbered, the lowering runs on the numbers, and its results are translated back. The empty string is number
0, so that it fills what TensorFlow fills with empty strings and JAX with zeros.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from graftax.convert.host_ops.values import as_strings
from graftax.graphdef_ir import DType, Node, OpSignature
from graftax.ops_jax import Lowering, Value

__all__ = ["on_numbers", "rearranges"]

_OPS = frozenset(
  """
  BatchToSpaceND BroadcastTo Concat ConcatV2 DynamicPartition DynamicStitch EditDistance EnsureShape Equal
  ExpandDims Fill Gather GatherNd GatherV2 ListDiff NotEqual Pack Pad PadV2 ParallelDynamicStitch RaggedGather
  RaggedTensorToSparse RaggedTensorToTensor Rank Reshape Reverse ReverseSequence ReverseV2 Roll ScatterNd Select
  SelectV2 Shape ShapeN Size Slice SparseConcat SparseFillEmptyRows SparseReorder SparseReshape SparseSlice
  SparseSplit SparseToDense Split SplitV Squeeze StopGradient StridedSlice TensorScatterUpdate Tile Transpose Unique
  UniqueV2 UniqueWithCounts UniqueWithCountsV2 Unpack ZerosLike
  """.split()
)


def rearranges(op: str) -> bool:
  """Returns whether an op only moves, repeats and compares elements, so that it can run on numbers of strings."""
  return op in _OPS


def on_numbers(lowering: Lowering, node: Node, signature: OpSignature) -> Lowering:
  """Returns the lowering of an op, for strings."""
  types = list(signature.output_types(signature.with_defaults(node.attrs)))

  def run(*inputs: Any, **attrs: Any) -> tuple[Value, ...]:
    numbers: dict[bytes, int] = {b"": 0}
    outputs = lowering.function(*(_numbered(value, numbers) for value in inputs), **attrs)
    flat = outputs if isinstance(outputs, tuple | list) else (outputs,)
    strings = as_strings(list(numbers))
    return tuple(
      as_strings(strings[np.asarray(value)]) if dtype is DType.STRING else value
      for value, dtype in zip(flat, types, strict=True)
    )

  # Without data_inputs, since the kernel would put other numbers in place of the strings first.
  return dataclasses.replace(lowering, function=run, symbolic=True, data_inputs=frozenset())


def _numbered(value: Any, numbers: dict[bytes, int]) -> Any:
  """Returns strings as numbers, also in lists; other values unchanged. New strings get new numbers."""
  if isinstance(value, list):
    return [_numbered(item, numbers) for item in value]
  if isinstance(value, bytes) or (isinstance(value, np.ndarray) and value.dtype == object):
    array = as_strings(value)
    flat: Sequence[bytes] = array.reshape(-1).tolist()
    return np.array([numbers.setdefault(item, len(numbers)) for item in flat], np.int64).reshape(array.shape)
  return value
