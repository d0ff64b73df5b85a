"""A JAX function with 2 GB of parameters to a SavedModel, beside a plain file copy and `tf.saved_model.save`.

The memory shown is what is needed beyond the parameters, which are loaded before. The time does not include the disk:
as in ordinary use, the system writes to it later.
"""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from graftax.tools.benchmarks.benchmark import OURS, Benchmark, Goal
from graftax.tools.benchmarks.written_files import measure_write
from graftax.tools.pytrees import Leaf

__all__ = ["BENCHMARK", "main"]

_COPY = "file copy"
_TENSORFLOW = "tensorflow"
_COMMAND = "graftax.tools.benchmarks.saved_model_write"
_NUM_ARRAYS = 10
_WIDTH = 7200
_FILE = "parameters.bin"


def _write_parameters(folder: Path) -> None:
  import numpy as np

  rng = np.random.default_rng(0)
  with (folder / _FILE).open("wb") as file:
    for _ in range(_NUM_ARRAYS):
      file.write(rng.random((_WIDTH, _WIDTH), np.float32).tobytes())


BENCHMARK = Benchmark(
  name="saved-model-write",
  title="10 matrices of 2 GB and a function of them to a SavedModel, imports not counted; memory beyond the matrices",
  make_data=_write_parameters,
  commands={name: (_COMMAND, name, "{data}") for name in (OURS, _COPY, _TENSORFLOW)},
  stages=("write",),
  baseline=_COPY,
  # Half the bandwidth of a plain copy.
  goal=Goal(time=2.0),
  tolerance=2.0,
)


def main() -> None:
  measure_write({OURS: _graftax, _COPY: _copy, _TENSORFLOW: _tensorflow}, _FILE)


def _parameters(source: Path) -> dict[str, Leaf]:
  import numpy as np

  arrays = np.fromfile(source, np.float32).reshape(_NUM_ARRAYS, _WIDTH, _WIDTH)
  return {f"layer_{i}": array for i, array in enumerate(arrays)}


def _predict(params: dict[str, Leaf], x: Leaf) -> Leaf:
  import jax.numpy as jnp

  for matrix in params.values():
    x = jnp.tanh(x @ matrix)
  return x


def _graftax(source: Path) -> Callable[[str], None]:
  import jax
  import numpy as np

  from graftax.savedmodel_io import save

  params = _parameters(source)
  return lambda target: save(
    target, (_predict, jax.ShapeDtypeStruct(jax.export.symbolic_shape(f"batch, {_WIDTH}"), np.float32)), params
  )


def _copy(source: Path) -> Callable[[str], object]:
  return partial(shutil.copyfile, source)


def _tensorflow(source: Path) -> Callable[[str], None]:
  import tensorflow as tf
  from jax.experimental import jax2tf

  module = tf.Module()
  module.params = {name: tf.Variable(value) for name, value in _parameters(source).items()}
  converted = jax2tf.convert(_predict, polymorphic_shapes=[None, "batch, _"])
  module.f = tf.function(
    partial(converted, module.params), autograph=False, input_signature=[tf.TensorSpec([None, _WIDTH], tf.float32)]
  )
  options = tf.saved_model.SaveOptions(experimental_custom_gradients=True)
  return lambda target: tf.saved_model.save(module, target, options=options)


if __name__ == "__main__":
  main()
