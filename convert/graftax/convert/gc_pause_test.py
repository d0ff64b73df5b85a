"""What Python's garbage collector does during and after a pause."""

import gc
import subprocess
import sys

import pytest

from graftax.convert.gc_pause import without_garbage_collection

_PROGRAM = """
import gc
from graftax.convert.gc_pause import without_garbage_collection
if {frozen}:
  gc.freeze()
frozen = gc.get_freeze_count()
with without_garbage_collection():
  kept = [[] for _ in range(50_000)]
print(len(gc.get_objects(generation=2)) > 50_000, gc.isenabled(), gc.get_freeze_count() == frozen)
"""


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
  program = _PROGRAM.format(frozen=frozen)
  found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
  assert found.split() == [str(not frozen), "True", "True"]
