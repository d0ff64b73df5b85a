"""What reading a hostile file may cost: `within_limits`."""

import contextlib
import re
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["within_limits"]


@contextlib.contextmanager
def within_limits(*, seconds: float = 10.0, memory_mib: float = 2000.0) -> Iterator[None]:
  """Raises an AssertionError if the block takes more time of the processor, or more memory at its peak.

  Memory is counted on Linux only.

  Args:
    seconds: of this process.
    memory_mib: beyond what the process has before the block.

  Example:
    >>> with within_limits(seconds=1.0):
    ...   total = sum(range(1000))
  """
  with contextlib.suppress(OSError):
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
  before, start = _memory_mib("VmRSS"), time.process_time()
  yield
  took_s, more_mib = time.process_time() - start, _memory_mib("VmHWM") - before
  assert took_s < seconds, f"took {took_s:.1f} s; expected at most {seconds}"
  assert more_mib < memory_mib, f"took {more_mib:.0f} MiB; expected at most {memory_mib}"


def _memory_mib(field: str) -> float:
  try:
    status = Path("/proc/self/status").read_text()
  except FileNotFoundError:
    return 0.0
  found = re.search(rf"{field}:\s*(\d+) kB", status)
  return int(found[1]) / 1024 if found else 0.0
