import contextlib
import os
import resource
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from graftax.graphdef_ir import DType, GraftaxError
from graftax.savedmodel_io import CheckpointReader, read_checkpoint, write_checkpoint
from graftax.savedmodel_io.errors import (
  CheckpointWriteError,
  MissingFolderError,
  OutputExistsError,
  TensorValueError,
)
from graftax.savedmodel_io.writing.atomic import PARTIAL_SUFFIX
from graftax.savedmodel_io.writing.bundles import bundle_writer
from graftax.savedmodel_io.writing.bundles.array_bytes import CHUNK_BYTES

_NUMERIC = [t for t in DType if not t.is_ref and t not in (DType.INVALID, DType.STRING, DType.RESOURCE, DType.VARIANT)]
_VALUES = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "words": np.array([b"a", b"bc"], object)}


def _assert_read_back(prefix: Path, tensors: dict) -> None:
  got = read_checkpoint(prefix, verify=True)
  assert got.keys() == tensors.keys()
  for key, value in tensors.items():
    want = np.asarray(value)
    assert got[key].shape == want.shape, key
    if want.dtype.kind in "OSU":
      assert got[key].ravel().tolist() == [s.encode() if isinstance(s, str) else s for s in want.ravel().tolist()]
    else:
      assert got[key].dtype == want.dtype.newbyteorder("="), key
      assert got[key].tobytes() == want.astype(got[key].dtype).tobytes(), key


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (2, 3)])
def test_every_dtype_is_read_back_bit_for_bit(tmp_path, shape):
  rng = np.random.default_rng(0)
  dtypes = {t.numpy.name: t.numpy for t in _NUMERIC}
  tensors = {name: rng.integers(0, 2, shape).astype(dtype) for name, dtype in dtypes.items()}
  tensors["strings"] = rng.integers(0, 1000, shape).astype("S")
  write_checkpoint(tmp_path / "c", tensors)
  _assert_read_back(tmp_path / "c", tensors)
  reader = CheckpointReader(tmp_path / "c")
  assert all(reader.dtype(name) == DType.from_numpy(dtype) for name, dtype in dtypes.items())


def test_special_values_and_strings_keep_their_bits(tmp_path):
  tensors = {
    "nan": np.array([0x7FC00001, 0xFF800000, 0x80000000, 1], np.uint32).view(np.float32),
    "bfloat16": np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16),
    "scalar": b"\x00\xff" * 100,
    "text": "m\u00e9",
    "unicode": np.array([["a", "\u00e9"], ["", "\U0001f600"]]),
    "long": np.array([b"x" * 300, b"y" * (CHUNK_BYTES + 1), b""], object),
    "none": np.zeros((0, 2), object),
  }
  write_checkpoint(tmp_path / "c", tensors)
  _assert_read_back(tmp_path / "c", tensors)


