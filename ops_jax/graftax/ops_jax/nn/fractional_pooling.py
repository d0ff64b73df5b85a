"""Pooling over regions of random sizes: FractionalMaxPool, FractionalAvgPool and their gradients.

A pooling sequence holds the start of each region along an axis, followed by the end of the last one.
"""

import math
from collections.abc import Callable
from typing import NotRequired, TypedDict, Unpack

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.errors import InvalidInputError, UnsupportedAttrError
from graftax.ops_jax._core.known import INT64, canonical_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, StaticSizes, is_known
from graftax.xla_call_module.lax_extras import Philox, lowest, philox_skip, philox_uint32

__all__ = [
  "fractional_avg_pool",
  "fractional_avg_pool_grad",
  "fractional_max_pool",
  "fractional_max_pool_grad",
]

_Pool = Callable[[Array, Array], Array]


class _FractionalAttrs(TypedDict):
  """Attributes of both poolings.

  Attributes:
    pooling_ratio: input size by output size along each dimension; 1 for batch and channels.
    pseudo_random: whether the sizes of regions follow from one random number, instead of being shuffled.
    overlapping: whether neighboring regions share the cells where they meet.
    deterministic: whether the seeds decide where the regions are.
    seed: lower half of the seed.
    seed2: upper half.
  """

  pooling_ratio: tuple[float, ...]
  pseudo_random: NotRequired[bool]
  overlapping: NotRequired[bool]
  deterministic: NotRequired[bool]
  seed: NotRequired[int]
  seed2: NotRequired[int]


def _fractional_pool(
  ctx: Context, value: Array, pool: _Pool, **attrs: Unpack[_FractionalAttrs]
) -> tuple[Array, Array, Array]:
  seeds = (attrs.get("seed", 0), attrs.get("seed2", 0)) if attrs.get("deterministic", False) else None
  sequences = _sequences(ctx, value, attrs["pooling_ratio"], attrs.get("pseudo_random", False), seeds)
  return _pooled(jnp.asarray(value), sequences, attrs.get("overlapping", False), pool), *sequences


@register("FractionalMaxPool", ignores=("T",))
def fractional_max_pool(
  ctx: Context,
  value: Array,
  **attrs: Unpack[_FractionalAttrs],
) -> tuple[Array, Array, Array]:
  """Computes the largest value in each of the regions that partition every image.

  Source op: `tf.raw_ops.FractionalMaxPool`.

  Args:
    ctx: the program, whose random key is used if `deterministic` is false.
    value: `[batch, height, width, channels]`, float32, float64, int32 or int64.
    **attrs: see `_FractionalAttrs`.

  Returns:
    The pooled images and the sequences of rows and columns, int64.

  Raises:
    InvalidInputError: `value` is not of rank 4, or batch or channels are to be pooled.

  Differs from TF: without fixed seeds the random numbers differ, as for all stateful random ops.
  """
  return _fractional_pool(ctx, value, _largest, **attrs)


@register("FractionalAvgPool", ignores=("T",))
def fractional_avg_pool(
  ctx: Context,
  value: Array,
  **attrs: Unpack[_FractionalAttrs],
) -> tuple[Array, Array, Array]:
  """Computes the mean of each of the regions that partition every image; otherwise as `FractionalMaxPool`.

  Source op: `tf.raw_ops.FractionalAvgPool`.
  """
  return _fractional_pool(ctx, value, _mean, **attrs)


@register("FractionalMaxPoolGrad", ignores=("T",))
def fractional_max_pool_grad(
  orig_input: Array,
  orig_output: Array,
  out_backprop: Array,
  row_pooling_sequence: Array,
  col_pooling_sequence: Array,
  *,
  overlapping: bool = False,
) -> Array:
  """Computes the gradient of `FractionalMaxPool` for the sequences that it returned. The first of equal cells gets it.

  Source op: `tf.raw_ops.FractionalMaxPoolGrad`.
  """
  del orig_output
  sequences = row_pooling_sequence, col_pooling_sequence
  return _gradient("FractionalMaxPoolGrad", jnp.asarray(orig_input), out_backprop, sequences, overlapping, _largest)


@register("FractionalAvgPoolGrad", ignores=("T",))
def fractional_avg_pool_grad(
  orig_input_tensor_shape: StaticSizes,
  out_backprop: Array,
  row_pooling_sequence: Array,
  col_pooling_sequence: Array,
  *,
  overlapping: bool = False,
) -> Array:
  """Computes the gradient of `FractionalAvgPool` for the sequences that it returned.

  Source op: `tf.raw_ops.FractionalAvgPoolGrad`.
  """
  x = jnp.zeros(orig_input_tensor_shape, out_backprop.dtype)
  sequences = row_pooling_sequence, col_pooling_sequence
  return _gradient("FractionalAvgPoolGrad", x, out_backprop, sequences, overlapping, _mean)


def _gradient(
  op: str, x: Array, cotangent: Array, sequences: tuple[Array, Array], overlapping: bool, pool: _Pool
) -> Array:
  if not jnp.issubdtype(x.dtype, jnp.floating):
    raise UnsupportedAttrError(f"{op}: T={x.dtype} is not supported; expected float32 or float64. Cast to one of them.")
  _, pull = jax.vjp(lambda x: _pooled(x, sequences, overlapping, pool), x)
  return pull(jnp.asarray(cotangent))[0]


