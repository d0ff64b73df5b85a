"""Asks the workers in turn."""

import dataclasses
import math
import random
import statistics
import time
from collections.abc import Mapping, Sequence

from graftax.tools.benchmarks.runtimes.machine_load import busy_share, snapshot
from graftax.tools.benchmarks.runtimes.workers import Prepared, Worker

__all__ = ["Times", "disagreeing", "measure_row"]

_MIN_ROUNDS, _MAX_ROUNDS = 5, 200
# Threads of some runtimes go on for a while in case of another run, and would take time from the one that is next.
_PAUSE_S = 0.02
# Of the largest of the values that the others tell: other orders of sums, and other approximations of exp and erf.
_TOLERANCE = 2e-3


@dataclasses.dataclass(frozen=True, slots=True)
class Times:
  """What was measured of one network and batch.

  Attributes:
    row: "network:batch".
    seconds: contestant -> the times of its runs.
    others: the share of the cores that other processes had meanwhile; NaN if it is not known.
  """

  row: str
  seconds: Mapping[str, Sequence[float]]
  others: float


def measure_row(row: str, index: int, workers: Sequence[Worker], seconds: float) -> Times:
  """Returns the times of a row, each worker asked for one run in turn, in another order each time.

  Args:
    row: "network:batch".
    index: its number among those that the workers have prepared.
    workers: those that can run it.
    seconds: how long to go on, but for at least five rounds.

  Raises:
    WorkerError: a worker ended.
  """
  processes = [worker.process_id for worker in workers]
  for worker in workers:
    worker.run(index)
  times: dict[str, list[float]] = {worker.contestant: [] for worker in workers}
  before, start, generator = snapshot(processes), time.monotonic(), random.Random(0)
  for turn in range(_MAX_ROUNDS):
    if turn >= _MIN_ROUNDS and time.monotonic() - start > seconds:
      break
    for worker in generator.sample(workers, len(workers)):
      time.sleep(_PAUSE_S)
      times[worker.contestant].append(worker.run(index))
  return Times(row, times, busy_share(before, snapshot(processes)))


def disagreeing(prepared: Mapping[str, Prepared]) -> list[str]:
  """Returns the contestants whose values are not those of most others.

  Args:
    prepared: contestant -> what it told of a row, without those that failed.
  """
  told = {name: found["values"] for name, found in prepared.items()}
  # Outputs with few elements tell fewer values.
  count = statistics.mode(map(len, told.values())) if told else 0
  other_sizes = [name for name, values in told.items() if len(values) != count]
  told = {name: values for name, values in told.items() if len(values) == count}
  if not told:
    return []
  middle = [statistics.median(column) for column in zip(*told.values(), strict=True)]
  allowed = _TOLERANCE * max(map(abs, middle))
  return other_sizes + [
    name
    for name, values in told.items()
    if any(not math.isfinite(a) or abs(a - b) > allowed for a, b in zip(values, middle, strict=True))
  ]
