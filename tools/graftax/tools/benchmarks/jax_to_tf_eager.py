"""One eager call of a converted function, after the first: ours, jax2tf's, and TensorFlow's own ops.

Contestants take turns in one process, since differences are far below a millisecond.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from graftax.tools._tensorflow import TensorFlow, TfTensor
from graftax.tools.benchmarks.benchmark import OURS, Benchmark, Goal
from graftax.tools.benchmarks.turns import measure_in_turns
from graftax.tools.pytrees import Leaf, PyTree

__all__ = ["BENCHMARK", "main"]

_JAX2TF = "jax2tf"
_TENSORFLOW = "tensorflow's own ops"
_COMMAND = ("graftax.tools.benchmarks.jax_to_tf_eager",)
_NUM_ROUNDS = 200

BENCHMARK = Benchmark(
  name="jax-to-tf-eager",
  title="an eager call of a converted JAX function, after the first",
  make_data=None,
  commands=dict.fromkeys((OURS, _JAX2TF, _TENSORFLOW), _COMMAND),
  baseline=_JAX2TF,
  goal=Goal(time=0.1),
  in_one_process=True,
)


def main() -> None:
  measure_in_turns(_cases(), _NUM_ROUNDS)


def _cases() -> Mapping[str, Mapping[str, Callable[[], Any]]]:
  """Returns case -> contestant -> a call that returns an array."""
  import tensorflow as tf
  from jax.experimental import jax2tf as theirs

  from graftax.convert import jax2tf as ours

  rng = np.random.default_rng(0)
  x, w = (tf.constant(rng.random(shape, np.float32)) for shape in ((8, 32), (32, 32)))
  params = {f"layer_{i}": {"w": w, "b": tf.constant(rng.random(32, np.float32))} for i in range(3)}

  def gradient(function: Callable[..., Any]) -> Callable[[], Any]:
    def run() -> Any:
      with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x, w)
      return tape.gradient(y, x).numpy()

    return run

  def both(make: Callable[[Callable[..., Any]], Any], theirs_is: Callable[..., Any], own: Callable[..., Any]) -> Any:
    return {OURS: make(ours.convert(theirs_is)), _JAX2TF: make(theirs.convert(theirs_is)), _TENSORFLOW: make(own)}

  return {
    "matmul": both(lambda f: lambda: f(x, w).numpy(), lambda x, w: x @ w, tf.matmul),
    "three layers": both(lambda f: lambda: f(params, x).numpy(), _layers, lambda p, x: _tf_layers(tf, p, x)),
    "matmul and its gradient": both(gradient, lambda x, w: x @ w, tf.matmul),
  }


def _layers(params: PyTree, x: Leaf) -> Leaf:
  import jax.numpy as jnp

  for layer in params.values():
    x = jnp.tanh(x @ layer["w"] + layer["b"])
  return x


def _tf_layers(tf: TensorFlow, params: PyTree, x: TfTensor) -> TfTensor:
  for layer in params.values():
    x = tf.tanh(tf.matmul(x, layer["w"]) + layer["b"])
  return x


if __name__ == "__main__":
  main()
