"""Runs cases in child processes with limits on processor time and memory, and names what came of each."""

import collections
import concurrent.futures
import contextlib
import dataclasses
import math
import queue
import time
from collections.abc import Iterator, Sequence

from graftax.testing.child_process import Child, LostChildError, SilentChildError
from graftax.testing.hostile.case import CaseId
from graftax.testing.hostile.processes import ProcessTree
from graftax.testing.pytrees import Json

__all__ = ["FAULTS", "OUTCOMES", "WORKER", "Answer", "CaseLimits", "run_cases"]

# "broken": the template itself raised. "unread": an honest file was refused. "wrong": a result differs from what the
# file says. "accepted": a file was read that must be refused. "outside": something was opened that is not the model's.
FAULTS = ("crash", "hang", "memory", "untyped", "outside", "accepted", "wrong", "unread", "broken")
OUTCOMES = ("refused", "loaded", *FAULTS)

# The module that children run.
WORKER = "graftax.testing.hostile.worker"
# Compiled programs stay in a child's memory.
_CASES_PER_CHILD = 100
_POLL_S = 0.05
_ENVIRONMENT = {
  "JAX_PLATFORMS": "cpu",
  "TF_CPP_MIN_LOG_LEVEL": "3",
  "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
}


@dataclasses.dataclass(frozen=True, slots=True)
class CaseLimits:
  """What reading one file may cost.

  Attributes:
    seconds: processor time of the process and its helpers.
    memory_mib: memory beyond what the process has before.
    silent_s: how long all of them may stand still.
  """

  seconds: float = 10.0
  memory_mib: float = 2048.0
  silent_s: float = 30.0


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
  """What came of a case.

  Attributes:
    id: the case.
    outcome: one of `OUTCOMES`.
    detail: the error, or what is wrong.
    decisions: what was drawn.
    seconds: processor time that reading took.
    memory_mib: memory that reading took at its peak.
  """

  id: CaseId
  outcome: str
  detail: str = ""
  decisions: tuple[str, ...] = ()
  seconds: float = 0.0
  memory_mib: float = 0.0

  @property
  def is_fault(self) -> bool:
    """Whether the case shows a fault."""
    return self.outcome in FAULTS


def run_cases(
  cases: Sequence[CaseId],
  *,
  num_workers: int = 1,
  oracle: bool = False,
  limits: CaseLimits | None = None,
  module: str = WORKER,
  minutes: float = math.inf,
) -> Iterator[Answer]:
  """Yields what came of each case, in the order in which they end.

  Args:
    cases: the cases.
    num_workers: child processes that run at a time.
    oracle: let TensorFlow judge the graphs that were accepted.
    limits: what reading one file may cost.
    module: the module that the children run.
    minutes: begin no case later than that; the others have no answer.
  """
  waiting = collections.deque(cases)
  answers: queue.Queue[Answer] = queue.Queue()
  worker = _Worker(waiting, answers, oracle, limits or CaseLimits(), module, time.monotonic() + 60 * minutes)
  with concurrent.futures.ThreadPoolExecutor(num_workers) as pool:
    running = [pool.submit(worker.run) for _ in range(num_workers)]
    while not answers.empty() or not all(future.done() for future in running):
      with contextlib.suppress(queue.Empty):
        yield answers.get(timeout=0.2)
    for future in running:
      future.result()


@dataclasses.dataclass(frozen=True)
class _Worker:
  """Takes cases and answers them with one child after the other."""

  waiting: "collections.deque[CaseId]"
  answers: "queue.Queue[Answer]"
  oracle: bool
  limits: CaseLimits
  module: str
  deadline: float

  def run(self) -> None:
    while batch := self._take():
      while batch and time.monotonic() < self.deadline:
        batch = batch[self._run_in_child(batch) :]

  def _take(self) -> list[CaseId]:
    taken: list[CaseId] = []
    try:
      while len(taken) < _CASES_PER_CHILD:
        taken.append(self.waiting.popleft())
    except IndexError:
      pass
    return taken

  def _run_in_child(self, cases: Sequence[CaseId]) -> int:
    """Answers cases up to and including the one at which the child is lost; returns how many."""
    request = {"cases": [str(case) for case in cases], "oracle": self.oracle}
    with Child(self.module, request, _ENVIRONMENT) as child:
      child.receive(0.0)  # which waits for as long as starting may take
      for done, case in enumerate(cases, 1):
        answer, is_alive = _answer(child, case, self.limits)
        self.answers.put(answer)
        if not is_alive or time.monotonic() > self.deadline:
          return done
    return len(cases)


def _answer(child: Child, case: CaseId, limits: CaseLimits) -> tuple[Answer, bool]:
  """Returns the answer to a case, and whether the child can go on."""
  tree, phase, decisions = ProcessTree(child.pid), "write", ()
  start = moved = time.monotonic()
  allowed_mib = limits.memory_mib
  while True:
    try:
      message = child.receive(_POLL_S)
    except SilentChildError:
      tree.look()
      if tree.has_moved():
        moved = time.monotonic()
      fault = _exceeded(tree, limits, allowed_mib, time.monotonic() - moved)
      if not fault:
        continue
    except LostChildError as e:
      fault = ("crash", str(e))
    else:
      if message["phase"] == "done":
        return _complete(case, message, tree, limits, allowed_mib), True
      phase = message["phase"]
      tree, moved = ProcessTree(child.pid), time.monotonic()
      decisions = tuple(message.get("decisions", decisions))
      allowed_mib = limits.memory_mib + message.get("memory_mib", 0)
      continue
    if phase == "oracle":
      return Answer(case, "loaded", "TensorFlow does not survive it", decisions), False
    outcome, detail = ("broken", fault[1]) if phase == "write" else fault
    tree.kill_helpers()
    return Answer(case, outcome, detail, decisions, tree.seconds or time.monotonic() - start, tree.memory_mib), False


def _exceeded(tree: ProcessTree, limits: CaseLimits, allowed_mib: float, silent_s: float) -> tuple[str, str] | None:
  if tree.seconds > limits.seconds:
    return "hang", f"more than {limits.seconds:.0f} s of processor time"
  if tree.memory_mib > allowed_mib:
    return "memory", f"{tree.memory_mib:.0f} MiB; expected at most {allowed_mib:.0f}"
  if silent_s > limits.silent_s:
    return "hang", f"blocked for {silent_s:.0f} s"
  return None


def _complete(
  case: CaseId, message: dict[str, Json], tree: ProcessTree, limits: CaseLimits, allowed_mib: float
) -> Answer:
  seconds, memory = message.get("seconds", 0.0), max(message.get("memory", 0.0), tree.memory_mib)
  outcome, detail = message["outcome"], message["detail"]
  if outcome in ("refused", "loaded", "untyped"):
    if memory > allowed_mib:
      outcome, detail = "memory", f"{memory:.0f} MiB, then {outcome} {detail}"
    elif seconds > limits.seconds:
      outcome, detail = "hang", f"{seconds:.1f} s of processor time, then {outcome} {detail}"
  return Answer(case, outcome, detail, tuple(message["decisions"]), seconds, memory)
