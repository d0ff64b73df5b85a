"""Runs cases in a child process, so that a crash or a hang fails one case and not the whole run.

The child reads the names of a converter and of cases from its standard input and writes one JSON object per line.
"""

import contextlib
import dataclasses
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Sequence
from typing import IO, Any

from graftax.testing.differential.case import CHECKS, ConversionCase
from graftax.testing.differential.catalogue import all_cases
from graftax.testing.differential.converters import CONVERTERS
from graftax.testing.differential.runner import CheckResult, run_case

__all__ = ["main", "run_isolated"]

# Importing TensorFlow can take minutes on a busy machine.
_STARTUP_S = 300.0

_MAX_DETAIL = 400


def run_isolated(cases: Sequence[ConversionCase], converter: str, timeout_s: float = 180.0) -> Iterator[CheckResult]:
  """Yields the results of all checks of cases of this suite, run in child processes.

  Args:
    cases: the cases.
    converter: name of the converter, a key of `CONVERTERS`.
    timeout_s: time limit of one check in seconds. A case with a check that exceeds it fails all of its checks.
  """
  pending = list(cases)
  while pending:
    done = 0
    with contextlib.closing(_run_in_child(pending, converter, timeout_s)) as answers:
      for results in answers:
        yield from _completed(pending[done], results)
        done += 1
    pending = pending[done:]


def main() -> None:
  """Runs the child process."""
  # Send what TensorFlow prints to standard error, so that it does not interleave with the JSON lines.
  channel = os.fdopen(os.dup(1), "w")
  os.dup2(2, 1)
  request = json.loads(sys.stdin.readline())
  by_key = {f"{case.kind}/{case.name}": case for case in all_cases()}
  for key in request["cases"]:
    _report(channel, {"start": key})
    try:
      results = run_case(
        by_key[key], CONVERTERS[request["converter"]], on_start=lambda check: _report(channel, {"check": check})
      )
      answer = [dataclasses.asdict(result) for result in results]
    except Exception as e:
      problem = " ".join(f"{type(e).__name__}: {e}".split())
      answer = [{"detail": f"the program fails in TensorFlow: {problem}"[:_MAX_DETAIL]}]
    _report(channel, {"results": answer})


def _report(channel: IO[str], message: dict[str, Any]) -> None:
  channel.write(json.dumps(message) + "\n")
  channel.flush()


def _run_in_child(
  cases: Sequence[ConversionCase], converter: str, timeout_s: float
) -> Generator[list[dict[str, Any]], None, None]:
  """Yields the answer for each case in order, up to and including the one at which the child dies or hangs."""
  command = [sys.executable, "-c", "from graftax.testing.differential.worker import main; main()"]
  paths = os.pathsep.join(path for path in sys.path if path)
  environment = {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, "PYTHONPATH": paths}
  child = subprocess.Popen(
    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
  )
  assert child.stdin is not None and child.stdout is not None
  lines, reader = _lines(child.stdout)
  try:
    request = {"converter": converter, "cases": [f"{case.kind}/{case.name}" for case in cases]}
    child.stdin.write(json.dumps(request) + "\n")
    child.stdin.flush()
    for _ in cases:
      answer = _answer(lines, timeout_s)
      yield answer
      if "fatal" in answer[0]:
        return
  finally:
    child.kill()
    child.wait()
    reader.join()
    child.stdin.close()
    child.stdout.close()


def _lines(stream: IO[str]) -> "tuple[queue.Queue[str | None], threading.Thread]":
  """Returns a queue of the lines of a stream followed by None, and the thread that fills it."""
  lines: queue.Queue[str | None] = queue.Queue()

  def read() -> None:
    for line in stream:
      lines.put(line)
    lines.put(None)

  reader = threading.Thread(target=read, daemon=True)
  reader.start()
  return lines, reader


def _answer(lines: "queue.Queue[str | None]", timeout_s: float) -> list[dict[str, Any]]:
  check = ""
  limit_s = _STARTUP_S
  while True:
    try:
      line = lines.get(timeout=limit_s)
    except queue.Empty:
      return [{"fatal": True, "detail": f"{check}: no answer within {limit_s:.0f} s"}]
    if line is None:
      return [{"fatal": True, "detail": f"{check}: the process died"}]
    message = json.loads(line)
    if "results" in message:
      return message["results"] or [{"detail": "no checks"}]
    check = message.get("check", check)
    limit_s = timeout_s


def _completed(case: ConversionCase, results: Sequence[dict[str, Any]]) -> Iterator[CheckResult]:
  """Yields a result for each check of the case, even if the case failed as a whole."""
  if "check" in results[0]:
    yield from (CheckResult(**result) for result in results)
  else:
    for check in CHECKS:
      if check in case.checks:
        yield CheckResult(case.name, case.kind, check, False, results[0]["detail"])
