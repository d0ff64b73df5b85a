"""How long a user waits, and how much memory it takes, from starting Python to ResNet50's first result."""

from functools import partial

from graftax.tools.benchmarks.benchmark import BASELINE, OURS, Benchmark, Goal
from graftax.tools.benchmarks.models import write_model

__all__ = ["BENCHMARK"]

_CONTESTANTS = "graftax.tools.benchmarks.contestants"

BENCHMARK = Benchmark(
  name="resnet50-first-result",
  title="fresh process, ResNet50 SavedModel on disk, to the first jitted result",
  make_data=partial(write_model, "resnet50"),
  commands={name: (_CONTESTANTS, name, "run", "{data}", "1,224,224,3") for name in (OURS, BASELINE)},
  goal=Goal(time=0.30, peak_memory=0.55),
)
