"""Runs cases in child processes, because some of TensorFlow's kernels abort the process or do not return.

A child reads case ids from its standard input, and writes one JSON object per case.
"""

import concurrent.futures
import dataclasses
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import IO, Any

from graftax.testing.generated.case import CaseId
from graftax.testing.generated.compare import Difference
from graftax.testing.generated.deviations import reason
from graftax.testing.generated.run import Runner, draw_case

__all__ = ["Answer", "main", "run_isolated"]

# Starting TensorFlow takes its time on a busy machine.
_STARTUP_S = 300.0
# Compiled programs stay in a child's memory, so it is replaced after this many cases.
_CASES_PER_CHILD = 1000
# Without oneDNN, which TensorFlow switches on by itself on some CPUs only, its kernels refuse grouped, dilated and NCHW
# convolutions.
_ENVIRONMENT = {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "1"}


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
  """What a child said about a case.

  Attributes:
    id: the case.
    rejected: why TensorFlow does not accept it, or an empty string; also if its kernel aborts or hangs.
    differences: new differences from TensorFlow.
    known: reasons of the differences that are in the table of deviations.
    has_gradient: whether a gradient was compared.
  """

  id: CaseId
  rejected: str = ""
  differences: tuple[Difference, ...] = ()
  known: tuple[str, ...] = ()
  has_gradient: bool = False


def answer(case_id: CaseId, runner: Runner) -> Answer:
  """Runs a case in this process."""
  case = draw_case(case_id)
  outcome = runner.run(case)
  reasons = [reason(case, difference) for difference in outcome.differences]
  new = tuple(d for d, why in zip(outcome.differences, reasons, strict=True) if why is None)
  known = tuple(why for why in reasons if why is not None)
  return Answer(case_id, outcome.rejected, new, known, outcome.has_gradient)


def run_isolated(cases: Sequence[CaseId], timeout_s: float = 60.0, num_children: int = 1) -> Iterator[Answer]:
  """Yields the answer to each case; those to the cases of one op in order.

  Args:
    cases: the cases.
    timeout_s: how long one may take. A case at which the child dies or hangs counts as rejected; the message tells
      whether TensorFlow or the lowering was running.
    num_children: how many child processes run at a time.
  """
  ops = sorted({case.op for case in cases})
  child_of = {op: i % num_children for i, op in enumerate(ops)}
  shares = [[case for case in cases if child_of[case.op] == i] for i in range(num_children)]
  answers: queue.Queue[Answer] = queue.Queue()
  with concurrent.futures.ThreadPoolExecutor(num_children) as pool:
    running = [pool.submit(_answer_all, share, timeout_s, answers) for share in shares]
    for _ in cases:
      yield _next_of(answers, running)


def _answer_all(cases: Sequence[CaseId], timeout_s: float, answers: "queue.Queue[Answer]") -> None:
  done = 0
  while done < len(cases):
    for found in _run_in_child(cases[done : done + _CASES_PER_CHILD], timeout_s):
      done += 1
      answers.put(found)


def _next_of(answers: "queue.Queue[Answer]", running: Sequence["concurrent.futures.Future[None]"]) -> Answer:
  """Returns the next answer; raises what a thread raised."""
  while True:
    try:
      return answers.get(timeout=1.0)
    except queue.Empty:
      for future in running:
        if future.done():
          future.result()


def main() -> None:
  """Runs the child."""
  # What TensorFlow prints must not come between the lines.
  channel = os.fdopen(os.dup(1), "w")
  os.dup2(2, 1)
  runner = Runner(on_oracle_done=lambda: _say(channel, {"oracle": "done"}))
  for text in json.loads(sys.stdin.readline()):
    _say(channel, dataclasses.asdict(answer(CaseId.parse(text), runner)))


def _say(channel: IO[str], message: dict[str, Any]) -> None:
  channel.write(json.dumps(message) + "\n")
  channel.flush()


def _run_in_child(cases: Sequence[CaseId], timeout_s: float) -> Iterator[Answer]:
  """Yields answers up to and including the case at which the child dies or hangs."""
  command = [sys.executable, "-c", "from graftax.testing.generated.worker import main; main()"]
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
    child.stdin.write(json.dumps([str(case) for case in cases]) + "\n")
    child.stdin.flush()
    limit_s = _STARTUP_S
    for case in cases:
      found = _next_answer(lines, case, limit_s)
      limit_s = timeout_s
      yield found or Answer(case, rejected="TensorFlow's kernel aborts or does not return")
      if found is None or any(d.kind == "died" for d in found.differences):
        return
  finally:
    child.kill()
    child.wait()
    reader.join()
    child.stdin.close()
    child.stdout.close()


def _next_answer(lines: "queue.Queue[str | None]", case: CaseId, limit_s: float) -> Answer | None:
  """Returns an answer; None if the child dies or hangs in TensorFlow."""
  in_oracle = True
  while True:
    try:
      line = lines.get(timeout=limit_s)
    except queue.Empty:
      line = None
    if line is None:
      return None if in_oracle else Answer(case, differences=(Difference("died", f"nothing within {limit_s:.0f} s"),))
    message = json.loads(line)
    if "oracle" in message:
      in_oracle = False
    else:
      found = tuple(Difference(**difference) for difference in message["differences"])
      return Answer(case, message["rejected"], found, tuple(message["known"]), message["has_gradient"])


def _copy_lines(stream: IO[str], lines: "queue.Queue[str | None]") -> None:
  for line in stream:
    lines.put(line)
  lines.put(None)
