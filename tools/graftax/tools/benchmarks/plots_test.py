"""Tests the page of benchmarks and its pictures."""

import json

import pytest

from graftax.tools.benchmarks.plots import page, pictures
from graftax.tools.benchmarks.stored import store, stored_runs

_ROW = {
  "name": "import",
  "title": "importing the package",
  "goal": {},
  "medians": {
    "graftax": {"time": 1.5, "cpu": 1.4, "peak_memory": 2e8},
    "tf2jax": {"time": 9e-3, "cpu": 1, "peak_memory": 5e9},
  },
}
_MACHINE = {"num_processors": 2, "load": [0.25, 1, 1], "python": "3.13.0", "libraries": {"jax": "0.12.0"}}


def test_medians_of_a_run_are_kept_and_shown_with_day_load_and_versions(tmp_path):
  assert store([_ROW], _MACHINE, "2026-11-26", tmp_path).name == "2026-11-26-make-bench.json"
  (run,) = stored_runs(tmp_path)
  text = page([run])
  assert "- **day**: 2026-11-26\n- **machine**: 2 cores, 0.2 processes waited for 2 cores" in text
  assert "Python 3.13.0, jax 0.12.0" in text
  text = text.replace("\N{NO-BREAK SPACE}", " ")
  assert "| importing the package | graftax | 1.5 s | 200 MB |\n|  | tf2jax | 9 ms | 5 GB |" in text
  assert "goal" not in json.loads((tmp_path / "2026-11-26-make-bench.json").read_text())["benchmarks"][0]


def test_a_picture_has_the_figures_as_text(tmp_path):
  pytest.importorskip("matplotlib")
  store([_ROW], _MACHINE, "2026-11-26", tmp_path)
  (run,) = stored_runs(tmp_path)
  for scheme in ("light", "dark"):
    pictures(run, scheme, tmp_path / f"{scheme}.svg")
  light, dark = ((tmp_path / f"{scheme}.svg").read_text() for scheme in ("light", "dark"))
  assert all(
    text in light
    for text in ("1.5\N{NO-BREAK SPACE}s", "9\N{NO-BREAK SPACE}ms", "5 GB", "importing the package: peak memory")
  )
  assert light != dark


def test_networks_have_ratios_to_the_best_framework_and_the_best_runtime(tmp_path):
  times = {"graftax": 3e-3, "graftax, frozen": 1e-3, "TensorFlow": 2e-3, "TF2JAX": 4e-3, "OpenVINO": 1.5e-3}
  rows = [
    {"name": f"model-{name}", "title": name, "medians": {key: {"time": times[key]} for key in keys}}
    for name, keys in {"a": list(times), "b": ["graftax"], "c": ["TensorFlow"]}.items()
  ]
  store(rows, _MACHINE, "2026-11-26", tmp_path)
  (run,) = stored_runs(tmp_path)
  text = page([run]).replace("\N{NO-BREAK SPACE}", " ")
  assert (
    "| a | 3 ms | 1 ms | 2 ms | 4 ms | 1.5 ms | 1.50 | 0.50 |  | 0.67 |\n"
    "| b | 3 ms |  |  |  |  |  |  |  |  |\n| c |  |  | 2 ms |" in text
  )
