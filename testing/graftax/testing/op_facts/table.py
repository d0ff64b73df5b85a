"""The table of what checks showed, by op, as `graftax ops` and docs/ops.md read it."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypedDict

from graftax.testing.op_facts.evidence import Evidence

__all__ = ["OpRow", "faults", "table", "table_text"]

_TRANSFORMS = ("jit", "vmap", "symbolic")


class OpRow(TypedDict, total=False):
  """What is known of an op.

  Attributes:
    dtypes: the dtypes of each type attribute with which a check agreed with TensorFlow.
    refused: errors of dtypes that TensorFlow runs and graftax refuses, by the dtypes.
    transforms: `jit`, `vmap`, `symbolic`: True if a check agreed, or the error if all refused.
    gradient: True if a gradient agreed with TensorFlow's, or the error if all refused.
    no_gradient: whether TensorFlow has no gradient of its floating-point inputs.
    deviations: known differences from TensorFlow.
    checks: how many checks there are, by source.
  """

  dtypes: dict[str, list[str]]
  refused: dict[str, str]
  transforms: dict[str, bool | str]
  gradient: bool | str
  no_gradient: bool
  deviations: list[str]
  checks: dict[str, int]


def table(evidence: Iterable[Evidence]) -> dict[str, OpRow]:
  """Returns the row of each op that was checked."""
  by_op: dict[str, list[Evidence]] = defaultdict(list)
  for line in evidence:
    by_op[line["op"]].append(line)
  return {op: _row(lines) for op, lines in sorted(by_op.items())}


def _row(lines: Sequence[Evidence]) -> OpRow:
  """Returns the row of an op from all its evidence.

  Programs count only if no check calls the op alone. The gradient of a program shows nothing about an op in it that no
  gradient passes, such as one of integers.
  """
  dtypes: dict[str, set[str]] = defaultdict(set)
  refused: dict[str, str] = {}
  counts: dict[str, int] = defaultdict(int)
  deviations: set[str] = set()
  for line in lines:
    counts[line["source"]] += 1
  lines = [line for line in lines if line["source"] != "program"] or lines
  for line in lines:
    deviations.update(line.get("deviations", ()))
    if "value" in line["passed"]:
      for attr, dtype in line.get("dtypes", {}).items():
        dtypes[attr].add(dtype)
    elif "value" in line.get("refused", {}):
      refused[", ".join(f"{attr}={dtype}" for attr, dtype in sorted(line["dtypes"].items()))] = line["refused"]["value"]
  row: OpRow = {
    "dtypes": {attr: sorted(found) for attr, found in sorted(dtypes.items())},
    "transforms": {name: found for name in _TRANSFORMS if (found := _decided(lines, name)) is not None},
    "checks": dict(sorted(counts.items())),
  }
  if refused:
    row["refused"] = dict(sorted(refused.items()))
  gradient = _decided(lines, "gradient")
  if gradient is not None:
    row["gradient"] = gradient
  elif any(line.get("no_gradient") for line in lines):
    row["no_gradient"] = True
  if deviations:
    row["deviations"] = sorted(deviations)
  return row


def _decided(lines: Iterable[Evidence], name: str) -> bool | str | None:
  """Returns True if a check passed, the shortest error if all were refused, or None if there was none."""
  errors = []
  for line in lines:
    if name in line["passed"]:
      return True
    errors += [line["refused"][name]] if name in line.get("refused", {}) else []
  return min(errors, key=len) if errors else None


def table_text(evidence: Iterable[Evidence]) -> str:
  """Returns the table as JSON, one op a line."""
  rows = (f"{json.dumps(op)}: {json.dumps(row, sort_keys=True)}" for op, row in table(evidence).items())
  return "{\n" + ",\n".join(rows) + "\n}\n"


def faults(evidence: Iterable[Evidence]) -> list[str]:
  """Returns what is wrong, as lines."""
  return sorted(
    {
      f"{line['op']} {line['dtypes']}: {kind}: {detail}"
      for line in evidence
      for kind, detail in line.get("wrong", {}).items()
    }
  )
