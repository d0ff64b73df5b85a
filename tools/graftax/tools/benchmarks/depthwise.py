"""Depthwise convolutions, which XLA compiles badly for processors when they are written as grouped convolutions."""

from functools import partial

from graftax.tools.benchmarks.benchmark import BASELINE, OURS, Benchmark
from graftax.tools.benchmarks.models import write_model

__all__ = ["BENCHMARK"]

_CONTESTANTS = "graftax.tools.benchmarks.contestants"

BENCHMARK = Benchmark(
  name="depthwise",
  title="six depthwise convolutions of MobileNet, fastest of 30 calls of the compiled function",
  make_data=partial(write_model, "depthwise"),
  commands={name: (_CONTESTANTS, name, "call", "{data}", "1,56,56,96") for name in (OURS, BASELINE)},
  stages=("call",),
)
