"""Classes drawn for sampled losses: UniformCandidateSampler, LogUniformCandidateSampler, FixedUnigramCandidateSampler.

Numbers are drawn with `jax.random` from the key of the node. The distribution and the expected counts are TensorFlow's.
"""

import math
from collections.abc import Callable
from typing import Any, TypedDict, Unpack

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.errors import InvalidInputError, UnsupportedAttrError
from graftax.ops_jax._core.known import INT64, canonical_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array

__all__ = [
  "all_candidate_sampler",
  "fixed_unigram_candidate_sampler",
  "log_uniform_candidate_sampler",
  "uniform_candidate_sampler",
]

_Samples = tuple[Array, Array, Array]


class _Attrs(TypedDict):
  """Attributes of all samplers.

  Attributes:
    num_true: number of true classes of each example.
    num_sampled: number of classes to draw.
    unique: whether all drawn classes differ.
  """

  num_true: int
  num_sampled: int
  unique: bool


_SEEDS = ("seed", "seed2")


@register("UniformCandidateSampler", ignores=_SEEDS)
def uniform_candidate_sampler(
  ctx: Context, true_classes: Array, *, range_max: int, **attrs: Unpack[_Attrs]
) -> _Samples:
  """Draws classes that are equally likely.

  Source op: `tf.raw_ops.UniformCandidateSampler`.

  Args:
    ctx: the program, which has the random key.
    true_classes: `[batch, num_true]` int64.
    range_max: number of classes.
    **attrs: see `_Attrs`.

  Returns:
    Classes `[num_sampled]` int64, and how often they are expected among the drawn ones: the true ones, of the shape of
    `true_classes`, and the drawn ones, `[num_sampled]`, both float32. If all drawn classes differ, this is the
    probability that they occur.

  Raises:
    InvalidInputError: more different classes are to be drawn than there are.

  Differs from TF: another stream of numbers. True classes out of range are accepted.
  """

  def draw(key: jax.Array) -> jax.Array:
    return jax.random.randint(key, (), 0, range_max)

  def probability(classes: jax.Array) -> jax.Array:
    return jnp.full(classes.shape, 1 / range_max, np.float32)

  return _sample("UniformCandidateSampler", ctx, true_classes, range_max, draw, probability, **attrs)


@register("LogUniformCandidateSampler", ignores=_SEEDS)
def log_uniform_candidate_sampler(
  ctx: Context, true_classes: Array, *, range_max: int, **attrs: Unpack[_Attrs]
) -> _Samples:
  """Draws classes with probabilities of nearly `1 / (class + 1)`; see `UniformCandidateSampler`.

  Source op: `tf.raw_ops.LogUniformCandidateSampler`.
  """
  log_range = math.log1p(range_max)

  def draw(key: jax.Array) -> jax.Array:
    place = jnp.floor(jnp.exp(jax.random.uniform(key) * np.float32(log_range))).astype(np.int32) - 1
    return jnp.clip(place, 0, range_max - 1)

  def probability(classes: jax.Array) -> jax.Array:
    return jnp.log1p(1 / (classes.astype(np.float32) + 1)) / np.float32(log_range)

  return _sample("LogUniformCandidateSampler", ctx, true_classes, range_max, draw, probability, **attrs)


