"""tf2xla's sorts against NumPy."""

import jax.numpy as jnp
import numpy as np
import pytest

from graftax.graphdef_ir import FunctionRef
from graftax.ops_jax.tf2xla.sort import xla_key_value_sort, xla_sort, xla_variadic_sort
from graftax.testing.raw_ops import NodeContext


def test_sort_of_the_last_axis():
  x = np.array([[3, 1, 2], [9, 7, 8]])
  np.testing.assert_array_equal(xla_sort(x), np.sort(x))


def test_values_follow_their_keys():
  keys, values = xla_key_value_sort(np.array([3, 1, 3, 2]), np.array([1.0, 2.0, 3.0, 4.0]))
  np.testing.assert_array_equal(keys, [1, 2, 3, 3])
  np.testing.assert_array_equal(values, [2, 4, 1, 3])


@pytest.mark.parametrize("dimension", [0, 1])
def test_comparison_functions_decide(dimension):
  context = NodeContext(functions={"descending": lambda a, b, c, d: jnp.greater(a, b)})
  x = np.random.default_rng(0).integers(0, 5, (4, 6)).astype(np.int32)
  y = np.arange(24, dtype=np.int32).reshape(4, 6)
  got = xla_variadic_sort(context, [x, y], dimension, comparator=FunctionRef("descending", {}), is_stable=True)
  order = np.argsort(-x, axis=dimension, kind="stable")
  np.testing.assert_array_equal(got[0], np.take_along_axis(x, order, dimension))
  np.testing.assert_array_equal(got[1], np.take_along_axis(y, order, dimension))
