"""Stateless gamma, Poisson, binomial and categorical numbers: the same as TensorFlow's for the same seed."""

import math

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np

from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.known import INT64, canonical_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static, StaticSize, StaticSizes, Value
from graftax.ops_jax.random import philox, rejection, streams
from graftax.ops_jax.random.generator import take_generator
from graftax.ops_jax.random.stateless import AUTO_SELECT, PHILOX
from graftax.xla_call_module.lax_extras import Philox, default_promotion

__all__ = [
  "stateful_random_binomial",
  "stateless_multinomial",
  "stateless_parameterized_truncated_normal",
  "stateless_random_binomial",
  "stateless_random_gamma_v2",
  "stateless_random_gamma_v3",
  "stateless_random_poisson",
]


@register("StatelessRandomGammaV2", ignores=("T", "Tseed"), int64_pairs="accept")
def stateless_random_gamma_v2(shape: StaticSizes, seed: Array, alpha: Array, *, dtype: np.dtype) -> Array:
  """Returns gamma-distributed numbers, with the derivative with respect to `alpha`.

  Source op: `tf.raw_ops.StatelessRandomGammaV2`.

  Args:
    shape: of the result; ends in the shape of `alpha`.
    seed: `[2]`, int32 or int64.
    alpha: shape parameters, positive, of `dtype`.
    dtype: float16, float32 or float64.

  Returns:
    `shape` of `dtype`.

  Raises:
    InvalidInputError: `shape` does not end in the shape of `alpha`.

  Differs from TF: computed in float32 when 64-bit types are off: relative error 1e-6, and about one number in 1e5 takes
    another proposal.
  """
  return _gamma(philox.from_seed(seed), shape, alpha, dtype)


@register("StatelessRandomGammaV3", ignores=("shape_dtype",), int64_pairs="accept")
def stateless_random_gamma_v3(
  shape: StaticSizes, key: Array, counter: Array, alg: Static[int], alpha: Array, *, dtype: np.dtype
) -> Array:
  """Returns gamma-distributed numbers, with the derivative with respect to `alpha`.

  Source op: `tf.raw_ops.StatelessRandomGammaV3`.

  Args:
    shape: of the result; ends in the shape of `alpha`.
    key: `[1]`, uint64.
    counter: `[2]`, uint64.
    alg: 1 or 3, Philox; TensorFlow has no other here.
    alpha: shape parameters, positive, of `dtype`.
    dtype: float16, float32 or float64.

  Returns:
    `shape` of `dtype`.

  Raises:
    InvalidInputError: `shape` does not end in the shape of `alpha`, or `alg` is another one.

  Differs from TF: as `StatelessRandomGammaV2`.
  """
  if alg not in (PHILOX, AUTO_SELECT):
    raise InvalidInputError(f"StatelessRandomGammaV3: algorithm {alg!r}; TensorFlow draws with 1 (Philox) or 3 only.")
  return _gamma(philox.from_key_counter(key, counter), shape, alpha, dtype)


def _gamma(generator: Philox, shape: tuple[int, ...], alpha: Array, dtype: np.dtype) -> Array:
  alpha = jnp.asarray(alpha)
  dtype = canonical_dtype(dtype)

  # All arrays are arguments, because a rule that closes over traced values cannot run after their trace has ended.
  @jax.custom_jvp
  def draw(alpha: Array, key: tuple[Array, Array], counter: tuple[Array, Array, Array, Array]) -> Array:
    dealt = _deal_out("StatelessRandomGamma", shape, alpha)
    return _collect(rejection.gamma(Philox(key, counter), dealt), shape, alpha).astype(dtype)

  @default_promotion()
  def draw_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    numbers = draw(*primals)
    wide = np.float32 if dtype.itemsize == 2 else dtype
    arguments = jnp.broadcast_arrays(primals[0].astype(wide), numbers.astype(wide))
    return numbers, (jax.lax.random_gamma_grad(*arguments) * tangents[0]).astype(dtype)

  draw.defjvp(draw_jvp)
  return draw(alpha, generator.key, generator.counter)


