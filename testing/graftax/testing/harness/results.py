"""What came of the checks of a suite, and tables of it."""

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from graftax.testing.harness.tables import table

__all__ = ["CheckResult", "counts_table", "failures", "signs_table", "totals"]

# The results of each converter.
Found = Mapping[str, Sequence["CheckResult"]]

_SIGNS = {"": "FAILS", "wrong": "WRONG", "accepted": "ACCEPTS", "raised": "fails", "refused": "refuses"}


@dataclasses.dataclass(frozen=True, slots=True)
class CheckResult:
  """The result of one check of one case.

  Attributes:
    case: the case's name.
    kind: the case's kind.
    check: the check's name.
    passed: whether the result is right.
    detail: the difference or the error; empty if the check passed.
    seconds: duration of the check.
    outcome: in suites that tell these apart: "equal"; "refused", a typed error where one is right; "wrong" numbers,
      shapes or dtypes; "accepted" where an error was the only right answer; "raised" for every other error.
    error: the largest difference over the largest value, or over 1 if that is smaller, in suites that measure it.
  """

  case: str
  kind: str
  check: str
  passed: bool
  detail: str = ""
  seconds: float = 0.0
  outcome: str = ""
  error: float = 0.0


def counts_table(found: Found, row: str = "kind", column: str = "", order: Sequence[str] = ()) -> str:
  """Returns a Markdown table of how many checks of each converter pass.

  Args:
    found: the results of each converter.
    row: what a row is, "kind" or "check".
    column: what the columns of each converter are, "check"; one column if empty.
    order: the order of the rows; those not in it come after it, in alphabetical order.
  """
  passed: dict[tuple[str, str, str], list[bool]] = collections.defaultdict(list)
  cases: dict[str, set[tuple[str, str]]] = collections.defaultdict(set)
  for converter, results in found.items():
    for result in results:
      for name in (getattr(result, row), "all"):
        passed[name, getattr(result, column) if column else "", converter].append(result.passed)
        cases[name].add((result.kind, result.case))
  columns = [(name, converter) for name in dict.fromkeys(name for _, name, _ in passed) for converter in found]
  names = [*(n for n in order if n in cases), *sorted(cases.keys() - {*order, "all"}), "all"]
  rows = [(name, len(cases[name]), *(_count(passed[name, *of]) for of in columns)) for name in names]
  return table([row, "cases", *(f"{converter} {name}".strip() for name, converter in columns)], rows, num_left=1)


def _count(passed: Sequence[bool]) -> str:
  return f"{sum(passed)} of {len(passed)}"


def signs_table(found: Found) -> str:
  """Returns a Markdown table with a row for each case and a column for each check and converter."""
  signs = {(r.kind, r.case, r.check, name): _sign(r) for name, results in found.items() for r in results}
  columns = [(check, name) for check in dict.fromkeys(check for _, _, check, _ in signs) for name in found]
  rows = [
    (_name(*case), *(signs.get((*case, *of), "-") for of in columns))
    for case in dict.fromkeys(key[:2] for key in signs)
  ]
  return table(["case", *(f"{name} {check}" for check, name in columns)], rows)


def _sign(result: CheckResult) -> str:
  return "yes" if result.passed and result.outcome != "refused" else _SIGNS[result.outcome]


def _name(kind: str, case: str) -> str:
  return f"{kind}/{case}" if kind else case


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
  """Returns one line per failed check; none for a check that was left out because the one before it failed."""
  return "\n".join(
    f"{_name(r.kind, r.case)} {r.check}: {f'{r.outcome}: ' if r.outcome else ''}{r.detail}"
    for r in results
    if not r.passed and r.detail
  )
