import json

from rich.console import Console

from graftax.tools.benchmarks.benchmark import Benchmark, Goal
from graftax.tools.benchmarks.measuring import Measurement
from graftax.tools.benchmarks.reporting import parse_report
from graftax.tools.benchmarks.summary import machine, result_json, result_table

_BENCHMARK = Benchmark(
  name="tiny",
  title="a tiny one",
  make_data=None,
  commands={"graftax": (), "tf2jax": ()},
  goal=Goal(time=0.30, peak_memory=0.55),
)
_RESULTS = {
  "graftax": [Measurement(time, 1.0, 500_000_000, {}, ()) for time in (2.0, 3.0, 9.0)],
  "tf2jax": [Measurement(time, 5.0, 1_000_000_000, {}, ()) for time in (10.0, 12.0, 20.0)],
}


def test_the_table_compares_medians_with_the_goal():
  console = Console(width=120, record=True, file=None, quiet=False)
  with console.capture() as captured:
    console.print(result_table(_BENCHMARK, _RESULTS))
  text = captured.get()
  assert "3.00 s" in text
  assert "2.00 s .. 9.00 s" in text
  assert "0.25" in text
  assert "at most 0.30" in text
  assert "0.50" in text
  assert "at most 0.55" in text


def test_the_json_holds_ratios_medians_and_runs():
  result = json.loads(json.dumps(result_json(_BENCHMARK, _RESULTS)))
  assert result["ratios"] == {"time": 0.25, "cpu": 0.2, "peak_memory": 0.5}
  assert result["medians"]["graftax"]["time"] == 3
  assert [run["time_s"] for run in result["runs"]["tf2jax"]] == [10, 12, 20]


def test_the_machine_is_described():
  assert {"date", "processor", "num_processors", "load", "python", "libraries"} == set(machine())


def test_a_report_is_found_among_other_lines():
  assert parse_report('warning\ngraftax-benchmark-report {"cpu_s": 1.5}\nbye') == {"cpu_s": 1.5}
  assert parse_report("nothing") is None
