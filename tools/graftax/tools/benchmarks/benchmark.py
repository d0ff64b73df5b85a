"""A benchmark: contestants that do the same work, and the ratio of their costs that is the goal."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BASELINE", "OURS", "Benchmark", "Goal"]

OURS = "graftax"
BASELINE = "tf2jax"


@dataclass(frozen=True, slots=True)
class Goal:
  """Largest ratio of ours to the baseline that meets the goal; None if there is no goal."""

  time: float | None = None
  peak_memory: float | None = None


@dataclass(frozen=True, slots=True)
class Benchmark:
  """One comparison.

  Attributes:
    name: short, for the command line.
    title: what is measured.
    make_data: makes the folder of data it needs, once; not measured. None if it needs none.
    commands: contestant -> module and arguments of the process to measure; "{data}" is replaced by the folder. All must
      report the same values (see `reporting`).
    stages: names of the stages whose times are summed; empty measures from the start of the process to its report.
    goal: largest ratios that are good enough.
    tolerance: largest difference between the values that contestants report.
    baseline: the contestant that ours is compared with.
    in_one_process: one process measures all contestants in turns and reports stages named "contestant/case"; the time
      of a contestant is the geometric mean over its cases, so that the ratio is the geometric mean of their ratios.
  """

  name: str
  title: str
  make_data: Callable[[Path], None] | None
  commands: Mapping[str, tuple[str, ...]]
  stages: tuple[str, ...] = ()
  goal: Goal = Goal()
  tolerance: float = 1e-3
  baseline: str = BASELINE
  in_one_process: bool = False
