"""Runs cases in a child process, so that a crash or a hang fails one case and not the whole run."""

import contextlib
import dataclasses
from collections.abc import Generator, Iterator, Sequence
from typing import Any

from graftax.testing.child_process import Child, LostChildError, serve
from graftax.testing.differential.case import CHECKS, ConversionCase
from graftax.testing.differential.catalogue import all_cases
from graftax.testing.differential.converters import CONVERTERS
from graftax.testing.differential.runner import CheckResult, run_case

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
  pending = list(cases)
  while pending:
    done = 0
    with contextlib.closing(_run_in_child(pending, converter, timeout_s, checks)) as answers:
      for results in answers:
        yield from _completed(pending[done], results, checks)
        done += 1
    pending = pending[done:]


def main() -> None:
  """Runs the child process."""
  request, say = serve()
  by_key = {f"{case.kind}/{case.name}": case for case in all_cases()}
  for key in request["cases"]:
    try:
      converter = CONVERTERS[request["converter"]]
      results = run_case(by_key[key], converter, lambda check: say({"check": check}), request["checks"])
      answer = [dataclasses.asdict(result) for result in results]
    except Exception as e:
      problem = " ".join(f"{type(e).__name__}: {e}".split())
      answer = [{"detail": f"the program fails in TensorFlow: {problem}"[:_MAX_DETAIL]}]
    say({"results": answer})


def _run_in_child(
  cases: Sequence[ConversionCase], converter: str, timeout_s: float, checks: Sequence[str] | None
) -> Generator[list[dict[str, Any]], None, None]:
  """Yields the answer for each case in order, up to and including the one at which the child dies or hangs."""
  request = {"converter": converter, "cases": [f"{case.kind}/{case.name}" for case in cases], "checks": checks}
  with Child(__name__, request, _ENVIRONMENT) as child:
    for _ in cases:
      answer = _answer(child, timeout_s)
      yield answer
      if "fatal" in answer[0]:
        return


def _answer(child: Child, timeout_s: float) -> list[dict[str, Any]]:
  check = ""
  while True:
    try:
      message = child.receive(timeout_s)
    except LostChildError as e:
      return [{"fatal": True, "detail": f"{check}: {e}"}]
    if "results" in message:
      return message["results"] or [{"detail": "no checks"}]
    check = message["check"]


def _completed(
  case: ConversionCase, results: Sequence[dict[str, Any]], checks: Sequence[str] | None
) -> Iterator[CheckResult]:
  """Yields a result for each check of the case, even if the case failed as a whole."""
  if "check" in results[0]:
    yield from (CheckResult(**result) for result in results)
  else:
    for check in CHECKS:
      if check in (case.checks if checks is None else checks):
        yield CheckResult(case.name, case.kind, check, False, results[0]["detail"])
