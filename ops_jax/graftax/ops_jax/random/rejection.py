"""Gamma, Poisson and binomial numbers by rejection, drawn from Philox in TensorFlow's order.

Number `i` of a result has its own part of the stream, mostly from block `256 i` on. All numbers are drawn in parallel;
a loop ends when each has accepted a proposal. Arithmetic is float64, as TensorFlow's, or float32 if `jax_enable_x64`
is off.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.known import canonical_dtype
from graftax.ops_jax._core.values import Array
from graftax.ops_jax.random.streams import box_muller, double_from_uint32
from graftax.xla_call_module.lax_extras import Philox, mulhi, philox_blocks, philox_skip

__all__ = ["binomial", "gamma", "poisson"]

_RESERVED_BLOCKS = 256
# Binomial numbers of a small mean have fewer blocks to themselves: they need at most 10 on average.
_RESERVED_FOR_INVERSION = 42
# ln(k!) less Stirling's formula for it, for k from 0 to 9.
_STIRLING_TAILS = np.array([
  math.lgamma(k + 1) - (k + 0.5) * math.log(k + 1) + (k + 1) - 0.5 * math.log(2 * math.pi) for k in range(10)
])  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class _Streams:
  """One stream of blocks for each number of a result."""

  start: Philox

  def block(self, index: Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Returns the four words of block `index` (uint32, one for each number) of every stream."""
    return philox_blocks(philox_skip(self.start, (index, jnp.zeros_like(index))))

  def uniform(self, position: Array) -> jax.Array:
    """Uniform number `position` of every stream; of the two that a block makes, the second comes first."""
    w0, w1, w2, w3 = self.block(position // 2)
    is_first = position % 2 == 0
    return double_from_uint32(jnp.where(is_first, w2, w0), jnp.where(is_first, w3, w1))


def _streams(generator: Philox, size: int, reserved: int = _RESERVED_BLOCKS) -> _Streams:
  index = jax.lax.iota(np.uint32, size)
  carry = mulhi(index, jnp.full_like(index, reserved))
  return _Streams(philox_skip(generator, (index * np.uint32(reserved), carry)))


def _compute_dtype() -> np.dtype:
  return canonical_dtype(np.float64)


def poisson(generator: Philox, rates: Array, limit: float) -> jax.Array:
  """Returns Poisson-distributed numbers.

  Args:
    generator: the generator.
    rates: `[size]`, means, in the order in which the streams are dealt out.
    limit: the largest number that the result's dtype holds; larger ones are drawn again.

  Returns:
    `[size]`, float64 (float32). Like TensorFlow's, rates below 0 give 0, and infinite ones infinity.
  """
  rates = rates.astype(_compute_dtype())
  streams = _streams(generator, rates.shape[0])
  is_small = rates < 10
  counts = _poisson_by_products(streams, jnp.where(is_small, rates, 0), is_small, limit)
  large = _poisson_by_transformation(streams, jnp.where(is_small, 10, rates), ~is_small & jnp.isfinite(rates), limit)
  drawn = jnp.where(is_small, counts, large)
  drawn = jnp.where(rates > 0, jnp.where(jnp.isinf(rates), jnp.inf, drawn), 0)
  return jnp.where(jnp.isnan(rates), jnp.nan, drawn)


def _poisson_by_products(streams: _Streams, rates: Array, wanted: Array, limit: float) -> jax.Array:
  """Returns one less than the number of uniform factors whose product falls below `exp(-rate)`."""
  threshold = jnp.exp(-rates)

  def draw(state: tuple[Any, ...]) -> tuple[Any, ...]:
    position, product, count, done = state
    product = jnp.where(done, product, product * streams.uniform(position))
    stops = (product <= threshold) & (count <= limit)
    return position + 1, product, jnp.where(done | stops, count, count + 1), done | stops

  start = (jnp.zeros(rates.shape, np.uint32), jnp.ones_like(rates), jnp.zeros_like(rates), ~wanted)
  return jax.lax.while_loop(_is_unfinished, draw, start)[2]


def _poisson_by_transformation(streams: _Streams, rates: Array, wanted: Array, limit: float) -> jax.Array:
  """Transformed rejection (Hörmann 1993, PTRS)."""
  log_rates = jnp.log(rates)
  b = 0.931 + 2.53 * jnp.sqrt(rates)
  a = -0.059 + 0.02483 * b
  inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
  box = 0.9277 - 3.6224 / (b - 2)

  def draw(state: tuple[Any, ...]) -> tuple[Any, ...]:
    position, count, done = state
    u, v = streams.uniform(position) - 0.5, streams.uniform(position + 1)
    edge = 0.5 - jnp.abs(u)
    proposal = jnp.floor((2 * a / edge + b) * u + rates + 0.43)
    in_box = (edge >= 0.07) & (v <= box)
    is_possible = (proposal >= 0) & ~((edge < 0.013) & (v > edge))
    density = -rates + proposal * log_rates - jax.lax.lgamma(proposal + 1)
    fits = jnp.log(v * inverse_alpha / (a / (edge * edge) + b)) <= density
    accepted = (proposal <= limit) & (in_box | (is_possible & fits))
    return position + 2, jnp.where(~done & accepted, proposal, count), done | accepted

  start = (jnp.zeros(rates.shape, np.uint32), jnp.zeros_like(rates), ~wanted)
  return jax.lax.while_loop(_is_unfinished, draw, start)[1]


def binomial(generator: Philox, counts: Array, probabilities: Array) -> jax.Array:
  """Returns binomially distributed numbers.

  Args:
    generator: the generator.
    counts: `[size]`, numbers of trials.
    probabilities: `[size]`, of success.

  Returns:
    `[size]`, float64 (float32). Like TensorFlow's, counts and probabilities below 0 give 0, probabilities above 1
    give the count, and NaN or an infinite count gives NaN.
  """
  counts, probabilities = counts.astype(_compute_dtype()), probabilities.astype(_compute_dtype())
  streams = _streams(generator, counts.shape[0])
  flipped = probabilities > 0.5
  p = jnp.where(flipped, 1 - probabilities, probabilities)
  is_valid = (counts > 0) & (p > 0) & jnp.isfinite(counts)
  is_large = counts * p >= 10
  safe_p, safe_counts = jnp.where(is_valid, p, 0.25), jnp.where(is_valid, counts, 1)
  few = _streams(generator, counts.shape[0], _RESERVED_FOR_INVERSION)
  small = _binomial_by_inversion(few, safe_counts, safe_p, is_valid & ~is_large)
  wide_counts, wide_p = jnp.where(is_large, safe_counts, 100), jnp.where(is_large, safe_p, 0.25)
  large = _binomial_by_transformation(streams, wide_counts, wide_p, is_valid & is_large)
  drawn = jnp.where(is_large, large, small)
  drawn = jnp.where(flipped, counts - drawn, drawn)
  drawn = jnp.where(probabilities >= 1, counts, drawn)
  drawn = jnp.where((counts <= 0) | (probabilities <= 0), 0, drawn)
  return jnp.where(jnp.isnan(probabilities) | jnp.isnan(counts) | (counts == jnp.inf), jnp.nan, drawn)


def _binomial_by_inversion(streams: _Streams, counts: Array, p: Array, wanted: Array) -> jax.Array:
  """Returns the number of geometric waiting times that fit into the trials."""
  log_failure = jnp.log1p(-p)

  def draw(state: tuple[Any, ...]) -> tuple[Any, ...]:
    position, waited, successes, done = state
    waited = waited + jnp.ceil(jnp.log(streams.uniform(position)) / log_failure)
    stops = waited > counts
    return position + 1, waited, jnp.where(done | stops, successes, successes + 1), done | stops

  start = (jnp.zeros(counts.shape, np.uint32), jnp.zeros_like(counts), jnp.zeros_like(counts), ~wanted)
  return jax.lax.while_loop(_is_unfinished, draw, start)[2]


def _binomial_by_transformation(streams: _Streams, counts: Array, p: Array, wanted: Array) -> jax.Array:
  """Transformed rejection (Hörmann 1993, BTRS)."""
  deviation = jnp.sqrt(counts * p * (1 - p))
  b = 1.15 + 2.53 * deviation
  a = -0.0873 + 0.0248 * b + 0.01 * p
  center = counts * p + 0.5
  box = 0.92 - 4.2 / b
  odds = p / (1 - p)
  alpha = (2.83 + 5.1 / b) * deviation
  mode = jnp.floor((counts + 1) * p)

  def draw(state: tuple[Any, ...]) -> tuple[Any, ...]:
    position, drawn, done = state
    u, v = streams.uniform(position) - 0.5, streams.uniform(position + 1)
    edge = 0.5 - jnp.abs(u)
    k = jnp.floor((2 * a / edge + b) * u + center)
    in_box = (edge >= 0.07) & (v <= box)
    bound = (
      (mode + 0.5) * jnp.log((mode + 1) / (odds * (counts - mode + 1)))
      + (counts + 1) * jnp.log((counts - mode + 1) / (counts - k + 1))
      + (k + 0.5) * jnp.log(odds * (counts - k + 1) / (k + 1))
      + _stirling_tail(mode)
      + _stirling_tail(counts - mode)
      - _stirling_tail(k)
      - _stirling_tail(counts - k)
    )
    fits = (k >= 0) & (k <= counts) & (jnp.log(v * alpha / (a / (edge * edge) + b)) <= bound)
    accepted = in_box | fits
    return position + 2, jnp.where(~done & accepted, k, drawn), done | accepted

  start = (jnp.zeros(counts.shape, np.uint32), jnp.zeros_like(counts), ~wanted)
  return jax.lax.while_loop(_is_unfinished, draw, start)[1]


def _stirling_tail(k: Array) -> jax.Array:
  table = jnp.asarray(_STIRLING_TAILS, k.dtype)[jnp.clip(k, 0, 9).astype(np.int32)]
  square = (k + 1) * (k + 1)
  series = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)
  return jnp.where(k <= 9, table, series)


