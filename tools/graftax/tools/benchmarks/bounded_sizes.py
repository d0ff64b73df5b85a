"""Sizes that depend on data under `jax.jit`: converted TensorFlow code, and JAX code with masks written by hand.

Contestants take turns in one process. Both compute the same numbers.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from graftax.tools._tensorflow import TfTensor
from graftax.tools.benchmarks.benchmark import OURS, Benchmark, Goal
from graftax.tools.benchmarks.turns import measure_in_turns
from graftax.tools.pytrees import Leaf, PyTree

__all__ = ["BENCHMARK", "main"]

_BY_HAND = "jax by hand"
_COMMAND = ("graftax.tools.benchmarks.bounded_sizes",)
_NUM_ROUNDS = 100
_NUM_BOXES = 2000
_NUM_SELECTED = 100

BENCHMARK = Benchmark(
  name="bounded-sizes",
  title="a compiled call with sizes that depend on data, beside JAX code with masks written by hand",
  make_data=None,
  commands=dict.fromkeys((OURS, _BY_HAND), _COMMAND),
  baseline=_BY_HAND,
  goal=Goal(time=1.2),
  in_one_process=True,
)


def main() -> None:
  measure_in_turns(_cases(), _NUM_ROUNDS)


def _cases() -> Mapping[str, Mapping[str, Callable[[], Any]]]:
  """Returns case -> contestant -> a call that returns an array."""
  import jax
  import tensorflow as tf

  from graftax.convert import convert

  rng = np.random.default_rng(0)
  corners = np.sort(rng.uniform(0, 1, (_NUM_BOXES, 2, 2)).astype(np.float32) * 0.3, axis=1)
  boxes = corners.reshape(_NUM_BOXES, 4)
  scores = rng.uniform(0, 1, _NUM_BOXES).astype(np.float32)
  rows = rng.uniform(0, 1, (20_000, 64)).astype(np.float32)

  def suppressed(boxes: TfTensor, scores: TfTensor) -> TfTensor:
    kept = tf.image.non_max_suppression(boxes, scores, _NUM_SELECTED, 0.5, 0.3)
    return tf.reduce_sum(tf.gather(boxes, kept) * tf.gather(scores, kept)[:, None], 0)

  def masked(rows: TfTensor) -> TfTensor:
    kept = tf.boolean_mask(rows, rows[:, 0] > 0.5)
    kept = tf.nn.relu(kept * 2.0 - 0.3)
    return tf.reduce_mean(kept, 0) + tf.reduce_max(kept, 0)

  def both(function: Callable[..., Any], by_hand: Callable[..., Any], *args: PyTree) -> Mapping[str, Callable[[], Any]]:
    fn, params = convert(tf.function(function, autograph=False), *args)
    arrays = [jax.numpy.asarray(x) for x in args]
    ours, theirs = jax.jit(lambda *xs: fn(params, *xs)[0]), jax.jit(by_hand)
    return {OURS: lambda: np.asarray(ours(*arrays)), _BY_HAND: lambda: np.asarray(theirs(*arrays))}

  return {
    "suppression": both(suppressed, _suppressed_by_hand, boxes, scores),
    "mask": both(masked, _masked_by_hand, rows),
  }


def _masked_by_hand(rows: Leaf) -> Leaf:
  """The rows that are kept first, as `jnp.nonzero(size=...)` puts them; those after them are masked."""
  import jax.numpy as jnp

  keep = rows[:, 0] > 0.5
  num = jnp.sum(keep)
  (places,) = jnp.nonzero(keep, size=rows.shape[0], fill_value=0)
  is_valid = (jnp.arange(rows.shape[0]) < num)[:, None]
  kept = jnp.maximum(rows[places] * 2.0 - 0.3, 0)
  mean = jnp.sum(jnp.where(is_valid, kept, 0), 0) / num
  return mean + jnp.max(jnp.where(is_valid, kept, -jnp.inf), 0)


def _suppressed_by_hand(boxes: Leaf, scores: Leaf) -> Leaf:
  import jax
  import jax.numpy as jnp

  area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])

  def step(i: Leaf, carry: PyTree) -> PyTree:
    live, kept = carry
    best = jnp.argmax(live)
    is_kept = live[best] > -jnp.inf
    box = boxes[best]
    low, high = jnp.maximum(boxes[:, :2], box[:2]), jnp.minimum(boxes[:, 2:], box[2:])
    shared = jnp.prod(jnp.maximum(high - low, 0), axis=1)
    overlaps = shared / jnp.maximum(area + area[best] - shared, 1e-12) > 0.5
    live = jnp.where(overlaps & is_kept, -jnp.inf, live).at[best].set(-jnp.inf)
    return live, kept.at[i].set(jnp.where(is_kept, best, -1))

  start = (jnp.where(scores > 0.3, scores, -jnp.inf), jnp.full(_NUM_SELECTED, -1))
  _, kept = jax.lax.fori_loop(0, _NUM_SELECTED, step, start)
  weights = jnp.where(kept >= 0, scores[kept], 0)
  return jnp.sum(boxes[kept] * weights[:, None], 0)


if __name__ == "__main__":
  main()
