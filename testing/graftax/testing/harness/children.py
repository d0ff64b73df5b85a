"""Runs cases in child processes, one after the other. If a child dies or hangs, only its case fails.

A child calls `serve`, and for each case of its request sends notes while it works, and then the result.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, TypeVar

from graftax.testing.child_process import Child, LostChildError, serve
from graftax.testing.pytrees import Json

__all__ = ["Answer", "answer_cases", "run_in_children"]

_Case = TypeVar("_Case")
_NUM_LINES = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
  """What a child said about a case.

  Attributes:
    notes: what it said while it worked, in order.
    result: what it said at the end; None if it was lost.
    lost: how it died, or that it did not answer in time; empty if it did.
  """

  notes: tuple[Json, ...]
  result: Json = None
  lost: str = ""


def run_in_children(
  module: str,
  cases: Sequence[_Case],
  request: Callable[[Sequence[_Case]], Json],
  environment: Mapping[str, str],
  timeout_s: float,
  cases_per_child: int | None = None,
  errors: IO[bytes] | None = None,
) -> Iterator[tuple[_Case, Answer]]:
  """Yields each case with the answer to it, in order.

  Args:
    module: the module whose `main` runs in the child; it calls `answer_cases`.
    cases: the cases.
    request: returns what a child is asked, for the cases that are left to it.
    environment: variables of the child.
    timeout_s: how long a note or a result may take.
    cases_per_child: after how many cases a child is replaced. Compiled programs stay in its memory.
    errors: a file for what children print, of which the end is told of a child that died; by default this is lost.
  """
  done = 0
  while done < len(cases):
    share = cases[done : None if cases_per_child is None else done + cases_per_child]
    with Child(module, request(share), environment, errors) as child:
      for case in share:
        answer = _answer(child, timeout_s)
        if answer.lost and errors is not None:
          answer = dataclasses.replace(answer, lost=f"{answer.lost}{_end(errors)}")
        done += 1
        yield case, answer
        if answer.lost:
          break


def answer_cases(run: Callable[[Json, Callable[[Json], None]], Iterator[Json]]) -> None:
  """Answers the request in a child.

  Args:
    run: takes the request and a function that sends a note, and yields the result of each case.
  """
  request, say = serve()
  for result in run(request, lambda note: say({"note": note})):
    say({"result": result})


def _end(errors: IO[bytes]) -> str:
  """Returns the last lines of what a child printed."""
  errors.seek(0)
  lines = [line.strip() for line in errors.read().decode(errors="replace").splitlines()]
  return "".join(f": {line}" for line in [line for line in lines if line][-_NUM_LINES:])


def _answer(child: Child, timeout_s: float) -> Answer:
  notes: list[Json] = []
  while True:
    try:
      message = child.receive(timeout_s)
    except LostChildError as e:
      return Answer(tuple(notes), lost=str(e))
    if "result" in message:
      return Answer(tuple(notes), message["result"])
    notes.append(message["note"])
