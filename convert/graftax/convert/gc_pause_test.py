"""What Python's garbage collector does during and after a pause."""

import gc
import subprocess
import sys

import pytest

from graftax.convert.gc_pause import without_garbage_collection

_OLD = """
import gc
from graftax.convert.gc_pause import without_garbage_collection
if {frozen}:
  gc.freeze()
frozen = gc.get_freeze_count()
with without_garbage_collection():
  kept = [[] for _ in range(50_000)]
print(len(gc.get_objects(generation=2)) > 50_000, gc.isenabled(), abs(gc.get_freeze_count() - frozen) < 1_000)
"""
_GARBAGE = """
import gc
from graftax.convert.gc_pause import without_garbage_collection
before, most = len(gc.get_objects()), 0
for _ in range(24):
  with without_garbage_collection():
    for _ in range({size}):
      cycle = []
      cycle.append(cycle)
  most = max(most, len(gc.get_objects()) - before)
print(most)
"""
_LARGE_HEAP = """
import gc
from graftax.convert.gc_pause import without_garbage_collection
count, counts = gc.get_objects, []
gc.get_objects = lambda: counts.append(None) or count()
kept = [[] for _ in range(1_500_000)]
for _ in range(40):
  with without_garbage_collection():
    kept += [[] for _ in range(15_000)]
print(len(counts), gc.get_stats()[2]["collections"])
"""


def _printed(program):
  return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()


def test_it_is_off_until_the_last_pause_ends():
  with without_garbage_collection():
    with pytest.raises(ZeroDivisionError), without_garbage_collection():
      _ = 1 / 0
    assert not gc.isenabled()
  assert gc.isenabled()
  gc.disable()
  try:
    with without_garbage_collection():
      pass
    assert not gc.isenabled()
  finally:
    gc.enable()


@pytest.mark.parametrize("frozen", [False, True])
def test_objects_are_old_afterwards_unless_some_are_frozen(frozen):
  assert _printed(_OLD.format(frozen=frozen)) == [str(not frozen), "True", "True"]


@pytest.mark.parametrize(("size", "most"), [(20_000, 200_000), (100_000, 900_000)])
def test_garbage_is_collected_after_some_pauses(size, most):
  (found,) = map(int, _printed(_GARBAGE.format(size=size)))
  assert size <= found <= most


def test_objects_of_a_large_program_are_not_counted_in_each_pause():
  num_counts, num_collections = map(int, _printed(_LARGE_HEAP))
  assert 1 <= num_counts < 10
  assert num_collections
