"""A process that calls and loads a model again and again does not grow."""

import subprocess
import sys
from pathlib import Path

import pytest

_MODEL = Path(__file__).parents[4] / "savedmodel_io/graftax/savedmodel_io/testdata/2026_11_21/keras_export"


@pytest.mark.slow  # half a minute; the command's defaults take about one
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the memory from /proc")
def test_memory_stays_flat_over_calls_from_threads_and_loads():
  command = [sys.executable, "-m", "graftax.tools.benchmarks.memory_of_calls", _MODEL, "--calls", "100000"]
  done = subprocess.run([*command, "--loads", "100"], capture_output=True, text=True, check=False)
  assert done.returncode == 0, done.stdout + done.stderr
  assert "MB per 100000" in done.stdout
