"""The process of a framework: prepares networks, then runs one of them for a moment each time it is asked.

python worker.py CONTESTANT FOLDER NETWORK:BATCH ...

Answers on the standard output, one line of JSON each: what it has prepared, then a line for each row whose number it
reads from the standard input. Runs in environments without graftax, so it finds the contestants beside it.
"""

import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["main"]

_NUM_VALUES = 5
_WARM_S, _TIMED_S = 0.04, 0.06


def main() -> None:
  _, contestant, folder, *rows = sys.argv
  # What a framework prints must not mix with the answers.
  answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
  os.dup2(2, 1)
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  os.environ.setdefault("JAX_PLATFORMS", "cpu")
  runs: list[Any] = []
  for row in rows:
    name, _, batch = row.partition(":")
    run, answer = _prepared(contestant, Path(folder) / name, int(batch))
    runs.append(run)
    print(json.dumps(answer), file=answers, flush=True)
  for line in sys.stdin:
    run = runs[int(line)]
    # The other frameworks ran meanwhile, and took the caches of the processor; threads that had no work sleep.
    _times(run, _WARM_S)
    print(json.dumps(statistics.median(_times(run, _TIMED_S))), file=answers, flush=True)


def _times(run: Callable[[], Any], seconds: float) -> list[float]:
  """Returns the times of runs one after the other, of at least one, for so long."""
  times: list[float] = []
  end = time.perf_counter() + seconds
  while not times or time.perf_counter() < end:
    start = time.perf_counter()
    run()
    times.append(time.perf_counter() - start)
  return times


def _prepared(contestant: str, folder: Path, batch: int) -> tuple[Any, dict[str, Any]]:
  """Returns a function that runs a network once, and what is told of the first run."""
  import numpy as np

  # Started by its path, so that Python finds this module beside it, in every environment.
  contestants = importlib.import_module("contestants").CONTESTANTS
  generator = np.random.default_rng(0)
  inputs = []
  for tensor in json.loads((folder / "inputs.json").read_text(encoding="utf-8")):
    shape = [batch, *tensor["shape"]]
    if tensor["dtype"].startswith("int"):
      inputs.append(generator.integers(0, 1000, shape, tensor["dtype"]))
    else:
      inputs.append(generator.standard_normal(shape).astype(tensor["dtype"]))
  start = time.perf_counter()
  try:
    run = contestants[contestant](folder, inputs, folder.name.startswith("train_"))
    y = np.asarray(run(), np.float64)
  except Exception as e:  # whatever a framework says of what it lacks
    return None, {"failed": f"{type(e).__name__}: {e}"[:500]}
  ready_s = time.perf_counter() - start
  values = [float(y.mean()), float(y.std()), *map(float, y.ravel()[:_NUM_VALUES])]
  run()
  return run, {"ready_s": ready_s, "values": values}


if __name__ == "__main__":
  main()