@register("StatelessRandomPoisson", ignores=("Rtype", "T", "Tseed"), int64_pairs="accept")
def stateless_random_poisson(shape: StaticSizes, seed: Array, lam: Array, *, dtype: np.dtype) -> Array:
  """Returns Poisson-distributed numbers, exactly those of TensorFlow.

  Source op: `tf.raw_ops.StatelessRandomPoisson`.

  Args:
    shape: of the result; ends in the shape of `lam`.
    seed: `[2]`, int32 or int64.
    lam: means, not negative; float16, float32, float64, int32 or int64.
    dtype: float16, float32, float64, int32 or int64.

  Returns:
    `shape` of `dtype`.

  Raises:
    InvalidInputError: `shape` does not end in the shape of `lam`.

  Differs from TF: computed in float32 when 64-bit types are off; about one number in 1e5 then differs.
  """
  lam = jnp.asarray(lam)
  dtype = canonical_dtype(dtype)
  limit = float(jnp.finfo(dtype).max if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).max)
  numbers = rejection.poisson(philox.from_seed(seed), _deal_out("StatelessRandomPoisson", shape, lam), limit)
  if not jnp.issubdtype(dtype, jnp.floating):
    # As in TensorFlow, an infinite rate gives 0 if the result is an integer.
    numbers = jnp.where(jnp.isinf(numbers), 0, numbers)
  return _collect(numbers, shape, lam).astype(dtype)


def _deal_out(op: str, shape: tuple[int, ...], parameter: Array) -> Array:
  """Returns the parameter of each stream, `[size]`; all numbers of one parameter are adjacent."""
  if shape[len(shape) - parameter.ndim :] != parameter.shape:
    raise InvalidInputError(f"{op}: shape {shape!r} does not end in the parameter's shape {parameter.shape}.")
  repeats = math.prod(shape) // max(parameter.size, 1)
  return jnp.repeat(parameter.reshape(-1), repeats)


def _collect(numbers: Array, shape: tuple[int, ...], parameter: Array) -> Array:
  """Reshapes numbers of adjacent streams to a shape that ends in the parameter's."""
  return numbers.reshape(parameter.size, -1).T.reshape(shape) if parameter.size else numbers.reshape(shape)


@register("StatelessRandomBinomial", ignores=("S", "Tseed", "T"), int64_pairs="accept")
def stateless_random_binomial(
  shape: StaticSizes, seed: Array, counts: Array, probs: Array, *, dtype: np.dtype = INT64
) -> Array:
  """Returns binomially distributed numbers, exactly those of TensorFlow.

  Source op: `tf.raw_ops.StatelessRandomBinomial`.

  Args:
    shape: of the result; ends in the shape that `counts` and `probs` broadcast to.
    seed: `[2]`, int32 or int64.
    counts: numbers of trials; float16, float32, float64, int32 or int64.
    probs: of success, dtype of `counts`.
    dtype: float16, float32, float64, int32 or int64.

  Returns:
    `shape` of `dtype`.

  Differs from TF: computed in float32 when 64-bit types are off; about one number in 1e5 then differs.
  """
  return _binomial(philox.from_seed(seed), shape, counts, probs, dtype)


