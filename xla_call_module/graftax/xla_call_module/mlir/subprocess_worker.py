"""The helper process of `subprocess_reader`: tries to parse each module that arrives on its standard input.

It is run as a script; its arguments are the search path of the parent process. It imports only `jaxlib`, because
`import jax` would make the first use 0.9 s slower.
"""

import contextlib
import os
import struct
import sys
import threading
from typing import Any, BinaryIO

# Half of the usual stack size, so that a module that can be read here does not overflow the stack of the parent.
_STACK_SIZE_BYTES = 4 << 20


def main() -> None:
  """Writes "ready", then answers each question with one line.

  A question is its kind (b"m" for MLIR, b"h" for HLO), the number of bytes, and the bytes.
  """
  sys.path[:] = sys.argv[1:]
  answers = os.fdopen(os.dup(1), "wb")
  os.dup2(2, 1)
  try:
    _prepare()
    answer = "ready"
  except BaseException as error:
    answer = f"{type(error).__name__}: {error}"
  _send(answers, answer)
  if answer == "ready":
    threading.stack_size(_STACK_SIZE_BYTES)
    thread = threading.Thread(target=_serve, args=(sys.stdin.buffer, answers))
    thread.start()
    thread.join()


def _prepare() -> None:
  _make_context()
  try:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
  except ImportError:
    pass


def _serve(questions: BinaryIO, answers: BinaryIO) -> None:
  while len(head := questions.read(9)) == 9:
    kind, size = struct.unpack("<cQ", head)
    data = questions.read(size)
    _limit(size)
    try:
      _read(_from_hlo(data) if kind == b"h" else data)
      answer = "ok"
    except BaseException as error:
      answer = str(error) or type(error).__name__
    _send(answers, answer)


# Beyond what the libraries need. Reading takes a few times the size of the bytes, and about a second for 20 MB.
_FREE_BYTES = 2 << 30
_BYTES_PER_BYTE = 24
_FREE_CPU_S = 5
_BYTES_PER_CPU_S = 1 << 20


def _limit(num_bytes: int) -> None:
  """Limits memory and processor time for one question. A module that needs more ends this process."""
  try:
    import resource

    with open("/proc/self/statm") as file:
      mapped_bytes = int(file.read().split()[0]) * resource.getpagesize()
  except (ImportError, OSError):  # not Linux: the parent still limits the time
    return
  usage = resource.getrusage(resource.RUSAGE_SELF)
  used_s = int(usage.ru_utime + usage.ru_stime) + 1
  _set_soft(resource, resource.RLIMIT_AS, mapped_bytes + _FREE_BYTES + _BYTES_PER_BYTE * num_bytes)
  _set_soft(resource, resource.RLIMIT_CPU, used_s + _FREE_CPU_S + num_bytes // _BYTES_PER_CPU_S)


def _set_soft(resource: Any, which: int, wanted: int) -> None:
  hard = resource.getrlimit(which)[1]
  resource.setrlimit(which, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def _send(answers: BinaryIO, answer: str) -> None:
  lines = [line.strip() for line in answer.split("\n")[:3]]  # MLIR's first line may only be a heading
  answers.write((" ".join(filter(None, lines)) or "no reason given")[:500].encode(errors="replace") + b"\n")
  answers.flush()


def _make_context() -> Any:
  from jaxlib.mlir import ir

  # Until jaxlib has a public function that registers the `func` dialect. The alternative is
  # jax.interpreters.mlir.make_ir_context, which imports all of jax. Checked with jaxlib 0.10.0, 0.10.2 and 0.12.0.
  from jaxlib.mlir._mlir_libs import _jax_mlir_ext
  from jaxlib.mlir.dialects import chlo, func, mhlo, sdy, stablehlo  # noqa: F401

  context = ir.Context()
  registry = ir.DialectRegistry()
  _jax_mlir_ext.register_dialects(registry)
  context.append_dialect_registry(registry)
  context.load_all_available_dialects()
  for dialect in (sdy, chlo, stablehlo):
    dialect.register_dialect(context)
  mhlo.register_mhlo_dialect(context)  # as in JAX's own contexts: the importer of HLO writes `mhlo.copy`
  return context


def _from_hlo(data: bytes) -> bytes:
  import jax.extend.mlir

  return jax.extend.mlir.hlo_to_stablehlo(data)


def _read(data: bytes) -> None:
  from jaxlib.mlir import ir
  from jaxlib.mlir.dialects import stablehlo

  with _make_context() as context:
    context.emit_error_diagnostics = False
    # As in `bindings.parse`, which this process cannot import.
    module = None if b"StableHLO_v" in data[:64] else ir.Module.parse(data)
    if module is None or any(view.operation.name.startswith("vhlo.") for view in module.body.operations):
      module = stablehlo.deserialize_portable_artifact(context, data)
    if not module.operation.verify():
      raise ValueError("the module does not verify")
    str(module.operation.get_asm(large_elements_limit=8))
    _touch_op(module.operation, set())


def _touch_op(op: Any, seen: set[Any]) -> None:
  """Reads everything that the decoder will read, because the bindings abort the process if a name is not UTF-8.

  `seen` are the types, locations and attributes that were read already; as in the decoder, each is read once.
  """
  str(op.name)
  _touch_text(op.location, seen)
  _touch_named(op.attributes, seen)
  for result in op.results:
    _touch_text(result.type, seen)
  for region in op.regions:
    for block in region:
      for argument in block.arguments:
        _touch_text(argument.type, seen)
      for inner in block.operations:
        _touch_op(inner.operation, seen)


def _touch_text(item: object, seen: set[Any]) -> None:
  if item not in seen:
    seen.add(item)
    str(item)


def _touch_named(attributes: Any, seen: set[Any]) -> None:
  """Reads the attributes of an op or a dictionary.

  Complex elements have no binding: looking them up raises TypeError, and `NamedAttribute.attr` aborts the process.
  """
  for index in range(len(attributes)):
    name = str(attributes[index].name)
    with contextlib.suppress(TypeError):
      _touch(attributes[name], seen)


def _touch(attr: Any, seen: set[Any]) -> None:
  if attr in seen:
    return
  seen.add(attr)
  attr = attr.maybe_downcast() if hasattr(attr, "maybe_downcast") else attr
  kind = type(attr).__name__
  if kind == "DictAttr":
    _touch_named(attr, seen)
  elif kind == "ArrayAttr":
    with contextlib.suppress(TypeError):
      for item in attr:
        _touch(item, seen)
  elif kind == "StringAttr":
    attr.value_bytes  # noqa: B018
  elif kind == "FlatSymbolRefAttr":
    attr.value  # noqa: B018
  elif not kind.startswith("Dense"):
    str(attr)


if __name__ == "__main__":
  main()
