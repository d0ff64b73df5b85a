"""Load, convert and trace a graph of 10,000 nodes: what grows with the graph, without imports and XLA."""

from functools import partial

from graftax.tools.benchmarks.benchmark import BASELINE, OURS, Benchmark
from graftax.tools.benchmarks.models import write_model

__all__ = ["BENCHMARK"]

_CONTESTANTS = "graftax.tools.benchmarks.contestants"

BENCHMARK = Benchmark(
  name="large-graph",
  title="10,000 nodes on disk to a jaxpr, imports not counted",
  make_data=partial(write_model, "large_graph"),
  commands={name: (_CONTESTANTS, name, "trace", "{data}", "4") for name in (OURS, BASELINE)},
  stages=("load", "convert", "trace"),
)
