import subprocess
import sys

import pytest

from graftax.tools.benchmarks.networks.on_device import measure

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("bfloat16", 5e-2)])
def test_both_sides_compute_the_same(tmp_path, dtype, tolerance):
  subprocess.run([sys.executable, "-m", "graftax.tools.benchmarks.networks.written", tmp_path, "lstm"], check=True)
  rows = measure(tmp_path, "lstm", dtype, batch=1, seconds=0)
  assert [row.pass_ for row in rows] == ["forward", "gradient"]
  assert all(row.difference < tolerance and min(row.ms.values()) > 0 for row in rows)
