"""Runs cases in a child process, so that a crash or a hang fails one case and not the whole run."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from graftax.testing.differential.converters import CONVERTERS
from graftax.testing.differential.runner import run_case
from graftax.testing.harness.children import Answer, answer_cases, run_in_children
from graftax.testing.harness.conversion_case import CHECKS, ConversionCase
from graftax.testing.harness.results import CheckResult
from graftax.testing.pytrees import Json
from graftax.testing.tensorflow_programs.catalogue import all_cases

__all__ = ["main", "run_isolated"]

_ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3"}
_MAX_DETAIL = 400


def run_isolated(
  cases: Sequence[ConversionCase], converter: str, timeout_s: float = 180.0, checks: Sequence[str] | None = None
) -> Iterator[CheckResult]:
  """Yields the results of checks of cases of this suite, run in child processes.

  Args:
    cases: the cases.
    converter: name of the converter, a key of `CONVERTERS`.
    timeout_s: time limit of one check in seconds. A case with a check that exceeds it fails all of its checks.
    checks: the checks to run, by default those that each case lists.
  """

  def request(share: Sequence[ConversionCase]) -> Json:
    return {"converter": converter, "cases": [f"{case.kind}/{case.name}" for case in share], "checks": checks}

  for case, answer in run_in_children(__name__, cases, request, _ENVIRONMENT, timeout_s):
    yield from _completed(case, answer, case.checks if checks is None else checks)


def main() -> None:
  """Runs the child process."""
  answer_cases(_run)


def _run(request: Json, say: Callable[[str], None]) -> Iterator[Json]:
  by_key = {f"{case.kind}/{case.name}": case for case in all_cases()}
  for key in request["cases"]:
    try:
      results = run_case(by_key[key], CONVERTERS[request["converter"]], say, request["checks"])
      yield {"results": [dataclasses.asdict(result) for result in results]}
    except Exception as e:
      problem = " ".join(f"{type(e).__name__}: {e}".split())
      yield {"problem": f"the program fails in TensorFlow: {problem}"[:_MAX_DETAIL]}


def _completed(case: ConversionCase, answer: Answer, checks: Sequence[str]) -> Iterator[CheckResult]:
  """Yields a result for each check of the case, even if the case failed as a whole."""
  if answer.lost:
    problem = f"{answer.notes[-1] if answer.notes else ''}: {answer.lost}"
  elif answer.result.get("results"):
    yield from (CheckResult(**result) for result in answer.result["results"])
    return
  else:
    problem = answer.result.get("problem", "no checks")
  yield from (CheckResult(case.name, case.kind, check, False, problem) for check in CHECKS if check in checks)
