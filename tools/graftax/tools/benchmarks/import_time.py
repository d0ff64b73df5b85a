"""Time and memory of the imports alone."""

import importlib
import sys

from graftax.tools.benchmarks.benchmark import BASELINE, OURS, Benchmark
from graftax.tools.benchmarks.reporting import Stages

__all__ = ["BENCHMARK", "main"]

BENCHMARK = Benchmark(
  name="import",
  title="fresh process to the end of the imports",
  make_data=None,
  commands={
    OURS: ("graftax.tools.benchmarks.import_time", "graftax.savedmodel_io"),
    "jax alone": ("graftax.tools.benchmarks.import_time", "jax"),
    BASELINE: ("graftax.tools.benchmarks.import_time", "tf2jax"),
  },
)


def main() -> None:
  stages = Stages()
  with stages.stage("import"):
    importlib.import_module(sys.argv[1])
  stages.report()


if __name__ == "__main__":
  main()
