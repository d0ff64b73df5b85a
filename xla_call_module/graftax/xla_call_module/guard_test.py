import random
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module import DecodeError, Module, StableHloError, guard


def _artifact() -> bytes:
  def function(x):
    return jax.lax.scan(lambda c, a: (c + jnp.sin(a), c), jnp.float32(0), x)

  return jax.export.export(jax.jit(function))(jax.ShapeDtypeStruct((5,), np.float32)).mlir_module_serialized


def _damaged(data: bytes, rng: random.Random) -> bytes:
  if rng.random() < 0.3:
    return data[: rng.randrange(len(data))]
  changed = bytearray(data)
  for _ in range(rng.randint(1, 4)):
    changed[rng.randrange(len(changed))] = rng.randrange(256)
  return bytes(changed)


def test_damaged_artifacts_are_typed_errors_and_no_crash():
  data, rng = _artifact(), random.Random(7)
  refused = 0
  for _ in range(150):
    try:
      Module.from_bytes(_damaged(data, rng))
    except StableHloError:
      refused += 1
  assert refused > 100


def test_every_truncation_is_refused():
  data = _artifact()
  for size in range(0, len(data), 97):
    with pytest.raises((DecodeError, StableHloError)):
      Module.from_bytes(data[:size])


def test_reader_that_dies_is_an_error_and_the_next_one_works(monkeypatch):
  monkeypatch.setattr(guard, "_helper", guard._Helper())
  real = guard._start

  def dying():
    return subprocess.Popen(
      [sys.executable, "-c", "import sys; sys.stdin.buffer.read(8); sys.exit(3)"], stdin=-1, stdout=-1
    )

  monkeypatch.setattr(guard, "_start", dying)
  with pytest.raises(DecodeError, match="crashed or hung"):
    guard.check(_artifact())
  monkeypatch.setattr(guard, "_start", real)
  guard.check(_artifact())
  guard._helper.stop()
