"""Whether the system has to provide memory again after it was freed, as the system counts it."""

import platform
import subprocess
import sys

import pytest

from graftax.convert import keep_freed_memory

_PROGRAM = """
import ctypes, resource, sys, threading
from graftax.convert.freed_memory import keep_freed_memory
kept = keep_freed_memory() if sys.argv[1] == "keep" else None
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
def fill():
  block = libc.malloc(ctypes.c_size_t(96 << 20))
  ctypes.memset(block, 1, 96 << 20)
  libc.free(block)
def fill_in_thread():
  thread = threading.Thread(target=fill)
  thread.start()
  thread.join()
run = fill if sys.argv[2] == "main" else fill_in_thread
run()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
  run()
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(how, thread):
  found = subprocess.run([sys.executable, "-c", _PROGRAM, how, thread], capture_output=True, text=True, check=True)
  kept, faults = found.stdout.split()
  return kept, int(faults)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is for glibc")
@pytest.mark.parametrize("thread", ["main", "other"])
def test_pages_are_not_provided_again(thread):
  # A thread itself needs some.
  assert _faults("keep", thread) == ("True", pytest.approx(0, abs=60))
  # Pages of 2 MB, if the system gives such ones.
  assert _faults("return", thread)[1] >= 3 * 96 / 2 - 20


@pytest.mark.parametrize("size", [0, (1 << 25) - 1, 1 << 31])
def test_other_sizes_raise(size):
  with pytest.raises(ValueError, match=rf"max_bytes={size}; expected a number of bytes from 33554432 to 2147483647"):
    keep_freed_memory(size)


def test_other_c_libraries_have_no_effect(monkeypatch):
  monkeypatch.setattr("ctypes.CDLL", lambda name: object())
  assert not keep_freed_memory()
