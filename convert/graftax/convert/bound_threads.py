"""Binds the threads in which XLA computes to cores."""

import os
from pathlib import Path

import jax

__all__ = ["bind_threads_to_cores"]

_THREADS = Path("/proc/self/task")
# What jaxlib calls the threads of the pool that programs for CPUs share.
_POOL = "tf_XLAEigen"


def bind_threads_to_cores() -> int:
  """Binds each thread in which XLA computes on the CPU to one of the cores that these threads may use.

  XLA's threads sleep while there is nothing to compute. After such a pause, Linux runs several of them on the same core
  for up to 0.1 s, because it takes them for threads with little to do: programs that take less time than that have one
  core. OpenVINO binds its threads, and ONNX Runtime does if it chooses their number. The guide "Faster programs" has
  the measurements.

  It is for the whole process, and for TensorFlow's pool of XLA threads, too. Call it in programs, such as servers, and
  not in libraries, and not where several such processes share their cores: their threads would wait for each other
  beside free cores. It starts JAX's client for CPUs, so set options of JAX before. Calling it again does nothing more.
  Threads that call JAX are not bound.

  Returns:
    How many threads are bound. 0 on systems other than Linux, and if jaxlib gives its threads other names than in
    0.10 to 0.12.

  Raises:
    OSError: the system does not allow it.
    RuntimeError: JAX has no CPU, as with `JAX_PLATFORMS=cuda`.

  Example:
    >>> bind_threads_to_cores() >= 0
    True
  """
  jax.devices("cpu")
  if not _THREADS.is_dir():
    return 0
  threads = sorted(int(thread.name) for thread in _THREADS.iterdir() if _name(thread) == _POOL)
  # The thread that calls may have fewer.
  cores = sorted({core for thread in threads for core in os.sched_getaffinity(thread)})
  for index, thread in enumerate(threads):
    os.sched_setaffinity(thread, {cores[index % len(cores)]})
  return len(threads)


def _name(thread: Path) -> str:
  """Returns the name of a thread, or nothing if it has ended meanwhile."""
  try:
    return (thread / "comm").read_text().strip()
  except OSError:
    return ""
