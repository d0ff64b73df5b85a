"""Broadcasting and its shape arithmetic against TensorFlow."""

import itertools

import jax
import numpy as np
import pytest

from graftax.ops_jax.array import broadcasting
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects

_SHAPES = [[], [1], [3], [2, 3], [1, 3], [2, 1], [1, 1], [4, 2, 3], [4, 1, 1], [0, 3]]


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.bool_, np.complex128])
def test_broadcast_to_matches_tensorflow(dtype):
  for x, shape in ((np.ones((1, 3), dtype), [2, 3]), (np.ones((), dtype), [2]), (np.ones((2, 1), dtype), [3, 2, 0])):
    check_raw_op("BroadcastTo", [x, np.array(shape, np.int32)], grad=dtype == np.float32)
  check_raw_op_rejects("BroadcastTo", [np.ones((2,), dtype), np.array([3], np.int32)], match="does not broadcast")


def test_known_strings_are_broadcast():
  check_raw_op("BroadcastTo", [np.array([b"a"], object), np.array([2, 2], np.int32)])


def test_shape_arithmetic_matches_tensorflow():
  for a, b in itertools.product(_SHAPES, _SHAPES):
    try:
      np.broadcast_shapes(tuple(a), tuple(b))
    except ValueError:
      continue
    for op in ("BroadcastArgs", "BroadcastGradientArgs"):
      check_raw_op(op, [np.array(a, np.int32), np.array(b, np.int32)], jit=False, vmap=False)


def test_incompatible_shapes_raise():
  for op in ("BroadcastArgs", "BroadcastGradientArgs"):
    check_raw_op_rejects(op, [np.array([2], np.int32), np.array([3], np.int32)], match="do not broadcast")


def test_symbolic_dimensions_broadcast():
  (n,) = jax.export.symbolic_shape("n")
  assert list(broadcasting.broadcast_args((n, 1), (3,))) == [n, 3]
  r0, r1 = broadcasting.broadcast_gradient_args((n, 3), (3,))
  assert r0.tolist() == []
  assert r1.tolist() == [0]
