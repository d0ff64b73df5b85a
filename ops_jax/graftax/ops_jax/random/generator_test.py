"""Explicit generators against TensorFlow, numbers and state."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.ops_jax import ResourceHandle, lowering
from graftax.ops_jax._core.errors import InvalidInputError, UnsupportedAttrError
from graftax.ops_jax.int64_pairs import pairs
from graftax.testing.raw_ops import NodeContext

_HANDLE = ResourceHandle("generator")
_STATES = [np.array([0, 0, 1]), np.array([2**63 - 5, 3, 77]), np.array([-1, -1, -(2**62) + 12345])]
_DRAWS = [
  ("StatefulUniform", np.float32, ()),
  ("StatefulUniform", np.float64, ()),
  ("StatefulStandardNormalV2", np.float64, ()),
  ("StatefulTruncatedNormal", np.float64, ()),
  ("StatefulUniformFullInt", np.int32, ()),
  ("StatefulUniformFullInt", np.uint64, ()),
  ("StatefulUniformInt", np.int64, (np.array(-5), np.array(2**40))),
]


def _tensorflow_draw(op, state, shape, dtype, bounds):
  import tensorflow as tf

  variable = tf.Variable(state.tolist(), dtype=state.dtype)
  attrs = {"minval": bounds[0], "maxval": bounds[1]} if bounds else {"dtype": tf.as_dtype(np.dtype(dtype))}
  numbers = getattr(tf.raw_ops, op)(resource=variable.handle, algorithm=np.int64(1), shape=shape, **attrs)
  return numbers.numpy(), variable.numpy()


def _draw(op, state, shape, dtype, bounds):
  context = NodeContext(state={_HANDLE: state})
  numbers = lowering(op).function(context, _HANDLE, 1, shape, *bounds, dtype=np.dtype(dtype))
  return numbers, context.state[_HANDLE]


@pytest.mark.parametrize("state", _STATES)
@pytest.mark.parametrize(("op", "dtype", "bounds"), _DRAWS)
@pytest.mark.parametrize("shape", [(7,), (2, 3), ()])
def test_numbers_and_the_state_after(op, dtype, bounds, state, shape):
  want, want_state = _tensorflow_draw(op, state, shape, dtype, bounds)
  with jax.enable_x64(True):
    for form in (state, jnp.asarray(state)):
      numbers, after = _draw(op, form, shape, dtype, bounds)
      np.testing.assert_array_equal(numbers, want, strict=True)
      np.testing.assert_array_equal(after, want_state, strict=True)


@pytest.mark.parametrize("state", _STATES)
def test_a_known_state_is_exact_without_64_bit_types(state):
  want, want_state = _tensorflow_draw("StatefulUniform", state, (7,), np.float32, ())
  with jax.enable_x64(False):
    numbers, after = _draw("StatefulUniform", state, (7,), np.float32, ())
  np.testing.assert_array_equal(numbers, want)
  assert isinstance(after, np.ndarray)
  np.testing.assert_array_equal(after, want_state, strict=True)


@pytest.mark.parametrize("state", _STATES)
def test_a_wide_state_is_exact_under_jit_without_64_bit_types(state):
  want, want_state = _tensorflow_draw("StatefulUniform", state, (7,), np.float32, ())
  with jax.enable_x64(False):
    draw = jax.jit(lambda s: _draw("StatefulUniform", s, (7,), np.float32, ()))
    numbers, after = draw(pairs.as_int64_pair(state))
    assert isinstance(after, pairs.Int64Pair)
  np.testing.assert_array_equal(numbers, want)
  np.testing.assert_array_equal(np.asarray(after), want_state, strict=True)


def test_a_state_that_jax_has_cut_raises():
  with jax.enable_x64(False), pytest.raises(InvalidInputError, match=r"generator's state .*int32.*as_int64_pair"):
    jax.jit(lambda s: _draw("StatefulUniform", s, (7,), np.float32, ()))(_STATES[0])


@pytest.mark.parametrize("state", _STATES)
@pytest.mark.parametrize("delta", [0, 3, 2**40])
def test_skipping(state, delta):
  import tensorflow as tf

  variable = tf.Variable(state.tolist(), dtype=state.dtype)
  before = tf.raw_ops.RngReadAndSkip(resource=variable.handle, alg=1, delta=np.uint64(delta)).numpy()
  context = NodeContext(state={_HANDLE: state})
  value = lowering("RngReadAndSkip").function(context, _HANDLE, 1, np.array(delta, np.uint64))
  np.testing.assert_array_equal(value, before, strict=True)
  np.testing.assert_array_equal(context.state[_HANDLE], variable.numpy(), strict=True)
  tf.raw_ops.RngSkip(resource=variable.handle, algorithm=np.int64(1), delta=np.int64(delta))
  assert lowering("RngSkip").function(context, _HANDLE, 1, np.array(delta)) == ()
  np.testing.assert_array_equal(context.state[_HANDLE], variable.numpy(), strict=True)


def test_integers_from_nowhere_come_from_the_key():
  draw = lowering("NonDeterministicInts").function
  for dtype in (np.int32, np.uint32):
    one = draw(NodeContext(key=jax.random.key(1)), (4,), dtype=np.dtype(dtype))
    assert one.dtype == dtype
    assert not np.array_equal(one, draw(NodeContext(key=jax.random.key(2)), (4,), dtype=np.dtype(dtype)))


def test_other_algorithms_and_states_raise():
  with pytest.raises(UnsupportedAttrError, match="algorithm 2"):
    lowering("StatefulUniform").function(NodeContext(state={_HANDLE: _STATES[0]}), _HANDLE, 2, (3,))
  with pytest.raises(InvalidInputError, match=r"\(2,\)"):
    lowering("StatefulUniform").function(NodeContext(state={_HANDLE: np.zeros(2, np.int64)}), _HANDLE, 1, (3,))
