"""A checkpoint of 500 MB from the disk to arrays, with and without verified checksums, beside TensorFlow.

Stage `load` opens the checkpoint and asks for every tensor. Stage `copy` then copies each tensor once, as moving it to
a device does. Without verification our arrays are only mapped, so the bytes are read from the file in `copy`.
"""

import sys
from collections.abc import Callable, Mapping
from functools import partial

from graftax.tools.benchmarks.benchmark import OURS, Benchmark
from graftax.tools.benchmarks.models import CHECKPOINT_FILE, write_model
from graftax.tools.benchmarks.reporting import Stages
from graftax.tools.pytrees import Leaf

__all__ = ["BENCHMARK", "main"]

_WITHOUT = "graftax, verify=False"
_TENSORFLOW = "tensorflow"
_COMMAND = "graftax.tools.benchmarks.checkpoint_load"

BENCHMARK = Benchmark(
  name="checkpoint-load",
  title="a checkpoint of 500 MB in 100 tensors, all read and copied once, fresh process, imports not counted",
  make_data=partial(write_model, "checkpoint"),
  commands={name: (_COMMAND, name, "{data}") for name in (OURS, _WITHOUT, _TENSORFLOW)},
  stages=("load", "copy"),
  baseline=_TENSORFLOW,
)


def main() -> None:
  _, contestant, folder = sys.argv
  import numpy as np

  stages = Stages()
  with stages.stage("import"):
    read = _tensorflow() if contestant == _TENSORFLOW else _graftax(verify=contestant == OURS)
  with stages.stage("load"):
    tensors = read(f"{folder}/{CHECKPOINT_FILE}")
  arrays = [tensor for _, tensor in sorted(tensors.items()) if tensor.dtype == np.float32]
  # One target for all, written before: what is measured is reading.
  target = np.zeros(max(array.size for array in arrays), np.float32)
  with stages.stage("copy"):
    for array in arrays:
      np.copyto(target[: array.size], array.ravel())
  stages.report([len(arrays), *(float(array.flat[-1]) for array in arrays)])


def _graftax(*, verify: bool) -> Callable[[str], Mapping[str, Leaf]]:
  from graftax.savedmodel_io import read_checkpoint

  return partial(read_checkpoint, verify=verify)


def _tensorflow() -> Callable[[str], Mapping[str, Leaf]]:
  import tensorflow as tf

  def read(prefix: str) -> Mapping[str, Leaf]:
    reader = tf.train.load_checkpoint(prefix)
    tensors = ((key, reader.get_tensor(key)) for key in reader.get_variable_to_shape_map())
    return {key: tensor for key, tensor in tensors if not isinstance(tensor, bytes)}

  return read


if __name__ == "__main__":
  main()
