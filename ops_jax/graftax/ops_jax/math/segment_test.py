"""Segment reductions against TensorFlow: empty segments, ties, zeros, ids out of range."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

from graftax.ops_jax import lowering
from graftax.ops_jax.math import segment
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects, raw_op

_X = np.array([[1.5, -2.0], [3.0, 0.5], [1.5, 4.0], [-1.0, 0.25], [2.0, 2.0]])
_SORTED = np.array([0, 0, 2, 2, 4], np.int32)
_UNSORTED = np.array([2, 0, -1, 0, 4], np.int64)
_KINDS = ("Sum", "Prod", "Max", "Min")


@pytest.mark.parametrize("kind", [*_KINDS, "Mean"])
def test_sorted_segments_match_tensorflow(kind):
  op = f"Segment{kind}"
  check_raw_op(op, [_X, _SORTED], grad=kind != "Prod")
  check_raw_op(op, [_X.astype(np.float32), _SORTED.astype(np.int64)])
  check_raw_op(op, [(_X * 3).astype(np.int32), _SORTED], vmap=False)
  check_raw_op(op, [_X[:0], _SORTED[:0]], vmap=False)
  check_raw_op(op, [_X[:, 0].copy(), _SORTED], vmap=False)
  check_raw_op_rejects(op, [_X, _SORTED[:3]], match="does not fit")
  check_raw_op_rejects(op, [_X, _SORTED - 1], match="sorted and not negative")


@pytest.mark.parametrize("kind", _KINDS)
def test_unsorted_segments_match_tensorflow(kind):
  op = f"UnsortedSegment{kind}"
  check_raw_op(op, [_X, _UNSORTED, np.int32(6)], grad=True)
  check_raw_op(op, [_X.astype(np.float32), _UNSORTED, np.int32(6)])
  check_raw_op(op, [(_X * 3).astype(np.int64), _UNSORTED, np.int32(6)], vmap=False)
  ids = np.arange(10, dtype=np.int32).reshape(5, 2) % 3
  check_raw_op(op, [_X, ids, np.int64(3)], grad=True)
  check_raw_op(op, [_X[:0], _UNSORTED[:0], np.int32(2)], vmap=False)


@pytest.mark.parametrize("kind", ["Max", "Min"])
def test_ties_share_the_derivative(kind):
  x = np.array([1.0, 2.0, 2.0, 1.0])
  check_raw_op(f"UnsortedSegment{kind}", [x, np.array([0, 0, 0, 0], np.int32), np.int32(1)], grad=True, grad_order=2)
  check_raw_op(f"Segment{kind}", [x, np.array([0, 0, 0, 0], np.int32)], grad=True)


def test_products_with_zeros_have_tensorflows_derivative():
  x = np.array([0.0, 2.0, 3.0, 0.0, 0.0, 5.0])
  ids = np.array([0, 0, 0, 1, 1, 1], np.int32)
  check_raw_op("UnsortedSegmentProd", [x, ids, np.int32(2)], grad=True)


@pytest.mark.parametrize("kind", _KINDS)
def test_ids_out_of_range_raise_when_known_and_left_out_when_traced(kind):
  ids = np.array([0, 7, 1, 1, 0], np.int32)
  case = raw_op(f"UnsortedSegment{kind}", [_X, ids, np.int32(2)], static=("segment_ids",))
  with pytest.raises(ValueError, match="is not below"):
    case.run(_X)
  run = getattr(segment, f"unsorted_segment_{kind.lower()}")
  np.testing.assert_allclose(run(_X, jnp.asarray(ids), 2), run(_X, np.where(ids == 7, -1, ids), 2))


@pytest.mark.parametrize(
  ("kind", "expected"),
  [("sum", [3, 0, 3, 0]), ("prod", [2, 1, 3, 1]), ("max", [2, None, 3, None]), ("min", [1, None, 3, None])],
)
def test_sorted_segments_with_a_given_number(kind, expected):
  # TensorFlow has no CPU kernel for these; its XLA kernels share the unsorted ones.
  result = getattr(segment, f"segment_{kind}_v2")(np.array([1.0, 2, 3], np.float32), np.array([0, 0, 2]), 4)
  extreme = np.finfo(np.float32).min if kind == "max" else np.finfo(np.float32).max
  np.testing.assert_array_equal(result, [extreme if e is None else e for e in expected])


@pytest.mark.parametrize("kind", ["Max", "Min"])
def test_infinite_rows_match_tensorflow(kind):
  # The sorted ops know infinities; the unsorted ones start at the extreme finite number.
  x = np.array([-np.inf, np.inf, 1.0], np.float32)
  check_raw_op(f"Segment{kind}", [x, np.array([0, 1, 3], np.int32)], vmap=False)
  check_raw_op(f"UnsortedSegment{kind}", [x, np.array([0, 1, 3], np.int32), np.int32(5)], vmap=False)


@pytest.mark.parametrize("op", ["SegmentMax", "SegmentMin", "UnsortedSegmentMax", "UnsortedSegmentMin"])
def test_nan_is_dropped_in_tensorflow_alone(op):
  number = {"num_segments": 1} if op.startswith("Unsorted") else {}
  data, ids = np.float32([1, np.nan, 3]), np.zeros(3, np.int32)
  assert raw_tf(op, data=data, segment_ids=ids, **number) == 3
  assert np.isnan(lowering(op).function(data, ids, *number.values()))


@pytest.mark.parametrize("op", ["TensorScatterMax", "TensorScatterMin"])
def test_nan_is_dropped_in_tensorflows_scatter_alone(op):
  tensor, indices, updates = np.float32([2]), np.zeros((2, 1), np.int32), np.float32([np.nan, 2])
  assert raw_tf(op, tensor=tensor, indices=indices, updates=updates) == 2
  assert np.isnan(lowering(op).function(tensor, indices, updates))


def test_nan_is_dropped_in_tensorflows_pooling_and_moved_in_its_top_k_alone():
  rows = np.float32([3, 1, np.nan])
  window = {"ksize": (1, 1, 3, 1), "strides": (1, 1, 1, 1), "padding": "VALID"}
  assert (
    raw_tf(
      "MaxPool", input=rows.reshape(1, 1, 3, 1), **{k: v if k == "padding" else list(v) for k, v in window.items()}
    )
    == 3
  )
  assert np.isnan(lowering("MaxPool").function(rows.reshape(1, 1, 3, 1), **window))
  assert raw_tf("TopKV2", input=np.float32([3, 1, np.nan, 3]), k=4)[0][0] == 3
  assert np.isnan(lowering("TopKV2").function(np.float32([3, 1, np.nan, 3]), np.int32(4))[0][0])


def raw_tf(op, **arguments):
  return getattr(tf.raw_ops, op)(**arguments)


def test_gradients_that_differ_from_tensorflows():
  x = tf.constant([1.0, 2.0, 3.0])
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = tf.reduce_sum(tf.dynamic_stitch([[0, 1], [1]], [x[:2], x[2:]]) * [1.0, 2.0])
  np.testing.assert_array_equal(tape.gradient(y, x), [1, 2, 2])
  stitch = lowering("DynamicStitch").function
  ours = jax.grad(lambda a: (stitch([np.array([0, 1]), np.array([1])], [a[:2], a[2:]]) * np.float32([1, 2])).sum())
  np.testing.assert_array_equal(ours(jnp.float32([1, 2, 3])), [1, 0, 2])

  z, c = np.complex64([1 + 1j, 2 - 1j, 0.5 + 1j]), np.complex64([1, 1j, 2])
  with tf.GradientTape() as tape:
    v = tf.constant(z)
    tape.watch(v)
    y = tf.math.cumprod(v)
  theirs = tape.gradient(y, v, output_gradients=tf.constant(c))
  products = np.cumprod(z) * c
  np.testing.assert_allclose(theirs, products[::-1].cumsum()[::-1] / z, rtol=1e-5)
  # The rule for complex numbers: the derivatives are conjugated, the incoming gradient is not.
  conjugated = (np.conj(np.cumprod(z)) * c)[::-1].cumsum()[::-1] / np.conj(z)
  ours = np.conj(jax.vjp(lambda a: lowering("Cumprod").function(a, np.int32(0)), z)[1](np.conj(c))[0])
  np.testing.assert_allclose(ours, conjugated, rtol=1e-5)
