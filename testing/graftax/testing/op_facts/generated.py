"""Cases of every dtype of each op that has a recipe, and what their runs show.

Value and gradient are compared in the child processes of `graftax.testing.generated`; `vmap` and symbolic shapes,
for one case of each op, in those of `transforms`.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from graftax.graphdef_ir import op_signature
from graftax.ops_jax import lowering
from graftax.testing.cotangents import is_inexact
from graftax.testing.generated.case import Case, CaseId
from graftax.testing.generated.recipes import ops_with_recipes
from graftax.testing.generated.run import draw_case
from graftax.testing.generated.worker import Answer, run_isolated
from graftax.testing.op_facts.evidence import Evidence, dtypes_of_inputs
from graftax.testing.op_facts.transforms import run_transforms

__all__ = ["generated_evidence", "main_type_attr"]

# Plain values; see `generated.draw.STYLES`.
_VALUES = 0
_STRUCTURES = 150
# TensorFlow may refuse a drawn case for a reason that is not its dtype.
_CASES_OF_A_DTYPE = 3


def main_type_attr(op: str) -> str | None:
  """Returns the attribute with the dtype of the op's data, of its first input that may be traced, or its first."""
  signature, found = op_signature(op), lowering(op)
  static = set[str]() if found is None else {p.name for p in found.inputs if p.static_type is not None}
  types = [argument.type_attr for argument in signature.inputs if argument.name not in static and argument.type_attr]
  return next(iter([*types, *(name for name, attr in signature.attrs.items() if attr.type == "type")]), None)


def generated_evidence(
  ops: Sequence[str] | None, jobs: int, record: Callable[[Evidence], None], timeout_s: float = 90.0
) -> None:
  """Runs the cases and records what each shows.

  Args:
    ops: the ops; None for all that have a recipe.
    jobs: how many processes run at a time.
    record: is called with the evidence of each case.
    timeout_s: for one case.
  """
  left = [cases for op in ops or ops_with_recipes() for cases in _cases_by_dtype(op)]
  valid: dict[str, list[Case]] = {}
  while left:
    cases = {str(found[0].id): found[0] for found in left}
    decided = set[str]()
    for answer in run_isolated([case.id for case in cases.values()], timeout_s, jobs):
      case = cases[str(answer.id)]
      if answer.rejected:
        continue
      record(_evidence(case, answer))
      if not any(d.kind in ("refused", "raised", "died") for d in answer.differences):
        valid.setdefault(answer.id.op, []).append(case)
      if answer.has_gradient or not _has_floats(case):
        decided.add(str(answer.id))
    left = [found[1:] for found in left if str(found[0].id) not in decided and found[1:]]
  best = {str(case.id): case for case in (max(found, key=_worth) for found in valid.values())}
  for case_id, evidence in run_transforms([case.id for case in best.values()], timeout_s):
    record({"op": case_id.op, "source": "generated", "dtypes": _dtypes(best[str(case_id)]), **evidence})


def _cases_by_dtype(op: str) -> Iterator[list[Case]]:
  """Yields a few cases of each dtype, the most telling ones of the first structures."""
  attr, found = main_type_attr(op), dict[str, list[Case]]()
  for structure in range(_STRUCTURES):
    case = draw_case(CaseId(op, structure, _VALUES))
    found.setdefault(_dtypes(case).get(attr or "", ""), []).append(case)
  for cases in found.values():
    yield sorted(cases, key=_worth, reverse=True)[:_CASES_OF_A_DTYPE]


def _has_floats(case: Case) -> bool:
  return any(is_inexact(x) for x in case.arrays())


def _dtypes(case: Case) -> dict[str, str]:
  return dtypes_of_inputs(case.id.op, case.inputs, case.attrs)


def _worth(case: Case) -> tuple[bool, bool, bool, int]:
  """Orders cases by what they can show: arrays with elements, floats, sizes above one, and a rank."""
  arrays = case.arrays()
  largest = max(arrays, key=lambda x: x.ndim, default=np.zeros(()))
  return (
    all(x.size for x in arrays),
    any(x.dtype == np.float32 for x in arrays),
    largest.ndim > 0 and min(largest.shape) > 1,
    min(largest.ndim, 3),
  )


def _evidence(case: Case, answer: Answer) -> Evidence:
  kinds = {difference.kind: difference.detail for difference in answer.differences}
  refused = {"value": kinds["refused"]} if "refused" in kinds else {}
  if "gradient refused" in kinds:
    refused["gradient"] = kinds["gradient refused"]
  wrong = {kind: detail for kind, detail in kinds.items() if not kind.endswith("refused")}
  passed = [] if kinds.keys() - {"gradient", "gradient refused", "gradient raised"} else ["value"]
  if answer.has_gradient and not answer.differences:
    passed.append("gradient")
  evidence: Evidence = {"op": case.id.op, "source": "generated", "dtypes": _dtypes(case), "passed": passed}
  if refused:
    evidence["refused"] = refused
  if wrong:
    evidence["wrong"] = {kind: f"{case.id}: {detail}" for kind, detail in wrong.items()}
  if answer.known:
    evidence["deviations"] = list(answer.known)
  if not answer.has_gradient and not kinds and _has_floats(case):
    evidence["no_gradient"] = True
  return evidence
