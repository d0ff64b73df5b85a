"""JAX functions that the tests of xla_call_module and the benchmarks export and lift again."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn
from jax import random as jr

from graftax.xla_call_module.lax_extras import mulhi

__all__ = ["CASES", "Case", "arguments"]


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
  """A function and its arguments. An argument given as a shape is a random float32 array of that shape.

  `order` is how often the function is differentiated, `low` and `high` bound the random arguments, and `loose`
  multiplies the tolerance. `batches` is False if JAX itself cannot batch the function; `note` gives the reason.
  """

  name: str
  function: Callable[..., Any]
  specs: tuple[Any, ...]
  order: int = 2
  low: float = -1.0
  high: float = 1.0
  loose: float = 1.0
  batches: bool = True
  note: str = ""


CASES: list[Case] = []
"""JAX functions to export and lift again."""


def _case(name: str, function: Callable[..., Any], *specs: Any, **settings: Any) -> None:
  CASES.append(Case(name, function, specs, **settings))


def arguments(case: Case, seed: int = 0, shapes: tuple[Any, ...] | None = None) -> tuple[Any, ...]:
  """Returns random arguments for a case, of its own shapes or of the given ones.

  Args:
    case: one of `CASES`.
    seed: the seed of the random numbers.
    shapes: as `specs` of the case: a tuple of integers is a float32 array of that shape between `low` and `high`,
      anything else an argument as it is.

  Example:
    >>> [argument.shape for argument in arguments(Case("sum", jnp.add, ((2, 3), (3,))))]
    [(2, 3), (3,)]
  """
  rng = np.random.default_rng(seed)
  return tuple(
    rng.uniform(case.low, case.high, spec).astype(np.float32) if isinstance(spec, tuple) else spec
    for spec in shapes or case.specs
  )


_V, _M, _S = (6,), (4, 5), (4, 4)


def _spd(x: Any) -> Any:
  return x @ x.T + 4 * jnp.eye(x.shape[0])


# lax and jnp elementwise -----------------------------------------------------------------------------------------
_case("sin_cos", lambda x: jnp.sin(x) * jnp.cos(2 * x), _V)
_case("exp_log", lambda x: jnp.log1p(jnp.exp(x)) + jnp.expm1(x), _V)
_case("power", lambda x, y: x**y + x**3, _V, _V, low=0.5, high=2.0)
_case("tanh_sigmoid", lambda x: jnp.tanh(x) + nn.sigmoid(x), _V)
_case("rsqrt_cbrt", lambda x: lax.rsqrt(x) + jnp.cbrt(x), _V, low=0.5, high=2.0)
_case("inverse_trig", lambda x: jnp.arcsin(x) + jnp.arccos(x) + jnp.arctan(x), _V, low=-0.8, high=0.8)
_case("hyperbolic", lambda x: jnp.sinh(x) + jnp.cosh(x) + jnp.arcsinh(x) + jnp.arctanh(x), _V, low=-0.8, high=0.8)
_case("acosh_tan", lambda x: jnp.arccosh(x) + jnp.tan(x), _V, low=1.7, high=2.5)
_case("atan2", jnp.arctan2, _V, _V)
_case("clip_where", lambda x: jnp.clip(x, -0.5, 0.5) + jnp.where(x > 0, x, 2 * x), _V)
_case("maximum_minimum", lambda x, y: jnp.maximum(x, y) * jnp.minimum(x, y), _V, _V)
_case("remainder_floor", lambda x: jnp.remainder(x, 0.3) + jnp.floor(x) + jnp.round(x), _V)
_case("complex_abs", lambda x, y: jnp.abs(lax.complex(x, y)) + jnp.angle(lax.complex(x, y)), _V, _V)
_case(
  "complex_exp", lambda x: jnp.exp(1j * x) * jnp.sqrt(lax.complex(x + 2, x + 2)), np.array([0, 0.5, -1], np.float32)
)
_case(
  "integer_ops",
  lambda x: x // 3 + x % 5 + (x << 2) + (x >> 1) + lax.population_count(x),
  np.arange(9, dtype=np.int32),
  order=0,
)
_case("bitcast", lambda x: lax.bitcast_convert_type(x, np.int32), _V, order=0)
_case("mulhi", lambda x: mulhi(x, x), np.arange(70000, 70009, dtype=np.int32), order=0)
# special functions -------------------------------------------------------------------------------------------------
_case("lgamma", lax.lgamma, _V, low=0.5, high=3.0)
_case("digamma", lax.digamma, _V, low=0.5, high=3.0)
_case("erf", lambda x: lax.erf(x) + lax.erfc(x), _V)
_case("erf_inv", lax.erf_inv, _V, low=-0.8, high=0.8)
_case("bessel", lambda x: lax.bessel_i0e(x) + lax.bessel_i1e(x), _V, low=0.2, high=2.0)
_case("zeta", lambda x: lax.zeta(x, jnp.full_like(x, 2.0)), _V, order=0, low=1.5, high=3.0)
_case("polygamma", lambda x: lax.polygamma(jnp.full_like(x, 1.0), x), _V, low=0.5, high=3.0)
_case("igamma", lambda a, x: lax.igamma(a, x) + lax.igammac(a, x) * 0.5, _V, _V, order=1, low=0.5, high=3.0)
_case("betainc", lambda a, x: lax.betainc(a, a, x), _V, _V, order=0, low=0.2, high=0.8)
# shape and indexing ------------------------------------------------------------------------------------------------
_case("reshape_transpose", lambda x: x.reshape(2, 10).T.reshape(5, 4).swapaxes(0, 1) * 2, _M)
_case("concatenate_stack", lambda x, y: jnp.concatenate([x, y, x * y]) @ jnp.stack([x] * 18), _V, _V)
_case("slicing", lambda x: x[1:3, ::2] * x[-1, 0] + x[::-1][:2, 1:4], _M)
_case("pad_roll", lambda x: jnp.roll(jnp.pad(x, ((1, 2), (0, 1)), constant_values=0.5), 2, 1), _M)
_case("dynamic_slice", lambda x, i: lax.dynamic_slice(x, (i, i), (2, 2)) ** 2, _M, np.int32(1))
_case("dynamic_update", lambda x, u, i: lax.dynamic_update_slice(x, u, (i, i)) ** 2, _M, (2, 2), np.int32(-3))
_case("gather_take", lambda x: jnp.take(x, jnp.array([0, 3, 3]), axis=0) ** 2 + x[jnp.array([1, 1, 2])], _M)
_case("take_along_axis", lambda x: jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1) ** 2, _M)
_case("scatter_add", lambda x: jnp.zeros(5).at[jnp.array([0, 1, 1, 9, 4, 0])].add(x**2), _V)
_case("scatter_sub", lambda x, y: x.at[jnp.array([1, 1, 2])].subtract(y[:3]) ** 2, _V, _V)
_case("scatter_set", lambda x: x.at[jnp.array([0, 2])].set(x[:2] * 3.0) ** 2, _V)
_case("scatter_mul_max", lambda x: x.at[jnp.array([0, 2])].multiply(2.0) + x.at[1].max(0.3), _V)
_case("tile_repeat", lambda x: jnp.tile(x, (2, 1)) * jnp.repeat(x, 2, axis=0), _M)
_case("eye_tri", lambda x: jnp.tril(x) @ jnp.triu(x) + jnp.eye(4), _S)
# reductions --------------------------------------------------------------------------------------------------------
_case("sum_mean_var", lambda x: x.sum(0) + x.mean(0) + x.var(0), _M)
_case("prod", lambda x: jnp.prod(x, axis=1), _M, low=0.5, high=1.5)
_case("max_min", lambda x: x.max(0) * x.min(0), _M)
_case("logsumexp_softmax", lambda x: nn.softmax(x, axis=1) * nn.logsumexp(x, axis=1, keepdims=True), _M)
_case("argmax_argmin", lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 0)), _M, order=0)
_case("any_all", lambda x: (jnp.any(x > 0, 0), jnp.all(x > -2, 1)), _M, order=0)
_case("argmax_of_booleans", lambda x: (jnp.argmax(x > 0, 1), jnp.argmin(x > 0)), _M, order=0)
_case("norm", lambda x: jnp.linalg.norm(x, axis=1), _M)
_case("median", lambda x: jnp.median(x, axis=1), _M)
_case("cumsum", lambda x: jnp.cumsum(x, 1) ** 2, _M)
_case("cumprod", lambda x: jnp.cumprod(x, 0), _M, low=0.5, high=1.5)
_case("cummax_cummin", lambda x: lax.cummax(x, 1) * lax.cummin(x, 0, reverse=True), _M)
_case("cumlogsumexp", lambda x: lax.cumlogsumexp(x, 1), _M)
_case("associative_scan", lambda x: lax.associative_scan(jnp.multiply, x), _V, low=0.5, high=1.5)
_case("segment_sum", lambda x: jax.ops.segment_sum(x**2, jnp.array([0, 0, 1, 2, 2, 2]), 3), _V)
_case("segment_max", lambda x: jax.ops.segment_max(x**2, jnp.array([0, 0, 1, 2, 2, 2]), 3), _V)
_case("histogram", lambda x: jnp.histogram(x, bins=4, range=(-1.0, 1.0))[0], _V, order=0)
# sorting -----------------------------------------------------------------------------------------------------------
_case("sort", lambda x: jnp.sort(x, axis=1) ** 2, _M)
_case("argsort", lambda x: jnp.argsort(x, axis=0), _M, order=0)
_case("lexsort", lambda x, y: lax.sort((x.round(), y, x * y), num_keys=2)[2] ** 2, _V, _V)
_case("top_k", lambda x: lax.top_k(x, 2)[0] ** 2, _M)
_case("searchsorted", lambda x, y: jnp.searchsorted(jnp.sort(x), y), _V, _V, order=0)
_case("unique_counts", lambda x: jnp.unique(x.round(), size=4), _V, order=0)
# linear algebra ----------------------------------------------------------------------------------------------------
_case("matmul_einsum", lambda x, y: jnp.einsum("ij,kj->ik", x, y) @ x, _M, _M)
_case("batched_dot", lambda x: jnp.einsum("bij,bjk->bik", x, x), (2, 3, 3))
_case("cholesky", lambda x: jnp.linalg.cholesky(_spd(x)), _S)
_case("solve", lambda x, y: jnp.linalg.solve(_spd(x), y), _S, _S)
_case("inverse_det", lambda x: jnp.linalg.inv(_spd(x)) * jnp.linalg.det(_spd(x)), _S, loose=20)
_case("slogdet", lambda x: jnp.linalg.slogdet(_spd(x))[1], _S)
_case("qr", lambda x: jnp.linalg.qr(x), (5, 3), loose=10)
_case("svd", lambda x: jnp.linalg.svd(x, full_matrices=False)[1], (5, 3), loose=10)
_case("eigh", lambda x: jnp.linalg.eigh(_spd(x))[0], _S, loose=10)
_case("eig_values", lambda x: jnp.abs(jnp.linalg.eigvals(x)), _S, order=1, loose=10)
_case("triangular_solve", lambda x, y: jax.scipy.linalg.solve_triangular(_spd(x), y, lower=True), _S, _S)
_case("expm", lambda x: jax.scipy.linalg.expm(x), _S, loose=10)
_case("tridiagonal_solve", lambda d, b: lax.linalg.tridiagonal_solve(d, d + 4, d, b[:, None]), _V, _V)
# fft, convolution, pooling -----------------------------------------------------------------------------------------
_case("fft", lambda x: jnp.abs(jnp.fft.fft(x)) ** 2, _V)
_case("rfft_irfft", lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * 2.0, 6) ** 2, _V)
_case(
  "conv2d", lambda x, k: lax.conv_general_dilated(x, k, (2, 1), "SAME", rhs_dilation=(1, 2)), (1, 2, 8, 8), (3, 2, 3, 3)
)
_case("conv_transpose", lambda x, k: lax.conv_transpose(x, k, (2,), "SAME") ** 2, (1, 6, 2), (3, 2, 4))
_case(
  "depthwise_conv",
  lambda x, k: lax.conv_general_dilated(x, k, (1,), "VALID", feature_group_count=4),
  (1, 4, 9),
  (8, 1, 3),
)
_case(
  "max_pool", lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") ** 2, (1, 4, 4, 2)
)
_case("avg_pool", lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME") ** 2, (1, 4, 4, 2))
_case(
  "max_pool_grad",
  jax.grad(lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (3,), (2,), "SAME") ** 2).sum()),
  (8,),
  order=1,
)
# control flow ------------------------------------------------------------------------------------------------------
_case("cond", lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x), _V)
_case("switch", lambda x, i: lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh], x), _V, np.int32(7))
_case("scan", lambda x: lax.scan(lambda c, a: (c * 0.9 + jnp.sin(a), c), 0.0, x), _V)
_case("scan_reverse", lambda x: lax.scan(lambda c, a: (c * a[0] + a[1], c), jnp.float32(1), x, reverse=True), _M)
_case("scan_unroll", lambda x: lax.scan(lambda c, a: (c + a**2, c * a), jnp.float32(0), x, unroll=2), _V)
_case("fori_loop", lambda x: lax.fori_loop(0, 5, lambda i, c: c + jnp.sin(c) * i, x), _V)
_case("fori_dynamic", lambda x, n: lax.fori_loop(0, n, lambda i, c: c * 0.5 + 1, x), _V, np.int32(4), order=0)
_case("while_dynamic", lambda x: lax.while_loop(lambda c: jnp.sum(c) < 10, lambda c: c * 1.5 + 1, x), _V, order=0)
_case(
  "while_counted",
  lambda x: lax.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, jnp.sin(s[1])), (0, x))[1],
  _V,
  order=0,
)
_case("map", lambda x: lax.map(lambda row: jnp.sort(row) * row.sum(), x), _M)
_case("nested_scan", lambda x: lax.scan(lambda c, r: (lax.scan(lambda d, a: (d * 0.5 + a, d), c, r)[0], c), 0.0, x), _M)
_case("checkpoint", jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)) * x), _V)
_case("vmapped_scan", jax.vmap(lambda x: lax.scan(lambda c, a: (c + a, c * a), 0.0, x)[1]), _M)
# random ------------------------------------------------------------------------------------------------------------
_KEY = np.array([0, 7], np.uint32)
_case("normal", lambda k, x: jr.normal(jr.wrap_key_data(k), (6,)) * x, _KEY, _V)
_case("uniform_split", lambda k, x: jr.uniform(jr.split(jr.wrap_key_data(k), 3)[1], (6,)) * x, _KEY, _V)
_case("categorical", lambda k, x: jr.categorical(jr.wrap_key_data(k), x, axis=1), _KEY, _M, order=0)
_case("permutation", lambda k, x: jr.permutation(jr.wrap_key_data(k), x) ** 2, _KEY, _V)
_case("gamma_sample", lambda k, x: jr.gamma(jr.wrap_key_data(k), x + 2.0), _KEY, _V, order=0)
_case("rbg_bits", lambda k: jr.bits(jr.wrap_key_data(k, impl="rbg"), (5,)), np.arange(4, dtype=np.uint32), order=0)
_case("dropout", lambda k, x: jnp.where(jr.bernoulli(jr.wrap_key_data(k), 0.7, (6,)), x / 0.7, 0), _KEY, _V)


# networks ----------------------------------------------------------------------------------------------------------
def _mlp(x: Any, w: Any, v: Any) -> Any:
  return nn.softmax(nn.gelu(x @ w) @ v)


def _attention(q: Any, k: Any, v: Any) -> Any:
  return nn.softmax(q @ k.T / jnp.sqrt(q.shape[-1])) @ v


def _causal_attention(x: Any, w: Any) -> Any:
  q, k, v = jnp.split(x @ w, 3, axis=-1)
  scores = jnp.where(jnp.tril(jnp.ones((x.shape[0],) * 2, bool)), q @ k.T, -1e9)
  return nn.softmax(scores) @ v


def _lstm(x: Any, w: Any, u: Any) -> Any:
  def cell(state: Any, a: Any) -> Any:
    h, c = state
    i, f, g, o = jnp.split(a @ w + h @ u, 4)
    c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
    h = nn.sigmoid(o) * jnp.tanh(c)
    return (h, c), h

  return lax.scan(cell, (jnp.zeros(u.shape[0]), jnp.zeros(u.shape[0])), x)[1]


def _conv_net(x: Any, k: Any, w: Any) -> Any:
  y = lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
  y = lax.reduce_window(jnp.tanh(y), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
  return y.reshape(y.shape[0], -1) @ w


def _layer_norm(x: Any, scale: Any) -> Any:
  return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale


def _batch_norm_train(x: Any, scale: Any) -> Any:
  mean = x.mean(0)
  return (x - mean) * lax.rsqrt(((x - mean) ** 2).mean(0) + 1e-3) * scale


def _sgd_step(w: Any, x: Any, y: Any) -> Any:
  loss, gradient = jax.value_and_grad(lambda p: jnp.mean((jnp.tanh(x @ p) - y) ** 2))(w)
  return w - 0.1 * gradient, loss


_case("mlp", _mlp, (3, 4), (4, 8), (8, 2))
_case("attention", _attention, (4, 3), (5, 3), (5, 2))
_case("causal_attention", _causal_attention, (4, 3), (3, 9))
_case("lstm", _lstm, (5, 3), (3, 16), (4, 16))
_case("conv_net", _conv_net, (2, 4, 4, 1), (3, 3, 1, 2), (8, 3))
_case("layer_norm", _layer_norm, (3, 8), (8,))
_case("batch_norm", _batch_norm_train, (6, 4), (4,), loose=5)
_case("embedding", lambda table, x: jnp.tanh(table[jnp.array([0, 2, 2, 1])]) @ x, (4, 3), (3, 2))
_case("sgd_step", _sgd_step, (3, 2), (5, 3), (5, 2))
_case(
  "ragged_dot",
  lambda x, y: lax.ragged_dot(x, y, jnp.array([2, 4], np.int32)),
  (6, 4),
  (2, 4, 3),
  order=0,
  batches=False,
  note="JAX batches neither it nor its gradient",
)
_case(
  "mixed_precision",
  lambda x, y: (x.astype(jnp.bfloat16) @ y.astype(jnp.bfloat16)).astype(jnp.float32),
  _M,
  (5, 3),
  loose=200,
  note="bfloat16",
)
