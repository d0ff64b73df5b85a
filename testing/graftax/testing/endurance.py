"""`python -m graftax.testing.endurance`: memory after many calls and loads, and what killed saves leave.

It prints one line for each check and returns 1 if memory grows or a folder is damaged. On Linux only.
"""

import argparse
import concurrent.futures
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from graftax.savedmodel_io import load, save

__all__ = ["main"]

# Allowed growth of memory, of all calls or all loads together.
_MOST_GROWTH_MIB = 16.0

_SAVER = """
import sys
from graftax.testing.endurance import save_model
for i in range(1000):
  save_model(sys.argv[1], float(i))
  print(i, flush=True)
"""


def save_model(path: str, value: float) -> None:
  """Saves `x @ w` for a `w` of 4 MB with one value."""
  params = {"w": np.full((1024, 1024), value, np.float32)}
  x = jax.ShapeDtypeStruct((1, 1024), jnp.float32)
  save(path, (lambda params, x: jnp.tanh(x @ params["w"]), x), params, overwrite=True)


def main(arguments: Sequence[str] | None = None) -> int:
  """Runs the command."""
  parser = argparse.ArgumentParser(prog="python -m graftax.testing.endurance")
  parser.add_argument("--calls", type=int, default=200_000, help="calls of all threads (default: 200,000)")
  parser.add_argument("--threads", type=int, default=8)
  parser.add_argument("--loads", type=int, default=300)
  parser.add_argument("--kills", type=int, default=12)
  options = parser.parse_args(arguments)
  with tempfile.TemporaryDirectory() as folder:
    path = f"{folder}/model"
    save_model(path, 0.5)
    grown = [_calls(path, options.calls, options.threads), _loads(path, options.loads)]
    damaged = _kills(Path(folder), options.kills)
  return int(max(grown) > _MOST_GROWTH_MIB or damaged > 0)


def _calls(path: str, num_calls: int, num_threads: int) -> float:
  model = load(path)
  function, params = model.convert("serving_default")
  compiled = jax.jit(function)
  x = np.ones((1, 1024), np.float32)

  def run(count: int) -> None:
    for _ in range(count):
      jax.block_until_ready(compiled(params, x=x))

  def all_threads(count: int) -> None:
    with concurrent.futures.ThreadPoolExecutor(num_threads) as pool:
      list(pool.map(run, [count // num_threads] * num_threads))

  all_threads(num_calls // 20)
  before = _resident_mib()
  all_threads(num_calls)
  return _report(f"{num_calls} calls from {num_threads} threads", before)


def _loads(path: str, count: int) -> float:
  def once() -> None:
    function, params = load(path).convert("serving_default")
    jax.make_jaxpr(lambda params, x: function(params, x=x))(params, np.ones((1, 1024), np.float32))

  for _ in range(count // 10):
    once()
  before = _resident_mib()
  for _ in range(count):
    once()
  return _report(f"{count} loads, conversions and traces", before)


def _kills(folder: Path, count: int) -> int:
  """Kills processes while they save; returns how many models were damaged afterwards, or whether files were left."""
  path, damaged = folder / "killed", 0
  save_model(str(path), 0.0)
  for i in range(count):
    saver = subprocess.Popen([sys.executable, "-c", _SAVER, str(path)], stdout=subprocess.PIPE, text=True)
    assert saver.stdout is not None
    saver.stdout.readline()  # it has begun with its second model
    time.sleep(0.01 * (i + 1))
    saver.send_signal(signal.SIGKILL)
    saver.wait()
    variables = load(path).variables
    values = np.asarray(variables[next(iter(variables.infos))])
    damaged += bool((values != values.flat[0]).any())
  save_model(str(path), 1.0)
  left = [name.name for name in folder.iterdir() if name.name not in ("model", "killed")]
  print(f"{count} kills during save: {damaged} damaged, left in the folder: {left}", flush=True)
  return damaged + len(left)


def _report(what: str, before: float) -> float:
  grown = _resident_mib() - before
  print(f"{what}: {before:.1f} MiB before, {grown:+.2f} MiB", flush=True)
  return grown


def _resident_mib() -> float:
  status = Path("/proc/self/status").read_text(encoding="ascii")
  return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS"))


if __name__ == "__main__":
  sys.exit(main())
