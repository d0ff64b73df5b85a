"""Writes modules for runtimes that are older than the installed jaxlib."""

import functools
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeAlias

import jax
from jax.extend.mlir import passmanager
from jax.extend.mlir.dialects import stablehlo

from graftax.xla_call_module import communication, errors
from graftax.xla_call_module.mlir.artifacts import write_artifact
from graftax.xla_call_module.mlir.batching_dims import without_batching_dims
from graftax.xla_call_module.mlir.bindings import call_target, current_version, mlir_context, parse
from graftax.xla_call_module.mlir.decoding import location_text
from graftax.xla_call_module.mlir.locations import put_back, without_files
from graftax.xla_call_module.mlir.one_device import without_communication
from graftax.xla_call_module.mlir.sharding_annotations import is_of_shardy, with_annotated_sizes, without_annotation

__all__ = ["legalize"]

# Until then, gathers and scatters had no batching dimensions.
_BATCHING_DIMS = (1, 1, 0)

# Until then, operations had one implementation, and did not say how accurate they should be. In derivatives of erf JAX
# asks for the most accurate one.
_RESULT_ACCURACY = (1, 9, 0)

_PER_DEVICE = {
  *communication.COLLECTIVES,
  *communication.HOST_TRANSFERS,
  communication.PER_DEVICE,
  "stablehlo.partition_id",
  "stablehlo.replica_id",
}
_PER_DEVICE_CALLS = {"xla.sdy.GlobalToLocalShape", "SPMDFullToShardShape"}


CallCheck: TypeAlias = Callable[[str, str], None]
Versions: TypeAlias = Sequence[tuple[int, int, int]]


def legalize(
  data: bytes | str,
  *,
  version: tuple[int, int, int],
  older: Callable[[Collection[str]], Versions] | None = None,
  num_devices: int = 1,
  check_call: CallCheck | None = None,
) -> tuple[bytes, tuple[int, int, int]]:
  """Returns the module as a StableHLO portable artifact with its version, and with ops that `version` lacks expanded.

  Composites become calls of their decompositions. Runtimes expand composites as well, but those of CHLO with code that
  they generate anew, and not for every dynamic shape. Locations keep the names of operations, and lose files and lines.

  Args:
    data: a portable artifact, MLIR bytecode, or text.
    version: the version of StableHLO to write.
    older: called with the targets of all custom calls that the result has. It returns older versions whose runtimes
      have these, from the oldest on. The first that has all ops, types and attributes of the module is written in place
      of `version`; nothing is expanded for it.
    num_devices: for how many devices the module was exported. Sharding annotations for one device, and collectives that
      have no other device, are removed.
    check_call: called with the target of each custom call that the result has, and its location in the source. It
      raises if the runtime does not have the target.

  Raises:
    VersionError: an op, a type or an attribute cannot be expressed in `version`; the message names it and its location
      in the source.
    UnsupportedModuleError: the module communicates between devices, or a part of it runs on each device by itself.
  """
  text = ".".join(map(str, version))
  with mlir_context() as messages:
    module = parse(data, messages)
    if num_devices == 1:
      without_communication(_operations(module))
    _check_no_communication(module)
    _run_passes(module, ["func.func(stablehlo-legalize-composite-to-call)", "symbol-dce"])
    if is_of_shardy(_operations(module)):
      module = parse(_artifact(module, ".".join(map(str, current_version())), messages), messages)
    if num_devices == 1:
      for op in _operations(module):
        without_annotation(op)
    for op in _operations(module):
      with_annotated_sizes(op)
    if version < _BATCHING_DIMS:
      for op in _operations(module):
        without_batching_dims(op)
    if version < _RESULT_ACCURACY:
      for op in _operations(module):
        if "result_accuracy" in op.attributes and "TOLERANCE" not in str(op.attributes["result_accuracy"]):
          del op.attributes["result_accuracy"]
    _run_passes(module, [f"stablehlo-compatibility-expander{{target={text}}}"])
    calls: dict[str, None] = {}
    for op in _operations(module):
      if target := call_target(op):
        calls[target] = None
        if check_call is not None:
          check_call(target, location_text(str(op.location)))
    # What is written may be published, and must not depend on the folder that the source is in.
    locations = without_files(module, _operations(module))
    candidates = older(calls.keys()) if older is not None else ()
    for candidate in (*candidates, version):
      try:
        return write_artifact(module, ".".join(map(str, candidate))), candidate
      except jax.errors.JaxRuntimeError:
        messages.clear()  # of a version that is too old; the last one is tried again below
    put_back(locations)
    return _artifact(module, text, messages), version  # raises, with the place in the source


def _artifact(module: Any, version: str, messages: Sequence[str]) -> bytes:
  try:
    return write_artifact(module, version)
  except jax.errors.JaxRuntimeError as error:
    raise errors.VersionError(
      f"the module cannot be written as StableHLO {version}: {_cause([*messages, str(error)])}. Export for a newer"
      " target, or compute this in another way."
    ) from None


_FAILURE = re.compile(
  r"(?P<where>[^\n]*?):? (?:error: )?(?:loc\(\"(?P<name>[^\"]*)\"\): )?failed to legalize operation"
  r" 'vhlo\.(?P<op>\w+?)_v\d+'(?P<rest>[^\n]*)"
)


def _cause(messages: Sequence[str]) -> str:
  """Returns which op failed and where, from MLIR's diagnostics."""
  match = next(filter(None, map(_FAILURE.search, messages)), None)
  if match is None:
    return messages[0].strip()
  where = match["where"].removeprefix("Detailed error from MLIR: ").strip()
  place = f"{match['name']!r} in the source" if match["name"] else where
  small = sorted(set(re.findall(r"!vhlo\.((?:f4|f6|f8|i2|ui2|tf)\w*?)_v\d", match["rest"])))
  types = f"types {', '.join(small)}; " if small else ""
  return f"op {match['op']!r} has a form, a type or an attribute that is newer ({types}at {place})"


def _check_no_communication(module: Any) -> None:
  for op in _operations(module):
    target = call_target(op)
    if op.name in _PER_DEVICE or target in _PER_DEVICE_CALLS:
      raise errors.UnsupportedModuleError(
        "the module has code that each device runs by itself, or that communicates between devices"
        f" ({target or op.name} at {location_text(str(op.location))}), which a TensorFlow graph cannot run. Export the"
        " function for one device, without pmap, shard_map and collectives such as psum."
      )


def _operations(module: Any) -> list[Any]:
  """Returns all operations, in order."""

  def walk(op: Any) -> Iterator[Any]:
    yield op
    for region in op.regions:
      for block in region:
        for inner in block:
          yield from walk(inner.operation)

  return list(walk(module.operation))


def _run_passes(module: Any, passes: list[str]) -> None:
  _register_passes()
  passmanager.PassManager.parse(f"builtin.module({','.join(passes)})").run(module.operation)


@functools.cache
def _register_passes() -> None:
  stablehlo.register_stablehlo_passes()
