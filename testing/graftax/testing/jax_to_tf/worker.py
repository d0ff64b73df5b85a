"""Checks functions in child processes, because XLA may abort the process."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import jax

from graftax.testing.harness.children import Answer, answer_cases, run_in_children
from graftax.testing.harness.results import CheckResult
from graftax.testing.jax_functions.catalogue import all_cases
from graftax.testing.jax_to_tf.check import check_case
from graftax.testing.pytrees import Json

__all__ = ["main", "run_isolated"]

# Compiled programs stay in a child's memory, so it is replaced after this many functions.
_CASES_PER_CHILD = 60
# XLA removes collectives over a single device.
_NUM_DEVICES = 2
_ENVIRONMENT = {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "1"}


def run_isolated(
  cases: Sequence[str], converter: str, routes: Sequence[str], forms: Sequence[str], timeout_s: float = 120.0
) -> Iterator[tuple[str, list[CheckResult]]]:
  """Yields the name of each case and its results, in order.

  Args:
    cases: names of cases, as `all_cases` gives them.
    converter: a key of `CONVERTERS`.
    routes: keys of `ROUTES`.
    forms: some of `FORMS`.
    timeout_s: how long one check may take. A check at which the child dies or hangs counts as raised, and the checks
      of this case that would follow are left out.
  """

  def request(share: Sequence[str]) -> Json:
    return {"cases": share, "converter": converter, "routes": routes, "forms": forms}

  for name, answer in run_in_children(__name__, cases, request, _ENVIRONMENT, timeout_s, _CASES_PER_CHILD):
    yield name, _results(name, answer)


def main() -> None:
  """Runs the child."""
  answer_cases(_run)


def _run(request: Json, say: Callable[[Json], None]) -> Iterator[str]:
  jax.config.update("jax_num_cpu_devices", _NUM_DEVICES)
  cases = all_cases()
  for name in request["cases"]:
    try:
      found = check_case(
        cases[name],
        request["converter"],
        request["routes"],
        request["forms"],
        lambda what: say({"start": what}),
      )
      for result in found:
        say({"done": dataclasses.asdict(result)})
    except Exception as e:
      problem = " ".join(f"JAX itself fails: {type(e).__name__}: {e}".split())
      say({"done": dataclasses.asdict(_raised(name, "static oracle value", problem[:400]))})
    yield name


def _results(name: str, answer: Answer) -> list[CheckResult]:
  """Returns the results of one case; the check at which the child died or hung counts as raised."""
  results = [CheckResult(**note["done"]) for note in answer.notes if "done" in note]
  if not answer.lost:
    return results
  started = [note["start"] for note in answer.notes if "start" in note]
  way = started[-1] if started else "static start"
  check = "gradient" if results and results[-1].check.startswith(f"{way} ") else "value"
  return [*results, _raised(name, f"{way} {check}", answer.lost)]


def _raised(name: str, check: str, detail: str) -> CheckResult:
  kind, _, case = name.partition("/")
  return CheckResult(case, kind, check, False, detail, outcome="raised")
