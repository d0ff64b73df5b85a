"""JAX functions and small models that are written as plain ops and run in other runtimes."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from graftax.testing.pytrees import Leaf, PyTree

__all__ = ["CASES", "Case"]


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
  """A function, its inputs, and the symbolic shapes with which it is written, if it has open sizes."""

  function: Callable[..., Any]
  inputs: tuple[np.ndarray, ...]
  shapes: tuple[str, ...] | None = None


_RANDOM = np.random.default_rng(0)


def _x(*shape: int) -> np.ndarray:
  return _RANDOM.uniform(-2, 2, shape).astype(np.float32)


def _ints(*shape: int, low: int = -9, high: int = 9) -> np.ndarray:
  return _RANDOM.integers(low, high, shape).astype(np.int32)


_W1, _W2, _W3 = _x(8, 16), _x(16, 4), _x(8, 8) / 4
_K1, _K2 = _x(3, 3, 3, 8) / 4, _x(3, 3, 8, 8) / 4
_LSTM = _x(12, 32) / 2


def _mlp(x: Array) -> Array:
  return jax.nn.softmax(jax.nn.relu(x @ _W1 + 0.1) @ _W2)


def _conv(x: Array, kernel: Leaf, stride: int = 1, **options: Any) -> Array:
  return lax.conv_general_dilated(
    x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), **options
  )


def _pool(x: Array) -> Array:
  return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def _cnn(x: Array) -> Array:
  y = jax.nn.relu(_conv(x, _K1, 2))
  return _pool(jax.nn.silu(_conv(y, _K2))).mean((1, 2))


def _unet(x: Array) -> Array:
  down = jax.nn.relu(_conv(x, _K1))
  middle = jax.nn.relu(_conv(_pool(down), _K2))
  up = lax.conv_transpose(middle, jnp.asarray(_K2), (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
  return jnp.concatenate([up, down], -1).mean(-1)


def _layer_norm(x: Array) -> Array:
  centered = x - x.mean(-1, keepdims=True)
  return centered * lax.rsqrt(jnp.square(centered).mean(-1, keepdims=True) + 1e-6)


def _transformer(x: Array) -> Array:
  y = _layer_norm(x)
  heads = (y @ _W3).reshape(*y.shape[:2], 2, 4)
  scores = jnp.einsum("bshd,bthd->bhst", heads, heads) / 2.0
  scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e9)
  x = x + jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(scores), heads).reshape(x.shape)
  return x + jax.nn.gelu(_layer_norm(x) @ _W1, approximate=False) @ _W2 @ _W2.T[:, :8]


def _lstm(x: Array) -> Array:
  def step(state: PyTree, row: Array) -> PyTree:
    hidden, cell = state
    i, f, g, o = jnp.split(jnp.concatenate([row, hidden], -1) @ _LSTM, 4, -1)
    cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
    hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
    return (hidden, cell), hidden

  zeros = jnp.zeros((x.shape[0], 8), jnp.float32)
  return lax.scan(step, (zeros, zeros), jnp.swapaxes(x, 0, 1))[1]


def _scan_gradient(x: Array) -> Array:
  return jax.grad(lambda y: (lax.scan(lambda c, r: (jnp.tanh(c + r), c), jnp.zeros(3), y)[1] ** 2).sum())(x)


def _until_large(x: Array) -> PyTree:
  return lax.while_loop(lambda s: s[0].sum() < 100, lambda s: (s[0] * 1.5 + 1, s[1] + 1), (jnp.abs(x), 0))


def _scan_in_scan(x: Array) -> PyTree:
  def outer(c: float | Array, r: Array) -> PyTree:
    c, rows = lax.scan(lambda d, q: (d * 0.5 + q * r, d * q), c, x)
    return c * 0.5, rows

  return lax.scan(outer, 1.0, x)


def _while_in_while(x: Array) -> PyTree:
  def outer(s: PyTree) -> PyTree:
    return s[0] + 1, lax.while_loop(lambda t: t[0] < 3, lambda t: (t[0] + 1, t[1] * 1.1 + s[0]), (0, s[1]))[1]

  return lax.while_loop(lambda s: s[0] < 4, outer, (0, x))


def _branches_in_scan(x: Array) -> PyTree:
  def last(y: Array) -> Array:
    return lax.cond(y > 0, jnp.cos, lambda z: lax.scan(lambda c, q: (c * 0.5 + q * z, None), 0.0, x)[0], y)

  return lax.scan(lambda i, r: (i + 1, lax.switch(i, [jnp.sin, jnp.exp, lambda y: y + x.sum(), last], r)), -1, x)


def _branches_in_test(x: Array) -> PyTree:
  def test(s: PyTree) -> Array:
    return lax.cond(s[0] < 3, lambda y: y.sum() < 100, lambda y: (y < 5).all(), s[1])

  return lax.while_loop(test, lambda s: (s[0] + 1, s[1] * 1.5 + 1), (0, x))


def _random(x: Array) -> PyTree:
  key = jax.random.key(3)
  return x + jax.random.uniform(key, x.shape), jax.random.normal(key, (5,))


_BATCH = ("b, 8",)
_IMAGES = ("b, 9, 9, 3",)

CASES: dict[str, Case] = {
  "mlp": Case(_mlp, (_x(3, 8),), _BATCH),
  "cnn": Case(_cnn, (_x(2, 16, 16, 3),), ("b, 16, 16, 3",)),
  "unet block": Case(_unet, (_x(2, 8, 8, 3),)),
  "transformer block": Case(_transformer, (_x(2, 5, 8),), ("b, 5, 8",)),
  "lstm by scan": Case(_lstm, (_x(2, 6, 4),)),
  "lstm by scan, open batch": Case(_lstm, (_x(2, 6, 4),), ("b, 6, 4",)),
  "gelu": Case(lambda x: jax.nn.gelu(x, approximate=False), (_x(3, 8),), _BATCH),
  "gelu by tanh": Case(lambda x: jax.nn.gelu(x, approximate=True), (_x(3, 8),), _BATCH),
  "erf": Case(lambda x: lax.erf(x), (np.linspace(-6, 6, 49, dtype=np.float32),)),
  "erfc": Case(lambda x: lax.erfc(x), (np.linspace(-6, 6, 49, dtype=np.float32),)),
  "log of erfc": Case(lambda x: jnp.log(lax.erfc(x)), (np.linspace(-4, 8, 49, dtype=np.float32),)),
  "rem": Case(
    lambda x, y: (lax.rem(x, y), jnp.mod(x, y)),
    (np.array([-7.5, 7.5, 1e9, 3, -0.0], np.float32), np.array([2, -2, 3, np.inf, 5], np.float32)),
  ),
  "rem of integers": Case(
    lambda x, y: (lax.rem(x, y), jnp.mod(x, y), x // y),
    (np.array([-7, 7, -(2**31), 5, 2**31 - 1], np.int32), np.array([2, -2, -1, 3, 10], np.int32)),
  ),
  "rounding": Case(lambda x: (jnp.floor(x), jnp.ceil(x), jnp.round(x), jnp.trunc(x), jnp.sign(x)), (_x(3, 8) * 3,)),
  "round away from zero": Case(lambda x: lax.round(x), (np.array([-2.5, -0.5, 0.5, 1.5, 2.4], np.float32),)),
  "float to int": Case(lambda x: (x.astype(jnp.int32), x > 0), (_x(3, 8) * 9,)),
  "argmax": Case(lambda x: (jnp.argmax(x, -1), jnp.argmin(x, 0)), (_x(3, 8),)),
  "one_hot": Case(lambda x: jax.nn.one_hot(x, 9), (_ints(7, low=0),)),
  "where": Case(
    lambda x, y: (
      jnp.where(x > y, x, 0.5 * y),
      jnp.where(x > 0, jnp.log(x), x),
      jnp.where(abs(x) < 9, x, jnp.exp(200 * abs(x))),
    ),
    (_x(3, 8), _x(8)),
  ),
  "pad": Case(lambda x: (jnp.pad(x, ((1, 2), (0, 3))), jnp.pad(x, 1, mode="reflect")), (_x(3, 8),)),
  "interior pad": Case(lambda x: lax.pad(x, 1.0, ((1, 0, 2), (-1, 2, 1))), (_x(3, 8),)),
  "dynamic_slice": Case(lambda x, i: lax.dynamic_slice(x, (i, 2), (2, 3)), (_x(5, 8), np.array(7, np.int32))),
  "dynamic_update_slice": Case(
    lambda x, y, i: lax.dynamic_update_slice(x, y, (i, 2)), (_x(5, 8), _x(2, 3), np.array(2, np.int32))
  ),
  "softmax": Case(lambda x: (jax.nn.softmax(x), jax.nn.log_softmax(x), jax.nn.logsumexp(x, -1)), (_x(3, 8),), _BATCH),
  "layer norm": Case(_layer_norm, (_x(3, 8),), _BATCH),
  "einsum": Case(lambda x, y: jnp.einsum("bij,bkj->bki", x, y), (_x(2, 3, 4), _x(2, 5, 4))),
  "split and concatenate": Case(lambda x: jnp.concatenate(jnp.split(x, 4, -1)[::-1], 0), (_x(3, 8),)),
  "reductions": Case(
    lambda x: (x.sum(0), x.mean(), x.max(-1), x.min(), x.prod(0), (x > 0).any(-1), (x > 0).all()), (_x(3, 8),)
  ),
  "variance": Case(lambda x: (x.var(0), x.std(-1)), (_x(3, 8),)),
  "cumsum": Case(lambda x: (jnp.cumsum(x, 1), lax.cumsum(x, 0, reverse=True)), (_x(3, 8),)),
  "cumprod and cummax": Case(lambda x: (jnp.cumprod(x, 1), lax.cummax(x, 1)), (_x(3, 8),)),
  "sort": Case(lambda x: (jnp.sort(x, -1), jnp.argsort(x, 0)), (_x(3, 8),)),
  "top_k": Case(lambda x: lax.top_k(x, 3), (_x(3, 8),)),
  "top_k, open batch": Case(lambda x: lax.top_k(x, 3), (_x(3, 8),), _BATCH),
  "take": Case(lambda x, i: x[i], (_x(6, 4), _ints(5, low=0, high=6))),
  "take_along_axis": Case(lambda x, i: jnp.take_along_axis(x, i, 1), (_x(3, 8), _ints(3, 2, low=0, high=8))),
  "embedding": Case(
    lambda i: jnp.take(jnp.asarray(_W1), i, 0), (_ints(2, 5, low=0, high=8),), ("b, 5",)
  ),
  "scatter add": Case(lambda x, i: jnp.asarray(x).at[i].add(2.0), (_x(6, 4), _ints(5, low=0, high=6))),
  "scatter set": Case(lambda x, i: jnp.asarray(x).at[i].set(2.0), (_x(6, 4), np.array([1, 4], np.int32))),
  "segment_sum": Case(lambda x, i: jax.ops.segment_sum(x, i, 4), (_x(6, 3), _ints(6, low=0, high=4))),
  "strided SAME convolution": Case(lambda x: _conv(x, _K1, 2), (_x(2, 9, 9, 3),), _IMAGES),
  "open images": Case(lambda x: _conv(x, _K1, 2), (_x(2, 9, 8, 3),), ("b, h, w, 3",)),
  "depthwise convolution": Case(
    lambda x: _conv(x, _x(3, 3, 1, 3) * 0 + 0.5, feature_group_count=3), (_x(2, 9, 9, 3),), _IMAGES
  ),
  "dilated convolution": Case(lambda x: _conv(x, _K1, rhs_dilation=(2, 2)), (_x(2, 9, 9, 3),), _IMAGES),
  "average pooling": Case(
    lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME") / 9, (_x(2, 9, 9, 3),), _IMAGES
  ),
  "scan": Case(lambda x: lax.scan(lambda c, r: (c * 0.5 + r, c.sum()), jnp.zeros(4), x), (_x(6, 4),)),
  "scan without inputs": Case(
    lambda x: lax.scan(lambda c, _: (jnp.sin(c) + 1, c * 2), x, None, length=5), (_x(3),)
  ),
  "scan of a long sequence": Case(lambda x: lax.scan(lambda c, r: (c * 0.5 + r, c), jnp.zeros(2), x), (_x(300, 2),)),
  "gradient of a scan": Case(_scan_gradient, (_x(5, 3),)),
  "fori_loop": Case(lambda x: lax.fori_loop(0, 7, lambda i, y: y * 0.5 + i, x), (_x(3),)),
  "while_loop": Case(_until_large, (_x(4),)),
  "cond": Case(lambda x: lax.cond(x.sum() > 0, lambda y: y * 2, lambda y: y - 1, x), (_x(4),)),
  "switch": Case(lambda x, i: lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh], x), (_x(4), np.array(1, np.int32))),
  "random bits of a fixed key": Case(_random, (_x(3, 2),)),
  "random bits of an input": Case(
    lambda x: jax.random.uniform(jax.random.key(x), (4,)), (np.array(5, np.int32),)
  ),
  "dropout": Case(
    lambda x, k: jnp.where(jax.random.bernoulli(jax.random.wrap_key_data(k), 0.5, x.shape), x, 0.0),
    (_x(3, 8), np.array([1, 2], np.uint32)),
  ),
  "functions": Case(
    lambda x: (jnp.exp(x), jnp.log1p(jnp.abs(x)), jnp.expm1(x), jnp.tanh(x), jnp.sqrt(jnp.abs(x)), jnp.arctan2(x, 1.5)),
    (_x(3, 8),),
  ),
  "power": Case(lambda x: (x**3, jnp.abs(x) ** 1.5, x**-2, jnp.cbrt(x), jnp.exp2(x)), (_x(3, 8),)),
  "activations": Case(
    lambda x: (jax.nn.silu(x), jax.nn.softplus(x), jax.nn.elu(x), jax.nn.leaky_relu(x), jax.nn.hard_swish(x)),
    (_x(3, 8),),
  ),
  "comparisons": Case(lambda x, y: ((x > y) & (x < 1), jnp.isnan(x), x == y, jnp.isfinite(x)), (_x(3, 8), _x(3, 8))),
  "gradient of gelu": Case(jax.grad(lambda x: jax.nn.gelu(x, approximate=False).sum()), (_x(3, 8),)),
  "gradient of a cnn": Case(jax.grad(lambda x: _cnn(x).sum()), (_x(2, 8, 8, 3),)),
  "scan in a scan": Case(_scan_in_scan, (_x(6),)),
  "while_loop in a while_loop": Case(_while_in_while, (_x(4),)),
  "branches in a scan": Case(_branches_in_scan, (_x(6),)),
  "branches in the test of a while_loop": Case(_branches_in_test, (_x(4),)),
  "scan from its length on": Case(lambda x: lax.scan(lambda c, r: (c + 1, c * r), 6, x), (_x(6),)),
  "state that changes places": Case(
    lambda x: lax.scan(lambda c, r: ((c[1], c[2], c[0]), c[0] * r), (x, x * 2, x * 3), x), (_x(4),)
  ),
  "order of large integers": Case(
    lambda x, y: (x < y, x > y, x <= y, x >= y, jnp.maximum(x, y)),
    (np.array([2**31 - 1, 2**31 - 2, 16777217], np.int32), np.array([2**31 - 2, 2**31 - 1, 16777216], np.int32)),
  ),
  "bits of integers": Case(
    lambda x, y: (x & y, x | y, x ^ y, ~x, x * y, x << 3, x >> 3, lax.shift_right_logical(x, 3)),
    (_ints(8, low=-(2**31), high=2**31 - 1), _ints(8, low=-(2**31), high=2**31 - 1)),
  ),
  "random numbers of a seed": Case(
    lambda x: (jax.random.normal(jax.random.key(x), (5,)), jax.random.randint(jax.random.key(x), (5,), -3, 90)),
    (np.array(5, np.int32),),
  ),
  "solve of triangles": Case(
    lambda x: jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(x @ x.T + 6 * jnp.eye(5)), x, lower=True),
    (_x(5, 5),),
  ),
  "spectrum": Case(lambda x: (jnp.abs(jnp.fft.rfft(x)), jnp.fft.irfft(2 * jnp.fft.rfft(x), 64)), (_x(3, 64),)),
}  # fmt: skip
