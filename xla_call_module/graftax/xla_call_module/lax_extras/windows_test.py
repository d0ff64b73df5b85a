import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module.lax_extras import Window, reduce_window, select_and_scatter

_X = np.array([[0.5, -1.0, 2.0, 1.5], [3.0, 0.25, -2.0, 1.0]], np.float32)
_WINDOW = Window((2, 2), (1, 2), (1, 1), (1, 1), ((1, 0), (0, 1)))


def _by_hand(x, init, padding_counts):
  padded = np.full((3, 5), init, np.float32)
  padded[1:, :4] = x
  inside = np.zeros((3, 5), bool)
  inside[1:, :4] = True
  result = np.full((2, 2), init, np.float32)
  for row, column, i, j in itertools.product(range(2), range(2), range(2), range(2)):
    place = row + i, 2 * column + j
    if padding_counts or inside[place]:
      result[row, column] += padded[place]
  return result


@pytest.mark.parametrize("monoid", ["add", None])
@pytest.mark.parametrize("padding_counts", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_padding_holds_the_initial_value_or_does_not_count(monoid, padding_counts, known):
  def reduce(x, init):
    (result,) = reduce_window(
      jnp.add, [x], [init], _WINDOW, monoid=monoid, padding_counts=padding_counts, too_large=ValueError
    )
    return result

  init = np.array(0.5, np.float32)
  result = reduce(_X, init if known else jnp.asarray(init))
  np.testing.assert_allclose(result, _by_hand(_X, 0.5, padding_counts), rtol=1e-6)
  # A sum is linear, so its derivative is the sum without the initial value.
  tangent = jax.jvp(lambda x: reduce(x, init), (_X,), (_X + 1,))[1]
  np.testing.assert_allclose(tangent, _by_hand(_X + 1, 0, True), rtol=1e-6)


def test_large_window_has_a_value_and_its_derivative_is_the_callers_error():
  window = Window((5000,), (1,), (1,), (1,), ((0, 0),))
  x, init = np.ones(5000, np.float32), jnp.float32(0)

  def total(x):
    return reduce_window(jnp.add, [x], [init], window, monoid=None, padding_counts=True, too_large=KeyError)[0][0]

  assert total(x) == 5000
  with pytest.raises(KeyError, match=r"window of \(5000,\) .* the limit is 4096 cells"):
    jax.grad(total)(x)


def test_padding_is_never_selected():
  window = Window((2,), (2,), (1,), (1,), ((2, 1),))
  x, source = np.array([-3.0, -1.0, -2.0], np.float32), np.array([10.0, 20.0, 30.0], np.float32)
  for adds in (True, False):
    result = select_and_scatter(jnp.greater_equal, jnp.add, x, source, np.float32(0.5), window, adds=adds)
    np.testing.assert_array_equal(result, [0.5, 20.5, 30.5])  # nothing but padding in the first window
