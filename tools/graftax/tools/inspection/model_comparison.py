"""What two models differ in, from their reports."""

import dataclasses
from collections.abc import Mapping

from graftax.graphdef_ir import PartialShape
from graftax.tools.inspection.model_report import ModelReport, SignatureReport, Verdict

__all__ = ["Comparison", "Difference", "compare"]


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
  """One difference.

  Attributes:
    kind: `"signature"`, `"function"`, `"parameter"` or `"op"`.
    name: of what differs.
    here: what the first model has; None if it has nothing of this name.
    there: what the second model has.
  """

  kind: str
  name: str
  here: str | None
  there: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
  """What two models differ in.

  Attributes:
    path: the second model.
    differences: sorted by kind; names in the order of the first model, then of the second.
    num_equal: how many signatures, functions, parameters and ops are the same in both.
  """

  path: str
  differences: tuple[Difference, ...]
  num_equal: Mapping[str, int]


def compare(here: ModelReport, there: ModelReport) -> Comparison:
  """Compares types of signatures, traces, parameters by name and type, and the number of nodes of each op.

  Values of parameters are not read.
  """
  differences: list[Difference] = []
  num_equal: dict[str, int] = {}
  for kind, ours in _facts(here).items():
    theirs = _facts(there)[kind]
    names = dict.fromkeys([*ours, *theirs])
    found = [Difference(kind, n, ours.get(n), theirs.get(n)) for n in names if ours.get(n) != theirs.get(n)]
    differences += found
    num_equal[kind] = len(names) - len(found)
  return Comparison(there.path, tuple(differences), num_equal)


def _facts(report: ModelReport) -> dict[str, dict[str, str]]:
  return {
    "signature": {signature.name: _signature(signature) for signature in report.signatures},
    "function": {f.path + f.signature: "; ".join(trace for trace, _ in f.traces) for f in report.functions},
    "parameter": {p.name: f"{p.dtype}{PartialShape(p.shape)}" for p in report.parameters},
    "op": {op.op: f"{op.count} nodes" for op in report.ops},
  }


def _signature(signature: SignatureReport) -> str:
  inputs, outputs = (", ".join(f"{t.name}: {t}" for t in tensors) for tensors in (signature.inputs, signature.outputs))
  return f"({inputs}) -> {{{outputs}}}, {_answer(signature.verdict)}"


def _answer(verdict: Verdict) -> str:
  if verdict.splits:
    return "converts with split"
  return "does not convert" if verdict.problem is not None or verdict.unsupported_ops else "converts"
