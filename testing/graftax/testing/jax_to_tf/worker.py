"""Checks functions in child processes, because XLA may abort the process."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import jax

from graftax.testing.child_process import Child, LostChildError, serve
from graftax.testing.jax_to_tf.catalogue import all_cases
from graftax.testing.jax_to_tf.check import Result, check_case

__all__ = ["main", "run_isolated"]

# Compiled programs stay in a child's memory, so it is replaced after this many functions.
_CASES_PER_CHILD = 60
# XLA removes collectives over a single device.
_NUM_DEVICES = 2
_ENVIRONMENT = {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "1"}


def run_isolated(
  cases: Sequence[str], converter: str, routes: Sequence[str], forms: Sequence[str], timeout_s: float = 120.0
) -> Iterator[tuple[str, list[Result]]]:
  """Yields the name of each case and its results, in order.

  Args:
    cases: names of cases, as `all_cases` gives them.
    converter: a key of `CONVERTERS`.
    routes: keys of `ROUTES`.
    forms: some of `FORMS`.
    timeout_s: how long one check may take. A check at which the child dies or hangs counts as raised, and the checks
      of this case that would follow are left out.
  """
  done = 0
  while done < len(cases):
    request = {
      "cases": cases[done : done + _CASES_PER_CHILD], "converter": converter, "routes": routes, "forms": forms
    }  # fmt: skip
    for found in _run_in_child(request, timeout_s):
      done += 1
      yield found


def main() -> None:
  """Runs the child."""
  request, say = serve()
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
        say({"result": dataclasses.asdict(result)})
    except Exception as e:
      problem = " ".join(f"JAX itself fails: {type(e).__name__}: {e}".split())
      say({"result": dataclasses.asdict(Result("static", "oracle", "value", "raised", problem[:400]))})
    say({"done": name})


def _run_in_child(request: dict[str, Any], timeout_s: float) -> Iterator[tuple[str, list[Result]]]:
  """Yields answers up to and including the case at which the child dies or hangs."""
  with Child(__name__, request, _ENVIRONMENT) as child:
    for name in request["cases"]:
      results, died = _results_of_case(child, timeout_s)
      yield name, results
      if died:
        return


def _results_of_case(child: Child, timeout_s: float) -> tuple[list[Result], bool]:
  """Returns the results of one case, and whether the child died or hung."""
  results: list[Result] = []
  running = "static start"
  while True:
    try:
      message = child.receive(timeout_s)
    except LostChildError as e:
      form, _, route = running.partition(" ")
      check = "gradient" if results and (results[-1].form, results[-1].route) == (form, route) else "value"
      return [*results, Result(form, route, check, "raised", str(e))], True
    if "done" in message:
      return results, False
    if "start" in message:
      running = message["start"]
    else:
      results.append(Result(**message["result"]))
