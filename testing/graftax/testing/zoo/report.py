"""Formats rows as a table."""

from collections.abc import Sequence

from graftax.testing.harness import results, tables
from graftax.testing.harness.results import CheckResult
from graftax.testing.harness.tables import count
from graftax.testing.tensorflow_programs.catalogue import REFUSED
from graftax.testing.zoo.check import CHECKS, Row

__all__ = ["failures", "table"]

_TITLES = {"value": "value", "jit": "jit", "batch": "batches", "grad": "gradient", "param_grad": "of weights"}


def table(rows: Sequence[Row]) -> str:
  """Returns a Markdown table with a row for each model, and the counts of what passed."""
  others = list(dict.fromkeys(name for row in rows for name in row.others))
  titles = ["model", "ops", "without lowering", *_TITLES.values(), "split", "traces", "difference", *others]
  lines = []
  for row in rows:
    cells = [f"{row.domain}: {row.name}", str(row.num_ops), " ".join(row.missing), *_signs(row), _split(row)]
    cells += [_trace(row), "" if row.difference is None else f"{row.difference:.1g}"]
    lines.append([*cells, *(count(r.passed for r in row.others[name].values()) for name in others)])
  split = [row.split for row in rows if row.split is not None]
  totals = [count(r.passed for r in found) for found in (*(_all(rows, check) for check in CHECKS), split)]
  cells = [f"{len(rows)} models", str(sum(row.num_ops for row in rows)), "", *totals, "", ""]
  other_totals = [count(r.passed for row in rows for r in row.others[name].values()) for name in others]
  return tables.table(titles, [*lines, [*cells, *other_totals]])


def failures(row: Row) -> str:
  """Returns a line for each check that failed, and for a trace that says something else than `jit`."""
  lines = [text] if (text := results.failures(row.results.values())) else []
  if row.split is not None and _split(row) == "FAILS":
    lines.append(f"{row.name} split: {row.split.detail or 'it should be refused'}")
  if not row.trace_agrees:
    lines.append(f"{row.name} trace does not agree with jit: {row.trace or 'no problem'}")
  return "\n".join(lines)


def _all(rows: Sequence[Row], check: str) -> list[CheckResult]:
  return [row.results[check] for row in rows if check in row.results]


def _signs(row: Row) -> list[str]:
  return [_sign(row, check) for check in CHECKS]


def _sign(row: Row, check: str) -> str:
  if check in row.results:
    return "yes" if row.results[check].passed else "FAILS"
  return "no" if check == "jit" else ""


def _split(row: Row) -> str:
  if row.split is None:
    return ""
  if row.name in REFUSED:
    return "refused" if row.split.detail.startswith("UnsupportedOpError") else "FAILS"
  return "yes" if row.split.passed else "FAILS"


def _trace(row: Row) -> str:
  if row.trace is None:
    return ""
  return ("no" if row.trace else "yes") + ("" if row.trace_agrees else ", WRONG")