def test_any_layout_in_memory_is_read_back(tmp_path):
  base = np.arange(40, dtype=np.float64).reshape(5, 8)
  large = np.arange(3 * CHUNK_BYTES // 8 + 7, dtype=np.int64)
  tensors = {
    "transposed": base.T,
    "reversed": base[::-1, ::-2],
    "broadcast": np.broadcast_to(np.float32(3), (1000, 1000)),
    "big-endian": base.astype(">f8"),
    "unaligned": np.frombuffer(b"x" + bytes(range(16)), np.uint32, offset=1),
    "large": large,
    "large strided": large[::-1],
    "large rows": np.asfortranarray(np.arange(2 * CHUNK_BYTES, dtype=np.uint8).reshape(2, -1)),
    "numpy scalar": np.float16(1.5),
    "jax": jnp.arange(5, dtype=jnp.bfloat16),
    "jax int4": jnp.arange(-3, 3, dtype=jnp.int4),
    "jax scalar": jnp.float32(2),
  }
  write_checkpoint(tmp_path / "c", tensors)
  _assert_read_back(tmp_path / "c", tensors)


def test_an_empty_checkpoint_is_one(tmp_path):
  write_checkpoint(tmp_path / "c", {})
  assert read_checkpoint(tmp_path / "c") == {}


def test_many_tensors_fill_many_blocks(tmp_path):
  tensors = {f"model/layer_{i:05d}/kernel": np.int32(i) for i in range(5_000)}
  write_checkpoint(tmp_path / "c", tensors)
  _assert_read_back(tmp_path / "c", tensors)


def test_data_files_are_closed_at_the_size_asked_for(tmp_path):
  tensors = {name: np.full(100, i, np.uint8) for i, name in enumerate("abcde")} | {"huge": np.zeros(1000, np.uint8)}
  write_checkpoint(tmp_path / "c", tensors, max_shard_bytes=250)
  assert [CheckpointReader(tmp_path / "c").entry(name).shard for name in tensors] == [0, 0, 1, 1, 2, 3]
  assert len(list(tmp_path.glob("c.data-*-of-00004"))) == 4
  _assert_read_back(tmp_path / "c", tensors)


def test_tensors_begin_where_jax_needs_no_copy(tmp_path):
  write_checkpoint(tmp_path / "c", {"step": np.int8(1), "a": np.ones(33, np.float32), "b": np.ones(16, np.float32)})
  reader = CheckpointReader(tmp_path / "c")
  assert [reader.entry(key).offset_bytes for key in ("step", "a", "b")] == [0, 64, 256]


def test_little_memory_is_needed_beside_the_values(tmp_path):
  tensors = {"flat": np.zeros(1 << 25, np.uint8), "strided": np.zeros((1 << 12, 1 << 13), np.uint8)[:, ::2]}
  tracemalloc.start()
  try:
    write_checkpoint(tmp_path / "c", tensors)
    _, peak = tracemalloc.get_traced_memory()
  finally:
    tracemalloc.stop()
  assert peak < 6 * CHUNK_BYTES, peak  # measured: 2.2 MiB


def test_progress_counts_up_to_the_total(tmp_path):
  calls = []
  write_checkpoint(
    tmp_path / "c", {"a": np.zeros(5 * CHUNK_BYTES, np.uint8), "s": b"abc"}, progress=lambda *call: calls.append(call)
  )
  written, totals = zip(*calls, strict=True)
  assert set(totals) == {5 * CHUNK_BYTES + 8}
  assert list(written) == sorted(written) and written[-1] == totals[0] and len(calls) >= 6


@pytest.mark.parametrize(
  ("value", "message"),
  [
    (1.5, r"is 1.5 of type float; expected a numpy or JAX array.*np.float32\(...\)"),
    ([1, 2], "of type list"),
    (None, "of type NoneType"),
    (np.array([b"a", 3], object), "array of objects with the element 3"),
    (np.zeros(2, "datetime64[s]"), r"elements of type datetime64\[s\]"),
    (np.zeros(2, [("x", "f4")]), "which checkpoints cannot store"),
    (np.zeros(2, np.longdouble), "which checkpoints cannot store"),
    (np.zeros(2, jax.dtypes.float0), "which checkpoints cannot store"),
    (np.ma.array([1, 2], mask=[0, 1]), r"pass value.filled\(...\)"),
    (jax.random.key(0), "jax.random.key_data"),
  ],
)
def test_what_cannot_be_stored_is_named_before_anything_is_written(tmp_path, value, message):
  with pytest.raises(TensorValueError, match=f"^tensor 'bad' .*{message}"):
    write_checkpoint(tmp_path / "c", {"good": np.zeros(3), "bad": value})
  assert os.listdir(tmp_path) == []


def test_arrays_without_a_value_raise(tmp_path):
  donated = jnp.ones(3)
  donated.delete()
  with pytest.raises(TensorValueError, match="'x' was deleted"):
    write_checkpoint(tmp_path / "c", {"x": donated})
  with pytest.raises(TensorValueError, match="'x' is traced by a JAX transformation"):
    jax.jit(lambda x: write_checkpoint(tmp_path / "c", {"x": x}))(1.0)


@pytest.mark.parametrize("name", ["", "\x00x", "\ud800", 3])
def test_a_name_that_cannot_be_a_key_raises(tmp_path, name):
  with pytest.raises(TensorValueError, match="tensor name "):
    write_checkpoint(tmp_path / "c", {name: np.zeros(3)})


def test_sizes_of_data_files_are_checked(tmp_path, monkeypatch):
  with pytest.raises(TensorValueError, match="max_shard_bytes=0: expected a positive number"):
    write_checkpoint(tmp_path / "c", {}, max_shard_bytes=0)
  monkeypatch.setattr(bundle_writer, "_MAX_SHARDS", 3)
  with pytest.raises(TensorValueError, match="makes 4 data files, and there can be 3"):
    write_checkpoint(tmp_path / "c", {key: np.int8(0) for key in "abcd"}, max_shard_bytes=1)


def test_an_existing_checkpoint_is_replaced_only_if_asked_for(tmp_path):
  write_checkpoint(tmp_path / "c", _VALUES)
  with pytest.raises(OutputExistsError, match="c.index exists already; pass overwrite=True"):
    write_checkpoint(tmp_path / "c", {})
  _assert_read_back(tmp_path / "c", _VALUES)
  for value in range(3):
    write_checkpoint(tmp_path / "c", {"w": np.float32(value)}, overwrite=True)
    assert read_checkpoint(tmp_path / "c")["w"] == value
    assert len(os.listdir(tmp_path)) in (2, 3)


def test_a_checkpoint_can_be_written_over_itself(tmp_path):
  write_checkpoint(tmp_path / "c", _VALUES)
  write_checkpoint(tmp_path / "c", CheckpointReader(tmp_path / "c"), overwrite=True)
  _assert_read_back(tmp_path / "c", _VALUES)


def test_data_files_without_an_index_are_not_replaced_silently(tmp_path):
  (tmp_path / "c.data-00000-of-00001").write_bytes(b"x")
  with pytest.raises(OutputExistsError, match="c.data-00000-of-00001 exists already"):
    write_checkpoint(tmp_path / "c", _VALUES)
  write_checkpoint(tmp_path / "c", _VALUES, overwrite=True)
  _assert_read_back(tmp_path / "c", _VALUES)


def test_a_path_that_cannot_be_written_to_is_an_error(tmp_path):
  (tmp_path / "file").touch()
  with pytest.raises(MissingFolderError, match="file: no such folder, and it cannot be made"):
    write_checkpoint(tmp_path / "file" / "c", {})
  write_checkpoint(tmp_path / "new/folders/c", _VALUES)
  _assert_read_back(tmp_path / "new/folders/c", _VALUES)
  with pytest.raises(OutputExistsError, match="is a folder"):
    write_checkpoint("/", {})


@contextlib.contextmanager
def small_disk(max_bytes: int):
  """Lets no file grow beyond `max_bytes`: writing fails as it does on a full disk."""
  limits = resource.getrlimit(resource.RLIMIT_FSIZE)
  resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, limits[1]))
  try:
    yield
  finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("size", [1000, 3 * CHUNK_BYTES])
