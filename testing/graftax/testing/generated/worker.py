"""Runs cases in child processes, because some of TensorFlow's kernels abort the process or do not return."""

import concurrent.futures
import dataclasses
import queue
from collections.abc import Iterator, Sequence

from graftax.testing.child_process import Child, LostChildError, serve
from graftax.testing.generated.case import CaseId
from graftax.testing.generated.compare import Difference
from graftax.testing.generated.deviations import reason
from graftax.testing.generated.run import Runner, draw_case

__all__ = ["Answer", "main", "run_isolated"]

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
    timeout_s: how long TensorFlow or the lowering may take. A case counts as rejected if the child dies or hangs in
      TensorFlow, and as a difference of the kind "died" if it does so in the lowering.
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
  texts, say = serve()
  runner = Runner(on_oracle_done=lambda: say({"oracle": "done"}))
  for text in texts:
    say(dataclasses.asdict(answer(CaseId.parse(text), runner)))


def _run_in_child(cases: Sequence[CaseId], timeout_s: float) -> Iterator[Answer]:
  """Yields answers up to and including the case at which the child dies or hangs."""
  with Child(__name__, [str(case) for case in cases], _ENVIRONMENT) as child:
    for case in cases:
      found = _next_answer(child, case, timeout_s)
      yield found or Answer(case, rejected="TensorFlow's kernel aborts or does not return")
      if found is None or any(d.kind == "died" for d in found.differences):
        return


def _next_answer(child: Child, case: CaseId, timeout_s: float) -> Answer | None:
  """Returns an answer; None if the child dies or hangs in TensorFlow."""
  in_oracle = True
  while True:
    try:
      message = child.receive(timeout_s)
    except LostChildError as e:
      return None if in_oracle else Answer(case, differences=(Difference("died", str(e)),))
    if "oracle" in message:
      in_oracle = False
    else:
      found = tuple(Difference(**difference) for difference in message["differences"])
      return Answer(case, message["rejected"], found, tuple(message["known"]), message["has_gradient"])
