import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from graftax.tools.benchmarks.benchmark import BASELINE, OURS, Benchmark, Goal
from graftax.tools.benchmarks.measuring import BenchmarkError, Measurement, measure, median, run_process
from graftax.tools.benchmarks.registry import BENCHMARKS
from graftax.tools.benchmarks.summary import result_json, result_table

_IMPORT = "graftax.tools.benchmarks.import_time"


@pytest.fixture(autouse=True)
def _children_find_graftax(monkeypatch):
  monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))


def _benchmark(**commands):
  return Benchmark(name="tiny", title="tiny", make_data=None, commands=commands, goal=Goal(time=1000.0))


@pytest.fixture
def programs(tmp_path, monkeypatch):
  """Modules `one` and `two` that report 1.0 and 2.0, `fails`, and `mute`."""
  for name, value in {"one": 1.0, "two": 2.0}.items():
    lines = ["from graftax.tools.benchmarks.reporting import Stages", f"Stages().report([{value}])"]
    (tmp_path / f"{name}.py").write_text("\n".join(lines))
  (tmp_path / "fails.py").write_text("raise ValueError('out of cheese')")
  (tmp_path / "mute.py").write_text("print('done')")
  monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))


def test_a_run_reports_time_processor_time_memory_and_stages():
  run = run_process((_IMPORT, "decimal"), Path())
  assert 0 < run.stages["import"] < run.time_s
  assert 0 < run.cpu_s < 60
  assert 5e6 < run.peak_bytes < 2e9


def test_named_stages_are_measured_alone():
  run = run_process((_IMPORT, "decimal"), Path(), stages=("import",))
  assert run.time_s == run.stages["import"]


def test_memory_can_be_counted_from_a_later_moment(tmp_path, monkeypatch):
  lines = [
    "from graftax.tools.benchmarks.reporting import Stages",
    "stages = Stages()",
    "del (ballast := bytearray(b'x' * (1 << 27)))[:]",
    "held = b'x' * (1 << 27)",
    "stages.count_memory_from_here()",
    "more = b'x' * (1 << 24)",
    "stages.report()",
  ]
  (tmp_path / "late.py").write_text("\n".join(lines))
  monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
  assert 1 << 23 < run_process(("late",), Path()).peak_bytes < 1 << 26


def test_memory_of_the_measuring_process_does_not_count():
  ballast = bytearray(os.urandom(1 << 20) * 400)
  assert run_process((_IMPORT, "decimal"), Path()).peak_bytes < len(ballast)


def test_contestants_take_turns_and_the_first_run_of_each_does_not_count():
  order = []
  command = (_IMPORT, "decimal")
  results = measure(_benchmark(graftax=command, tf2jax=command), Path(), 2, order.append)
  assert {name: len(runs) for name, runs in results.items()} == {OURS: 2, BASELINE: 2}
  assert order == [OURS, BASELINE, BASELINE, OURS, OURS, BASELINE]


def test_different_values_are_an_error(programs):
  assert measure(_benchmark(graftax=("one",), tf2jax=("one",)), Path(), 1)
  with pytest.raises(BenchmarkError, match=r"graftax computed \(1.0,\), but tf2jax computed \(2.0,\)"):
    measure(_benchmark(graftax=("one",), tf2jax=("two",)), Path(), 1)


@pytest.mark.parametrize(("module", "message"), [("fails", "out of cheese"), ("mute", "no report:\ndone")])
def test_a_process_that_fails_or_says_nothing_is_an_error(programs, module, message):
  with pytest.raises(BenchmarkError, match=message):
    run_process((module,), Path())


def test_contestants_of_one_process_are_compared_case_by_case(tmp_path, monkeypatch):
  stages = {"graftax/a": 1.0, "original/a": 2.0, "graftax/b": 8.0, "original/b": 1.0}
  lines = ["from graftax.tools.benchmarks.reporting import Stages", f"s = Stages(); s.times_s = {stages}; s.report()"]
  (tmp_path / "both.py").write_text("\n".join(lines))
  monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]]))
  benchmark = replace(_benchmark(graftax=("both",), original=("both",)), baseline="original", in_one_process=True)
  results = measure(benchmark, Path(), 2)
  assert [run.stages for run in results["original"]] == [{"a": 2.0, "b": 1.0}] * 2
  assert result_json(benchmark, results)["ratios"]["time"] == pytest.approx(2.0)  # of 0.5 and 8, the geometric mean
  assert [str(cell) for cell in result_table(benchmark, results).columns[0].cells][-2:] == ["b", "a"]


def test_the_median_ignores_one_slow_run():
  runs = [Measurement(time, 0, 0, {}, ()) for time in (1.0, 50.0, 2.0)]
  assert median(runs, "time_s") == 2


def test_every_benchmark_has_both_contestants_and_a_name_of_its_own():
  assert all({OURS, benchmark.baseline} <= set(benchmark.commands) for benchmark in BENCHMARKS)
  assert len({benchmark.name for benchmark in BENCHMARKS}) == len(BENCHMARKS)
