"""Measures contestants that write files: the stages "prepare" and "write", and the size of what was written."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from graftax.tools.benchmarks.reporting import Stages

__all__ = ["measure_write"]


def measure_write(writers: Mapping[str, Callable[[Path], Callable[[str], object]]], source: str) -> None:
  """Runs the contestant that the command line names, and reports time, memory, and megabytes written.

  The command line is `CONTESTANT FOLDER`. What earlier runs left for the system to write is written before the time is
  taken. Copies of the data are written and removed before, too, because a virtual machine gets memory from its host on
  first use, which took up to ten times as long as copying the data.

  Args:
    writers: contestant -> a function that reads the data, and returns one that writes it to a path.
    source: the name of the data in the folder, or the start of the names of its files.
  """
  _, contestant, folder = sys.argv
  stages = Stages()
  with stages.stage("prepare"):
    write = writers[contestant](Path(folder) / source)
  with tempfile.TemporaryDirectory(dir=folder) as target:
    copies = [shutil.copy(path, target) for path in Path(folder).glob(f"{source}*")]
    os.sync()
    for copy in copies:
      os.remove(copy)
    stages.count_memory_from_here()
    with stages.stage("write"):
      write(os.path.join(target, "written"))
    written = [path for path in Path(target).rglob("*") if path.is_file()]
    stages.report([sum(path.stat().st_size for path in written) // 1_000_000])
