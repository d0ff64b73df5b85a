"""`Int64Pair`: arithmetic on halves, ops that only rearrange elements, and why JAX's own 64-bit arrays are not used."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.ops_jax.int64_pairs import arithmetic, pairs
from graftax.testing.raw_ops import NodeContext, raw_op
from graftax.xla_call_module.lax_extras import add_halves

_VALUES = np.array([0, 1, 2**31, 2**32 - 1, 2**32, 2**40 + 7, 2**63, 2**64 - 1], np.uint64)


@pytest.mark.parametrize("x64", [False, True])
def test_negative_seeds_are_sign_extended(x64):
  with jax.enable_x64(x64):
    for value in (np.array([-1, 5], np.int32), jnp.array([-1, 5], np.int32)):
      low, high = pairs.split(value)
      np.testing.assert_array_equal(low, np.array([2**32 - 1, 5], np.uint32))
      np.testing.assert_array_equal(high, np.array([2**32 - 1, 0], np.uint32))


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_halves_join_to_the_value(dtype):
  values = _VALUES.astype(dtype)
  np.testing.assert_array_equal(pairs.join(*pairs.split(values), dtype), values, strict=True)
  with jax.enable_x64(True):
    np.testing.assert_array_equal(pairs.join(*pairs.split(jnp.asarray(values)), dtype), values, strict=True)


@pytest.mark.parametrize("x64", [False, True])
def test_sums_and_remainders(x64):
  a, b = (x.reshape(-1) for x in np.meshgrid(_VALUES, _VALUES[1:]))
  with jax.enable_x64(x64):
    halves = [pairs.traced_halves(x) for x in (a, b)]
    low, high, carry = jax.jit(add_halves)(*halves)
    rest = jax.jit(arithmetic.remainder)(*halves)
  with np.errstate(over="ignore"):
    np.testing.assert_array_equal(pairs.join(np.asarray(low), np.asarray(high), np.uint64), a + b)
  np.testing.assert_array_equal(carry, [int(x) + int(y) >= 2**64 for x, y in zip(a, b, strict=True)])
  np.testing.assert_array_equal(pairs.join(*map(np.asarray, rest), np.uint64), a % b)


def test_slicing_and_bitcasting_keep_all_64_bits():
  state = np.array([2**63 - 5, -3, 2**40 + 1])
  begin, end, step = (np.array([i], np.int32) for i in (1, 3, 1))
  cut = raw_op("StridedSlice", [state, begin, end, step])
  cast = raw_op("Bitcast", [state], {"type": np.uint64})

  def run(state):
    (part,) = cut.kernel.run(NodeContext(), [state, begin, end, step])
    return cast.kernel.run(NodeContext(), [part])

  with jax.enable_x64(False):
    (result,) = jax.jit(run)(pairs.as_int64_pair(state))
  assert result.dtype == np.uint64
  np.testing.assert_array_equal(np.asarray(result), state[1:].astype(np.uint64))


def test_joining_keeps_all_64_bits():
  state = np.array([2**40, -3])
  case = raw_op("ConcatV2", [[state, np.array([7])], np.int32(0)], {})
  with jax.enable_x64(False):
    (result,) = case.kernel.run(NodeContext(), [pairs.as_int64_pair(state), np.array([7]), np.int32(0)])
  np.testing.assert_array_equal(np.asarray(result), [2**40, -3, 7])


def test_jax_numpy_truncates_64_bit_arrays_outside_the_scope_that_made_them():
  """If this fails, 64-bit arrays made under `jax.enable_x64(True)` may have become safe; see the package docstring."""
  with jax.enable_x64(True):
    value = jnp.array([2**40 + 7])
  with jax.enable_x64(False):
    assert jax.jit(lambda x: x)(value).dtype == np.int64
    for function in (lambda x: x + 0, jnp.sum):
      with pytest.warns(UserWarning, match="truncated to dtype int32"):
        truncated = function(value)
      assert truncated.dtype == np.int32 and truncated.item() == 7


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
def test_rules_that_jax_applies_outside_the_scope_use_32_bits():
  """As above."""

  def update(x):
    with jax.enable_x64(True):
      return jax.lax.dynamic_update_slice(x, x[:1], (x[0] * 0,))

  def bits(x):
    with jax.enable_x64(True):
      return x, jax.random.bits(jax.random.key(0), (1,), np.uint64)

  with jax.enable_x64(True):
    values = jnp.array([[1, 2], [3, 4]])
  with jax.enable_x64(False):
    with pytest.raises(TypeError, match="int32, int64"):
      jax.vmap(jax.jit(update))(values)
    assert jax.jvp(jax.jit(bits), (1.0,), (1.0,))[0][1].dtype == np.uint32
