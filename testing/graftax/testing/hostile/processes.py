"""Processor time and memory of a process and its helpers, from /proc. Linux only; elsewhere both are 0."""

import contextlib
import os
import signal
from pathlib import Path

__all__ = ["ProcessTree"]

_PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / (1 << 20)
_TICKS = os.sysconf("SC_CLK_TCK")


class ProcessTree:
  """A process and those it started, as they were when `look` was last called.

  Attributes:
    seconds: processor time since the object was made.
    memory_mib: memory beyond what they had then, at the highest look.
  """

  def __init__(self, pid: int) -> None:
    self._pid = pid
    self._start = _usage(pid)
    self._last_seconds = 0.0
    self.seconds = 0.0
    self.memory_mib = 0.0

  def look(self) -> None:
    """Reads the figures again."""
    seconds, memory = _usage(self._pid)
    self.seconds = max(0.0, seconds - self._start[0])
    self.memory_mib = max(self.memory_mib, memory - self._start[1])

  def has_moved(self) -> bool:
    """Returns whether processor time was used since the last call."""
    moved = self.seconds > self._last_seconds + 0.02
    if moved:
      self._last_seconds = self.seconds
    return moved

  def kill_helpers(self) -> None:
    """Ends the processes that the process started."""
    for pid in _descendants(self._pid):
      with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def _usage(pid: int) -> tuple[float, float]:
  seconds = memory = 0.0
  for member in [pid, *_descendants(pid)]:
    with contextlib.suppress(OSError, IndexError, ValueError):
      fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
      seconds += (int(fields[11]) + int(fields[12])) / _TICKS
      memory += int(Path(f"/proc/{member}/statm").read_text().split()[1]) * _PAGE_MIB
  return seconds, memory


def _descendants(pid: int) -> list[int]:
  found: list[int] = []
  with contextlib.suppress(OSError):
    for task in Path(f"/proc/{pid}/task").iterdir():
      for child in (task / "children").read_text().split():
        found += [int(child), *_descendants(int(child))]
  return found
