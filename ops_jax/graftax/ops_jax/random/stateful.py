"""Stateful random ops: RandomUniform, RandomStandardNormal, TruncatedNormal, RandomGamma, RandomShuffle, Multinomial.

Numbers are drawn with `jax.random` from the key of the node. TensorFlow's numbers depend on a global seed and on the
order of execution, so only the distributions agree.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.known import INT64, canonical_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, StaticSize, StaticSizes, Value
from graftax.ops_jax.int64_pairs.pairs import fits_jax_dtype, map_halves
from graftax.ops_jax.random import philox, streams

__all__ = [
  "multinomial",
  "parameterized_truncated_normal",
  "random_crop",
  "random_gamma",
  "random_poisson",
  "random_poisson_v2",
  "random_shuffle",
  "random_uniform_int",
]

_SEEDS = ("T", "seed", "seed2")


def _truncated_normal(key: jax.Array, shape: tuple[int, ...], dtype: np.dtype) -> jax.Array:
  wide = np.float32 if dtype.itemsize == 2 else dtype
  return jax.random.truncated_normal(key, -2.0, 2.0, shape, wide).astype(dtype)


def _register_distribution(op: str, draw: Callable[[jax.Array, tuple[int, ...], np.dtype], jax.Array]) -> None:
  def distribution(ctx: Context, shape: StaticSizes, *, dtype: np.dtype) -> Array:
    """Draws random numbers: uniform in [0, 1), standard normal, or standard normal of magnitude below 2.

    Source ops: `tf.raw_ops.RandomUniform`, `RandomStandardNormal` and `TruncatedNormal`.

    Args:
      ctx: the program, which has the random key.
      shape: shape of the result. Must be concrete.
      dtype: float16, bfloat16, float32 or float64.

    Returns:
      `shape` of `dtype`.

    Differs from TF: another stream of numbers.
    """
    return draw(ctx.rng(), shape, canonical_dtype(dtype))

  register(op, ignores=_SEEDS)(distribution)


_register_distribution("RandomUniform", jax.random.uniform)
_register_distribution("RandomStandardNormal", jax.random.normal)
_register_distribution("TruncatedNormal", _truncated_normal)


@register("RandomUniformInt", ignores=(*_SEEDS, "Tout"), int64_pairs="accept")
def random_uniform_int(ctx: Context, shape: StaticSizes, minval: Array, maxval: Array) -> Value:
  """Returns integers in [minval, maxval).

  Source op: `tf.raw_ops.RandomUniformInt`.

  Args:
    ctx: the program, which has the random key.
    shape: of the result.
    minval: scalar, int32 or int64.
    maxval: scalar, dtype of `minval`.

  Returns:
    `shape`, dtype of `minval`; an `Int64Pair` if `jax_enable_x64` is off and a bound needs more than 32 bits.

  Differs from TF: another stream of numbers.
  """
  if not (fits_jax_dtype(minval) and fits_jax_dtype(maxval)):
    generator = philox.from_seed(jax.random.bits(ctx.rng(), (2,), np.uint32))
    return streams.integers(generator, shape, minval, maxval, INT64)
  dtype = canonical_dtype(minval.dtype)
  return jax.random.randint(ctx.rng(), shape, minval, maxval, dtype)


@register("RandomShuffle", ignores=_SEEDS, int64_pairs="accept")
def random_shuffle(ctx: Context, value: Array) -> Value:
  """Returns the rows of a tensor in random order.

  Source op: `tf.raw_ops.RandomShuffle`.

  Args:
    ctx: the program, which has the random key.
    value: `[n, ...]`, any dtype.

  Returns:
    Shape and dtype of `value`.

  Differs from TF: another order.
  """
  if not value.ndim:
    return value
  key = ctx.rng()  # one order for both halves of wide integers
  if fits_jax_dtype(value):
    return jax.random.permutation(key, jnp.asarray(value), axis=0)
  return map_halves(lambda half: jax.random.permutation(key, half, axis=0), [value], value.dtype)


@register("Multinomial", ignores=_SEEDS)
def multinomial(ctx: Context, logits: Array, num_samples: StaticSize, *, output_dtype: np.dtype = INT64) -> Array:
  """Returns classes drawn with given log-probabilities.

  Source op: `tf.raw_ops.Multinomial`.

  Args:
    ctx: the program, which has the random key.
    logits: `[batch, classes]`, any real dtype; need not be normalized.
    num_samples: how many for each row.
    output_dtype: int32 or int64.

  Returns:
    `[batch, num_samples]` of `output_dtype`.

  Differs from TF: another stream of numbers.
  """
  logits = jnp.asarray(logits)
  logits = (
    logits if jnp.issubdtype(logits.dtype, jnp.floating) and logits.dtype.itemsize > 2 else logits.astype(np.float32)
  )
  shape = (num_samples, logits.shape[0])
  return jax.random.categorical(ctx.rng(), logits, axis=-1, shape=shape).T.astype(canonical_dtype(output_dtype))


@register("RandomGamma", ignores=(*_SEEDS, "S"))
def random_gamma(ctx: Context, shape: StaticSizes, alpha: Array) -> Array:
  """Returns gamma-distributed numbers, with the derivative with respect to `alpha` that TensorFlow has.

  Source op: `tf.raw_ops.RandomGamma`.

  Args:
    ctx: the program, which has the random key.
    shape: how many for each `alpha`.
    alpha: shape parameters, positive; float16, float32 or float64.

  Returns:
    `shape` followed by the shape of `alpha`; dtype of `alpha`.

  Differs from TF: another stream of numbers.
  """
  alpha = jnp.asarray(alpha)
  wide = alpha.astype(np.float32) if alpha.dtype.itemsize == 2 else alpha
  return jax.random.gamma(ctx.rng(), wide, (*shape, *alpha.shape), wide.dtype).astype(alpha.dtype)


@register("RandomPoissonV2", ignores=("S", "R", "seed", "seed2"))
def random_poisson_v2(ctx: Context, shape: StaticSizes, rate: Array, *, dtype: np.dtype = INT64) -> Array:
  """Returns Poisson-distributed numbers.

  Source op: `tf.raw_ops.RandomPoissonV2`.

  Args:
    ctx: the program, which has the random key.
    shape: how many for each `rate`.
    rate: means, not negative; float16, float32, float64, int32 or int64.
    dtype: of the result: the same choice.

  Returns:
    `shape` followed by the shape of `rate`, of `dtype`.

  Differs from TF: another stream of numbers; counts above 2**31 - 1 are clamped.
  """
  rate = jnp.asarray(rate)
  wide = rate if rate.dtype in (np.float32, np.float64) else rate.astype(np.float32)
  # jax.random.poisson takes keys of one kind only, and the caller's may be another.
  key = jax.random.key(jax.random.bits(ctx.rng(), (), np.uint32), impl="threefry2x32")
  counts = jax.random.poisson(key, wide, (*shape, *rate.shape), np.int32)
  return counts.astype(canonical_dtype(dtype))


@register("RandomPoisson", ignores=("S", "seed", "seed2"))
def random_poisson(ctx: Context, shape: StaticSizes, rate: Array, *, dtype: np.dtype) -> Array:
  """Returns Poisson-distributed numbers.

  Source op: `tf.raw_ops.RandomPoisson`.

  Args:
    ctx: the program, which has the random key.
    shape: how many for each `rate`.
    rate: means, not negative; float16, float32 or float64.
    dtype: that of `rate`.

  Returns:
    `shape` followed by the shape of `rate`, of `dtype`.

  Differs from TF: another stream of numbers.
  """
  return random_poisson_v2(ctx, shape, rate, dtype=dtype)


@register("ParameterizedTruncatedNormal", ignores=_SEEDS)
def parameterized_truncated_normal(
  ctx: Context,
  shape: StaticSizes,
  means: Array,
  stdevs: Array,
  minvals: Array,
  maxvals: Array,
  *,
  dtype: np.dtype,
) -> Array:
  """Returns normal numbers within bounds.

  Source op: `tf.raw_ops.ParameterizedTruncatedNormal`.

  Args:
    ctx: the program, which has the random key.
    shape: `[batch, ...]` of the result.
    means: scalar or `[batch]`, of `dtype`.
    stdevs: likewise, positive.
    minvals: likewise.
    maxvals: likewise, above `minvals`.
    dtype: float16, bfloat16, float32 or float64.

  Returns:
    `shape` of `dtype`.

  Raises:
    InvalidInputError: a parameter has rank above 1.

  Differs from TF: another stream of numbers.
  """
  dtype = canonical_dtype(dtype)
  wide = np.float32 if dtype.itemsize == 2 else dtype
  mean, deviation, low, high = (_per_batch(p, shape).astype(wide) for p in (means, stdevs, minvals, maxvals))
  numbers = jax.random.truncated_normal(ctx.rng(), (low - mean) / deviation, (high - mean) / deviation, shape, wide)
  return jnp.clip(numbers * deviation + mean, low, high).astype(dtype)


def _per_batch(parameter: Array, shape: tuple[int, ...]) -> Array:
  parameter = jnp.asarray(parameter)
  if parameter.ndim > 1:
    raise InvalidInputError(
      f"ParameterizedTruncatedNormal: a parameter has shape {parameter.shape}; expected rank 0 or 1."
    )
  return parameter.reshape(parameter.shape + (1,) * (len(shape) - 1)) if parameter.size > 1 else parameter.reshape(())


@register("RandomCrop", ignores=_SEEDS)
def random_crop(ctx: Context, image: Array, size: StaticSizes) -> Array:
  """Returns a random window of an image.

  Source op: `tf.raw_ops.RandomCrop`.

  Args:
    ctx: the program, which has the random key.
    image: `[height, width, channels]`, any real dtype.
    size: `[2]`, height and width of the window.

  Returns:
    `[*size, channels]`, dtype of `image`.

  Raises:
    InvalidInputError: the window is larger than the image.

  Differs from TF: another place.
  """
  image = jnp.asarray(image)
  height, width = size
  if image.ndim != 3 or image.shape[0] < height or image.shape[1] < width:
    raise InvalidInputError(f"RandomCrop: size {size!r} of shape {image.shape}; expected a window within an image.")
  room = jnp.array([image.shape[0] - height + 1, image.shape[1] - width + 1])
  top, left = jax.random.randint(ctx.rng(), (2,), 0, room)
  return jax.lax.dynamic_slice(image, (top, left, 0), (height, width, image.shape[2]))