def gamma(generator: Philox, alphas: Array) -> jax.Array:
  """Returns gamma-distributed numbers (Marsaglia and Tsang 2000).

  Args:
    generator: the generator.
    alphas: `[size]`, shape parameters, in the order in which the streams are dealt out.

  Returns:
    `[size]`, float64 (float32).
  """
  alphas = alphas.astype(_compute_dtype())
  streams = _streams(generator, alphas.shape[0])
  words = streams.block(jnp.zeros(alphas.shape, np.uint32))
  exponential = -jnp.log1p(-double_from_uint32(words[2], words[3]))
  is_small = alphas < 1
  d = alphas + jnp.where(is_small, 2 / 3, -1 / 3).astype(alphas.dtype)
  c = 1 / (3 * jnp.sqrt(d))

  def draw(state: tuple[Any, ...]) -> tuple[Any, ...]:
    source, drawn, boost, done = state
    x, source_1 = _next_normal(streams, source)
    v = (1 + c * x) ** 3
    is_possible = 1 + c * x > 0
    u, source_2 = _next_uniform(streams, source_1)
    squeeze = u < 1 - 0.0331 * (x * x) * (x * x)
    safe_v = jnp.where(is_possible, v, 1)
    accepted = is_possible & (squeeze | (jnp.log(u) < 0.5 * x * x + d * (1 - safe_v + jnp.log(safe_v))))
    extra, _ = _next_uniform(streams, source_2)
    fresh = ~done & accepted
    source = jax.tree.map(lambda keep, moved: jnp.where(is_possible, moved, keep), source_1, source_2)
    return source, jnp.where(fresh, d * v, drawn), jnp.where(fresh, extra, boost), done | accepted

  zero = jnp.zeros(alphas.shape, np.uint32)
  start = ((zero, zero, zero, zero, zero), jnp.zeros_like(alphas), jnp.ones_like(alphas), alphas == 1)
  _, drawn, boost, _ = jax.lax.while_loop(_is_unfinished, draw, start)
  drawn = jnp.where(is_small, drawn * boost ** (1 / alphas), drawn)
  return jnp.where(alphas == 1, exponential, drawn)


