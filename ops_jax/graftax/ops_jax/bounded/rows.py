"""Ops that treat the rows of some inputs one by one, such as convolutions of a batch of cut-out images."""

from collections.abc import Mapping, Sequence

import jax

from graftax.ops_jax._core.values import Value
from graftax.ops_jax.bounded.elementwise import with_axes
from graftax.ops_jax.bounded.masks import Axis, as_bounded, filled, joined_axis, masked_derivative, to_axis, valid_mask
from graftax.ops_jax.bounded.rules import BoundedCall, carries
from graftax.ops_jax.bounded.values import BoundedArray, is_bounded

__all__ = ["bias_add", "rows"]

# The positions of the inputs whose first dimension is the rows.
_ROW_INPUTS: Mapping[str, tuple[int, ...]] = {
  "AvgPool": (0,),
  "CheckNumerics": (0,),
  "CheckNumericsV2": (0,),
  "Conv2D": (0,),
  "Conv3D": (0,),
  "CropAndResize": (1, 2),
  "DepthToSpace": (0,),
  "DepthwiseConv2dNative": (0,),
  "FusedBatchNorm": (0,),
  "FusedBatchNormV2": (0,),
  "FusedBatchNormV3": (0,),
  "LRN": (0,),
  "MatrixDiagPart": (0,),
  "MaxPool": (0,),
  "ResizeBilinear": (0,),
  "ResizeNearestNeighbor": (0,),
  "SoftmaxCrossEntropyWithLogits": (0, 1),
  "SpaceToDepth": (0,),
  "SparseSoftmaxCrossEntropyWithLogits": (0, 1),
}

# Ops that repeat the only row of one input for all rows of the other.
_BROADCASTS = frozenset({"SoftmaxCrossEntropyWithLogits"})


@carries(*_ROW_INPUTS)
def rows(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Runs the op on padded rows; the padding is 0."""
  op = call.node.op
  positions = _ROW_INPUTS[op]
  if any(is_bounded(value) for i, value in enumerate(inputs) if i not in positions):
    call.refuse("an input other than its rows has a size that depends on data")
  if op.startswith("FusedBatchNorm") and call.attrs.get("is_training"):
    call.refuse("it averages over rows, whose number depends on data (is_training=True)")
  parts = [as_bounded(inputs[i]) for i in positions]
  common = _common_rows(call, parts)
  padded = list(inputs)
  for i, part in zip(positions, parts, strict=True):
    padded[i] = to_axis(filled(part, 0), 0, part.lengths[0], common, broadcasts=op in _BROADCASTS)
  outputs = call.run(call.context, padded)
  num_row_outputs = 1 if op.startswith("FusedBatchNorm") else len(outputs)
  return [*(_of_rows(call, output, common, parts) for output in outputs[:num_row_outputs]), *outputs[num_row_outputs:]]


@carries("BiasAdd")
def bias_add(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Adds a bias to padded channels; any other axis may have a size that depends on data."""
  value, bias = inputs
  x = as_bounded(value)
  # TensorFlow uses the four-letter names for every rank.
  channels = x.lengths[1 if call.attrs.get("data_format") == b"NCHW" else -1]
  if is_bounded(bias) or channels is not None:
    call.refuse("the number of channels depends on data")
  output = call.run_one(filled(x, 0), bias)
  return [call.made(masked_derivative(output, valid_mask(output.shape, x.lengths)), x.lengths, x.may_overflow)]


def _common_rows(call: BoundedCall, parts: Sequence[BoundedArray]) -> Axis:
  """Returns the first axis, which all inputs share."""
  if any(length is not None for part in parts for length in part.lengths[1:]):
    call.refuse("a size that depends on data is not that of the first dimension")
  sizes = [(part.padded.shape[0], part.lengths[0]) for part in parts]
  return joined_axis(call.facts, sizes, broadcasts=call.node.op in _BROADCASTS)


def _of_rows(call: BoundedCall, output: jax.Array, common: Axis, parts: Sequence[BoundedArray]) -> Value:
  """Returns an output whose rows are those of the inputs, with their number."""
  if output.shape[0] != common.size:
    call.refuse(f"its result has {output.shape[0]} rows instead of {common.size}")
  lengths = (common.length, *[None] * (output.ndim - 1))
  axes = [common, *(Axis(size, None) for size in output.shape[1:])]
  return with_axes(call, masked_derivative(output, valid_mask(output.shape, lengths)), axes, parts)
