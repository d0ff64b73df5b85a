"""Ops that pass their input on, against TensorFlow and under differentiation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify

from graftax.ops_jax import InvalidInputError, LoweringOptions
from graftax.ops_jax.array import identity
from graftax.testing.raw_ops import NodeContext, check_raw_op, check_raw_op_rejects

_X = np.array([1.0, -2.0], np.float32)
_CHECKING = NodeContext(options=LoweringOptions(enable_checkify_for_asserts=True))


@pytest.mark.parametrize("op", ["Identity", "Snapshot", "StopGradient", "CheckNumerics"])
def test_values_pass_unchanged(op):
  attrs = {"message": "bad"} if op == "CheckNumerics" else {}
  check_raw_op(op, [_X], attrs, grad=op != "Snapshot")
  check_raw_op(op, [np.zeros((0, 2), np.float32)], attrs, vmap=False)
  if op in ("Identity", "StopGradient"):
    check_raw_op(op, [np.array([b"text"], object)], attrs)


def test_lists_pass_unchanged():
  check_raw_op("IdentityN", [[_X, np.int32(3)]])


def test_prevent_gradient_rejects_differentiation_with_its_message():
  context = NodeContext()
  prevented = lambda x: identity.prevent_gradient(context, x, message="not here")  # noqa: E731
  np.testing.assert_array_equal(jax.jit(prevented)(_X), _X)
  with pytest.raises(LookupError, match=r"op_under_test.*not here"):
    jax.grad(lambda x: prevented(x).sum())(_X)
  context.options = LoweringOptions(raise_on_prevent_gradient=False)
  np.testing.assert_array_equal(jax.grad(lambda x: prevented(x).sum())(_X), [1, 1])


def test_ensure_shape_accepts_what_is_compatible_and_rejects_the_rest():
  x = np.ones((2, 3), np.float32)
  check_raw_op("EnsureShape", [x], {"shape": [None, 3]}, grad=True, vmap=False)
  check_raw_op_rejects("EnsureShape", [x], {"shape": [None, 4]}, match="not compatible")
  check_raw_op_rejects("EnsureShape", [x], {"shape": [6]}, match="not compatible")


def test_an_assertion_is_dropped_unless_checks_are_asked_for():
  # The node may stand in a branch that is never taken, as in a tf.case without default.
  for condition in (np.array(False), jnp.array(False)):
    assert identity.assert_(NodeContext(), condition, [np.array(b"no", object)]) == ()


def test_a_traced_assertion_is_checked_when_asked_for():
  def checked(x):
    identity.assert_(_CHECKING, x > 0, [np.array(b"too small {}", object)])
    return identity.check_numerics(_CHECKING, x, message="bad")

  run = checkify.checkify(jax.jit(checked))
  run(jnp.float32(1))[0].throw()
  with pytest.raises(checkify.JaxRuntimeError, match="too small"):
    run(jnp.float32(-1))[0].throw()
  with pytest.raises(checkify.JaxRuntimeError, match="bad : Tensor had Inf or NaN values"):
    run(jnp.float32(np.inf))[0].throw()


def test_an_unfed_placeholder_says_its_name():
  with pytest.raises(InvalidInputError, match=r"op_under_test.*was not fed"):
    identity.placeholder(NodeContext(), dtype=np.dtype(np.float32), shape=None)
