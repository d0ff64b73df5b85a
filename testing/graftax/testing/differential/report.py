"""Formats results as tables."""

import collections
from collections.abc import Iterable, Mapping, Sequence

from graftax.testing.differential.case import CHECKS
from graftax.testing.differential.runner import CheckResult
from graftax.testing.harness import tables

__all__ = ["failures", "table", "totals"]


def table(results: Mapping[str, Sequence[CheckResult]], by: str = "kind") -> str:
  """Returns a Markdown table of how many checks of each converter pass, by kind of case or by check.

  Args:
    results: maps the name of a converter to its results.
    by: what a row is, `"kind"` or `"check"`.
  """
  rows: dict[str, dict[str, list[int]]] = collections.defaultdict(lambda: {name: [0, 0] for name in results})
  cases = collections.defaultdict(set)
  for name, found in results.items():
    for result in found:
      key = getattr(result, by)
      rows[key][name][0] += result.passed
      rows[key][name][1] += 1
      cases[key].add((result.kind, result.case))
  order = [check for check in CHECKS if check in rows] if by == "check" else sorted(rows)
  lines = [(key, len(cases[key]), *(f"{passed} of {total}" for passed, total in rows[key].values())) for key in order]
  counts = [totals(found) for found in results.values()]
  all_cases = max((count["cases"] for count in counts), default=0)
  lines.append(("all", all_cases, *(f"{count['checks_passed']} of {count['checks']}" for count in counts)))
  return tables.table([by, "cases", *results], lines, num_left=1)


def totals(results: Iterable[CheckResult]) -> dict[str, int]:
  """Returns the numbers of cases and checks, and how many of each pass."""
  results = list(results)
  cases = {(result.kind, result.case) for result in results}
  broken = {(result.kind, result.case) for result in results if not result.passed}
  return {
    "cases": len(cases),
    "cases_passed": len(cases) - len(broken),
    "checks": len(results),
    "checks_passed": sum(result.passed for result in results),
  }


def failures(results: Iterable[CheckResult]) -> str:
  """Returns one line per failed check."""
  return "\n".join(f"{r.kind}/{r.case} {r.check}: {r.detail}" for r in results if not r.passed)
