"""Every op with a rule for bounded sizes, under jit, against TensorFlow on the cut arrays, for all lengths."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from graftax.ops_jax import ops_with_bounded_sizes
from graftax.testing.bounded_sizes import check_bounded_sizes

_N = 6
_RNG = np.random.default_rng(0)
_X = _RNG.uniform(0.1, 0.9, (_N, 4)).astype(np.float32)
_W = _RNG.normal(size=(4, 3)).astype(np.float32)
_IMAGES = _RNG.normal(size=(_N, 4, 4, 2)).astype(np.float32)
_BOXES = np.sort(_RNG.uniform(0, 1, (_N, 2, 2)), axis=1).reshape(_N, 4).astype(np.float32)
_TABLE = tf.Variable(_X)
_raw = tf.raw_ops


def _labels(rows):
  return tf.cast(rows[:, 0] * 3, tf.int32)


def _positions(rows):
  return tf.range(tf.shape(rows)[0])


def _places(rows):
  return tf.stack([_positions(rows), _labels(rows)], 1)


# For each op a function of the rows that are kept; `_X` itself has all of them.
_CASES = {
  **dict.fromkeys(["TensorListConcatV2", "TensorListGetItem", "TensorListSetItem"], lambda x: _in_array(x)),
  **dict.fromkeys(["TensorListPopBack", "TensorListPushBack"], lambda x: _in_list(x)),
  **dict.fromkeys(["RaggedTensorFromVariant", "RaggedTensorToVariant"], lambda x: _in_variants(x)),
  "All": lambda x: _raw.All(input=x > 0.3, axis=[0]),
  "Any": lambda x: _raw.Any(input=x > 0.8, axis=[0, 1]),
  "ArgMax": lambda x: tf.argmax(x, 0),
  "ArgMin": lambda x: tf.argmin(x, 0),
  "AvgPool": lambda x: _raw.AvgPool(value=_image(x), ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID"),
  "BatchMatMul": lambda x: _raw.BatchMatMul(x=x[:, None, :], y=x[:, :, None]),
  "BatchMatMulV2": lambda x: _raw.BatchMatMulV2(x=x[None], y=tf.constant(_W)[None]),
  "BatchMatMulV3": lambda x: _raw.BatchMatMulV3(x=x[None], y=x[None], adj_x=True, Tout=tf.float32),
  "BiasAdd": lambda x: tf.nn.bias_add(x, _W[:, 0]),
  "BroadcastTo": lambda x: tf.broadcast_to(_X[0], [tf.shape(x)[0], 4]),
  "CheckNumerics": lambda x: tf.debugging.check_numerics(x, "not finite"),
  "Concat": lambda x: _raw.Concat(concat_dim=0, values=[x, _X, x]),
  "ConcatV2": lambda x: (tf.concat([_X, x, x], 0), tf.concat([x, x], 1)),
  # As many channels as before: for no images TensorFlow returns the shape of its input, whatever it infers.
  "Conv2D": lambda x: tf.nn.conv2d(_image(x), tf.reshape(tf.cos(tf.range(16.0)), [2, 2, 2, 2]), 1, "SAME"),
  "CropAndResize": lambda x: tf.image.crop_and_resize(_IMAGES[:1], x, tf.zeros_like(_labels(x)), [2, 2]),
  "CTCGreedyDecoder": lambda x: _decoded(x),
  "Cumprod": lambda x: tf.math.cumprod(x, 0, exclusive=True, reverse=True),
  "Cumsum": lambda x: (tf.cumsum(x, 0), tf.cumsum(x, 0, reverse=True), tf.cumsum(x, 1)),
  "DynamicPartition": lambda x: tf.dynamic_partition(x, _labels(x), 3),
  "Einsum": lambda x: (tf.einsum("ni,ij->nj", x, _W), tf.einsum("ni,nj->ij", x, x), tf.einsum("ni,mi->nm", x, x)),
  "EnsureShape": lambda x: tf.ensure_shape(x, [None, 4]),
  "EuclideanNorm": lambda x: tf.math.reduce_euclidean_norm(x, 0),
  "ExpandDims": lambda x: (tf.expand_dims(x, 0), tf.expand_dims(x, 1)),
  "Fill": lambda x: tf.fill([2, tf.shape(x)[0]], 3.5),
  "FusedBatchNormV3": lambda x: tf.compat.v1.nn.fused_batch_norm(
    _image(x), [1.0, 2.0], [0.0, 1.0], [0.1, 0.2], [1.0, 2.0], is_training=False
  )[0],
  "Gather": lambda x: _raw.Gather(params=_X, indices=_labels(x)),
  "GatherNd": lambda x: (tf.gather_nd(_X, _places(x)), tf.gather_nd(x, _places(x))),
  "GatherV2": lambda x: (tf.gather(x, _positions(x)), tf.gather(_X, _labels(x), axis=1), tf.gather(x, [1, 0], axis=1)),
  "MatMul": lambda x: (x @ _W, tf.matmul(x, x, transpose_a=True), tf.matmul(x, x, transpose_b=True)),
  "Max": lambda x: (tf.reduce_max(x), tf.reduce_max(x, 0), tf.reduce_max(x, 1), tf.reduce_max(_labels(x))),
  "MaxPool": lambda x: tf.nn.max_pool2d(_image(x), 2, 2, "SAME"),
  "Mean": lambda x: (
    tf.reduce_mean(x),
    tf.reduce_mean(x, 0, keepdims=True),
    tf.reduce_mean(x, 1),
    tf.reduce_mean(_labels(x) * 7 - 9),
    tf.reduce_mean(tf.cast(x * 9.0, tf.int32), 0, keepdims=True),
  ),
  "Min": lambda x: (tf.reduce_min(x), tf.reduce_min(x, 0), tf.reduce_min(_labels(x))),
  "NonMaxSuppression": lambda x: _raw.NonMaxSuppression(boxes=x, scores=x[:, 0], max_output_size=3),
  "NonMaxSuppressionV2": lambda x: _raw.NonMaxSuppressionV2(
    boxes=x, scores=x[:, 0], max_output_size=tf.minimum(3, tf.shape(x)[0]), iou_threshold=0.1
  ),
  "NonMaxSuppressionV3": lambda x: tf.image.non_max_suppression(x, x[:, 1], 3, 0.2, 0.3),
  "NonMaxSuppressionV4": lambda x: _raw.NonMaxSuppressionV4(
    boxes=x, scores=x[:, 1], max_output_size=3, iou_threshold=0.2, score_threshold=0.3
  ),
  "NonMaxSuppressionV5": lambda x: tf.image.non_max_suppression_with_scores(x, x[:, 1], 4, 1.0, 0.1, 0.5),
  "NonMaxSuppressionWithOverlaps": lambda x: tf.image.non_max_suppression_overlaps(
    tf.matmul(x, x, transpose_b=True), x[:, 1], 3, 1.0
  ),
  "OneHot": lambda x: (tf.one_hot(_labels(x), 3), tf.one_hot(_labels(x), 3, axis=0)),
  "Pack": lambda x: (tf.stack([x, x]), tf.stack([x, x * 2], 1)),
  "Pad": lambda x: (tf.pad(x, [[1, 2], [0, 1]]), tf.pad(x, [[0, 8 - tf.shape(x)[0]], [0, 0]])),
  "PadV2": lambda x: tf.pad(x, [[1, 2], [0, 1]], constant_values=5.0),
  "Prod": lambda x: (tf.reduce_prod(x, 0), tf.reduce_prod(x)),
  "Range": lambda x: (tf.range(tf.shape(x)[0]), tf.range(1, tf.size(x), 3), tf.range(tf.shape(x)[0], -1, -2)),
  "Rank": lambda x: x * tf.cast(tf.raw_ops.Rank(input=x), tf.float32),
  "Reshape": lambda x: (
    tf.reshape(x, [-1]),
    tf.reshape(tf.transpose(x), [-1]),
    tf.reshape(x, [-1, 2, 2]),
    tf.reshape(tf.transpose(x), [2, -1]),
    tf.reshape(x, [4, -1]),
    tf.reshape(x, [tf.shape(x)[0], -1]),
    tf.reshape(x, [tf.size(x), 1]),
  ),
  "ResizeBilinear": lambda x: tf.compat.v1.image.resize_bilinear(_image(x), [3, 3]),
  "ReverseV2": lambda x: (tf.reverse(x, [0]), tf.reverse(x, [0, 1])),
  "ScatterNd": lambda x: (
    tf.scatter_nd(_places(x), x[:, 0], [_N, 4]),
    tf.scatter_nd(_labels(x)[:, None], x, [3, 4]),
    tf.scatter_nd(_positions(x)[:, None], x, tf.shape(x)),
  ),
  "Select": lambda x: (_raw.Select(condition=x > 0.5, x=x, y=-x), _raw.Select(condition=x[:, 0] > 0.5, x=x, y=-x)),
  "Shape": lambda x: tf.shape(x),
  "ShapeN": lambda x: tf.shape_n([x, _X]),
  "Size": lambda x: tf.size(x),
  "Slice": lambda x: (
    tf.slice(x, [0, 1], [-1, 2]),
    tf.slice(_X, [0, 0], [tf.shape(x)[0], 4]),
    tf.slice(x, [0, 0], [tf.shape(x)[0] // 2, -1]),
  ),
  "Softmax": lambda x: (tf.nn.softmax(x), tf.nn.softmax(tf.transpose(x))),
  "LogSoftmax": lambda x: (tf.nn.log_softmax(x), tf.nn.log_softmax(tf.transpose(x))),
  "SparseSoftmaxCrossEntropyWithLogits": lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits(_labels(x), x),
  "Split": lambda x: tf.split(x, 2, 1),
  "SplitV": lambda x: tf.split(x, [1, 3], 1),
  "Squeeze": lambda x: (tf.squeeze(x[:, :1], [1]), tf.squeeze(x[None], [0])),
  "StridedSlice": lambda x: (
    x[1:],
    x[:-1],
    x[::-1],
    x[-2:],
    x[1:4:2],
    x[:2],
    x[4:1:-1],
    x[..., tf.newaxis],
    x[:, 1],
    x[: tf.shape(x)[0] // 2, ::2],
    tf.constant(_X)[tf.shape(x)[0] :],
  ),
  "Sum": lambda x: (tf.reduce_sum(x), tf.reduce_sum(x, 0), tf.reduce_sum(x, 1), tf.reduce_sum(_labels(x))),
  "TensorScatterAdd": lambda x: tf.tensor_scatter_nd_add(_X, _places(x), x[:, 1]),
  "TensorScatterMax": lambda x: tf.tensor_scatter_nd_max(_X, _places(x), x[:, 1]),
  "TensorScatterMin": lambda x: tf.tensor_scatter_nd_min(_X, _places(x), x[:, 1]),
  "TensorScatterSub": lambda x: tf.tensor_scatter_nd_sub(x, _places(x), x[:, 1]),
  "TensorScatterUpdate": lambda x: tf.tensor_scatter_nd_update(_X, _places(x), x[:, 1]),
  "Tile": lambda x: (tf.tile(x, [3, 1]), tf.tile(x[:1], [tf.shape(x)[0], 2])),
  "TopKV2": lambda x: (
    tf.math.top_k(x, 2),
    tf.math.top_k(x[:, 0], tf.shape(x)[0]),
    tf.math.top_k(_labels(x), tf.minimum(3, tf.shape(x)[0])),
    tf.sort(x[:, 0]),
    tf.argsort(x, 0),
  ),
  "Transpose": lambda x: tf.transpose(x),
  "Unique": lambda x: tf.unique(_labels(x)),
  "UniqueV2": lambda x: _raw.UniqueV2(x=_labels(x), axis=tf.zeros([0], tf.int32)),
  "UniqueWithCounts": lambda x: tf.unique_with_counts(_labels(x)),
  "UniqueWithCountsV2": lambda x: _raw.UniqueWithCountsV2(x=_labels(x), axis=[0]),
  "Unpack": lambda x: tf.unstack(x, axis=1),
  "UnsortedSegmentMax": lambda x: tf.math.unsorted_segment_max(x, _labels(x), 3),
  "UnsortedSegmentMin": lambda x: tf.math.unsorted_segment_min(x, _labels(x), 3),
  "UnsortedSegmentProd": lambda x: tf.math.unsorted_segment_prod(x, _labels(x), 3),
  "UnsortedSegmentSum": lambda x: (
    tf.math.unsorted_segment_sum(x, _labels(x), 3),
    tf.math.unsorted_segment_sum(x, _positions(x), tf.shape(x)[0]),
    tf.math.unsorted_segment_mean(x, _labels(x), 3),
  ),
  "Where": lambda x: (tf.where(x > 0.5), tf.where(x[:, 0] > 0.5)),
  "ApproximateEqual": lambda x: _raw.ApproximateEqual(x=x, y=tf.round(x * 4.0) / 4.0, tolerance=0.1),
  "Bincount": lambda x: _raw.Bincount(arr=_labels(x), size=3, weights=x[:, 1]),
  "Cast": lambda x: tf.cast(x * 9.0, tf.int32),
  "CheckNumericsV2": lambda x: _raw.CheckNumericsV2(tensor=x, message="not finite"),
  "CombinedNonMaxSuppression": lambda x: tf.image.combined_non_max_suppression(
    x[None, :, None], x[None, :, :2], 2, 3, 0.3, 0.2
  ),
  "Conv3D": lambda x: tf.nn.conv3d(
    _cells(x, 2, 4, 4, 1), tf.reshape(tf.cos(tf.range(8.0)), [2, 2, 2, 1, 1]), [1] * 5, "SAME"
  ),
  "DenseBincount": lambda x: (
    _raw.DenseBincount(input=_labels(x), size=3, weights=x[:, 1]),
    _raw.DenseBincount(input=tf.cast(x * 3.0, tf.int32), size=3, weights=tf.zeros([0])),
    tf.math.bincount(_labels(x), minlength=2, maxlength=3),
  ),
  "DepthToSpace": lambda x: tf.nn.depth_to_space(_cells(x, 2, 4, 4), 2),
  "DepthwiseConv2dNative": lambda x: tf.nn.depthwise_conv2d(
    _image(x), tf.reshape(tf.cos(tf.range(8.0)), [2, 2, 2, 1]), [1] * 4, "SAME"
  ),
  "DynamicStitch": lambda x: (_stitched(x, tf.dynamic_stitch), tf.dynamic_stitch([_labels(x), [3]], [x, _X[:1]])),
  "FusedBatchNorm": lambda x: _normalized(x, _raw.FusedBatchNorm),
  "FusedBatchNormV2": lambda x: _normalized(x, _raw.FusedBatchNormV2),
  "Igammac": lambda x: _raw.Igammac(a=x, x=x * 2.0),
  "InvertPermutation": lambda x: tf.math.invert_permutation(tf.argsort(x[:, 0])),
  "LRN": lambda x: tf.nn.lrn(_image(x)),
  "ListDiff": lambda x: (_difference(_labels(x), [1]), _difference([0, 1, 2, 3], _labels(x))),
  "LowerBound": lambda x: _places_in_order(x, "left"),
  "UpperBound": lambda x: _places_in_order(x, "right"),
  "MatrixDiagPart": lambda x: _raw.MatrixDiagPart(input=tf.reshape(x, [-1, 2, 2])),
  "NextAfter": lambda x: _raw.NextAfter(x1=x, x2=x * 2.0),
  "ParallelDynamicStitch": lambda x: _stitched(x, _raw.ParallelDynamicStitch),
  "PreventGradient": lambda x: _raw.PreventGradient(input=x),
  "RaggedGather": lambda x: _gathered_rows(x, tf.shape(x)[0]),
  "RaggedRange": lambda x: _raw.RaggedRange(starts=_labels(x), limits=_positions(x) + 2, deltas=1, Tsplits=tf.int32),
  "RaggedTensorToTensor": lambda x: (
    tf.RaggedTensor.from_row_splits(x, [0, 0, tf.shape(x)[0] // 2, tf.shape(x)[0]], validate=False).to_tensor(7.0),
    tf.RaggedTensor.from_row_splits(x, [0, tf.shape(x)[0]], validate=False).to_tensor(shape=[None, 3, 4]),
  ),
  "ResizeNearestNeighbor": lambda x: tf.compat.v1.image.resize_nearest_neighbor(_image(x), [3, 3]),
  "ResourceGather": lambda x: tf.gather(_TABLE, _labels(x)),
  "ResourceGatherNd": lambda x: tf.gather_nd(_TABLE, _places(x)),
  "Roll": lambda x: (tf.roll(x, 1, 0), tf.roll(x, [-2, 1], [0, 1]), tf.roll(_labels(x), tf.shape(x)[0] // 2, 0)),
  "ScatterNdNonAliasingAdd": lambda x: _raw.ScatterNdNonAliasingAdd(input=_X, indices=_places(x), updates=x[:, 1]),
  "SegmentMax": lambda x: tf.math.segment_max(-x, _sorted_labels(x)),
  "SegmentMean": lambda x: (
    tf.math.segment_mean(x, _sorted_labels(x)),
    tf.math.segment_mean(_labels(x), _sorted_labels(x)),
  ),
  "SegmentMin": lambda x: tf.math.segment_min(x, _sorted_labels(x)),
  "SegmentProd": lambda x: tf.math.segment_prod(x, _sorted_labels(x)),
  "SegmentSum": lambda x: tf.math.segment_sum(x, _sorted_labels(x)),
  "SoftmaxCrossEntropyWithLogits": lambda x: tf.nn.softmax_cross_entropy_with_logits(x, -x),
  "SpaceToDepth": lambda x: tf.nn.space_to_depth(_image(x), 2),
  "SparseFillEmptyRows": lambda x: _raw.SparseFillEmptyRows(
    indices=_coordinates(x), values=x[:, 1], dense_shape=[5, 9], default_value=-1.0
  ),
  "SparseReduceMaxSparse": lambda x: _reduced_rows(x, tf.sparse.reduce_max),
  "SparseReduceSumSparse": lambda x: _reduced_rows(x, tf.sparse.reduce_sum),
  "SparseReorder": lambda x: _raw.SparseReorder(
    input_indices=_coordinates(x)[::-1], input_values=x[:, 1], input_shape=[5, 9]
  ),
  "SparseReshape": lambda x: _raw.SparseReshape(input_indices=_coordinates(x), input_shape=[5, 9], new_shape=[3, -1]),
  "SparseSegmentMean": lambda x: tf.sparse.segment_mean(_X, _labels(x), _sorted_labels(x)),
  "SparseSegmentMeanWithNumSegments": lambda x: tf.sparse.segment_mean(_X, _labels(x), _sorted_labels(x), 4),
  "SparseSegmentSqrtN": lambda x: tf.sparse.segment_sqrt_n(x, _positions(x), _sorted_labels(x)),
  "SparseSegmentSqrtNWithNumSegments": lambda x: tf.sparse.segment_sqrt_n(x, _positions(x), _sorted_labels(x), 4),
  "SparseSegmentSum": lambda x: tf.sparse.segment_sum(x, _positions(x), _sorted_labels(x)),
  "SparseSegmentSumWithNumSegments": lambda x: tf.sparse.segment_sum(_X, _labels(x), _sorted_labels(x), 4),
  "SparseTensorDenseMatMul": lambda x: (
    tf.sparse.sparse_dense_matmul(tf.SparseTensor(_coordinates(x), x[:, 1], [5, 9]), tf.tile(_X[:1], [9, 1])),
    tf.sparse.sparse_dense_matmul(tf.SparseTensor(_coordinates(x), x[:, 1], [5, 9]), _X[:5], adjoint_a=True),
  ),
  "SparseToDense": lambda x: (
    tf.sparse.to_dense(tf.SparseTensor(_coordinates(x), x[:, 1], [5, 9]), -1.0),
    _raw.SparseToDense(
      sparse_indices=_positions(x), output_shape=[tf.shape(x)[0] + 1], sparse_values=2.5, default_value=0.0
    ),
  ),
}


# Sizes without a bound that follows from shapes.
_MAX_SIZES = {
  "RaggedRange": 24,
  **dict.fromkeys(["SegmentMax", "SegmentMean", "SegmentMin", "SegmentProd", "SegmentSum"], 3),
  **dict.fromkeys(["SparseSegmentMean", "SparseSegmentSqrtN", "SparseSegmentSum"], 3),
}


def _in_array(rows):
  """Rows of several numbers in one TensorArray."""
  array = tf.TensorArray(tf.float32, 3, infer_shape=False, element_shape=[None, 4])
  array = array.write(0, rows).write(1, rows[1:] * 2.0).write(2, rows[:1])
  return array.read(0), array.read(1), array.concat()


def _in_list(rows):
  handle = _raw.EmptyTensorList(element_shape=[-1, 4], max_num_elements=-1, element_dtype=tf.float32)
  for element in (rows, rows[1:]):
    handle = _raw.TensorListPushBack(input_handle=handle, tensor=element)
  popped = _raw.TensorListPopBack(input_handle=handle, element_shape=[-1, 4], element_dtype=tf.float32)
  rest = _raw.TensorListPopBack(input_handle=popped.output_handle, element_shape=[-1, 4], element_dtype=tf.float32)
  return popped.tensor, rest.tensor


def _in_variants(rows):
  """Ragged rows of a known number, one after the other and together again, and all of them as one variant."""
  size = tf.shape(rows, tf.int64)[0]
  splits = tf.stack([0, size // 2, size // 2, size])
  types = {"Tvalues": tf.float32, "Tsplits": tf.int64, "input_ragged_rank": 0}
  apart = _raw.RaggedTensorToVariant(rt_nested_splits=[splits], rt_dense_values=rows, batched_input=True)
  whole = _raw.RaggedTensorToVariant(rt_nested_splits=[], rt_dense_values=rows, batched_input=False)
  joined = _raw.RaggedTensorFromVariant(encoded_ragged=apart, output_ragged_rank=1, **types)
  one = _raw.RaggedTensorFromVariant(encoded_ragged=whole, output_ragged_rank=0, **types)
  return joined.output_nested_splits[0], joined.output_dense_values, one.output_dense_values


def _gathered_rows(values, size):
  found = _raw.RaggedGather(
    params_nested_splits=[tf.stack([0, size // 2, size // 2, size])],
    params_dense_values=values,
    indices=[2, 0, 1, 2],
    OUTPUT_RAGGED_RANK=1,
  )
  return found.output_nested_splits[0], found.output_dense_values


def _sorted_labels(rows):
  """Segments in order, of which some are empty."""
  return tf.sort(_labels(rows) // 2 * 2)


def _coordinates(rows):
  """Coordinates in a matrix `[5, 9]`, in row-major order."""
  return tf.cast(tf.stack([_positions(rows) // 2 * 2, _positions(rows) + 1], 1), tf.int64)


def _cells(rows, *shape):
  return tf.reshape(tf.tile(rows, [1, 8]), [-1, *shape])


def _normalized(rows, op):
  return op(
    x=_image(rows),
    scale=[1.0, 2.0],
    offset=[0.0, 1.0],
    mean=[0.1, 0.2],
    variance=[1.0, 2.0],
    is_training=False,
  )[0]


def _stitched(rows, stitch):
  """Rows split by label, changed, and put together again."""
  places = tf.dynamic_partition(_positions(rows), _labels(rows), 3)
  parts = tf.dynamic_partition(rows, _labels(rows), 3)
  return stitch(indices=places, data=[part * (i + 1.0) for i, part in enumerate(parts)])


def _difference(x, y):
  found = _raw.ListDiff(x=x, y=y)
  return found.out, found.idx


def _image(rows):
  return tf.reshape(tf.tile(rows, [1, 8]), [-1, 4, 4, 2])


def _reduced_rows(rows, reduce):
  """Entries of a matrix `[5, 9]`, several in each row, reduced to one for each row, for each column, and in all."""
  matrix = tf.SparseTensor(_coordinates(rows), rows[:, 1] - 0.5, [5, 9])
  cases = [(1, False), (0, True), ([0, 1], True), ([], False)]
  results = [reduce(matrix, axis, keepdims, output_is_sparse=True) for axis, keepdims in cases]
  return tf.nest.flatten(results, expand_composites=True)


def _places_in_order(rows, side):
  """Places of values in sorted ones, of which the first, the second or both have a size that depends on data."""
  ordered, values = tf.sort(rows[:, 0]), rows[:, 1]
  greatest = tf.concat([ordered, [np.inf, np.inf]], 0)
  return (
    tf.searchsorted([0.2, 0.5, 0.5], tf.concat([values, [0.5]], 0), side),
    tf.searchsorted(ordered, [0.3, np.inf], side),
    tf.searchsorted(greatest, tf.concat([values, ordered, [np.inf]], 0), side),
    tf.searchsorted(tf.sort(_labels(rows)), _labels(rows), side),
  )


def _decoded(rows):
  """Labels of three sequences, of which as many steps are valid as rows are kept."""
  length = tf.shape(rows)[0]
  found = [
    tf.nn.ctc_greedy_decoder(tf.stack([_X, -_X, _X[::-1]], 1), [length, length // 2, _N - length], merge, blank)
    for merge, blank in ((True, None), (False, 1))
  ]
  return tf.nest.flatten([*found, tf.sparse.to_dense(found[0][0][0], -1)], expand_composites=True)


def _by_rows(function):
  """Returns a function of rows and of which of them are kept."""

  @functools.partial(tf.function, autograph=False)
  def run(x, keep):
    return tf.nest.flatten(function(tf.boolean_mask(x, keep)))

  return run


_KEPT = [np.array([c == "1" for c in bits]) for bits in ("000000", "010000", "100101", "011110", "111111")]


@pytest.mark.slow  # The only check of each rule at the lengths 0 and 1, and at the bound.
@pytest.mark.parametrize("op", sorted(_CASES))
def test_a_cut_array_gives_tensorflows_result(op):
  x = _BOXES if op.startswith(("NonMax", "Crop", "CombinedNon")) else _X
  sizes = {op: _MAX_SIZES[op]} if op in _MAX_SIZES else None
  assert check_bounded_sizes(_by_rows(_CASES[op]), *[(x, keep) for keep in _KEPT], max_sizes=sizes) >= 2


# TensorFlow's CPU does not run these: UnsortedSegmentSum and so on under other names, and TopKV2 of old graphs. Only
# compiled code has dynamic dimensions; `dynamic_dimensions_test.py` has their ops. `list_elements_test.py` has
# RaggedTensorToVariantGradient.
_WITHOUT_CASE = frozenset(
  ("RaggedTensorToVariantGradient", "SegmentMaxV2", "SegmentMinV2", "SegmentProdV2", "SegmentSumV2", "TopK")
) | {f"Xla{verb}DynamicDimensionSize" for verb in ("Set", "Remove")}

# Other tests register rules for ops that TensorFlow does not have.
_ELEMENTWISE = sorted(filter(op_def_registry.get, ops_with_bounded_sizes() - set(_CASES) - _WITHOUT_CASE))


def _applied(op, x):
  """Returns an op of the rows and the first row, in the first dtype that it has a kernel for."""
  names = [arg.name for arg in op_def_registry.get(op).input_arg]
  for values in (x, x > 0.5, tf.cast(x * 9, tf.int32), tf.complex(x, x)):
    other = values[:1] if values.dtype == tf.bool else values[:, :1] + values
    arguments = [values, other, values][: len(names)]
    try:
      if op in ("AddN", "AccumulateNV2"):
        shape = {"shape": [None, 4]} if op == "AccumulateNV2" else {}
        return getattr(_raw, op)(inputs=[values, other], **shape)
      return getattr(_raw, op)(**dict(zip(names, arguments, strict=True)))
    except (TypeError, ValueError, NotImplementedError):
      continue
  return None


@pytest.mark.slow  # The only check of all elementwise rules.
@pytest.mark.parametrize("part", range(4))
def test_elementwise_ops_give_tensorflows_results(part):
  ops = _ELEMENTWISE[part::4]

  def apply(x):
    results = [_applied(op, x) for op in ops]
    assert sum(result is None for result in results) <= len(ops) // 5
    return [result for result in results if result is not None]

  assert check_bounded_sizes(_by_rows(apply), *[(_X, keep) for keep in _KEPT]) == len(_KEPT)


@pytest.mark.parametrize(
  "function",
  [
    lambda rows: rows[:, :0] + tf.ones((1, 1)),
    lambda rows: tf.reduce_sum(rows[:, :0] * tf.ones((1, 1)), 0),
    lambda rows: tf.shape(tf.where(rows[:, :0] > 0, rows[:, :1], rows[:, :0])),
  ],
  ids=["add", "sum", "where"],
)
def test_an_axis_of_size_0_stays_empty_beside_one_that_is_repeated(function):
  assert check_bounded_sizes(_by_rows(function), *[(_X, keep) for keep in _KEPT]) >= 1


@pytest.mark.parametrize(
  "function",
  [
    lambda rows: tf.nn.softmax_cross_entropy_with_logits(rows, _X[:3]),
    lambda rows: tf.nn.softmax_cross_entropy_with_logits(_X[:1], tf.concat([rows, rows], 0)[: tf.shape(rows)[0]]),
    lambda rows: tf.nn.softmax_cross_entropy_with_logits(tf.concat([rows, _X[:2]], 0)[2:], rows),
    lambda rows: tf.nn.sparse_softmax_cross_entropy_with_logits([0, 1, 2], rows),
  ],
  ids=["known", "repeated", "bounds", "labels"],
)
def test_rows_of_inputs_with_different_bounds_fit_each_other(function):
  assert check_bounded_sizes(_by_rows(function), *[(_X, keep) for keep in _KEPT]) >= 1


def test_no_box_is_selected_of_none():
  @tf.function(autograph=False)
  def select(boxes, scores):
    return _raw.NonMaxSuppression(boxes=boxes, scores=scores, max_output_size=2)

  assert check_bounded_sizes(select, (np.zeros((0, 4), np.float32), np.zeros(0, np.float32))) == 1
