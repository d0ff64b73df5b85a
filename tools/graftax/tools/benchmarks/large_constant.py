"""A StableHLO module that holds a constant of 256 MiB, from its file to a jaxpr: what counts is memory.

What the bytes of the file take, decoding and lifting may add to by one copy of the constant.
"""

import pathlib
import sys

from graftax.tools.benchmarks.benchmark import OURS, Benchmark
from graftax.tools.benchmarks.reporting import Stages

__all__ = ["BENCHMARK", "main"]

_BYTES = "bytes alone"
_COMMAND = "graftax.tools.benchmarks.large_constant"
_SHAPE = (64, 1024, 1024)
_FILE = "module.bin"


def _write(folder: pathlib.Path) -> None:
  import jax
  import numpy as np

  constant = np.random.default_rng(0).random(_SHAPE, np.float32)
  exported = jax.export.export(jax.jit(lambda x: x + constant))(jax.ShapeDtypeStruct(_SHAPE, "float32"))
  folder.mkdir(parents=True, exist_ok=True)
  (folder / _FILE).write_bytes(exported.mlir_module_serialized)


BENCHMARK = Benchmark(
  name="large-constant",
  title="a module with a constant of 256 MiB from its file to a jaxpr, fresh process",
  make_data=_write,
  commands={name: (_COMMAND, name, "{data}") for name in (OURS, _BYTES)},
  baseline=_BYTES,
)


def main() -> None:
  _, contestant, folder = sys.argv
  stages = Stages()
  import jax

  from graftax.xla_call_module import Module, lift

  data = (pathlib.Path(folder) / _FILE).read_bytes()
  if contestant == OURS:
    with stages.stage("decode"):
      function = lift(Module.from_bytes(data, guard=False))
    with stages.stage("trace"):
      jax.make_jaxpr(function)(jax.ShapeDtypeStruct(_SHAPE, "float32"))
  stages.report()


if __name__ == "__main__":
  main()
