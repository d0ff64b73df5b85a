"""A case at which the child dies or hangs costs that case and no other one."""

import os
import sys
import time
from collections.abc import Sequence

from graftax.testing.harness.children import Answer, answer_cases, run_in_children


def main() -> None:
  """Runs the child: "die" and "hang" do so after a note, any other case is answered in capitals."""
  answer_cases(_run)


def _run(request, say):
  for case in request:
    say(f"{case} begins")
    if case == "die":
      print(f"cannot run {case}", file=sys.stderr, flush=True)
      os._exit(3)
    if case == "hang":
      time.sleep(60)
    yield [case.upper(), os.getpid()]


def _answers(cases: Sequence[str], **options) -> list[Answer]:
  found = list(run_in_children(__name__, cases, list, {}, 1.0, **options))
  assert [case for case, _ in found] == list(cases)
  return [answer for _, answer in found]


def test_the_cases_after_a_lost_one_run_in_a_new_child():
  before, died, between, hung, after = _answers(["a", "die", "b", "hang", "c"])
  assert [answer.result[0] for answer in (before, between, after)] == ["A", "B", "C"]
  assert died == Answer(("die begins",), None, "the process died (exit status 3)")
  assert hung == Answer(("hang begins",), None, "no answer within 1 s")


def test_what_a_lost_child_printed_last_is_told(tmp_path):
  with (tmp_path / "errors.txt").open("w+b") as file:
    _, died, after = _answers(["a", "die", "c"], errors=file)
  assert died.lost == "the process died (exit status 3): cannot run die"
  assert after.lost == ""


def test_a_child_is_replaced_after_its_share_of_cases():
  processes = [answer.result[1] for answer in _answers(["a", "b", "c"], cases_per_child=2)]
  assert processes[0] == processes[1] != processes[2]
