"""Tests the comparison with other runtimes on contestants that only wait."""

import io
import json
import math
import shutil
import sys
import time

import pytest
from rich.console import Console

from graftax.tools.benchmarks.ratios import ratios_to_best
from graftax.tools.benchmarks.runtimes import __main__ as command
from graftax.tools.benchmarks.runtimes import workers
from graftax.tools.benchmarks.runtimes.comparison import comparison_table, is_busy, stored_rows
from graftax.tools.benchmarks.runtimes.machine_load import Snapshot, busy_share, snapshot
from graftax.tools.benchmarks.runtimes.turns import Times, disagreeing, measure_row
from graftax.tools.benchmarks.runtimes.workers import Worker, WorkerError
from graftax.tools.benchmarks.stored import StoredBenchmark

_CONTESTANTS = """
import os, time
import numpy as np

def waits(folder, inputs, train):
  print("a framework prints")
  return lambda: (time.sleep(0.002), inputs[0] * 2.0)[1]

def fails(folder, inputs, train):
  raise NotImplementedError("no such op")

def aborts(folder, inputs, train):
  calls = []
  def run():
    calls.append(1)
    if len(calls) > 2:
      os._exit(7)
    return inputs[0]
  return run

CONTESTANTS = {"waits": waits, "fails": fails, "aborts": aborts}
"""


@pytest.fixture
def start(tmp_path):
  """Returns a function that starts a worker with one of the contestants above."""
  shutil.copy(workers.__file__.replace("workers.py", "worker.py"), tmp_path / "worker.py")
  (tmp_path / "contestants.py").write_text(_CONTESTANTS)
  (tmp_path / "net").mkdir()
  (tmp_path / "net" / "inputs.json").write_text(json.dumps([{"shape": [3], "dtype": "float32"}]))
  rows = ["net:1", "net:4"]
  return lambda name: Worker(name, sys.executable, tmp_path, rows, tmp_path / "log", script=tmp_path / "worker.py")


def test_a_worker_tells_values_and_then_times_of_the_row_that_is_asked(start):
  with start("waits") as worker:
    first, second = worker.prepared()
    assert len(first["values"]) == 5 and len(second["values"]) == 7  # mean, standard deviation, and up to 5 numbers
    assert 0.002 < worker.run(1) < 2
    times = measure_row("net:1", 0, [worker], seconds=0)
  assert len(times.seconds["waits"]) == 5 and min(times.seconds["waits"]) > 0.002


def test_what_a_framework_lacks_and_an_abort_are_told(start, tmp_path):
  with start("fails") as worker:
    assert [found["failed"] for found in worker.prepared()] == ["NotImplementedError: no such op"] * 2
  with start("aborts") as worker:
    worker.prepared()
    with pytest.raises(WorkerError, match=r"aborts ended with 7; its output is in .*log"):
      worker.run(0)


def test_a_contestant_with_other_values_is_found():
  told = {"a": {"values": [1.0, 2.0]}, "b": {"values": [1.001, 2.0]}, "c": {"values": [1.0, 2.1]}}
  assert disagreeing(told) == ["c"]
  assert disagreeing({**told, "c": {"values": [1.0, math.nan]}}) == ["c"]
  assert disagreeing({**told, "c": {"values": [1.0]}}) == ["c"]
  assert disagreeing({}) == []


def test_a_row_that_nobody_runs_is_left_out():
  prepared = {"TFLite": [{"failed": "no such op"}]}
  console = Console(file=io.StringIO())
  assert command._measure(["mlp:1"], [], prepared, 0, console) == ([], True)
  assert "mlp:1: nobody runs it" in console.file.getvalue()


def test_the_work_of_others_is_what_this_machine_did_without_ours(monkeypatch):
  monkeypatch.setattr("os.cpu_count", lambda: 2)
  before, after = Snapshot(0, 100, 10), Snapshot(10, 112, 20)
  assert busy_share(before, after) == pytest.approx(0.1)
  assert math.isnan(busy_share(None, after))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_own_work_of_this_process_is_not_that_of_others():
  before = snapshot()
  end = time.process_time() + 0.2
  while time.process_time() < end:
    pass
  after = snapshot()
  assert 0.15 < after.own_s - before.own_s < 1
  assert after.busy_s - before.busy_s >= after.own_s - before.own_s - 0.05


def test_nothing_is_judged_on_a_busy_machine(monkeypatch, tmp_path, capsys):
  states = iter([Snapshot(0, 0, 0), Snapshot(1, 100, 0)])
  monkeypatch.setattr(command, "snapshot", lambda: next(states))
  monkeypatch.setattr(command, "_write", lambda *_: tmp_path.mkdir(exist_ok=True))
  monkeypatch.setattr(command, "CONTESTANTS", {})
  assert command.main(["mlp", "--folder", str(tmp_path)]) == 1
  assert "nothing is judged" in capsys.readouterr().err
  assert not (tmp_path / "results.json").exists()


_ROW = Times("mlp:4", {"graftax": [3e-3] * 5, "TensorFlow": [2e-3] * 5, "OpenVINO": [6e-3] * 5}, 0.02)


def test_ratios_are_to_the_best_of_each_group():
  medians = {"graftax": 3e-3, "TensorFlow": 2e-3, "TF2JAX": 4e-3, "OpenVINO": 6e-3}
  ratios = {
    "to the best framework": pytest.approx(1.5),
    "to the best framework, frozen": None,
    "to flax": None,
    "to the best runtime": pytest.approx(0.5),
  }
  assert ratios_to_best(medians) == ratios
  # Runtimes know the weights.
  ratios |= {"to the best framework, frozen": pytest.approx(0.75), "to the best runtime": pytest.approx(0.25)}
  assert ratios_to_best({**medians, "graftax, frozen": 1.5e-3}) == ratios
  assert list(comparison_table([_ROW]).columns[-5].cells) == ["1.50", "1.50"]


def test_rows_of_a_busy_machine_are_marked_and_stored_with_their_load():
  busy = Times(_ROW.row, _ROW.seconds, 0.3)
  assert not is_busy(_ROW) and is_busy(busy) and is_busy(Times("mlp:1", {}, math.nan))
  assert list(comparison_table([busy]).columns[0].cells)[0].endswith("batch 4*")
  (row,) = stored_rows([busy])
  assert row.pop("others") == 0.3
  stored = StoredBenchmark(**row)
  assert stored.name == "model-mlp:4" and stored.load == "busy: others had 30% of the cores"
  assert stored.medians["TensorFlow"] == {"time": 2e-3, "low": 2e-3, "high": 2e-3}
