"""The processes that are measured: a SavedModel from the disk to a jitted result or a jaxpr, by graftax or by TF2JAX.

    python -m graftax.tools.benchmarks.contestants graftax run FOLDER 1,224,224,3

Stages: `import`, `load`, `convert`, then `run` (compilation included), `trace`, or `call` (the fastest of many calls of
the compiled function).
"""

import sys
from collections.abc import Callable
from typing import Any

from graftax.tools.benchmarks.models import FUNCTION_NAME, INPUT_NAME
from graftax.tools.benchmarks.reporting import Stages
from graftax.tools.pytrees import Leaf, PyTree

__all__ = ["main"]

_Converted = tuple[Callable[..., Any], dict[str, Leaf]]
_NUM_VALUES = 5
_NUM_CALLS = 30


def main() -> None:
  _, contestant, until, folder, shape = sys.argv
  stages = Stages()
  fn, params = {"graftax": _convert_with_graftax, "tf2jax": _convert_with_tf2jax}[contestant](stages, folder)
  finish = {"call": _call, "run": _run, "trace": _trace}[until]
  stages.report(finish(stages, fn, params, tuple(map(int, shape.split(",")))))


def _convert_with_graftax(stages: Stages, folder: str) -> _Converted:
  with stages.stage("import"):
    from graftax import savedmodel_io
  with stages.stage("load"):
    model = savedmodel_io.load(folder)
  with stages.stage("convert"):
    return model.convert(FUNCTION_NAME)


def _convert_with_tf2jax(stages: Stages, folder: str) -> _Converted:
  with stages.stage("import"):
    import tensorflow as tf
    import tf2jax
  with stages.stage("load"):
    model = tf.saved_model.load(folder)
  with stages.stage("convert"):
    # TF2JAX 0.3.8 does not take TensorFlow 2.21's signatures; this is its way without a second trace.
    return tf2jax.convert_from_restored(getattr(model, FUNCTION_NAME))


def _run(stages: Stages, fn: Callable[..., Any], params: dict[str, Leaf], shape: tuple[int, ...]) -> list[float]:
  import jax

  with stages.stage("run"):
    outputs, _ = jax.block_until_ready(jax.jit(fn)(params, **{INPUT_NAME: _example(shape)}))
  return _values(outputs["y"])


def _call(stages: Stages, fn: Callable[..., Any], params: dict[str, Leaf], shape: tuple[int, ...]) -> list[float]:
  import jax

  placed = jax.device_put(params)
  compiled = jax.jit(fn)
  inputs = {INPUT_NAME: jax.device_put(_example(shape))}
  outputs, _ = jax.block_until_ready(compiled(placed, **inputs))
  fastest_s = float("inf")
  for _ in range(_NUM_CALLS):
    with stages.stage("call"):
      jax.block_until_ready(compiled(placed, **inputs))
    fastest_s = min(fastest_s, stages.times_s["call"])
  stages.times_s["call"] = fastest_s
  return _values(outputs["y"])


def _trace(stages: Stages, fn: Callable[..., Any], params: dict[str, Leaf], shape: tuple[int, ...]) -> list[float]:
  import jax

  with stages.stage("trace"):
    jaxpr = jax.make_jaxpr(fn)(params, **{INPUT_NAME: _example(shape)})
  return [float(size) for size in jaxpr.out_avals[0].shape]


def _values(outputs: PyTree) -> list[float]:
  import numpy as np

  # In numpy: JAX would compile each of these, within the measured time.
  y = np.asarray(outputs)
  return [float(y.mean()), float(y.std()), *(float(value) for value in y.ravel()[:_NUM_VALUES])]


def _example(shape: tuple[int, ...]) -> Leaf:
  import numpy as np

  return np.random.default_rng(0).random(shape, np.float32)


if __name__ == "__main__":
  main()