def test_a_full_disk_leaves_the_old_checkpoint_and_nothing_else(tmp_path, size):
  write_checkpoint(tmp_path / "c", _VALUES)
  before = sorted(os.listdir(tmp_path))
  with (
    small_disk(size // 2),
    pytest.raises(CheckpointWriteError, match=r"c.data-.*: cannot be written \(File too") as e,
  ):
    write_checkpoint(tmp_path / "c", {"w": np.zeros(size, np.uint8)}, overwrite=True)
  assert e.value.errno is not None
  assert sorted(os.listdir(tmp_path)) == before
  _assert_read_back(tmp_path / "c", _VALUES)


def test_an_interrupt_while_files_are_put_in_place_leaves_the_old_checkpoint(tmp_path, monkeypatch):
  write_checkpoint(tmp_path / "c", _VALUES)
  before = sorted(os.listdir(tmp_path))

  def interrupt(*paths):
    raise KeyboardInterrupt

  monkeypatch.setattr(os, "replace", interrupt)
  with pytest.raises(KeyboardInterrupt):
    write_checkpoint(tmp_path / "c", {"w": np.zeros(3)}, overwrite=True)
  assert sorted(os.listdir(tmp_path)) == before
  _assert_read_back(tmp_path / "c", _VALUES)


_KILLED = """
import os, signal, sys
import numpy as np
from graftax.savedmodel_io import write_checkpoint
def kill(written, total):
  if written > total // 2:
    os.kill(os.getpid(), signal.SIGKILL)
write_checkpoint(sys.argv[1], {"w": np.ones(4 << 20, np.uint8)}, overwrite=True, progress=kill)
"""


def test_a_killed_writer_leaves_the_old_checkpoint_and_a_folder_that_says_what_it_is(tmp_path):
  write_checkpoint(tmp_path / "c", _VALUES)
  before = set(os.listdir(tmp_path))
  assert subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path / "c")]).returncode == -signal.SIGKILL
  _assert_read_back(tmp_path / "c", _VALUES)
  (left,) = set(os.listdir(tmp_path)) - before
  assert left.startswith(".c.") and left.endswith(PARTIAL_SUFFIX)
  write_checkpoint(tmp_path / "c", {"w": np.zeros(3)}, overwrite=True)
  assert read_checkpoint(tmp_path / "c")["w"].tolist() == [0, 0, 0]


def test_a_progress_callback_that_raises_stops_the_writer(tmp_path):
  def stop(written, total):
    raise TimeoutError("enough")

  with pytest.raises(TimeoutError, match="enough"):
    write_checkpoint(tmp_path / "c", _VALUES, progress=stop)
  assert os.listdir(tmp_path) == []


def mutations(path: Path, rng: np.random.Generator, number: int):
  """Damages a file in `number` ways, one after the other, and restores it at the end."""
  contents = path.read_bytes()
  try:
    for _ in range(number):
      damaged = bytearray(contents)
      kind = rng.integers(4)
      if kind == 0:
        del damaged[int(rng.integers(len(damaged))) :]
      elif kind == 1:
        damaged[int(rng.integers(len(damaged)))] = int(rng.integers(256))
      else:
        for _ in range(int(kind) - 1):
          damaged[int(rng.integers(len(damaged)))] ^= 1 << int(rng.integers(8))
      path.write_bytes(damaged)
      yield
  finally:
    path.write_bytes(contents)


def test_damaged_files_give_typed_errors_or_the_right_values(tmp_path):
  tensors = {**_VALUES, "bfloat16": np.ones((3, 5), ml_dtypes.bfloat16), "step": np.int64(7)}
  tensors |= {f"layer_{i}/kernel": np.full((3, 7), i, np.float32) for i in range(5)}
  write_checkpoint(tmp_path / "c", tensors, max_shard_bytes=400)
  rng = np.random.default_rng(0)
  num_refused = num_damaged = 0
  for path in [tmp_path / "c.index"] * 2 + sorted(tmp_path.glob("c.data-*")):
    for _ in mutations(path, rng, 50):
      try:
        _assert_read_back(tmp_path / "c", tensors)
      except GraftaxError:
        num_refused += 1
      num_damaged += 1
  # The others hit padding, or put in a byte what was there.
  assert num_damaged == 200 and num_refused > 160
  _assert_read_back(tmp_path / "c", tensors)
