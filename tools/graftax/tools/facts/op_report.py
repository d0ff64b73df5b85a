"""`graftax ops`: what graftax knows about a TensorFlow op."""

import dataclasses
import difflib
import fnmatch
import inspect
import re
from collections.abc import Sequence

from graftax.convert import host_op_modules
from graftax.graphdef_ir import OpSignature, OpSignatures
from graftax.graphdef_ir.op_traits import traits_of
from graftax.ops_jax import bounded_rule, lowering, reason_without_lowering, supported_ops
from graftax.tools.errors import CommandError
from graftax.tools.facts.dtype_names import declared_dtypes, dtype_text, fixed_dtypes, main_type_attr
from graftax.tools.facts.op_checks import OpChecks, checks_of
from graftax.tools.facts.outward_ops import outward_rules

__all__ = ["OpFacts", "all_ops", "matching_ops", "op_facts"]

_NO_LOWERING = (
  "it has no lowering; register one with @graftax.ops_jax.register, or if TensorFlow can compile it, use "
  "the option fallback='tensorflow'"
)
_DIFFERENCE = re.compile(r"^Differs from TF: (.*(?:\n .*|\n(?=\S)(?!\w+:).*)*)", re.MULTILINE)
_TRANSFORMS = ("jit", "vmap", "symbolic")


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
    outward: the rules that write the op for JAX primitives, with `lowering="tf_ops"`.
    raised: whether it is control flow of TensorFlow 1, which becomes If and While.
    dtypes: dtypes of the op's data with which a check agreed with TensorFlow; without checks, those that TensorFlow
      declares.
    dtypes_without_check: further dtypes that TensorFlow declares, of numbers. Often it has no kernel for them.
    dtypes_refused: dtypes that TensorFlow runs and the lowering refuses, with the errors.
    gradient: "yes" if a check agreed with TensorFlow's gradient, "in programs" if only gradients of whole programs did,
      "none" if TensorFlow has none, or an error. None if nothing was compared, as for integers.
    jit: "yes" if a check agreed, "in programs" if only whole programs did, or an error; None if nothing was compared.
    vmap: the same, against a loop.
    symbolic: the same, exported with symbolic shapes.
    differs: known differences from TensorFlow.
    checks: number of checks, by kind.
    reason: why it has no form; None if it has one.
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
  outward: tuple[str, ...]
  raised: bool
  dtypes: str
  dtypes_without_check: str
  dtypes_refused: dict[str, str]
  gradient: str | None
  jit: str | None
  vmap: str | None
  symbolic: str | None
  differs: tuple[str, ...]
  checks: dict[str, int]
  reason: str | None


def all_ops() -> list[str]:
  """Returns the names of all ops that TensorFlow registers, and of those that only graftax knows."""
  return sorted(OpSignatures().keys() | supported_ops() | host_op_modules().keys())


def matching_ops(pattern: str) -> list[str]:
  """Returns the ops whose names match a pattern with `*` and `?`, ignoring case.

  Raises:
    CommandError: there is none.
  """
  names = all_ops()
  found = [name for name in names if fnmatch.fnmatchcase(name.lower(), pattern.lower())]
  if not found:
    close = difflib.get_close_matches(pattern, names, n=3, cutoff=0.6)
    hint = f" Did you mean {' or '.join(close)}?" if close else ""
    raise CommandError(f"no op of TensorFlow matches {pattern!r}.{hint}")
  return found


def op_facts(op: str) -> OpFacts:
  """Returns what is known about an op."""
  signature = OpSignatures().get(op)
  found, pairs, checks = lowering(op), lowering(op, int64_pairs=True), checks_of(op)
  known = () if found is None else tuple(p.name for p in found.inputs if p.static_type is not None)
  raised, host = traits_of(op).control_flow_v1 is not None, host_op_modules().get(op)
  has_form = found is not None or host is not None or raised
  dtypes, without_check = _dtypes(signature, known, checks) if has_form else ("", "")
  transforms = {name: _result(checks, None if checks is None else checks.transforms.get(name)) for name in _TRANSFORMS}
  return OpFacts(
    op=op,
    inputs=() if signature is None else tuple(argument.name for argument in signature.inputs),
    outputs=() if signature is None else tuple(argument.name for argument in signature.outputs),
    attributes=() if signature is None else tuple(signature.attrs),
    function=None if found is None else _path(found.function),
    must_be_known=known,
    bounded=bounded_rule(op) is not None,
    pairs=None if pairs is None or pairs == found else _path(pairs.function),
    host=host,
    outward=outward_rules(op),
    raised=raised,
    dtypes=dtypes,
    dtypes_without_check=without_check,
    dtypes_refused={} if checks is None else dict(checks.refused),
    gradient=_gradient(checks),
    **transforms,
    differs=() if found is None else _differences(found.function, checks),
    checks={} if checks is None else dict(checks.checks),
    reason=None if has_form else reason_without_lowering(op) or _NO_LOWERING,
  )


def _dtypes(signature: OpSignature | None, known: Sequence[str], checks: OpChecks | None) -> tuple[str, str]:
  """Returns texts of the dtypes with a check, and of the other numbers."""
  if signature is None:
    return "", ""
  attr = main_type_attr(signature, known)
  if attr is None:
    return dtype_text(fixed_dtypes(signature, known)), ""
  declared = declared_dtypes(signature, attr)
  checked = frozenset(() if checks is None else checks.dtypes.get(attr, ()))
  if not checked:
    return "any" if declared is None else dtype_text(declared), ""
  pairs = [pair.partition("=") for key in (checks.refused if checks else ()) for pair in key.split(", ")]
  refused = {dtype for name, _, dtype in pairs if name == attr}
  left = frozenset(() if declared is None else declared) - checked - refused
  return dtype_text(checked), dtype_text(
    [name for name in left if not name.startswith(("q", "float8", "resource", "variant"))]
  )


def _result(checks: OpChecks | None, found: bool | str | None) -> str | None:
  if checks is None or found is None:
    return None
  if isinstance(found, str):
    return found
  return "in programs" if checks.only_in_programs else "yes"


def _gradient(checks: OpChecks | None) -> str | None:
  if checks is not None and checks.gradient is None and checks.no_gradient:
    return "none"
  return _result(checks, None if checks is None else checks.gradient)


def _differences(function: object, checks: OpChecks | None) -> tuple[str, ...]:
  """Returns what the lowering's docstring says, and the reasons of differences in checks."""
  said = [" ".join(text.split()) for text in _DIFFERENCE.findall(inspect.getdoc(function) or "")]
  return (*said, *(() if checks is None else checks.deviations))


def _path(function: object) -> str:
  return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', function)}"
