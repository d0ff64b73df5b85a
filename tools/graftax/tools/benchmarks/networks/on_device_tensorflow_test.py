import pytest

from graftax.tools.benchmarks.networks import by_hand, written
from graftax.tools.benchmarks.networks.on_device import compare

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("bfloat16", 5e-2)])
def test_both_sides_compute_the_same(tmp_path, dtype, tolerance):
  written.write(written.lstm(width=16, steps=8, features=4), tmp_path / "lstm")
  rows = compare(tmp_path / "lstm", by_hand.Lstm(16), dtype, (2, 8, 4), 0, ["graftax", "lifted", "source"])
  assert [(row.network, row.pass_) for row in rows] == [("lstm", "forward"), ("lstm", "gradient")]
  for row in rows:
    assert row.ms.keys() == row.instructions.keys() == {"graftax", "lifted", "source", "flax"}
    assert row.difference.keys() == {"graftax", "lifted", "source"}
    assert max(row.difference.values()) < tolerance and min(row.ms.values()) > 0
