"""One call of a TensorFlow function inside of `jax.jit`, after the first: our `call_tf` and jax2tf's.

Contestants take turns in one process, since differences are far below a millisecond. The functions have no variables.
jax2tf gets `has_side_effects=False`, which lets XLA move and remove calls, as ours always does.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from graftax.tools._tensorflow import TfTensor
from graftax.tools.benchmarks.benchmark import OURS, Benchmark, Goal
from graftax.tools.benchmarks.turns import measure_in_turns
from graftax.tools.pytrees import Leaf

__all__ = ["BENCHMARK", "main"]

_JAX2TF = "jax2tf"
_COMMAND = ("graftax.tools.benchmarks.call_tf_jit",)
_NUM_ROUNDS = 300

BENCHMARK = Benchmark(
  name="call-tf-jit",
  title="a call of a TensorFlow function inside of jax.jit, after the first",
  make_data=None,
  commands=dict.fromkeys((OURS, _JAX2TF), _COMMAND),
  baseline=_JAX2TF,
  goal=Goal(time=1.05),
  in_one_process=True,
)


def main() -> None:
  measure_in_turns(_cases(), _NUM_ROUNDS)


def _cases() -> Mapping[str, Mapping[str, Callable[[], Any]]]:
  """Returns case -> contestant -> a call that returns an array."""
  import jax
  import tensorflow as tf
  from jax.experimental import jax2tf as theirs

  from graftax.convert import jax2tf as ours

  rng = np.random.default_rng(0)
  kernel = rng.normal(size=(3, 3, 16, 16)).astype(np.float32) * 0.1
  weights = rng.normal(size=(256, 256)).astype(np.float32) * 0.05

  def layers(x: TfTensor) -> TfTensor:
    for _ in range(4):
      x = tf.nn.gelu(tf.matmul(x, weights)) + x
    return tf.nn.softmax(x)

  def images(x: TfTensor) -> TfTensor:
    for _ in range(3):
      x = tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME"))
    return tf.nn.max_pool2d(x, 2, 2, "SAME")

  def both(function: Callable[..., Any], *shape: int) -> Mapping[str, Callable[[], Any]]:
    x = jax.numpy.asarray(rng.normal(size=shape).astype(np.float32))
    called = {OURS: ours.call_tf(function), _JAX2TF: theirs.call_tf(function, has_side_effects=False)}
    return {name: _ready(jax.jit(f), x) for name, f in called.items()}

  return {
    "three numbers": both(lambda x: tf.sin(x) * 2.0, 3),
    "layers": both(layers, 64, 256),
    "convolutions": both(images, 4, 32, 32, 16),
  }


def _ready(function: Callable[..., Any], x: Leaf) -> Callable[[], Any]:
  return lambda: function(x).block_until_ready()


if __name__ == "__main__":
  main()
