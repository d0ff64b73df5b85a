import sys

import pytest

from graftax.testing.resource_limits import within_limits


def test_what_stays_within_the_limits_passes():
  with within_limits():
    bytes(1 << 20)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted on Linux only")
def test_memory_that_was_freed_again_counts():
  with pytest.raises(AssertionError, match="expected at most 50"), within_limits(memory_mib=50):
    bytearray(b"x") * (100 << 20)


def test_time_counts():
  with pytest.raises(AssertionError, match="expected at most 0"), within_limits(seconds=0):
    sum(range(1000))
