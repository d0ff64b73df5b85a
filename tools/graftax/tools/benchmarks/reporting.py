"""The measured process's side: stage times, and a report to the process that measures it."""

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TypedDict

__all__ = ["Report", "Stages", "now_s", "parse_report", "peak_memory_bytes"]

_MARK = "graftax-benchmark-report "


class Report(TypedDict):
  """What a measured process says of itself, as JSON; `time_s` is on the system-wide clock, `stages` in seconds."""

  time_s: float
  cpu_s: float
  peak_bytes: int
  stages: dict[str, float]
  values: list[float]


class Stages:
  """Times of named stages of this process, and the report at its end.

  Example:
    >>> stages = Stages()
    >>> with stages.stage("sleep"):
    ...   time.sleep(0.01)
    >>> stages.times_s["sleep"] >= 0.01
    True
  """

  def __init__(self) -> None:
    self.times_s: dict[str, float] = {}
    self._base_bytes = 0

  def count_memory_from_here(self) -> None:
    """From now on, counts only the memory that is needed beyond what this process holds now."""
    self._base_bytes = _forget_peak_memory()

  @contextlib.contextmanager
  def stage(self, name: str) -> Iterator[None]:
    """Measures the block."""
    start = time.perf_counter()
    yield
    self.times_s[name] = time.perf_counter() - start

  def report(self, values: Sequence[float] = ()) -> None:
    """Says that the measured work is done, and what it computed; what this process does afterwards does not count."""
    content: Report = {
      "time_s": now_s(),
      "cpu_s": sum(os.times()[:2]),
      "peak_bytes": max(peak_memory_bytes() - self._base_bytes, 1),
      "stages": self.times_s,
      "values": [float(value) for value in values],
    }
    print(_MARK + json.dumps(content), file=sys.stdout, flush=True)


def parse_report(output: str) -> Report | None:
  """Returns the report in the output of a process, or None."""
  for line in output.splitlines():
    if line.startswith(_MARK):
      report: Report = json.loads(line.removeprefix(_MARK))
      return report
  return None


def now_s() -> float:
  """Seconds on a clock that all processes of the machine share."""
  return time.clock_gettime(time.CLOCK_MONOTONIC)


def peak_memory_bytes() -> int:
  """Returns the largest resident memory of this process so far."""
  # getrusage on Linux may count the process that started this one, so the kernel's own record of this one comes first.
  recorded = _status_bytes("VmHWM")
  if recorded is not None:
    return recorded
  import resource  # Windows does not have it

  unit = 1 if sys.platform == "darwin" else 1024
  return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _forget_peak_memory() -> int:
  """Lets `peak_memory_bytes` begin anew, if the system can; returns the resident memory of this process."""
  with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as command:
    command.write("5")
  return _status_bytes("VmRSS") or peak_memory_bytes()


def _status_bytes(field: str) -> int | None:
  with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii", errors="replace") as status:
    for line in status:
      if line.startswith(f"{field}:"):
        return int(line.split()[1]) * 1024
  return None
