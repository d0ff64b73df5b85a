"""Arrays of 500 MB from memory to a checkpoint, beside a plain copy of a file of that size and beside TensorFlow.

The memory shown is what is needed beyond the arrays, which are loaded before. The time does not include the disk: as in
ordinary use, the system writes to it later.
"""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from graftax.tools.benchmarks.benchmark import OURS, Benchmark, Goal
from graftax.tools.benchmarks.models import CHECKPOINT_FILE, write_model
from graftax.tools.benchmarks.written_files import measure_write
from graftax.tools.pytrees import Leaf

__all__ = ["BENCHMARK", "main"]

_COPY = "file copy"
_TENSORFLOW = "tensorflow"
_COMMAND = "graftax.tools.benchmarks.checkpoint_write"

BENCHMARK = Benchmark(
  name="checkpoint-write",
  title="100 arrays of 500 MB to a checkpoint, imports not counted; memory beyond the arrays",
  make_data=partial(write_model, "checkpoint"),
  commands={name: (_COMMAND, name, "{data}") for name in (OURS, _COPY, _TENSORFLOW)},
  stages=("write",),
  baseline=_COPY,
  # Half the bandwidth of a plain copy.
  goal=Goal(time=2.0),
)


def main() -> None:
  measure_write({OURS: _graftax, _COPY: _copy, _TENSORFLOW: _tensorflow}, CHECKPOINT_FILE)


def _arrays(source: Path) -> dict[str, Leaf]:
  import numpy as np

  from graftax.savedmodel_io import read_checkpoint

  return {key: np.array(value) for key, value in read_checkpoint(source).items() if value.dtype == np.float32}


def _graftax(source: Path) -> Callable[[str], None]:
  from graftax.savedmodel_io import write_checkpoint

  return partial(write_checkpoint, tensors=_arrays(source))


def _copy(source: Path) -> Callable[[str], object]:
  (data,) = source.parent.glob(f"{source.name}.data-*")
  return partial(shutil.copyfile, data)


def _tensorflow(source: Path) -> Callable[[str], None]:
  import tensorflow as tf

  tensors = {key: tf.constant(value) for key, value in _arrays(source).items()}

  def write(prefix: str) -> None:
    tf.raw_ops.SaveV2(
      prefix=prefix,
      tensor_names=list(tensors),
      shape_and_slices=[""] * len(tensors),
      tensors=list(tensors.values()),
    )

  return write


if __name__ == "__main__":
  main()
