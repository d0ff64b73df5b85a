"""MLIR contexts and parsing."""

import contextlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import jax.extend.mlir
import jax.interpreters.mlir as jax_mlir
from jax.extend.mlir import ir as mlir_ir
from jax.extend.mlir.dialects import chlo, func, sdy, stablehlo  # noqa: F401  (loading registers the dialects)

from graftax.xla_call_module import bytecode, errors, jax_versions

__all__ = [
  "MlirValue",
  "SUPPORTED_JAX",
  "call_target",
  "current_version",
  "downcast",
  "function_type",
  "mlir_context",
  "oldest_version",
  "parse",
  "symbol_name",
]

if TYPE_CHECKING:
  MlirValue: TypeAlias = mlir_ir.Value[Any]  # Any: of whatever type
else:
  MlirValue = mlir_ir.Value

SUPPORTED_JAX = ("0.10.0", "0.10.2", "0.12.0")


@contextlib.contextmanager
def mlir_context() -> Iterator[list[str]]:
  """Enters a fresh MLIR context and yields the list that collects its diagnostics, which are not printed."""
  context = jax_mlir.make_ir_context()
  messages: list[str] = []

  def collect(diagnostic: Any) -> bool:
    messages.append(f"{diagnostic.location}: {diagnostic.message}")
    return True

  # Any: the stub of JAX declares an object.
  handler: Any = context.attach_diagnostic_handler(collect)
  try:
    with context, mlir_ir.Location.unknown():
      yield messages
  finally:
    handler.detach()


def current_version() -> tuple[int, ...]:
  """Returns the newest StableHLO version that the installed jaxlib reads.

  Example:
    >>> current_version() >= (1, 8, 0)
    True
  """
  return tuple(int(part) for part in stablehlo.get_current_version().split("."))


def oldest_version() -> str:
  """Returns the oldest StableHLO version that the installed jaxlib writes and reads.

  Example:
    >>> len(oldest_version().split("."))
    3
  """
  oldest: str = stablehlo.get_minimum_version()
  return oldest


def parse(data: bytes | str, messages: list[str]) -> mlir_ir.Module:
  """Returns an MLIR module in the current context, parsed from text, MLIR bytecode or a portable artifact."""
  if isinstance(data, bytes) and bytecode.is_portable(data):
    bytecode.check_version(data, current_version())
  try:
    if isinstance(data, bytes) and bytecode.is_portable(data):
      return _from_artifact(data)
    module = mlir_ir.Module.parse(data)
    return _from_artifact(data) if isinstance(data, bytes) and _is_vhlo(module) else module
  except errors.StableHloError:
    raise
  except Exception as error:  # the bindings raise several unrelated types
    details = _without_advice("; ".join(messages[:3]) or _diagnostics(error))
    kind = "text" if isinstance(data, str) else f"{len(data)} bytes"
    raise errors.DecodeError(
      f"StableHLO module ({kind}) does not parse: {details}; expected MLIR text, MLIR bytecode, or a StableHLO"
      f" portable artifact of version {'.'.join(map(str, current_version()))} or older."
    ) from None


def _from_artifact(data: bytes) -> mlir_ir.Module:
  return jax_versions.parsed_artifact(jax.extend.mlir.deserialize_portable_artifact(data), mlir_ir.Module.parse)


def _is_vhlo(module: mlir_ir.Module) -> bool:
  """Returns whether a module is in the dialect of artifacts: those of early 2023 do not name StableHLO's version."""
  return any(view.operation.name.startswith("vhlo.") for view in module.body.operations)


def _without_advice(details: str) -> str:
  """Returns MLIR's message about an unknown dialect without its advice, which applies to MLIR's own tools only."""
  plain = re.sub(r"\. If this is intended, please [^;]*? tool used", "", details)
  unknown = plain != details or re.search(r"Dialect `\w+' not found", details)
  return (
    f"{plain} (the installed jaxlib does not have that dialect; write the module in StableHLO)" if unknown else plain
  )


def _diagnostics(error: Exception) -> str:
  found = getattr(error, "error_diagnostics", None)
  return "; ".join(f"{item.location}: {item.message}" for item in found[:3]) if found else str(error).split("\n")[0]


def downcast(attr: Any) -> Any:
  """Returns the attribute, downcast if the bindings return the base class."""
  return attr.maybe_downcast() if type(attr).__name__ == "Attribute" and hasattr(attr, "maybe_downcast") else attr


def call_target(op: mlir_ir.Operation) -> str:
  """Returns the target of a custom call, and no text for another operation."""
  return str(downcast(op.attributes["call_target_name"]).value) if op.name == "stablehlo.custom_call" else ""


def function_type(op: mlir_ir.Operation | mlir_ir.OpView) -> mlir_ir.FunctionType:
  return downcast(op.attributes["function_type"]).value


def symbol_name(op: mlir_ir.Operation | mlir_ir.OpView) -> str:
  names = op.operation.attributes
  return downcast(names["sym_name"]).value if "sym_name" in names else ""