# Where a gamma stream stands: the next unused block; the block that normal numbers come from and how many of its two
# are left; the same for uniform numbers. A block is opened when the previous one of its kind is used up.
_Source = tuple[Array, Array, Array, Array, Array]


def _next_normal(streams: _Streams, source: _Source) -> tuple[Array, _Source]:
  fresh, block, left, uniform_block, uniform_left = source
  is_empty = left == 0
  block, left = jnp.where(is_empty, fresh, block), jnp.where(is_empty, 2, left) - 1
  fresh = jnp.where(is_empty, fresh + 1, fresh)
  w0, w1, w2, w3 = streams.block(block)
  sine, cosine = box_muller(double_from_uint32(w0, w1), double_from_uint32(w2, w3) * (2 * math.pi))
  return jnp.where(left == 1, cosine, sine), (fresh, block, left.astype(np.uint32), uniform_block, uniform_left)


def _next_uniform(streams: _Streams, source: _Source) -> tuple[Array, _Source]:
  fresh, normal_block, normal_left, block, left = source
  is_empty = left == 0
  block, left = jnp.where(is_empty, fresh, block), jnp.where(is_empty, 2, left) - 1
  fresh = jnp.where(is_empty, fresh + 1, fresh)
  w0, w1, w2, w3 = streams.block(block)
  is_second = left == 1
  number = double_from_uint32(jnp.where(is_second, w2, w0), jnp.where(is_second, w3, w1))
  return number, (fresh, normal_block, normal_left, block, left.astype(np.uint32))


def _is_unfinished(state: tuple[Any, ...]) -> Array:
  return ~jnp.all(state[-1])
