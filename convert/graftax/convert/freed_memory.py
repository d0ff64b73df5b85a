"""Lets the C library keep the memory that compiled programs free after each call."""

import ctypes

__all__ = ["keep_freed_memory"]

# Parameters of mallopt(3), the same on all systems with glibc.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# mallopt takes an int.
_MOST_BYTES = (1 << 31) - 1


def keep_freed_memory(max_bytes: int = 1 << 30) -> bool:
  """Makes glibc keep freed memory for later calls in this process, instead of returning it to the system.

  XLA allocates the intermediate results of a program in each call on a CPU, and frees them at its end. glibc returns
  blocks of more than 32 MiB to the system, and smaller ones in part. In the next call the system fills all their pages
  with zeros again, which can take as long as the computation: EfficientNetB0 takes 17 instead of 27 ms for four images.

  It is for the whole process and cannot be undone, and the process keeps as much memory as its largest calls need. So
  call it in programs, such as servers, and not in libraries; `graftax run` does. It replaces glibc's tunables
  `glibc.malloc.mmap_threshold` and `glibc.malloc.trim_threshold`.

  Args:
    max_bytes: size of the largest block that is kept, at most 2 GiB - 1.

  Returns:
    Whether it has an effect. It has none with other C libraries than glibc, such as those of Alpine Linux, macOS and
    Windows.

  Raises:
    ValueError: `max_bytes` is not between 1 and 2 GiB - 1.

  Example:
    >>> keep_freed_memory() in (True, False)
    True
  """
  if not 0 < max_bytes <= _MOST_BYTES:
    raise ValueError(f"max_bytes={max_bytes}; expected a number of bytes from 1 to {_MOST_BYTES}.")
  try:
    mallopt = ctypes.CDLL(None).mallopt
  except (AttributeError, OSError, TypeError):  # TypeError: Windows has no default library.
    return False
  return bool(mallopt(_MMAP_THRESHOLD, max_bytes) and mallopt(_TRIM_THRESHOLD, _MOST_BYTES))
