"""Memory of a long-running process: calls of a converted model from several threads, and repeated loads and traces.

    python -m graftax.tools.benchmarks.memory_of_calls MODEL [--calls 200000] [--threads 8] [--loads 300]

Prints the memory of the process as it goes, and its growth for each 100,000 calls and for each 100 loads. What grows
with every call leaks; compilation and the first calls come before the first number. The exit status is 1 if the growth
is above `--most-mb`.
"""

import argparse
import functools
import gc
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

from graftax.savedmodel_io import SavedModel, load

__all__ = ["main"]

_PER = 100_000
_LOADS_PER = 100
_NUM_REPORTS = 10
# Threads, caches and the allocator reach their size first.
_WARM_UP_SHARE = 20


def main() -> int:
  arguments = _parse_arguments()
  model = load(arguments.model)
  call = _jitted_call(model)
  call()
  grown = _growth_of(
    "calls", arguments.calls, _PER, functools.partial(_run_in_threads, call, num_threads=arguments.threads)
  )
  grown_by_loads = _growth_of("loads", arguments.loads, _LOADS_PER, functools.partial(_load, arguments.model))
  return int(max(grown, grown_by_loads) > arguments.most_mb)


def _parse_arguments() -> argparse.Namespace:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("model", help="the folder of a SavedModel with fixed or unknown sizes; unknown ones become 2")
  parser.add_argument("--calls", type=int, default=200_000)
  parser.add_argument("--threads", type=int, default=8)
  parser.add_argument("--loads", type=int, default=300)
  parser.add_argument("--most-mb", type=float, default=5.0, help="growth per 100,000 calls, and per 100 loads")
  return parser.parse_args()


def _jitted_call(model: SavedModel) -> Callable[[], None]:
  """Returns a call of the model's default entry with zeros."""
  fn, params = model.convert()
  jitted, inputs = jax.jit(fn), _inputs(model)
  return lambda: jax.block_until_ready(jitted(params, **inputs))


def _load(path: str, count: int) -> None:
  for _ in range(count):
    model = load(path)
    fn, params = model.convert()
    jax.eval_shape(fn, params, **_inputs(model))
    for value in params.values():
      np.asarray(value).sum()


def _inputs(model: SavedModel) -> dict[str, np.ndarray]:
  entry = model.signatures[model.default_entry]
  return {
    name: np.zeros([2 if size is None else size for size in spec.shape.dims or ()], spec.dtype.numpy)
    for name, spec in entry.inputs.items()
  }


def _run_in_threads(call: Callable[[], None], count: int, *, num_threads: int) -> None:
  def run() -> None:
    for _ in range(count // num_threads):
      call()

  threads = [threading.Thread(target=run) for _ in range(num_threads)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()


def _growth_of(what: str, total: int, per: int, run: Callable[[int], object]) -> float:
  """Runs something `total` times, prints the memory on the way, and returns its growth in MB for each `per` times."""
  run(max(total // _WARM_UP_SHARE, 1))
  first = _memory_mb()
  print(f"{what}: {first:.1f} MB after the first {max(total // _WARM_UP_SHARE, 1)}", flush=True)
  for report in range(_NUM_REPORTS):
    run(total // _NUM_REPORTS)
    print(f"{what}: {_memory_mb():.1f} MB after {(report + 1) * (total // _NUM_REPORTS)} more", flush=True)
  growth = (_memory_mb() - first) * per / total
  print(f"{what}: {growth:+.2f} MB per {per}", flush=True)
  return growth


def _memory_mb() -> float:
  gc.collect()
  pages = int(Path("/proc/self/statm").read_text().split()[1])
  return pages * 4096 / 1e6


if __name__ == "__main__":
  sys.exit(main())
