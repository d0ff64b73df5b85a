import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from graftax.tools.errors import ExportError
from graftax.tools.safetensors_file import write_safetensors

_TENSORS = {
  "conv/kernel": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
  "transposed": np.arange(6, dtype=np.int64).reshape(2, 3).T,
  "scalar": np.array(2.5, np.float64),
  "empty": np.zeros((0, 3), np.float16),
  "flags": np.array([True, False, True]),
  "größe": np.array([1, 2], np.uint8),
}


def test_the_safetensors_package_reads_back_what_was_written(tmp_path):
  write_safetensors(tmp_path / "p.safetensors", _TENSORS, {"model": "digits"})
  read = load_file(tmp_path / "p.safetensors")
  assert set(read) == set(_TENSORS)
  for name, value in _TENSORS.items():
    np.testing.assert_array_equal(read[name], value, strict=True)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.complex64])
def test_values_keep_their_bits(tmp_path, dtype):
  value = np.array([0, 1, -0.5, 3], dtype)
  write_safetensors(tmp_path / "p.safetensors", {"x": value}, {})
  read = load_file(tmp_path / "p.safetensors")["x"]
  assert read.tobytes() == value.tobytes()


def test_big_endian_arrays_are_turned_around(tmp_path):
  write_safetensors(tmp_path / "p.safetensors", {"x": np.array([1, 256], ">i4")}, {})
  np.testing.assert_array_equal(load_file(tmp_path / "p.safetensors")["x"], [1, 256])


def test_a_dtype_that_the_format_lacks_is_named(tmp_path):
  with pytest.raises(ExportError, match="'z' has dtype float8_e5m2"):
    write_safetensors(tmp_path / "p.safetensors", {"z": np.zeros(2, jnp.float8_e5m2)}, {})
