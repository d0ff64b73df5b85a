"""Fractional pooling against TensorFlow: for fixed seeds to the bit, otherwise by what every drawing has to be."""

import jax
import numpy as np
import pytest

from graftax.ops_jax._core.errors import InvalidInputError, UnsupportedAttrError
from graftax.ops_jax.nn.fractional_pooling import fractional_avg_pool, fractional_max_pool, fractional_max_pool_grad
from graftax.testing.raw_ops import NodeContext, check_raw_op

X = np.random.default_rng(0).normal(size=(2, 13, 17, 3))
RATIO = [1.0, 1.44, 1.73, 1.0]


@pytest.mark.parametrize("op", ["FractionalMaxPool", "FractionalAvgPool"])
@pytest.mark.parametrize("pseudo_random", [False, True])
@pytest.mark.parametrize("overlapping", [False, True])
def test_fixed_seeds(op, pseudo_random, overlapping):
  for seeds, ratio in (
    ((7, 11), RATIO),
    ((-5, 2**40 + 3), RATIO),
    ((7, 0), [1.0, 1.0, 1.0, 1.0]),
    ((3, 1), [1, 2.5, 3.3, 1]),
  ):
    attrs = {"pooling_ratio": ratio, "pseudo_random": pseudo_random, "overlapping": overlapping, "deterministic": True}
    check_raw_op(op, [X], {**attrs, "seed": seeds[0], "seed2": seeds[1]}, grad=True, vmap=False)


@pytest.mark.parametrize("op", ["FractionalMaxPool", "FractionalAvgPool"])
def test_integers(op):
  x = np.random.default_rng(1).integers(-50, 50, (1, 7, 9, 2)).astype(np.int32)
  check_raw_op(op, [x], {"pooling_ratio": RATIO, "deterministic": True, "seed": 1, "seed2": 2}, vmap=False)


@pytest.mark.parametrize("overlapping", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_gradient_ops(overlapping, known):
  rows, columns = np.array([0, 2, 3, 5, 7]), np.array([0, 1, 3, 5])
  x = np.random.default_rng(2).integers(0, 4, (2, 7, 5, 3)).astype(np.float32)
  y = np.random.default_rng(3).normal(size=(2, 4, 3, 3)).astype(np.float32)
  edge = 1 if overlapping else 0
  regions = [[x[:, a : b + edge, c : d + edge].max((1, 2)) for c, d in zip(columns, columns[1:], strict=False)]
             for a, b in zip(rows, rows[1:], strict=False)]  # fmt: skip
  largest = np.array(regions).transpose(2, 0, 1, 3)
  static = ("row_pooling_sequence", "col_pooling_sequence") if known else ()
  attrs = {"overlapping": overlapping}
  check_raw_op("FractionalMaxPoolGrad", [x, largest, y, rows, columns], attrs, static=static, vmap=False)
  check_raw_op("FractionalAvgPoolGrad", [np.array(x.shape), y, rows, columns], attrs, static=static, vmap=False)


@pytest.mark.parametrize("pool", [fractional_max_pool, fractional_avg_pool])
@pytest.mark.parametrize("pseudo_random", [False, True])
def test_drawn_regions_cover_the_input(pool, pseudo_random):
  seen = set()
  for number in range(20):
    context = NodeContext(key=jax.random.key(number))
    y, rows, columns = pool(context, X, pooling_ratio=tuple(RATIO), pseudo_random=pseudo_random)
    assert y.shape == (2, 9, 9, 3)
    for sequence, size in ((rows, 13), (columns, 17)):
      assert (sequence[0], sequence[-1]) == (0, size)
      assert set(np.diff(sequence).tolist()) == {1, 2}
    seen.add(tuple(rows.tolist()))
  assert len(seen) > 4


def test_what_does_not_fit_raises():
  with pytest.raises(InvalidInputError, match="expected rank 4"):
    fractional_max_pool(NodeContext(), X[0], pooling_ratio=(1.0, 2.0, 2.0, 1.0))
  x = np.zeros((1, 4, 4, 1), np.int32)
  with pytest.raises(UnsupportedAttrError, match="Cast to one"):
    fractional_max_pool_grad(x, x, x, np.arange(5), np.arange(5))