@register("StatefulRandomBinomial", ignores=("S", "T"), int64_pairs="accept")
def stateful_random_binomial(
  ctx: Context,
  resource: Value,
  algorithm: Static[int],
  shape: StaticSizes,
  counts: Array,
  probs: Array,
  *,
  dtype: np.dtype = INT64,
) -> Array:
  """Returns binomially distributed numbers, exactly those of TensorFlow; advances the generator.

  Source op: `tf.raw_ops.StatefulRandomBinomial`.

  Args:
    ctx: the program.
    resource: the generator's state.
    algorithm: 1 (Philox), or 3 for the same.
    shape: of the result; ends in the shape that `counts` and `probs` broadcast to.
    counts: numbers of trials.
    probs: of success, dtype of `counts`.
    dtype: float16, float32, float64, int32 or int64.

  Returns:
    `shape` of `dtype`.

  Differs from TF: as `StatelessRandomBinomial`.
  """
  # TensorFlow moves the generator on by what a loop of at most 100 pairs for each number would take.
  num_batches = math.prod(jnp.broadcast_shapes(counts.shape, probs.shape))
  per_batch = math.prod(shape) // max(num_batches, 1)
  generator = take_generator(ctx, resource, algorithm, num_batches * 2 * 100 * (per_batch + 3) // 4)
  return _binomial(generator, shape, counts, probs, dtype)


def _binomial(generator: Philox, shape: tuple[int, ...], counts: Array, probs: Array, dtype: np.dtype) -> Array:
  counts, probs = (x.reshape(()) if x.size == 1 else x for x in jnp.broadcast_arrays(counts, probs))
  trials, chances = (_deal_out("RandomBinomial", shape, x) for x in (counts, probs))
  numbers = _collect(rejection.binomial(generator, trials, chances), shape, counts)
  return numbers.astype(canonical_dtype(dtype))


@register("StatelessMultinomial", ignores=("T", "Tseed"), int64_pairs="accept")
def stateless_multinomial(
  logits: Array, num_samples: StaticSize, seed: Array, *, output_dtype: np.dtype = INT64
) -> Array:
  """Returns classes drawn with given log-probabilities, exactly those of TensorFlow.

  Source op: `tf.raw_ops.StatelessMultinomial`.

  Args:
    logits: `[batch, classes]`, any real dtype; need not be normalized.
    num_samples: how many for each row.
    seed: `[2]`, int32 or int64.
    output_dtype: int32 or int64.

  Returns:
    `[batch, num_samples]` of `output_dtype`.

  Differs from TF: computed in float32 when 64-bit types are off, so that a number at the border of two classes may fall
    to the other; TensorFlow's stream for a batch that it spreads over threads depends on their number.
  """
  logits = jnp.asarray(logits).astype(canonical_dtype(np.float64))
  batch = logits.shape[0]
  is_finite = jnp.isfinite(logits)
  highest = jnp.max(jnp.where(is_finite, logits, -jnp.inf), axis=-1, keepdims=True, initial=jnp.finfo(logits.dtype).min)
  weights = jnp.where(is_finite, jnp.exp(jnp.where(is_finite, logits, 0) - highest), 0)
  sums = jnp.cumsum(weights, axis=-1)
  numbers = streams.uniform(philox.from_seed(seed), (batch, num_samples), np.dtype(np.float64))
  wanted = numbers * sums[:, -1:]
  places = jax.vmap(lambda row, value: jnp.searchsorted(row, value, side="right"))(sums, wanted)
  return places.astype(canonical_dtype(output_dtype))


@register("StatelessParameterizedTruncatedNormal", ignores=("S", "Tseed"), int64_pairs="accept")
def stateless_parameterized_truncated_normal(
  shape: StaticSizes,
  seed: Array,
  means: Array,
  stddevs: Array,
  minvals: Array,
  maxvals: Array,
  *,
  dtype: np.dtype,
) -> Array:
  """Returns normal numbers within bounds, a function of the seed alone.

  Source op: `tf.raw_ops.StatelessParameterizedTruncatedNormal`.

  Args:
    shape: of the result; the parameters broadcast to it.
    seed: `[2]`, int32 or int64.
    means: of `dtype`.
    stddevs: positive, of `dtype`.
    minvals: of `dtype`.
    maxvals: above `minvals`, of `dtype`.
    dtype: float16, float32 or float64.

  Returns:
    `shape` of `dtype`.

  Differs from TF: other numbers of the same distribution. TensorFlow rejects proposals in an order that depends on how
    it spreads the work over threads; here the distribution function is inverted, as TensorFlow does under XLA.
  """
  dtype = canonical_dtype(dtype)
  wide = np.dtype(np.float32) if dtype.itemsize == 2 else dtype
  mean, deviation, low, high = (jnp.asarray(p).astype(wide) for p in (means, stddevs, minvals, maxvals))
  first, last = (low - mean) / deviation, (high - mean) / deviation
  # The lower tail is where the distribution function has digits left.
  is_upper = first + last > 0
  first, last = jnp.where(is_upper, -last, first), jnp.where(is_upper, -first, last)
  numbers = streams.uniform(philox.from_seed(seed), shape, wide)
  lowest, highest = jax.scipy.special.ndtr(first), jax.scipy.special.ndtr(last)
  quantile = jax.scipy.special.ndtri(lowest + numbers * (highest - lowest))
  quantile = jnp.clip(jnp.where(is_upper, -quantile, quantile), (low - mean) / deviation, (high - mean) / deviation)
  return jnp.clip(quantile * deviation + mean, low, high).astype(dtype)
