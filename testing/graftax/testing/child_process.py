"""A child process that answers a request with JSON objects. TensorFlow or XLA may abort or hang in it."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import IO

from graftax.testing.pytrees import Json

__all__ = ["Child", "LostChildError", "SilentChildError", "serve"]

# Importing TensorFlow can take minutes on a busy machine.
_STARTUP_S = 300.0


class LostChildError(Exception):
  """The child died, or did not answer in time. The message says which."""


class SilentChildError(LostChildError):
  """The child did not answer in time. It may still run."""


class Child:
  """A process that runs the function `main` of a module, until the context ends.

  `main` gets the request from `serve`.
  """

  def __init__(self, module: str, request: Json, environment: Mapping[str, str], errors: IO[bytes] | None = None):
    """Starts the process.

    Args:
      module: name of the module.
      request: what `serve` returns in the child.
      environment: variables to set, unless the parent has them set already.
      errors: a file for what it prints; by default this is lost.
    """
    paths = os.pathsep.join(path for path in sys.path if path)
    self._process = subprocess.Popen(
      [sys.executable, "-c", f"from {module} import main; main()"],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=subprocess.DEVNULL if errors is None else errors,
      text=True,
      env={**environment, **os.environ, "PYTHONPATH": paths},
    )
    self._lines: queue.Queue[str | None] = queue.Queue()
    self._reader = threading.Thread(target=self._read, daemon=True)
    self._reader.start()
    self._has_answered = False
    self._send(request)

  @property
  def pid(self) -> int:
    """The number of the process."""
    return self._process.pid

  def receive(self, timeout_s: float) -> Json:
    """Returns the next answer.

    Args:
      timeout_s: how long it may take. The first answer may take five minutes in any case.

    Raises:
      SilentChildError: the time is up.
      LostChildError: the child has died.
    """
    limit_s = timeout_s if self._has_answered else max(timeout_s, _STARTUP_S)
    try:
      line = self._lines.get(timeout=limit_s)
    except queue.Empty:
      raise SilentChildError(f"no answer within {limit_s:.0f} s") from None
    if line is None:
      status = self._process.wait()
      how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
      raise LostChildError(f"the process died ({how})")
    self._has_answered = True
    return json.loads(line)

  def __enter__(self) -> "Child":
    return self

  def __exit__(self, *_: object) -> None:
    self._process.kill()
    self._process.wait()
    self._reader.join()
    assert self._process.stdout is not None
    self._process.stdout.close()

  def _send(self, request: Json) -> None:
    assert self._process.stdin is not None
    # A child that has died already is noticed when its answer is missing.
    with contextlib.suppress(BrokenPipeError), self._process.stdin as stream:
      stream.write(json.dumps(request) + "\n")

  def _read(self) -> None:
    assert self._process.stdout is not None
    for line in self._process.stdout:
      self._lines.put(line)
    self._lines.put(None)


def serve() -> tuple[Json, Callable[[Json], None]]:
  """Returns the parent's request and a function that sends one answer; to be called once, in the child."""
  # What TensorFlow prints must not come between the answers.
  channel: IO[str] = os.fdopen(os.dup(1), "w")
  os.dup2(2, 1)

  def answer(message: Json) -> None:
    channel.write(json.dumps(message) + "\n")
    channel.flush()

  return json.loads(sys.stdin.readline()), answer
