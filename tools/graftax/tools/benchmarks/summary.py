"""Measurements as a table and as JSON."""

import datetime
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version

from rich import box, filesize
from rich.table import Table
from rich.text import Text

from graftax.tools.benchmarks.benchmark import OURS, Benchmark
from graftax.tools.benchmarks.measuring import Measurement, median
from graftax.tools.pytrees import Json

__all__ = ["machine", "result_json", "result_table"]

_Results = Mapping[str, Sequence[Measurement]]
_QUANTITIES = {"time": "time_s", "cpu": "cpu_s", "peak_memory": "peak_bytes"}
_SHORT_S = 0.1
_LIBRARIES = ("jax", "jaxlib", "numpy", "protobuf", "tensorflow", "tensorflow-cpu", "tf2jax")


def result_table(benchmark: Benchmark, results: _Results) -> Table:
  """Medians of each contestant, and ours relative to the baseline beside the goal."""
  num_runs = len(results[OURS])
  table = Table(
    title=f"{benchmark.name}: {benchmark.title} (median of {num_runs})",
    title_justify="left",
    title_style="bold",
    box=box.SIMPLE_HEAD,
  )
  table.add_column("")
  for column in ("time", "from .. to", "processor time", "peak memory"):
    table.add_column(column, justify="right")
  for name, runs in results.items():
    times = [run.time_s for run in runs]
    table.add_row(
      name,
      _seconds(median(runs, "time_s")),
      f"{_seconds(min(times))} .. {_seconds(max(times))}",
      _seconds(median(runs, "cpu_s")),
      filesize.decimal(int(median(runs, "peak_bytes"))),
    )
  ratios = _ratios(benchmark, results)
  table.add_section()
  table.add_row(
    f"{OURS} / {benchmark.baseline}",
    _ratio(ratios["time"], benchmark.goal.time),
    "",
    _ratio(ratios["cpu"], None),
    _ratio(ratios["peak_memory"], benchmark.goal.peak_memory),
  )
  if benchmark.goal.time or benchmark.goal.peak_memory:
    table.add_row("goal", _goal(benchmark.goal.time), "", "", _goal(benchmark.goal.peak_memory))
  if benchmark.in_one_process:
    table.add_section()
    for case, ratio in _case_ratios(benchmark, results).items():
      table.add_row(case, f"{ratio:.3f}", "", "", "")
  return table


def result_json(benchmark: Benchmark, results: _Results) -> dict[str, Json]:
  """Returns the same as JSON, with every run."""
  return {
    "name": benchmark.name,
    "title": benchmark.title,
    "goal": asdict(benchmark.goal),
    "ratios": _ratios(benchmark, results),
    "medians": {
      name: {quantity: median(runs, attribute) for quantity, attribute in _QUANTITIES.items()}
      for name, runs in results.items()
    },
    "runs": {name: [asdict(run) for run in runs] for name, runs in results.items()},
  }


def machine() -> dict[str, Json]:
  """Returns what the numbers depend on: processors, load, versions."""
  versions = {}
  for library in _LIBRARIES:
    try:
      versions[library] = version(library)
    except PackageNotFoundError:
      continue
  return {
    "date": datetime.date.today().isoformat(),
    "processor": _processor(),
    "num_processors": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    "load": os.getloadavg(),
    "python": platform.python_version(),
    "libraries": versions,
  }


def _ratios(benchmark: Benchmark, results: _Results) -> dict[str, float]:
  """Returns quantity -> ours relative to the baseline; NaN if the baseline is below what the clock resolves."""
  ratios = {}
  for quantity, attribute in _QUANTITIES.items():
    ours, baseline = (median(results[name], attribute) for name in (OURS, benchmark.baseline))
    ratios[quantity] = ours / baseline if baseline else float("nan")
  return ratios


def _case_ratios(benchmark: Benchmark, results: _Results) -> dict[str, float]:
  """Returns case -> the median over the runs of ours relative to the baseline, the largest first."""
  pairs = list(zip(results[OURS], results[benchmark.baseline], strict=True))
  ratios = {case: statistics.median(a.stages[case] / b.stages[case] for a, b in pairs) for case in pairs[0][0].stages}
  return dict(sorted(ratios.items(), key=lambda item: -item[1]))


def _processor() -> str:
  try:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
      return next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
  except (OSError, StopIteration):
    return platform.processor()


def _ratio(value: float, goal: float | None) -> Text:
  style = "bold" if goal is None else "bold green" if value <= goal else "bold red"
  return Text(f"{value:.2f}", style)


def _goal(value: float | None) -> str:
  return "" if value is None else f"at most {value:.2f}"


def _seconds(value: float) -> str:
  return f"{value:.2f} s" if value >= _SHORT_S else f"{value * 1000:.2f} ms"
