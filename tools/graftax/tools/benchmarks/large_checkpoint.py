"""A SavedModel of 4 GB from the disk to arrays: cast, on eight devices, and in two processes, beside TensorFlow.

    python -m graftax.tools.benchmarks.large_checkpoint --gigabytes 4

Writes the model to a temporary folder, and removes it. Before each load the data file is dropped from the system's
cache, so bytes that are read come from the disk. Each contestant runs in a fresh process; imports are not counted. The
extra memory is what the process needed at its peak beyond the arrays that it returns. The eight devices are the CPU's.
"""

import argparse
import mmap
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from graftax.tools.benchmarks.measuring import Measurement, run_process
from graftax.tools.benchmarks.reporting import Stages
from graftax.tools.pytrees import Leaf, PyTree

__all__ = ["main"]

_COMMAND = "graftax.tools.benchmarks.large_checkpoint"
_SIDE = 4096
_NUM_DEVICES = 8
_TWO = "graftax, each of 2 processes"
_ROW = "| {:<40} | {:>7} | {:>9} | {:>11} | {:>10} |"


def main() -> None:
  if len(sys.argv) > 1 and sys.argv[1] == "--load":
    _load(*sys.argv[2:])
    return
  parser = argparse.ArgumentParser(
    prog=_COMMAND, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--gigabytes", type=float, default=4.0, help="size of the model (%(default)s)")
  arguments = parser.parse_args()
  os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={_NUM_DEVICES}"
  print(_ROW.format("", "seconds", "arrays MB", "extra MB", "read MB"))
  with tempfile.TemporaryDirectory() as folder:
    _write_model(Path(folder) / "model", max(round(arguments.gigabytes * 1e9 / (4 * _SIDE**2)), 1))
    for contestant in _CONTESTANTS:
      print(
        _row(contestant, run_process((_COMMAND, "--load", contestant, "{data}"), Path(folder) / "model", ("load",)))
      )


def _row(contestant: str, measured: Measurement) -> str:
  held, read = measured.values
  extra = max(measured.peak_bytes - held, 0)
  megabytes = (f"{value / 1e6:.0f}" for value in (held, extra, read))
  return _ROW.format(contestant, f"{measured.time_s:.1f}", *megabytes)


def _write_model(folder: Path, num_matrices: int) -> None:
  import jax
  import numpy as np

  from graftax.savedmodel_io import save

  # Rows that share their memory: the writer needs no more than a few of them at once.
  row = np.random.default_rng(0).standard_normal(_SIDE, np.float32)
  params = {f"layer_{i}": {"kernel": np.broadcast_to(row, (_SIDE, _SIDE))} for i in range(num_matrices)}

  def apply(params: PyTree, x: jax.Array) -> jax.Array:
    return x * sum(layer["kernel"][0, 0] for layer in params.values())

  save(folder, (apply, jax.ShapeDtypeStruct((), np.float32)), params, gradient_order=0)


def _load(contestant: str, folder: str, *rest: str) -> None:
  stages = Stages()
  load = _CONTESTANTS[contestant](Path(folder), *rest)
  data = next(Path(folder, "variables").glob("*.data-*"))
  with data.open("rb") as file:
    os.fsync(file.fileno())
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
  before = _read_bytes()
  stages.count_memory_from_here()
  with stages.stage("load"):
    arrays = load()
  stages.report([sum(_held_bytes(array) for array in arrays.values()), _read_bytes() - before])


def _held_bytes(array: Leaf) -> int:
  """Returns the memory of an array in this process; one that is mapped takes none of its own."""
  import numpy as np

  if hasattr(array, "addressable_shards"):
    return sum(shard.data.nbytes for shard in array.addressable_shards)
  base = array
  while isinstance(base, np.ndarray):
    base = base.base
  return 0 if isinstance(base, mmap.mmap) else array.nbytes


def _read_bytes() -> int:
  """Returns how many bytes the disk has read for this process."""
  lines = Path("/proc/self/io").read_text().splitlines()
  return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes:"))


def _graftax(dtype: str | None, *, sharded: bool) -> Callable[..., Callable[[], Mapping[str, Leaf]]]:
  def prepare(folder: Path) -> Callable[[], Mapping[str, Leaf]]:
    import jax

    from graftax.savedmodel_io import load

    jax.devices()
    return lambda: load(
      folder, dtype=dtype and jax.numpy.dtype(dtype), sharding=_rules() if sharded else None
    ).convert()[1]

  return prepare


def _one_of_two_processes(folder: Path, *address: str) -> Callable[[], Mapping[str, Leaf]]:
  """Loads in this process what half of the devices hold; it starts the other process, unless it is the other one."""
  import jax

  from graftax.savedmodel_io import load

  if address:
    process, port = 1, address[0]
  else:
    with socket.socket() as probe:
      probe.bind(("localhost", 0))
      process, port = 0, str(probe.getsockname()[1])
    command = [sys.executable, "-m", _COMMAND, "--load", _TWO, str(folder), port]
    subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
  jax.distributed.initialize(f"localhost:{port}", num_processes=2, process_id=process)
  sharding = _rules()
  return lambda: load(folder, sharding=sharding).convert()[1]


def _rules() -> Any:
  """Returns a rule that splits half of the matrices by rows, and half by columns."""
  import jax
  from jax.sharding import PartitionSpec

  from graftax.savedmodel_io import partition_rules

  mesh = jax.make_mesh((jax.device_count(),), ("model",))
  return partition_rules(mesh, [(r"[02468]/kernel$", PartitionSpec("model")), ("", PartitionSpec(None, "model"))])


def _tensorflow_saved_model(folder: Path) -> Callable[[], Mapping[str, Leaf]]:
  import tensorflow as tf

  def load() -> Mapping[str, Leaf]:
    model = tf.saved_model.load(str(folder))
    load.model = model  # type: ignore[attr-defined]  # keeps the variables alive
    return {variable.name: variable.numpy() for variable in model.trainable_variables}

  return load


def _tensorflow_checkpoint(dtype: str | None) -> Callable[[Path], Callable[[], Mapping[str, Leaf]]]:
  def prepare(folder: Path) -> Callable[[], Mapping[str, Leaf]]:
    import tensorflow as tf

    def load() -> Mapping[str, Leaf]:
      reader = tf.train.load_checkpoint(str(folder / "variables" / "variables"))
      keys = [key for key, shape in reader.get_variable_to_shape_map().items() if len(shape) == 2]
      tensors = ((key, reader.get_tensor(key)) for key in keys)
      return {key: tensor.astype(tf.bfloat16.as_numpy_dtype) if dtype else tensor for key, tensor in tensors}

    return load

  return prepare


_CONTESTANTS: dict[str, Callable[..., Callable[[], Mapping[str, Leaf]]]] = {
  "graftax, mapped": _graftax(None, sharded=False),
  "graftax, bfloat16": _graftax("bfloat16", sharded=False),
  "graftax, 8 devices": _graftax(None, sharded=True),
  "graftax, 8 devices, bfloat16": _graftax("bfloat16", sharded=True),
  _TWO: _one_of_two_processes,
  "tf.saved_model.load": _tensorflow_saved_model,
  "tf.train.load_checkpoint": _tensorflow_checkpoint(None),
  "tf.train.load_checkpoint, bfloat16": _tensorflow_checkpoint("bfloat16"),
}

if __name__ == "__main__":
  main()
