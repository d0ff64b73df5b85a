"""Ops without a gradient in TensorFlow against its registry of gradients, and against `tf.GradientTape`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.ops_jax import read_lowering, supported_ops
from graftax.ops_jax.binding.no_gradients import NOT_DIFFERENTIABLE
from graftax.testing.raw_ops import check_raw_op, raw_op

pytestmark = pytest.mark.tensorflow

_X = np.random.default_rng(0).uniform(0.1, 0.9, (1, 4, 4, 3)).astype(np.float32)
# What they return is read through a reference to a variable, or does not depend on the values of floats.
_WITHOUT_EFFECT = frozenset(
  """
  Assign AssignAdd AssignSub OnesLike ScatterAdd ScatterDiv ScatterMul ScatterNdAdd ScatterNdSub ScatterNdUpdate
  ScatterSub StopGradient TensorArrayGradV3 ZerosLike
  """.split()
)


def _may_be_differentiable(op):
  """Returns whether TensorFlow lets the op have floats or lists of them as inputs and as results."""
  import tensorflow as tf
  from tensorflow.python.framework import op_def_registry

  definition = op_def_registry.get(op)
  allowed = {attr.name: list(attr.allowed_values.list.type) for attr in definition.attr}

  def may_be_float(arg):
    numbers = [arg.type] if arg.type else allowed[arg.type_attr or arg.type_list_attr]
    types = list(map(tf.as_dtype, numbers))
    return not types or any(t.is_floating or t.is_complex or t == tf.variant for t in types)

  return all(any(map(may_be_float, args)) for args in (definition.input_arg, definition.output_arg))


def test_the_table_has_the_ops_that_tensorflow_declares_not_to_be_differentiable():
  from tensorflow.python.framework.ops import gradient_registry

  declared = {op for op in supported_ops() & set(gradient_registry.list()) if gradient_registry.lookup(op) is None}
  expected = set(filter(_may_be_differentiable, declared)) - _WITHOUT_EFFECT - {"XlaVariadicReduce"}
  assert expected == NOT_DIFFERENTIABLE


@pytest.mark.parametrize(
  ("op", "inputs", "attrs"),
  [
    ("OneHot", [np.array([0, 2]), np.int32(3), np.float32(2), np.float32(0.5)], {}),
    ("HSVToRGB", [_X], {}),
    ("LinSpace", [np.float32(0.5), np.float32(2), np.int32(4)], {}),
    ("DrawBoundingBoxes", [_X, np.array([[[0, 0, 1, 1]]], np.float32)], {}),
    (
      "SparseConcat",
      [[np.array([[0, 1]]), np.array([[1, 0]])], [np.ones(1), np.ones(1)], [np.array([2, 2])] * 2],
      {"concat_dim": 0},
    ),
    ("ResizeBilinearGrad", [_X, np.zeros((1, 2, 2, 3), np.float32)], {}),
  ],
)
def test_no_gradient_passes(op, inputs, attrs):
  check_raw_op(op, inputs, attrs, grad=True, vmap=False)


def test_a_users_lowering_keeps_its_derivative():
  def scaled(images):
    return images * 3

  op = raw_op("HSVToRGB", [_X], lowering=read_lowering(scaled, ignores=("T",)))
  np.testing.assert_array_equal(jax.grad(lambda x: jnp.sum(op.run(x)[0]))(jnp.asarray(_X)), np.full_like(_X, 3))
