"""Checks functions in child processes, because XLA may abort the process.

A child reads names from its standard input and writes one JSON object per line.
"""

import dataclasses
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import IO, Any

import jax

from graftax.testing.jax_to_tf.catalogue import all_cases
from graftax.testing.jax_to_tf.check import Result, check_case

__all__ = ["main", "run_isolated"]

# Importing TensorFlow can take minutes on a busy machine.
_STARTUP_S = 300.0
# Compiled programs stay in a child's memory, so it is replaced after this many functions.
_CASES_PER_CHILD = 60
# Collectives over one device are no collectives.
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
  # What TensorFlow prints must not come between the lines.
  channel = os.fdopen(os.dup(1), "w")
  os.dup2(2, 1)
  request = json.loads(sys.stdin.readline())
  jax.config.update("jax_num_cpu_devices", _NUM_DEVICES)
  cases = all_cases()
  for name in request["cases"]:
    try:
      found = check_case(
        cases[name],
        request["converter"],
        request["routes"],
        request["forms"],
        lambda what: _say(channel, {"start": what}),
      )
      for result in found:
        _say(channel, {"result": dataclasses.asdict(result)})
    except Exception as e:
      problem = " ".join(f"JAX itself fails: {type(e).__name__}: {e}".split())
      _say(channel, {"result": dataclasses.asdict(Result("static", "oracle", "value", "raised", problem[:400]))})
    _say(channel, {"done": name})


def _say(channel: IO[str], message: dict[str, Any]) -> None:
  channel.write(json.dumps(message) + "\n")
  channel.flush()


def _run_in_child(request: dict[str, Any], timeout_s: float) -> Iterator[tuple[str, list[Result]]]:
  """Yields answers up to and including the case at which the child dies or hangs."""
  command = [sys.executable, "-c", "from graftax.testing.jax_to_tf.worker import main; main()"]
  paths = os.pathsep.join(path for path in sys.path if path)
  environment = {**_ENVIRONMENT, **os.environ, "PYTHONPATH": paths}
  child = subprocess.Popen(
    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
  )
  assert child.stdin is not None and child.stdout is not None
  lines: queue.Queue[str | None] = queue.Queue()
  reader = threading.Thread(target=_copy_lines, args=(child.stdout, lines), daemon=True)
  reader.start()
  try:
    child.stdin.write(json.dumps(request) + "\n")
    child.stdin.flush()
    for name in request["cases"]:
      results, died = _results_of_case(lines, timeout_s)
      yield name, results
      if died:
        return
  finally:
    child.kill()
    child.wait()
    reader.join()
    child.stdin.close()
    child.stdout.close()


def _results_of_case(lines: "queue.Queue[str | None]", timeout_s: float) -> tuple[list[Result], bool]:
  """Returns the results of one case, and whether the child died or hung."""
  results: list[Result] = []
  running = "static start"
  limit_s = _STARTUP_S
  while True:
    try:
      line, problem = lines.get(timeout=limit_s), "the process died"
    except queue.Empty:
      line, problem = None, f"no answer within {limit_s:.0f} s"
    if line is None:
      form, _, route = running.partition(" ")
      check = "gradient" if results and (results[-1].form, results[-1].route) == (form, route) else "value"
      return [*results, Result(form, route, check, "raised", problem)], True
    message = json.loads(line)
    if "done" in message:
      return results, False
    if "start" in message:
      running = message["start"]
      limit_s = timeout_s
    else:
      results.append(Result(**message["result"]))


def _copy_lines(stream: IO[str], lines: "queue.Queue[str | None]") -> None:
  for line in stream:
    lines.put(line)
  lines.put(None)
