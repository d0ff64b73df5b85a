"""Parses untrusted MLIR in a helper process first, because MLIR's reader can crash on damaged bytes.

The helper (`mlir/subprocess_worker.py`) starts on first use (0.4 s), keeps running, and is restarted after a crash. It
reads bytes from its standard input and answers with one line: "ok", or an error message.
"""

import atexit
import contextlib
import os
import selectors
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from graftax.xla_call_module import errors

__all__ = ["check", "check_hlo"]

_START_TIMEOUT_S = 60.0
_TIMEOUT_S = 60.0
_SECONDS_PER_MIB = 2.0
_CHUNK_BYTES = 1 << 16


class _Helper:
  """Runs the helper process, one question at a time."""

  def __init__(self) -> None:
    self._lock = threading.Lock()
    self._process: subprocess.Popen[bytes] | None = None

  def ask(self, kind: bytes, data: bytes) -> str | None:
    """Returns the helper's answer, or None if it died or ran out of time."""
    with self._lock:
      if self._process is None or self._process.poll() is not None:
        self.stop()
        self._process = _start()
      answer = None
      try:
        answer = _converse(self._process, (struct.pack("<cQ", kind, len(data)), data), _time_limit_s(data))
      finally:  # otherwise the next question would receive the answer to an interrupted one
        if answer is None:
          self.stop()
      return answer

  def stop(self) -> None:
    """Stops the helper; the next question starts a new one."""
    process, self._process = self._process, None
    if process is not None:
      process.kill()
      process.wait()
      _close_pipes(process)

  def forget(self) -> None:
    """Detaches a forked child from its parent's helper. Replaces the lock, because a parent thread may hold it."""
    self._lock = threading.Lock()
    process, self._process = self._process, None
    if process is not None:
      process.returncode = 0  # only the parent may wait for it
      _close_pipes(process)


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
  for pipe in (process.stdin, process.stdout):
    if pipe is not None:
      with contextlib.suppress(OSError):
        pipe.close()


def _command() -> list[str]:
  # -I keeps the working directory, which is often a model's folder, off the search path, and ignores PYTHONPATH. The
  # helper gets the absolute entries of this process's search path instead.
  helper = Path(__file__).parent / "mlir" / "subprocess_worker.py"
  return [sys.executable or "python", "-I", str(helper), *(path for path in sys.path if os.path.isabs(path))]


def _start() -> subprocess.Popen[bytes]:
  """Starts a helper and returns it when it is ready.

  Raises:
    GuardError: it does not start.
  """
  try:
    process = subprocess.Popen(
      _command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
    )
  except OSError as error:
    raise _does_not_start(str(error)) from error
  assert process.stdin is not None and process.stdout is not None
  os.set_blocking(process.stdin.fileno(), False)
  os.set_blocking(process.stdout.fileno(), False)
  answer = _converse(process, (), _START_TIMEOUT_S)
  if answer != "ready":
    process.kill()
    process.wait()
    _close_pipes(process)
    raise _does_not_start(answer or f"it exited, or did not answer within {_START_TIMEOUT_S:.0f} s")
  return process


def _does_not_start(reason: str) -> errors.GuardError:
  return errors.GuardError(
    f"the helper process that checks untrusted StableHLO ({sys.executable!r}) does not start: {reason}. For data that"
    " you trust, pass guard=False."
  )


def _time_limit_s(data: bytes) -> float:
  return _TIMEOUT_S + len(data) / 2**20 * _SECONDS_PER_MIB


def _converse(process: subprocess.Popen[bytes], question: Sequence[bytes], limit_s: float) -> str | None:
  """Writes the parts of a question and returns the line that answers it, or None if the helper ends or is too slow."""
  assert process.stdin is not None and process.stdout is not None
  unwritten = [memoryview(part) for part in question if part]
  line, deadline = b"", time.monotonic() + limit_s
  with selectors.DefaultSelector() as selector:
    selector.register(process.stdout, selectors.EVENT_READ)
    if unwritten:
      selector.register(process.stdin, selectors.EVENT_WRITE)
    while (left_s := deadline - time.monotonic()) > 0:
      for key, _ in selector.select(left_s):
        try:
          if key.fileobj is process.stdin:
            _write_some(process.stdin, unwritten)
            if not unwritten:
              selector.unregister(process.stdin)
            continue
          read = os.read(process.stdout.fileno(), _CHUNK_BYTES)
        except BlockingIOError:
          continue
        except OSError:
          return None
        line += read
        if line.endswith(b"\n"):
          return line.decode(errors="replace").strip()
        if not read:
          return None
  return None


def _write_some(stdin: IO[bytes], unwritten: list[memoryview]) -> None:
  rest = unwritten[0][os.write(stdin.fileno(), unwritten[0][:_CHUNK_BYTES]) :]
  unwritten[:1] = [rest] if rest else []


_helper = _Helper()


@atexit.register
def _stop() -> None:
  with contextlib.suppress(OSError):
    _helper.stop()


if hasattr(os, "register_at_fork"):
  os.register_at_fork(after_in_child=lambda: _helper.forget())


def check(data: bytes) -> None:
  """Checks that MLIR's reader accepts bytecode or text.

  Raises:
    DecodeError: the reader rejects the data, crashes on it, or does not finish.
    GuardError: the helper process does not start.
  """
  _check(b"m", data, "StableHLO", "MLIR bytecode, MLIR text or a StableHLO portable artifact")


def check_hlo(data: bytes) -> None:
  """Checks a serialized HloModuleProto; raises as `check` does."""
  _check(b"h", data, "HLO", "a serialized HloModuleProto")


def _check(kind: bytes, data: bytes, name: str, expected: str) -> None:
  answer = _helper.ask(kind, data)
  if answer != "ok":
    problem = answer or "MLIR's reader crashed or did not finish"
    raise errors.DecodeError(f"{name} bytes of length {len(data)} are damaged: {problem}; expected {expected}.")
