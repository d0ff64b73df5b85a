"""Whether the C library asks for large pages, without which large intermediate results are slow on a CPU."""

import os
import platform
from collections.abc import Mapping
from pathlib import Path

__all__ = ["huge_pages_advice"]

_VARIABLE = "GLIBC_TUNABLES"
_TUNABLE = "glibc.malloc.hugetlb"
# The first version of glibc that has the tunable.
_GLIBC = (2, 35)
_KERNEL = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def huge_pages_advice(
  environment: Mapping[str, str] = os.environ,
  libc: tuple[str, str] | None = None,
  kernel: Path = _KERNEL,
) -> str:
  """Returns what to set so that memory comes in large pages; "" if that is set already, or not possible here.

  Args:
    environment: variables of the process.
    libc: name and version of the C library; by default that of this Python.
    kernel: the file in which Linux says whether programs may ask for large pages.
  """
  name, version = libc or platform.libc_ver()
  numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
  if name != "glibc" or numbers < _GLIBC or f"{_TUNABLE}=" in environment.get(_VARIABLE, ""):
    return ""
  try:
    modes = kernel.read_text(encoding="utf-8")
  except OSError:
    return ""
  return f"{_VARIABLE}={_TUNABLE}=1" if "[madvise]" in modes else ""
