"""Slices of traced position and known extent, as in loops over time steps."""

import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.ops_jax import StaticInputError, is_known
from graftax.ops_jax._core.integer_facts import NO_FACTS, IntegerFacts
from graftax.ops_jax.array import slicing
from graftax.ops_jax.array.cast import cast
from graftax.ops_jax.array.concat_split import concat_v2, pack
from graftax.ops_jax.math.binary import add, maximum, minimum, mul, sub

_X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
_INT64 = np.dtype(np.int64)


def _zero():
  return np.int32(0)


def _window(x, t):
  facts = IntegerFacts()
  begin = pack([_zero(), t], facts=facts)
  end = pack([_zero(), add(t, np.int32(2), facts=facts)], facts=facts)
  return slicing.strided_slice(x, begin, end, (1, 1), facts=facts, begin_mask=1, end_mask=1)


def _mixed(x, t):
  facts = IntegerFacts()
  begin = pack([_zero(), t, np.int32(1)], facts=facts)
  end = pack([np.int32(1), t, np.int32(3)], facts=facts)
  return slicing.strided_slice(x, begin, end, (1, 1, 1), facts=facts, shrink_axis_mask=2)


def _before(x, t):
  facts = IntegerFacts()
  begin = pack([_zero(), sub(t, np.int32(1), facts=facts)], facts=facts)
  end = add(begin, np.array([1, 1], np.int32), facts=facts)
  return slicing.strided_slice(x, begin, end, (1, 1), facts=facts)


def _joined(x, t):
  facts = IntegerFacts()
  begin = concat_v2([np.zeros(1, np.int32), pack([t], facts=facts), np.zeros(1, np.int32)], 0, facts=facts)
  return slicing.slice_(x, cast(begin, DstT=_INT64, facts=facts), (-1, 1, -1), facts=facts)


@pytest.mark.parametrize(
  ("function", "expected"),
  [
    (_window, lambda t: _X[:, t : t + 2]),
    (_mixed, lambda t: _X[0:1, t, 1:3]),
    (_before, lambda t: _X[0:1, t - 1 : t]),
    (_joined, lambda t: _X[:, t : t + 1, :]),
  ],
)
def test_a_window_of_known_extent_may_move(function, expected):
  for t in (1,):
    np.testing.assert_array_equal(function(_X, jnp.int32(t)), expected(t))
    np.testing.assert_array_equal(jax.jit(function)(_X, np.int32(t)), expected(t))
  batch = jax.vmap(function, in_axes=(None, 0))(_X, jnp.array([1, 1]))
  np.testing.assert_array_equal(batch, np.stack([expected(1), expected(1)]))
  gradient = jax.grad(lambda x: function(x, jnp.int32(1)).sum())(_X)
  assert gradient.sum() == expected(1).size


def test_an_unknown_extent_raises():
  def ragged(x, s, t):
    facts = IntegerFacts()
    return slicing.strided_slice(x, pack([s], facts=facts), pack([t], facts=facts), (1,), facts=facts)

  with pytest.raises(StaticInputError, match="begin plus a constant"):
    jax.jit(ragged)(_X, 0, 1)


def test_without_facts_the_extent_is_not_known():
  def window(x, t):
    return slicing.strided_slice(x, pack([t]), pack([add(t, np.int32(1))]), (1,))

  with pytest.raises(StaticInputError, match="begin plus a constant"):
    jax.jit(window)(_X, 0)
  assert len(NO_FACTS) == 0


def test_facts_go_away_with_their_arrays():
  facts = IntegerFacts()

  def shifted(t):
    return minimum(add(t, np.int32(2), facts=facts), np.int32(7), facts=facts)

  jax.jit(shifted)(np.int32(0))
  gc.collect()
  assert len(facts) == 0


def _is_known_under_jit(function):
  found = []
  jax.jit(lambda n: found.append(is_known(function(n, IntegerFacts()))))(3)
  return found == [True]


@pytest.mark.parametrize(("low", "high", "expected"), [(5, 5, True), (6, 5, True), (4, 5, False)])
def test_a_scalar_with_one_possible_value_is_known(low, high, expected):
  def clipped(n, facts):
    least = maximum(n, np.int32(low), facts=facts)
    size = cast(least, DstT=_INT64, facts=facts)
    return minimum(size, np.asarray(high, size.dtype), facts=facts)

  assert _is_known_under_jit(clipped) == expected


def test_a_cast_that_may_wrap_gives_no_fact():
  def narrowed(n, facts):
    small = cast(maximum(n, np.int32(300), facts=facts), DstT=np.dtype(np.uint8), facts=facts)
    return minimum(small, np.uint8(0), facts=facts)

  assert not _is_known_under_jit(narrowed)


def _doubled(n, facts):
  return add(n, n, facts=facts)


def _clipped(n, facts):
  return minimum(maximum(n, np.int8(0), facts=facts), np.int8(100), facts=facts)


def _wide(n, facts):
  return cast(n, DstT=np.dtype(f"int{16 * n.dtype.itemsize}"), facts=facts)


def _narrowed_and_back(n, facts):
  return _wide(cast(n, DstT=np.dtype(f"int{4 * n.dtype.itemsize}"), facts=facts), facts)


def _high_part(n, facts):
  factor = np.int32(1103515245)
  product = mul(_wide(n, facts), _wide(factor, facts), facts=facts)
  return sub(_wide(mul(n, factor, facts=facts), facts), product, facts=facts)


def _beyond(n, facts):
  return add(maximum(n, np.int32(0), facts=facts), np.int32(2**31 - 1), facts=facts)


def _carry(n, facts):
  total = add(n, np.int32(2**31 - 1), facts=facts)
  return sub(_wide(total, facts), _wide(n, facts), facts=facts)


@pytest.mark.parametrize(
  ("function", "n"),
  [
    (lambda n, facts: sub(_narrowed_and_back(n, facts), n, facts=facts), np.int32(2**20 + 5)),
    (lambda n, facts: sub(_narrowed_and_back(n, facts), n, facts=facts), np.int64(2**40 + 5)),
    (
      lambda n, facts: sub(_wide(_doubled(n, facts), facts), _doubled(_wide(n, facts), facts), facts=facts),
      np.int8(99),
    ),
    (lambda n, facts: minimum(_doubled(_clipped(n, facts), facts), np.int8(-5), facts=facts), np.int8(99)),
    (lambda n, facts: _wide(add(pack([np.int8(99), n], T=n.dtype), np.int8(99), facts=facts), facts), np.int8(1)),
    (_high_part, np.int32(12345)),
    (_carry, np.int32(10)),
    (lambda n, facts: minimum(_beyond(n, facts), np.int32(5), facts=facts), np.int32(10)),
  ],
)
def test_integers_that_wrap_are_not_taken_for_their_sums(function, n):
  with jax.enable_x64(True), np.errstate(over="ignore"):
    got = jax.jit(lambda n: function(n, IntegerFacts()))(n)
    np.testing.assert_array_equal(got, function(n, NO_FACTS))


@pytest.mark.parametrize(("number", "greatest"), [(7, 7), (-3, 5), (-(2**40) + 100, np.inf)])
def test_joined_numbers_have_the_range_of_their_parts_if_their_dtype_has_it(number, greatest):
  facts = IntegerFacts()
  found = []

  def joined(x, y):
    facts.note_range(x, 0, 5)
    facts.note_concatenated(y, [x, np.array([number])])
    found.append(facts._range(y).high)

  jax.make_jaxpr(joined)(np.zeros(2, np.int32), np.zeros(3, np.int32))
  assert found == [greatest]
