"""`graftax ops`: what graftax knows about a TensorFlow op."""

import dataclasses
import difflib
import fnmatch

from graftax.convert import host_op_modules
from graftax.graphdef_ir import op_signature
from graftax.graphdef_ir.errors import UnknownOpError
from graftax.ops_jax import bounded_rule, lowering, reason_without_lowering, supported_ops
from graftax.tools.errors import CommandError

__all__ = ["OpFacts", "matching_ops", "op_facts"]


@dataclasses.dataclass(frozen=True, slots=True)
class OpFacts:
  """What graftax knows about an op.

  Attributes:
    op: its name.
    inputs: names of its inputs; empty for an op that TensorFlow does not have.
    outputs: names of its outputs.
    attributes: names of its attributes.
    function: the lowering's Python function, as `module.name`; None if there is no lowering.
    must_be_known: inputs that must be known while tracing.
    bounded: whether it takes arrays whose sizes depend on data, under `jit`.
    pairs: the function for 64-bit integers while JAX's 64-bit types are off, if it is another one.
    host: the module of the function that runs it on the host, in split models.
    reason: why it has no lowering; None if it has one, or if the reason is that nobody has written it.
  """

  op: str
  inputs: tuple[str, ...]
  outputs: tuple[str, ...]
  attributes: tuple[str, ...]
  function: str | None
  must_be_known: tuple[str, ...]
  bounded: bool
  pairs: str | None
  host: str | None
  reason: str | None


def matching_ops(pattern: str) -> list[str]:
  """Returns the ops whose names match a pattern with `*` and `?`, ignoring case.

  Raises:
    CommandError: there is none.
  """
  names = sorted(supported_ops() | host_op_modules().keys())
  found = [name for name in names if fnmatch.fnmatchcase(name.lower(), pattern.lower())]
  if not found and not _is_known(pattern):
    close = difflib.get_close_matches(pattern, names, n=3, cutoff=0.6)
    hint = f" Did you mean {' or '.join(close)}?" if close else ""
    raise CommandError(f"no op of TensorFlow matches {pattern!r}.{hint}")
  return found or [pattern]


def _is_known(name: str) -> bool:
  try:
    op_signature(name)
  except UnknownOpError:
    return False
  return True


def op_facts(op: str) -> OpFacts:
  """Returns what is known about an op."""
  signature = op_signature(op) if _is_known(op) else None
  found, pairs = lowering(op), lowering(op, int64_pairs=True)
  return OpFacts(
    op=op,
    inputs=() if signature is None else tuple(argument.name for argument in signature.inputs),
    outputs=() if signature is None else tuple(argument.name for argument in signature.outputs),
    attributes=() if signature is None else tuple(signature.attrs),
    function=None if found is None else _path(found.function),
    must_be_known=() if found is None else tuple(p.name for p in found.inputs if p.static_type is not None),
    bounded=bounded_rule(op) is not None,
    pairs=None if pairs is None or pairs == found else _path(pairs.function),
    host=host_op_modules().get(op),
    reason=reason_without_lowering(op),
  )


def _path(function: object) -> str:
  return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', function)}"
