import jax
import numpy as np
import pytest

from graftax.graphdef_ir import Budget, Limits
from graftax.ops_jax import lowering
from graftax.ops_jax._core.result_sizes import CheckSizes, _key, _ReadOnly, _WritesError, check_results, growth_of


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.bool_])
def test_large_integers_are_told_apart_by_shape_and_small_ones_by_value(dtype):
  zeros, ones = np.zeros((100, 100), dtype), np.ones((100, 100), dtype)
  none = frozenset()
  assert _key([zeros], none) == _key([ones], none) is not None
  assert _key([zeros], none) != _key([zeros[1:]], none)
  assert _key([zeros[0, :2]], none) != _key([ones[0, :2]], none)
  assert _key([zeros[0, :2]], none) == _key([zeros[1, :2]], none)
  assert _key([jax.numpy.asarray(zeros)], none) is not None


@pytest.mark.parametrize(
  "op, shapes, most",
  [
    ("AddV2", [(2000, 2000), (2000, 2000)], 2000 * 2000),
    ("AddV2", [(2000, 1), (1, 3000)], 2000 * 3000),
    ("Relu", [(7, 5)], 35),
    ("AvgPool", [(7, 5)], 16 * 35),
    ("MatrixDiag", [(2, 3)], 36),
    ("Qr", [(3, 1)], 9),
  ],
)
def test_results_are_bounded_by_what_an_op_does_with_sizes(op, shapes, most):
  sizes = CheckSizes(frozenset(), 1, op, growth_of(lowering(op).function))
  assert sizes._most_elements([np.zeros(shape, np.float32) for shape in shapes]) == most


def test_lowerings_of_others_may_square_sizes():
  def outer(x):
    return x[:, None] * x

  outer.__module__ = "elsewhere"
  assert growth_of(outer) == "square"


def test_a_context_without_effects_has_only_what_is_listed():
  class Context:
    node_name = "node"

    def something_new(self):
      raise AssertionError

  context = _ReadOnly(Context())
  assert context.node_name == "node"
  with pytest.raises(_WritesError):
    context.something_new()


def test_sizes_with_a_symbolic_factor_are_not_compared_with_the_limit():
  # JAX knows that 4,000,000 b is more than a million, and not whether it is more than the limit.
  shape = jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, 2000, 2000"), np.float32)
  check_results([shape], Budget(Limits()), "node")
