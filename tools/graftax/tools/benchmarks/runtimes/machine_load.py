"""How busy the machine is with the work of others."""

import dataclasses
import os
import time
from collections.abc import Iterable

__all__ = ["Snapshot", "busy_share", "snapshot"]

_STAT = "/proc/stat"
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
  """Processor time since the machine was started, in seconds over all cores.

  Attributes:
    time_s: on the clock.
    busy_s: of all processes, and what the host of a virtual machine took.
    own_s: of the processes that were named.
  """

  time_s: float
  busy_s: float
  own_s: float


def snapshot(processes: Iterable[int] = ()) -> Snapshot | None:
  """Returns the times up to now, or None where the system does not tell them.

  Args:
    processes: ids of processes that are not the work of others; this one is not, either.
  """
  try:
    with open(_STAT, encoding="ascii") as stat:
      user, nice, system, _, _, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    own = sum(map(_ticks, (os.getpid(), *processes)))
  except (OSError, ValueError):
    return None
  busy = user + nice + system + irq + softirq + steal
  return Snapshot(time.monotonic(), busy / _TICKS_A_SECOND, own / _TICKS_A_SECOND)


def _ticks(process: int) -> int:
  with open(f"/proc/{process}/stat", encoding="utf-8") as stat:
    # The name of the program, in parentheses, may contain spaces.
    fields = stat.read().rpartition(")")[2].split()
  return int(fields[11]) + int(fields[12])


def busy_share(before: Snapshot | None, after: Snapshot | None) -> float:
  """Returns the share of the cores that others had between two snapshots; NaN if it is not known."""
  if before is None or after is None or after.time_s <= before.time_s:
    return float("nan")
  others = (after.busy_s - before.busy_s) - (after.own_s - before.own_s)
  return max(others, 0.0) / ((after.time_s - before.time_s) * (os.cpu_count() or 1))
