"""The error that lists everything in a program that JAX does not have, before anything runs."""

from graftax.convert.host_parts.boundary import CALLS_PYTHON, host_boundary
from graftax.convert.planning.preflight import Preflight, check_files, preflight
from graftax.convert.program import Program
from graftax.graphdef_ir import Limits
from graftax.ops_jax import MissingOp, UnsupportedOpError, reason_without_lowering

__all__ = ["check_program"]

# Number of places shown per op; the message counts the others.
_NUM_EXAMPLES = 3


def check_program(
  program: Program, *, keep_asserts: bool = False, fallback: str | None = None, limits: Limits | None = None
) -> Preflight:
  """Returns what `preflight` returns, if JAX has everything that the program needs.

  Raises:
    ControlFlowError: TF1 control flow in it does not form conditionals and loops.
    UnsupportedOpError: some ops have no lowering, or JAX cannot hold some captures. The message lists all of them with
      counts and places. If all of them are work for the host, it names the tensors from which on to convert.
    UnsafeFileError: a table that it needs is in a file that it may not read.
  """
  found = preflight(program, keep_asserts=keep_asserts, fallback=fallback, limits=limits)
  check_files(found.program, found.unavailable)
  if found.unsupported_ops or found.unavailable:
    boundary = host_boundary(found.program, found.unsupported_ops)
    raise UnsupportedOpError(_message(found, boundary), ops=_missing(found, boundary))
  return found


def _missing(found: Preflight, boundary: tuple[str, ...]) -> list[MissingOp]:
  """Returns what the message lists, as data."""
  if boundary:
    remedy = f"{found.program.part_code}, inputs={list(boundary)!r})"
    if CALLS_PYTHON.isdisjoint(found.unsupported_ops):
      remedy = f"SavedModel.split, graftax.convert.split_program, or {remedy}"
  else:
    remedy = "@graftax.ops_jax.register(op), or convert a part of the graph that does not need it"
  ops = []
  for op, places in found.unsupported_ops.items():
    reason = found.not_compiled.get(op) or reason_without_lowering(op) or ""
    ops.append(MissingOp(op, tuple(places), reason, remedy))
  return ops + [
    MissingOp(what, tuple(places), "JAX cannot hold it", remedy) for what, places in found.unavailable.items()
  ]


def _message(found: Preflight, boundary: tuple[str, ...]) -> str:
  name, part = found.program.name, found.program.part_code
  missing, unavailable = found.unsupported_ops, found.unavailable
  lines = []
  if missing:
    lines.append(f"{name!r} needs {len(missing)} ops that have no JAX lowering:")
    for op, places in missing.items():
      lines.append(f"  {op} x{len(places)}: {_places(places)}")
      reason = reason_without_lowering(op)
      if reason:
        lines.append(f"    because {reason}.")
      if op in found.not_compiled:
        lines.append(f"    TensorFlow does not compile it: {found.not_compiled[op]}.")
  if unavailable:
    lines.append(f"{name!r} uses what JAX cannot hold:")
    lines += (f"  {what}; read by {_places(places)}" for what, places in unavailable.items())
  if boundary:
    after = (
      "convert only what comes after it, which takes the values of these tensors (a dict in place of the list gives "
      f"them names of your own), with\n  {part}, inputs={list(boundary)!r})"
    )
    if CALLS_PYTHON.isdisjoint(missing):
      lines.append(
        "All of this is work for the host. SavedModel.split and graftax.convert.split_program run it without "
        f"TensorFlow. Or {after}"
      )
    else:
      lines.append(
        f"The Python functions are in no file, so that nothing else can run them. Run them yourself, and {after}"
      )
  else:
    lines.append(
      "Register a lowering with @graftax.ops_jax.register(op), or convert a part of the graph that does not need them "
      f"with {part}, inputs=[names of tensors]). SavedModel.split and graftax.convert.split_program run strings, "
      f"tables and files on the host."
    )
    unknown = [op for op in missing if reason_without_lowering(op) is None]
    if unknown and not found.not_compiled:
      lines.append(
        f"If the installed TensorFlow can compile {', '.join(unknown)}, the option fallback='tensorflow' has it do so."
      )
  return "\n".join(lines)


def _places(places: list[tuple[str, str]]) -> str:
  shown = ", ".join(f"{node!r} in {owner!r}" for node, owner in places[:_NUM_EXAMPLES])
  return f"{shown}, and {len(places) - _NUM_EXAMPLES} more" if len(places) > _NUM_EXAMPLES else shown
