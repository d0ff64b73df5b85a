"""Which cores Linux runs the threads of JAX on, as Linux tells it."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import jax
import pytest

from graftax.convert import bind_threads_to_cores, bound_threads

_PROGRAM = """
import os, sys
from graftax.convert import bind_threads_to_cores
import jax
jax.devices("cpu")
cores = os.sched_getaffinity(0)
os.sched_setaffinity(0, {min(cores)})
found = [bind_threads_to_cores() for _ in range(2)] if sys.argv[1] == "bind" else []
os.sched_setaffinity(0, cores)
jax.block_until_ready(jax.jit(lambda x: x @ x)(jax.numpy.ones((512, 512))))
names = {thread: open(f"/proc/self/task/{thread}/comm").read().strip() for thread in os.listdir("/proc/self/task")}
pool = [int(thread) for thread, name in names.items() if name == "tf_XLAEigen"]
print(found, [sorted(os.sched_getaffinity(thread)) for thread in sorted(pool)])
print(sorted(os.sched_getaffinity(0)))
"""


def _cores(how):
  """Returns the number of bound threads, and the cores of each thread of the pool and of the main thread."""
  found = subprocess.run([sys.executable, "-c", _PROGRAM, how], capture_output=True, text=True, check=True).stdout
  pool, main = found.splitlines()
  counts, _, threads = pool.partition("] ")
  return counts + "]", [[int(core) for core in part.split(",")] for part in threads.strip("[]").split("], [")], main


@pytest.mark.skipif(sys.platform != "linux", reason="it is for Linux")
def test_threads_of_the_pool_have_a_core_each():
  cores = sorted(os.sched_getaffinity(0))
  counts, threads, main = _cores("bind")
  assert counts == f"[{len(threads)}, {len(threads)}]"
  assert len(threads) >= len(cores)
  assert all(len(of) == 1 for of in threads)
  assert len(Counter(core for (core,) in threads)) == len(cores)
  assert main == str(cores)
  assert all(of == cores for of in _cores("free")[1])


def test_systems_without_proc_and_other_names_of_threads_have_no_effect(monkeypatch, tmp_path):
  jax.devices("cpu")
  monkeypatch.setattr(bound_threads, "_THREADS", tmp_path / "missing")
  assert bind_threads_to_cores() == 0
  (tmp_path / "1").mkdir()
  (tmp_path / "1" / "comm").write_text("python\n")
  (tmp_path / "2").mkdir()  # one that has ended meanwhile
  monkeypatch.setattr(bound_threads, "_THREADS", Path(tmp_path))
  monkeypatch.setattr(os, "sched_setaffinity", lambda *_: 1 / 0, raising=False)
  assert bind_threads_to_cores() == 0
