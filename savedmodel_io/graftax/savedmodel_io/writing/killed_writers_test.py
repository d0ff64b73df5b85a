"""Writers that are killed at random moments damage nothing, and the next one leaves nothing of them behind."""

import os
import random
import subprocess
import sys
import time

import numpy as np
import pytest

from graftax.savedmodel_io import load, read_checkpoint, save, write_checkpoint

pytestmark = pytest.mark.slow

_NUM_KILLS = 12
_SIZE = 1 << 20

_WRITER = f"""
import sys
import jax, numpy as np
from graftax.savedmodel_io import load, save, write_checkpoint
kind, target = sys.argv[1:]
x = jax.ShapeDtypeStruct((2,), np.float32)
write = dict(
  save=lambda n: save(target, {{"f": (lambda p, x: x * p["w"][:2], x)}}, value(n), overwrite=True),
  copy=lambda n: load(target).save(target, value(n), overwrite=True),
  checkpoint=lambda n: write_checkpoint(target, value(n), overwrite=True),
)[kind]
value = lambda n: {{"w": np.full({_SIZE}, n, np.float32)}}
print("ready", flush=True)
for number in range(1, 10000):
  write(number)
  print(number, flush=True)
"""


def _write(kind: str, target: str, value: float) -> None:
  values = {"w": np.full(_SIZE, value, np.float32)}
  if kind == "checkpoint":
    write_checkpoint(target, values, overwrite=True)
    return
  import jax

  save(target, {"f": (lambda p, x: x * p["w"][:2], jax.ShapeDtypeStruct((2,), np.float32))}, values, overwrite=True)


def _read(kind: str, target: str) -> np.ndarray:
  return read_checkpoint(target)["w"] if kind == "checkpoint" else load(target).variables["w"]


@pytest.mark.parametrize("kind", ["save", "copy", "checkpoint"])
def test_killed_writers_damage_nothing_and_leave_nothing(tmp_path, kind):
  target, rng = str(tmp_path / "m"), random.Random(0)
  _write(kind, target, 0)
  expected = set(os.listdir(tmp_path))
  num_left = 0
  for _ in range(_NUM_KILLS):
    writer = subprocess.Popen([sys.executable, "-c", _WRITER, kind, target], stdout=subprocess.PIPE)
    assert writer.stdout.readline() == b"ready\n"
    # Later ones are killed while they replace what this one has written.
    if rng.random() < 0.7:
      writer.stdout.readline()
    time.sleep(rng.random() * 0.2)
    writer.kill()
    writer.wait()
    writer.stdout.close()
    num_left += len(set(os.listdir(tmp_path)) - expected) > 0
    value = _read(kind, target)
    assert value.shape == (_SIZE,) and (value == value[0]).all()
  # `save` is mostly killed while it exports, before it writes.
  assert num_left or kind == "save", "no writer was killed in the middle"
  _write(kind, target, 7)
  assert (_read(kind, target) == 7).all()
  assert {name for name in os.listdir(tmp_path) if name.startswith(".")} == set()
  # The number of data files, which is in their names, tells those of two checkpoints apart.
  assert len({name.rpartition("-of-")[2] for name in os.listdir(tmp_path)}) == len(expected)
