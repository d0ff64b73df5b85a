import random
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module import DecodeError, GuardError, Module, StableHloError, subprocess_reader


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


@pytest.mark.parametrize("num_tries", [20, pytest.param(60, marks=pytest.mark.slow)])
def test_damaged_artifacts_are_typed_errors_and_no_crash(num_tries):
  data, rng = _artifact(), random.Random(7)
  refused = 0
  for _ in range(num_tries):
    try:
      Module.from_bytes(_damaged(data, rng))
    except StableHloError:
      refused += 1
  assert refused > num_tries / 2


def test_every_truncation_raises():
  data = _artifact()
  for size in range(0, len(data), 97):
    with pytest.raises((DecodeError, StableHloError)):
      Module.from_bytes(data[:size])


@pytest.fixture
def helper(monkeypatch):
  """A helper of the test's own."""
  own = subprocess_reader._Helper()
  monkeypatch.setattr(subprocess_reader, "_helper", own)
  yield own
  own.stop()


def _instead(monkeypatch, script):
  monkeypatch.setattr(subprocess_reader, "_command", lambda: [sys.executable, "-c", script])


def test_reader_that_dies_is_an_error_and_the_next_one_works(helper, monkeypatch):
  with monkeypatch.context() as patch:
    _instead(patch, "import sys; print('ready', flush=True); sys.stdin.buffer.read(8); sys.exit(3)")
    with pytest.raises(DecodeError, match="crashed or did not finish"):
      subprocess_reader.check(_artifact())
  subprocess_reader.check(_artifact())


def test_reader_that_takes_nothing_in_is_an_error_in_bounded_time(helper, monkeypatch):
  _instead(monkeypatch, "import time; print('ready', flush=True); time.sleep(60)")
  monkeypatch.setattr(subprocess_reader, "_TIMEOUT_S", 0.2)
  with pytest.raises(DecodeError, match="crashed or did not finish"):
    subprocess_reader.check(b" " * 500_000)


@pytest.mark.parametrize(
  "script, reason",
  [("print('ImportError: no jaxlib')", "ImportError: no jaxlib"), ("", "it exited, or did not answer within 60 s")],
  ids=["says why", "silent"],
)
def test_reader_that_does_not_start_is_no_fault_of_the_module(helper, monkeypatch, script, reason):
  _instead(monkeypatch, script)
  with pytest.raises(GuardError, match=f"does not start: {reason}"):
    subprocess_reader.check(_artifact())


def test_interrupted_question_is_not_answered_later(helper, monkeypatch):
  subprocess_reader.check(_artifact())
  with monkeypatch.context() as patch:
    patch.setattr(subprocess_reader.os, "read", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
      subprocess_reader.check(_artifact())
  with pytest.raises(DecodeError, match="does not|damaged"):
    subprocess_reader.check(b"nonsense")


def test_reader_imports_nothing_from_the_working_directory(helper, tmp_path, monkeypatch):
  for name in ("resource", "struct", "jaxlib"):
    (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'was_run')!r}, 'w')")
  monkeypatch.chdir(tmp_path)
  monkeypatch.setenv("PYTHONPATH", "")
  subprocess_reader.check(_artifact())
  assert not (tmp_path / "was_run").exists()


def test_forked_child_has_a_reader_of_its_own():
  script = """if True:
    import os, signal, sys
    from graftax.xla_call_module import subprocess_reader
    data = b"module {}"
    subprocess_reader.check(data)
    with subprocess_reader._helper._lock:  # as another thread may
      child = os.fork()
      if not child:
        signal.alarm(30)
        subprocess_reader.check(data)
        subprocess_reader._helper.stop()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    subprocess_reader.check(data)
  """
  subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True)


_NESTED = "func.func public @main(%a: " + "tuple<" * 200_000


@pytest.mark.parametrize(
  "make",
  [
    lambda: Module.from_bytes(_NESTED.encode()),
    lambda: Module.from_call_module(version=3, module=_NESTED.encode()),
    lambda: Module.from_text(_NESTED, guard=True),
  ],
  ids=["bytes", "call module", "text"],
)
def test_text_that_ends_the_reader_is_a_typed_error(make):
  with pytest.raises(DecodeError, match="crashed or did not finish"):
    make()


def test_damaged_hlo_is_a_typed_error():
  hlo = jax.jit(jnp.sin).lower(np.ones(3, np.float32)).compiler_ir("hlo").as_serialized_hlo_module_proto()
  Module.from_hlo(hlo)
  rng = random.Random(3)
  for _ in range(20):
    try:
      Module.from_hlo(_damaged(hlo, rng))
    except StableHloError:
      continue
