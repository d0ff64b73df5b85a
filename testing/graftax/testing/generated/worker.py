"""Runs cases in child processes, because some of TensorFlow's kernels abort the process or do not return."""

import concurrent.futures
import dataclasses
import queue
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from graftax.testing.generated.case import CaseId
from graftax.testing.generated.compare import Difference
from graftax.testing.generated.deviations import reason
from graftax.testing.generated.run import Runner, draw_case
from graftax.testing.harness import children
from graftax.testing.harness.children import answer_cases, run_in_children

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
  def request(share: Sequence[CaseId]) -> list[str]:
    return [str(case) for case in share]

  found = run_in_children(__name__, cases, request, _ENVIRONMENT, timeout_s, _CASES_PER_CHILD)
  for case, message in found:
    answers.put(_read(case, message))


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
  answer_cases(_run)


def _run(texts: Sequence[str], say: Callable[[str], None]) -> Iterator[Any]:
  runner = Runner(on_oracle_done=lambda: say("TensorFlow is done"))
  for text in texts:
    yield dataclasses.asdict(answer(CaseId.parse(text), runner))


def _read(case: CaseId, message: children.Answer) -> Answer:
  """Returns what a child said; a case at which it died or hung in TensorFlow is rejected."""
  if message.lost and not message.notes:
    return Answer(case, rejected="TensorFlow's kernel aborts or does not return")
  if message.lost:
    return Answer(case, differences=(Difference("died", message.lost),))
  result = message.result
  found = tuple(Difference(**difference) for difference in result["differences"])
  return Answer(case, result["rejected"], found, tuple(result["known"]), result["has_gradient"])
