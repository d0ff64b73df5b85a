"""Answers of a child process, and what the parent sees of one that dies, hangs or prints."""

import sys

import pytest

from graftax.testing.child_process import Child, LostChildError

_MODULE = """
import os
import time

from graftax.testing.child_process import serve


def main():
  request, answer = serve()
  print("between the answers")
  for number in request["numbers"]:
    answer([number**2, os.environ["GIVEN"], os.environ["SET_BEFORE"]])
  if request["then"] == "hang":
    time.sleep(60)
  os._exit(1)
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
  (tmp_path / "answering.py").write_text(_MODULE)
  monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
  monkeypatch.setenv("SET_BEFORE", "kept")
  return lambda **request: Child("answering", request, {"GIVEN": "set", "SET_BEFORE": "replaced"})


def test_answers_come_in_order_until_the_child_dies(start):
  with start(numbers=[2, 3], then="die") as child:
    assert [child.receive(30) for _ in range(2)] == [[4, "set", "kept"], [9, "set", "kept"]]
    with pytest.raises(LostChildError, match="the process died"):
      child.receive(30)


def test_a_child_that_hangs_is_lost_when_its_time_is_up(start):
  with start(numbers=[1], then="hang") as child:
    child.receive(30)
    with pytest.raises(LostChildError, match="no answer within 1 s"):
      child.receive(1)
