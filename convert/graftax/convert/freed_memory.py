"""Lets the C library keep the memory that compiled programs free after each call."""

import ctypes

__all__ = ["keep_freed_memory"]

# Parameters of mallopt(3), the same on all systems with glibc.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
# glibc keeps blocks up to this size by itself, and early versions accept no more.
_LEAST_BYTES = 1 << 25
# mallopt takes an int.
_MOST_BYTES = (1 << 31) - 1


def keep_freed_memory(max_bytes: int = 1 << 30) -> bool:
  """Makes glibc keep freed memory for later calls in this process, instead of returning it to the system.

  XLA allocates the intermediate results of a program in each call on a CPU, and frees them at its end. glibc returns
  blocks of more than 32 MiB to the system, and smaller ones in part. In the next call the system fills all their pages
  with zeros again, which can take as long as the computation: EfficientNetB0 takes 21 instead of 31 ms for four images.

  It is for the whole process and cannot be undone, and the process keeps as much memory as its largest calls need. So
  call it in programs, such as servers, and not in libraries; `graftax run` does. Call it before JAX computes anything:
  threads share one arena from then on, since the others hold no more than 64 MiB, but threads that have an arena of
  their own keep it. It replaces glibc's tunables `glibc.malloc.mmap_threshold`, `trim_threshold` and `arena_max`.

  Args:
    max_bytes: size of the largest block that is kept, from 32 MiB to 2 GiB - 1.

  Returns:
    Whether the C library accepted it. Only glibc does; those of Alpine Linux, macOS and Windows do not. It has no
    effect on allocators that are loaded instead of that of glibc, such as jemalloc.

  Raises:
    ValueError: `max_bytes` is not in its range.

  Example:
    >>> keep_freed_memory() in (True, False)
    True
  """
  if not _LEAST_BYTES <= max_bytes <= _MOST_BYTES:
    raise ValueError(f"max_bytes={max_bytes}; expected a number of bytes from {_LEAST_BYTES} to {_MOST_BYTES}.")
  try:
    mallopt = ctypes.CDLL(None).mallopt
  except (AttributeError, OSError, TypeError):  # TypeError: Windows has no default library.
    return False
  keeps_blocks = mallopt(_MMAP_THRESHOLD, max_bytes) or mallopt(_MMAP_THRESHOLD, _LEAST_BYTES)
  return bool(keeps_blocks and mallopt(_TRIM_THRESHOLD, _MOST_BYTES) and mallopt(_ARENA_MAX, 1))
