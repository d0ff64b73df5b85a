"""Reductions, running sums and windows."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn

from graftax.testing.jax_functions.case import SHARED, Case, f32

_X = (f32(3, 4),)
_B = ("b, _",)
_INTS = np.array([[3, -1, 4, 1], [-5, 9, 2, 6]], np.int32)

CASES = (
  Case("sum_mean", lambda x: x.sum(0) + x.mean(1).sum() + x.mean(0), _X, _B),
  Case("prod", SHARED["prod"], _X, low=0.5, high=1.5),
  # JAX does not differentiate products of arrays with symbolic dimensions.
  Case("prod_of_batch", lambda x: jnp.prod(x, axis=0), _X, _B, low=0.5, high=1.5, gradient=False),
  Case("max_min", lambda x: x.max(0) * x.min(1).sum(), _X, _B),
  Case("var_std", lambda x: x.var(0) + x.std(1, ddof=1).sum(), _X, _B),
  Case("argmax_argmin", lambda x: (jnp.argmax(x, 0), jnp.argmin(x, 1), x.sum()), _X, _B),
  Case("any_all", lambda x: (jnp.any(x > 0, 0), jnp.all(x > -2, 1), jnp.count_nonzero(x > 0)), _X, _B),
  Case("logsumexp", lambda x: nn.logsumexp(x, axis=0) + jax.scipy.special.logsumexp(x, b=2.0), _X, _B),
  Case("softmax", lambda x: nn.softmax(x, axis=0) * nn.log_softmax(x, axis=1), _X, _B),
  Case(
    "norms", lambda x: jnp.linalg.norm(x, axis=1).sum() + jnp.linalg.norm(x, 1, axis=0) + jnp.linalg.norm(x), _X, _B
  ),
  Case("median", SHARED["median"], _X, _B),
  Case("quantile", lambda x: jnp.quantile(x, jnp.array([0.25, 0.6]), axis=1), _X, _B),
  Case("average_ptp", lambda x: jnp.average(x, 1, jnp.array([1.0, 2, 3, 4])) + jnp.ptp(x, axis=1), _X, _B),
  Case("nansum", lambda x: jnp.nansum(jnp.where(x > 0.5, jnp.nan, x), axis=0) + jnp.nanmax(x), _X, _B),
  Case("cov_corrcoef", lambda x: jnp.cov(x, rowvar=False) + jnp.corrcoef(x, rowvar=False), (f32(6, 3),), _B),
  Case("cumsum", lambda x: jnp.cumsum(x, 0) * jnp.cumsum(x[:, ::-1], 1), _X, _B),
  Case("cumprod", lambda x: jnp.cumprod(x, 1), _X, _B, low=0.5, high=1.5),
  Case("cummax_cummin", lambda x: lax.cummax(x, 1) * lax.cummin(x, 1, reverse=True), _X, _B),
  # Nor running products and maxima along a symbolic dimension.
  Case("running_over_batch", lambda x: jnp.cumprod(x, 0) * lax.cummax(x, 0), _X, _B, gradient=False),
  Case("cumlogsumexp", SHARED["cumlogsumexp"], _X, _B),
  Case("associative_scan", lambda x: lax.associative_scan(jnp.multiply, x, axis=1), _X, _B, low=0.5, high=1.5),
  Case(
    "integer_reductions",
    lambda x: (x.sum(0), x.prod(1), x.max(), lax.reduce(x, 0, lax.bitwise_xor, (0,))),
    (_INTS,),
    _B,
  ),
  Case("generic_reduce", lambda x: lax.reduce((x, x * 2), (0.0, 1.0), _fold, (1,)), _X, _B, gradient=False),
  Case("diff_trapezoid", lambda x: jnp.diff(x, axis=1) * jnp.trapezoid(x, axis=1)[:, None], _X, _B),
  Case("max_pool", SHARED["max_pool"], (f32(2, 4, 4, 2),), ("b, ...",)),
  Case("avg_pool", SHARED["avg_pool"], (f32(2, 4, 4, 2),), ("b, ...",)),
  Case(
    "dilated_window",
    lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2), (1, 1), ((0, 0), (1, 1)), window_dilation=(1, 2)) ** 2,
    _X,
    _B,
  ),
  Case("min_pool_1d", lambda x: lax.reduce_window(x, jnp.inf, lax.min, (1, 2), (1, 1), "SAME"), _X, _B),
)


def _fold(left: tuple[jax.Array, jax.Array], right: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
  return left[0] + right[0], left[1] * right[1]