def _pooled(x: Array, sequences: tuple[Array, Array], overlapping: bool, pool: _Pool) -> Array:
  rows, row_counts = _regions(sequences[0], x.shape[1], overlapping)
  columns, column_counts = _regions(sequences[1], x.shape[2], overlapping)
  # [batch, rows, cells of a row, columns, cells of a column, channels]
  cells = x[:, rows][:, :, :, columns]
  counts = row_counts[:, :, None, None] & column_counts[None, None]
  height, width = rows.shape[0], columns.shape[0]
  cells = jnp.moveaxis(cells, 3, 2).reshape(x.shape[0], height, width, -1, x.shape[3])
  return pool(cells, jnp.moveaxis(counts, 2, 1).reshape(height, width, -1, 1))


def _regions(sequence: Array, size: int, overlapping: bool) -> tuple[Array, Array]:
  """Returns cell positions of each region, padded to the largest region, and which of them belong to it."""
  if is_known(sequence):
    largest = int(np.max(np.diff(sequence)))
  else:
    # The size of a region is the ratio rounded down, or one more.
    largest = size // (sequence.shape[0] - 1) + 1
  sequence = jnp.asarray(sequence, np.int32)  # positions in an image
  positions = sequence[:-1, None] + np.arange(largest + overlapping)
  ends = sequence[1:, None] + (1 if overlapping else 0)
  return jnp.minimum(positions, size - 1), (positions < ends) & (positions < size)


def _largest(cells: Array, counts: Array) -> Array:
  cells = jnp.where(counts, cells, lowest(cells.dtype))
  # Selecting the first of equal cells, instead of their maximum, gives that cell all of the derivative.
  best = jnp.argmax(jax.lax.stop_gradient(cells), axis=3, keepdims=True)
  return jnp.take_along_axis(cells, best, axis=3)[:, :, :, 0]


def _mean(cells: Array, counts: Array) -> Array:
  total = jnp.sum(jnp.where(counts, cells, jnp.zeros((), cells.dtype)), axis=3, dtype=cells.dtype)
  number = jnp.sum(counts, axis=2).astype(cells.dtype)
  return (
    total / number if jnp.issubdtype(cells.dtype, jnp.floating) else jax.lax.div(*jnp.broadcast_arrays(total, number))
  )


def _sequences(
  ctx: Context, value: Array, ratios: tuple[float, ...], pseudo_random: bool, seeds: tuple[int, int] | None
) -> tuple[Array, Array]:
  shape = jnp.shape(value)
  if len(shape) != 4 or len(ratios) != 4 or ratios[0] != 1 or ratios[3] != 1:
    raise InvalidInputError(
      f"fractional pooling of shape {shape} with pooling_ratio={ratios!r}; expected rank 4, and 1 for batch and "
      f"channels."
    )
  sizes = [(n, math.floor(np.float32(n) / np.float32(ratio))) for n, ratio in zip(shape[1:3], ratios[1:3], strict=True)]
  if seeds is None:
    keys = jax.random.split(ctx.rng())
    draw = _drawn_pseudo_random if pseudo_random else _drawn
    return draw(keys[0], *sizes[0]), draw(keys[1], *sizes[1])
  generator = _Words(seeds)
  fixed = generator.pseudo_random if pseudo_random else generator.shuffled
  return fixed(*sizes[0]), fixed(*sizes[1])


def _from_sizes(sizes: Array) -> Array:
  xp = np if is_known(sizes) else jnp
  return xp.concatenate([xp.zeros(1, sizes.dtype), xp.cumsum(sizes)]).astype(
    INT64 if xp is np else canonical_dtype(INT64)
  )


def _drawn(key: jax.Array, size: int, num: int) -> Array:
  return _from_sizes(jax.random.permutation(key, size // num + (np.arange(num) < size % num)))


def _drawn_pseudo_random(key: jax.Array, size: int, num: int) -> Array:
  limit, ratio = _limit(size, num), size / num
  inner = jnp.ceil(ratio * (np.arange(1, num) + jax.random.uniform(key, maxval=limit)))
  edges = jnp.concatenate([jnp.ones(1), inner, jnp.full(1, size + 1.0)])
  return (edges - 1).astype(canonical_dtype(INT64))


def _limit(size: int, num: int) -> float:
  """Returns the upper bound of the random number from which all region sizes follow: each is the ratio, up or down."""
  k, ratio = size // num, size / num
  return min((k + 2) / ratio - 1, (size + 1 - k) / ratio - (num - 1))


class _Words:
  """TensorFlow's draws for fixed seeds, known while tracing: each takes whole blocks of Philox."""

  def __init__(self, seeds: tuple[int, int]) -> None:
    low, high = (np.uint64(seed % 2**64) for seed in seeds)
    halves = [np.uint32(half) for seed in (low, high) for half in (seed & np.uint64(0xFFFFFFFF), seed >> np.uint64(32))]
    zero = np.uint32(0)
    self._generator = Philox((halves[0], halves[1]), (zero, zero, halves[2], halves[3]))
    self._num_blocks = 0

  def _take(self, num_words: int) -> np.ndarray:
    with jax.ensure_compile_time_eval():
      generator = philox_skip(self._generator, (np.uint32(self._num_blocks), np.uint32(0)))
      words = np.asarray(philox_uint32(generator, num_words))
    self._num_blocks += -(-num_words // 4)
    return words

  def shuffled(self, size: int, num: int) -> Array:
    sizes = [size // num + (i < size % num) for i in range(num)]
    words = self._take(num)
    for i in range(num - 1):
      j = i + int(words[i]) % (num - i)
      sizes[i], sizes[j] = sizes[j], sizes[i]
    return _from_sizes(np.array(sizes, np.int64))

  def pseudo_random(self, size: int, num: int) -> np.ndarray:
    high, low = (int(word) for word in self._take(2))
    number = ((high & 0xFFFFF) << 32 | low) * 2.0**-52 * _limit(size, num)
    inner = [math.ceil(size / num * (i + number)) for i in range(1, num)]
    return np.array([1, *inner, size + 1], np.int64) - 1
