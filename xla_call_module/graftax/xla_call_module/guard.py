"""Parses untrusted bytes in a helper process first, because MLIR's reader can crash on damaged ones.

The helper starts on the first use (0.2 s), stays, and is started again after a crash. It gets bytes on its standard
input and answers with one line: ok, or what was wrong.
"""

import atexit
import contextlib
import selectors
import struct
import subprocess
import sys
import threading

from graftax.xla_call_module import errors

__all__ = ["check"]

_TIMEOUT_S = 60.0
_SECONDS_PER_MIB = 2.0

_HELPER = r"""
import os, struct, sys
answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import chlo, func, sdy, stablehlo
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
try:
  import resource
  resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
except ImportError:
  pass
def make_context():
  context = ir.Context()
  registry = ir.DialectRegistry()
  _jax_mlir_ext.register_dialects(registry)
  context.append_dialect_registry(registry)
  context.load_all_available_dialects()
  for dialect in (sdy, chlo, stablehlo):
    dialect.register_dialect(context)
  return context
def parse(data):
  with make_context() as context:
    context.emit_error_diagnostics = False
    if b"StableHLO_v" in data[:64]:
      module = stablehlo.deserialize_portable_artifact(context, data)
    else:
      module = ir.Module.parse(data)
    if not module.operation.verify():
      raise ValueError("the module does not verify")
    str(module.operation.get_asm(large_elements_limit=8))
    touch_op(module.operation)
# What is read later is read here once: names that are not text end the process inside the bindings.
def touch_op(op):
  str(op.name), str(op.location)
  for item in op.attributes:
    touch_named(item if hasattr(item, "attr") else None, item, op.attributes)
  for result in op.results:
    str(result.type)
  for region in op.regions:
    for block in region:
      for argument in block.arguments:
        str(argument.type)
      for inner in block.operations:
        touch_op(inner.operation)
def touch_named(named, name, attributes):
  str(named.name if named is not None else name)
  touch(named.attr if named is not None else attributes[name])
def touch(attr):
  attr = attr.maybe_downcast() if hasattr(attr, "maybe_downcast") else attr
  kind = type(attr).__name__
  if kind == "DictAttr":
    for i in range(len(attr)):
      touch_named(attr[i], None, None)
  elif kind == "ArrayAttr":
    for item in attr:
      touch(item)
  elif kind == "StringAttr":
    attr.value_bytes
  elif kind == "FlatSymbolRefAttr":
    attr.value
  elif not kind.startswith("Dense"):
    str(attr)
while True:
  head = sys.stdin.buffer.read(8)
  if len(head) < 8:
    break
  data = sys.stdin.buffer.read(struct.unpack("<Q", head)[0])
  try:
    parse(data)
    answer = "ok"
  except BaseException as error:
    answer = (str(error).split("\n")[0] or type(error).__name__)[:500]
  answers.write(answer.encode(errors="replace") + b"\n")
  answers.flush()
"""


class _Helper:
  """The helper process and the lock around it."""

  def __init__(self) -> None:
    self._lock = threading.Lock()
    self._process: subprocess.Popen[bytes] | None = None

  def ask(self, data: bytes) -> str | None:
    """The helper's answer; None where it died or ran out of time."""
    with self._lock:
      process = self._process
      if process is None or process.poll() is not None:
        process = self._process = _start()
      try:
        return _converse(process, data)
      except (OSError, ValueError):
        return None
      finally:
        if process.poll() is not None:
          self.stop()

  def stop(self) -> None:
    """Ends the helper; the next question starts a new one."""
    process, self._process = self._process, None
    if process is not None:
      process.kill()
      process.wait()
      for pipe in (process.stdin, process.stdout):
        if pipe is not None:
          with contextlib.suppress(OSError):
            pipe.close()


def _start() -> subprocess.Popen[bytes]:
  return subprocess.Popen(
    [sys.executable, "-c", _HELPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
  )


def _converse(process: subprocess.Popen[bytes], data: bytes) -> str | None:
  assert process.stdin is not None and process.stdout is not None
  process.stdin.write(struct.pack("<Q", len(data)))
  process.stdin.write(data)
  process.stdin.flush()
  with selectors.DefaultSelector() as selector:
    selector.register(process.stdout, selectors.EVENT_READ)
    if not selector.select(_TIMEOUT_S + len(data) / 2**20 * _SECONDS_PER_MIB):
      process.kill()
      process.wait()
      return None
  line = process.stdout.readline()
  if not line:
    process.wait()
    return None
  return line.decode(errors="replace").strip()


_helper = _Helper()


@atexit.register
def _stop() -> None:
  with contextlib.suppress(OSError):
    _helper.stop()


def check(data: bytes) -> None:
  """Raises DecodeError where MLIR's reader rejects the bytes, crashes on them, or does not come to an end."""
  answer = _helper.ask(data)
  if answer == "ok":
    return
  problem = answer or "MLIR's reader crashed or hung on them"
  raise errors.DecodeError(
    f"StableHLO bytes of length {len(data)} are damaged: {problem}; expected MLIR bytecode or a StableHLO portable"
    " artifact."
  )