@register("FixedUnigramCandidateSampler", ignores=_SEEDS)
def fixed_unigram_candidate_sampler(
  ctx: Context,
  true_classes: Array,
  *,
  range_max: int,
  vocab_file: str = "",
  distortion: float = 1.0,
  num_reserved_ids: int = 0,
  num_shards: int = 1,
  shard: int = 0,
  unigrams: tuple[float, ...] = (),
  **attrs: Unpack[_Attrs],
) -> _Samples:
  """Draws classes with given frequencies; see `UniformCandidateSampler`.

  Source op: `tf.raw_ops.FixedUnigramCandidateSampler`.

  Args:
    ctx: the program, which has the random key.
    true_classes: `[batch, num_true]` int64.
    range_max: number of classes.
    vocab_file: must be empty.
    distortion: exponent of the frequencies.
    num_reserved_ids: number of classes at the beginning that are never drawn.
    num_shards: must be 1.
    shard: must be 0.
    unigrams: frequency of each class after the reserved ones.
    **attrs: see `_Attrs`.

  Raises:
    UnsupportedAttrError: the frequencies are in a file, or are only those of one of several shards.
    InvalidInputError: the number of frequencies is wrong.
  """
  if vocab_file or num_shards != 1 or shard:
    raise UnsupportedAttrError(
      f"FixedUnigramCandidateSampler: vocab_file={vocab_file!r}, num_shards={num_shards}, shard={shard} is not "
      "supported; expected the attribute `unigrams` and one shard."
    )
  weights = np.concatenate([np.zeros(num_reserved_ids), np.power(np.array(unigrams, np.float64), distortion)])
  if len(weights) != range_max:
    raise InvalidInputError(
      f"FixedUnigramCandidateSampler: {num_reserved_ids} reserved classes and {len(unigrams)} frequencies; expected "
      f"range_max={range_max} together."
    )
  probabilities = (weights / weights.sum()).astype(np.float32)
  with np.errstate(divide="ignore"):
    logits = np.log(probabilities)

  def draw(key: jax.Array) -> jax.Array:
    return jax.random.categorical(key, jnp.asarray(logits))

  def probability(classes: jax.Array) -> jax.Array:
    return jnp.asarray(probabilities)[classes]

  return _sample("FixedUnigramCandidateSampler", ctx, true_classes, range_max, draw, probability, **attrs)


@register("AllCandidateSampler", ignores=(*_SEEDS, "unique"))
def all_candidate_sampler(true_classes: Array, *, num_true: int, num_sampled: int) -> _Samples:
  """Returns all classes, for tests of sampled losses; see `UniformCandidateSampler`.

  Source op: `tf.raw_ops.AllCandidateSampler`.
  """
  del num_true
  ones = jnp.ones(num_sampled, np.float32)
  return np.arange(num_sampled, dtype=INT64), jnp.ones(jnp.shape(true_classes), np.float32), ones


def _sample(
  op: str,
  ctx: Context,
  true_classes: Array,
  range_max: int,
  draw: Callable[[jax.Array], jax.Array],
  probability: Callable[[jax.Array], jax.Array],
  *,
  num_true: int,
  num_sampled: int,
  unique: bool,
) -> _Samples:
  del num_true
  if unique and num_sampled > range_max:
    raise InvalidInputError(f"{op}: {num_sampled} different classes of {range_max}; expected at most as many as exist.")
  key = ctx.rng()
  num_tries: jax.Array | int
  if unique:
    classes, num_tries = _distinct(key, draw, num_sampled, range_max)
  else:
    classes, num_tries = jax.vmap(draw)(jax.random.split(key, num_sampled)), num_sampled

  def expected(classes: jax.Array) -> jax.Array:
    p = probability(classes)
    once = p * num_sampled
    # As in TensorFlow: without a rejected draw, the count of independent draws.
    return jnp.where(num_tries == num_sampled, once, -jnp.expm1(num_tries * jnp.log1p(-p)))

  return classes.astype(canonical_dtype(INT64)), expected(jnp.asarray(true_classes)), expected(classes)


def _distinct(
  key: jax.Array, draw: Callable[[jax.Array], jax.Array], num_sampled: int, range_max: int
) -> tuple[jax.Array, jax.Array | int]:
  """Draws until `num_sampled` classes differ; returns these, and the number of draws."""

  def is_short(carry: Any) -> jax.Array:
    return carry[2] < num_sampled

  def step(carry: Any) -> Any:
    is_drawn, classes, count, num_tries = carry
    new = draw(jax.random.fold_in(key, num_tries))
    # Beyond the end, where JAX drops updates, if the class was drawn before.
    place = jnp.where(is_drawn[new], num_sampled, count)
    count = count + (~is_drawn[new]).astype(np.int32)
    return is_drawn.at[new].set(True), classes.at[place].set(new.astype(np.int32), mode="drop"), count, num_tries + 1

  start: tuple[Any, ...] = (jnp.zeros(range_max, bool), jnp.zeros(num_sampled, np.int32), np.int32(0), np.int32(0))
  _, classes, _, num_tries = jax.lax.while_loop(is_short, step, start)
  return classes, num_tries
