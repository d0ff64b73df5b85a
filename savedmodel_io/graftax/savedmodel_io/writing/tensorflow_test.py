"""What we write, read by TensorFlow."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from graftax.graphdef_ir import DType
from graftax.savedmodel_io import CheckpointReader, write_checkpoint

_WITHOUT_ARRAYS = (DType.INVALID, DType.RESOURCE, DType.VARIANT)
_DTYPES = {t.numpy.name: t.numpy for t in DType if not t.is_ref and t not in (*_WITHOUT_ARRAYS, DType.STRING)}


def _assert_same(ours: np.ndarray, theirs, what: str) -> None:
  theirs = np.asarray(theirs, object if ours.dtype == object else None)
  assert ours.shape == theirs.shape, what
  if ours.dtype == object:
    assert ours.ravel().tolist() == theirs.ravel().tolist(), what
  else:
    assert ours.dtype == theirs.dtype and ours.tobytes() == theirs.tobytes(), what


def _assert_tensorflow_reads(prefix: Path, expected: dict[str, np.ndarray]) -> None:
  reader, ours = tf.train.load_checkpoint(str(prefix)), CheckpointReader(prefix, verify=True)
  assert reader.get_variable_to_shape_map().keys() == expected.keys()
  restored = tf.raw_ops.RestoreV2(
    prefix=str(prefix),
    tensor_names=list(expected),
    shape_and_slices=[""] * len(expected),
    dtypes=[tf.as_dtype(int(ours.dtype(key))) for key in expected],
  )
  for (key, value), tensor in zip(expected.items(), restored, strict=True):
    _assert_same(value, reader.get_tensor(key), key)
    _assert_same(value, tensor.numpy(), key)
    _assert_same(value, ours[key], key)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (2, 3), (1000,)])
def test_every_dtype_and_rank_is_read_bit_for_bit(tmp_path, shape):
  rng = np.random.default_rng(0)
  tensors = {name: rng.integers(0, 2, shape).astype(dtype) for name, dtype in _DTYPES.items()}
  tensors["strings"] = rng.integers(0, 10**9, shape).astype("S").astype(object)
  write_checkpoint(tmp_path / "c", tensors, max_shard_bytes=5_000)
  _assert_tensorflow_reads(tmp_path / "c", {key: np.asarray(value) for key, value in tensors.items()})


def test_long_strings_and_special_bits_are_read(tmp_path):
  tensors = {
    "nan": np.array([0x7FC00001, 0xFF800000, 0x80000000, 1], np.uint32).view(np.float32),
    "strings": np.array([[b"", b"\x00\xff"], [b"x" * 300, b"y" * 70_000]], object),
    "m\u00e9": np.float32([1]),
  }
  write_checkpoint(tmp_path / "c", tensors)
  _assert_tensorflow_reads(tmp_path / "c", tensors)


_SHARDED = """
import sys, jax, jax.numpy as jnp
jax.config.update("jax_num_cpu_devices", 4)
from graftax.savedmodel_io import write_checkpoint
mesh = jax.make_mesh((2, 2), ("a", "b"))
def put(x, *axes): return jax.device_put(x, jax.NamedSharding(mesh, jax.P(*axes)))
x = jnp.arange(24.0).reshape(4, 6)
write_checkpoint(sys.argv[1], {
  "both": put(x, "a", "b"), "columns": put(x, None, "b"), "replicated": put(x), "joint": put(x[:, 0], ("a", "b")),
  "long": put(jnp.arange(40_000, dtype=jnp.int32), "a"), "bfloat16": put(x.astype(jnp.bfloat16), "a"),
}, max_shard_bytes=100_000)
"""


def test_sharded_arrays_are_read_whole_and_in_slices(tmp_path):
  prefix = str(tmp_path / "c")
  subprocess.run([sys.executable, "-c", _SHARDED, prefix], check=True)
  x = np.arange(24, dtype=np.float32).reshape(4, 6)
  expected = {
    "both": x,
    "columns": x,
    "replicated": x,
    "joint": x[:, 0],
    "long": np.arange(40_000, dtype=np.int32),
    "bfloat16": x.astype(tf.bfloat16.as_numpy_dtype),
  }
  _assert_tensorflow_reads(tmp_path / "c", expected)
  slices = {key: [str(part) for part in entry.slices] for key, entry in CheckpointReader(prefix).entries.items()}
  assert slices["both"] == ["0,2:0,3", "0,2:3,3", "2,2:0,3", "2,2:3,3"]
  assert slices["columns"] == ["-:0,3", "-:3,3"]
  assert slices["replicated"] == []
  specs = {"4 6 1,2:2,3": x[1:3, 2:5], "4 6 -:0,3": x[:, :3]}
  parts = tf.raw_ops.RestoreV2(
    prefix=prefix, tensor_names=["both"] * 2, shape_and_slices=list(specs), dtypes=[tf.float32] * 2
  )
  for expected_part, part in zip(specs.values(), parts, strict=True):
    _assert_same(expected_part, part.numpy(), "both")


def test_variables_are_restored_by_a_tensorflow_checkpoint_object(tmp_path):
  variable = tf.Variable(tf.zeros([2, 3]))
  saved = tf.train.Checkpoint(v=variable).write(str(tmp_path / "theirs"))
  theirs = dict(CheckpointReader(saved))
  new = np.arange(6, dtype=np.float32).reshape(2, 3)
  write_checkpoint(tmp_path / "ours", {**theirs, "v/.ATTRIBUTES/VARIABLE_VALUE": new})
  tf.train.Checkpoint(v=variable).read(str(tmp_path / "ours")).assert_consumed()
  _assert_same(new, variable.numpy(), "v")


def test_merged_with_a_checkpoint_of_tensorflow_both_are_read(tmp_path):
  ours, theirs = {"ours": np.arange(3), "words": np.array([b"a"], object)}, {"theirs": np.float32([1, 2])}
  write_checkpoint(tmp_path / "a", ours, max_shard_bytes=10)
  tf.raw_ops.SaveV2(
    prefix=str(tmp_path / "b"), tensor_names=["theirs"], shape_and_slices=[""], tensors=[theirs["theirs"]]
  )
  tf.raw_ops.MergeV2Checkpoints(
    checkpoint_prefixes=[str(tmp_path / "a"), str(tmp_path / "b")], destination_prefix=str(tmp_path / "merged")
  )
  _assert_tensorflow_reads(tmp_path / "merged", {**ours, **theirs})
