"""The measuring process's side: contestants in turns, each run in a fresh process."""

import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from graftax.tools.benchmarks.benchmark import OURS, Benchmark
from graftax.tools.benchmarks.reporting import now_s, parse_report

__all__ = ["BenchmarkError", "Measurement", "measure", "median", "run_process"]

_TIMEOUT_S = 1200
_NUM_LAST_LINES = 15


class BenchmarkError(Exception):
  """A measured process failed, or contestants computed different things."""


@dataclass(frozen=True, slots=True)
class Measurement:
  """One run of one contestant.

  Attributes:
    time_s: from the start of the process to its report, or of the stages that the benchmark names.
    cpu_s: processor time of the process up to its report, in all threads: less noisy on a shared machine.
    peak_bytes: largest resident memory up to the report.
    stages: stage -> seconds.
    values: what it computed.
  """

  time_s: float
  cpu_s: float
  peak_bytes: int
  stages: Mapping[str, float]
  values: tuple[float, ...]


def measure(
  benchmark: Benchmark, data: Path, num_runs: int, progress: Callable[[str], None] = lambda contestant: None
) -> dict[str, list[Measurement]]:
  """Returns contestant -> its measurements.

  Contestants take turns, and the one to begin changes, so that load from elsewhere falls on all alike. One run of each
  comes first and is not counted: it fills the file cache.

  Args:
    benchmark: what to run.
    data: the folder that `benchmark.make_data` made.
    num_runs: counted runs of each contestant.
    progress: called before each run.

  Raises:
    BenchmarkError: a process failed, or the values differ.
  """
  if benchmark.in_one_process:
    return _measure_in_one_process(benchmark, data, num_runs, progress)
  names = list(benchmark.commands)
  results: dict[str, list[Measurement]] = {name: [] for name in names}
  for turn in range(num_runs + 1):
    for name in names[turn % len(names) :] + names[: turn % len(names)]:
      progress(name)
      measurement = run_process(benchmark.commands[name], data, benchmark.stages)
      if turn:
        results[name].append(measurement)
  _check_values(benchmark, results)
  return results


def _measure_in_one_process(
  benchmark: Benchmark, data: Path, num_runs: int, progress: Callable[[str], None]
) -> dict[str, list[Measurement]]:
  progress(" and ".join(benchmark.commands))
  runs = [run_process(benchmark.commands[OURS], data) for _ in range(num_runs)]
  return {name: [_share(run, name) for run in runs] for name in benchmark.commands}


def _share(run: Measurement, contestant: str) -> Measurement:
  """Returns what a process reported for one of its contestants."""
  prefix = f"{contestant}/"
  stages = {name.removeprefix(prefix): s for name, s in run.stages.items() if name.startswith(prefix)}
  return replace(run, time_s=statistics.geometric_mean(stages.values()), stages=stages)


def run_process(command: Sequence[str], data: Path, stages: Sequence[str] = ()) -> Measurement:
  """Runs one module in a fresh process and measures it.

  Raises:
    BenchmarkError: it failed or reported nothing; the message ends with the last lines it printed.
  """
  arguments = [sys.executable, "-m", *(part.format(data=data) for part in command)]
  environment = {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3", **os.environ}
  # What one run compiled must not be there for the next.
  environment.pop("JAX_COMPILATION_CACHE_DIR", None)
  # Installed packages have their bytecode on the disk; ours, installed in place, gets there in the uncounted run.
  environment.pop("PYTHONDONTWRITEBYTECODE", None)
  start_s = now_s()
  ran = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S)
  report = parse_report(ran.stdout)
  if ran.returncode or report is None:
    last = "\n".join((ran.stdout + ran.stderr).splitlines()[-_NUM_LAST_LINES:])
    raise BenchmarkError(
      f"{' '.join(arguments)} ended with {ran.returncode} and {'no' if report is None else 'a'} report:\n{last}"
    )
  times = report["stages"]
  return Measurement(
    time_s=sum(times[stage] for stage in stages) if stages else report["time_s"] - start_s,
    cpu_s=report["cpu_s"],
    peak_bytes=report["peak_bytes"],
    stages=times,
    values=tuple(report["values"]),
  )


def median(measurements: Sequence[Measurement], quantity: str) -> float:
  """Returns the median of one attribute of `Measurement`."""
  return float(statistics.median(getattr(measurement, quantity) for measurement in measurements))


def _check_values(benchmark: Benchmark, results: Mapping[str, Sequence[Measurement]]) -> None:
  (first, *others) = results
  expected = results[first][0].values
  for name in others:
    values = results[name][0].values
    if len(values) != len(expected) or any(
      not abs(a - b) <= benchmark.tolerance for a, b in zip(values, expected, strict=True)
    ):
      raise BenchmarkError(f"{benchmark.name}: {first} computed {expected}, but {name} computed {values}.")
