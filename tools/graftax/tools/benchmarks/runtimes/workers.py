"""The measuring process's side of the workers."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from graftax.tools.pytrees import Json

__all__ = ["Prepared", "Worker", "WorkerError"]

_SCRIPT = Path(__file__).with_name("worker.py")

# All frameworks get memory in large pages, and freed memory is kept, as by `graftax.convert.keep_freed_memory`, but in
# the arenas of each thread: one for all could hold up frameworks that allocate from many threads.
_TUNABLES = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=1073741824:glibc.malloc.trim_threshold=2147483647"

Prepared = Mapping[str, Json]
"""What a worker tells of a row: `ready_s` and `values`, or `failed`."""


class WorkerError(Exception):
  """A worker ended before it was told to."""


class Worker:
  """A process with one framework, which has prepared all rows.

  Attributes:
    contestant: the name of the framework.
  """

  def __init__(
    self, contestant: str, python: Path | str, folder: Path, rows: Sequence[str], log: Path, script: Path = _SCRIPT
  ) -> None:
    self.contestant = contestant
    self._num_rows = len(rows)
    self._log = log
    environment = dict(os.environ)
    # What one run compiled must not be there for the next.
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    environment.setdefault("GLIBC_TUNABLES", _TUNABLES)
    with log.open("w", encoding="utf-8") as errors:
      self._process = subprocess.Popen(
        [str(python), str(script), contestant, str(folder), *rows],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env=environment,
      )

  @property
  def process_id(self) -> int:
    """The id of the process."""
    return self._process.pid

  def prepared(self) -> list[Prepared]:
    """Waits until all rows are prepared, and returns what is told of each; rows after an abort have failed."""
    told: list[Prepared] = []
    while len(told) < self._num_rows:
      try:
        told.append(self._answer())
      except WorkerError as e:
        return [*told, *({"failed": str(e)} for _ in range(self._num_rows - len(told)))]
    return told

  def run(self, row: int) -> float:
    """Returns the seconds that one run of a row takes: the median of those that were timed in this turn.

    Raises:
      WorkerError: the process ended.
    """
    assert self._process.stdin is not None
    try:
      print(row, file=self._process.stdin, flush=True)
    except OSError as e:
      raise WorkerError(f"{self.contestant} ended: {e}; its output is in {self._log}") from e
    return float(self._answer())

  def _answer(self) -> Json:
    assert self._process.stdout is not None
    line = self._process.stdout.readline()
    if not line:
      raise WorkerError(f"{self.contestant} ended with {self._process.wait()}; its output is in {self._log}")
    return json.loads(line)

  def __enter__(self) -> Self:
    return self

  def __exit__(
    self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
  ) -> None:
    self._process.kill()
    self._process.communicate()
