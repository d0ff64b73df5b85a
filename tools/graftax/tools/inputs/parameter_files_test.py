import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from graftax.tools.errors import ArrayFileError
from graftax.tools.inputs.parameter_files import read_parameters


def test_both_formats_are_read_and_nested(tmp_path):
  kernel = np.ones((2, 3), np.float32)
  np.savez(tmp_path / "p.npz", **{"dense/kernel": kernel, "scale": np.float32(2)})
  arrays = {"dense/kernel": kernel, "scale": np.array(2, ml_dtypes.bfloat16), "step": np.array(2**40)}
  save_file(arrays, tmp_path / "p.safetensors")
  for name in ("p.npz", "p.safetensors"):
    found = read_parameters(tmp_path / name)
    np.testing.assert_array_equal(found["dense"]["kernel"], kernel)
    assert float(found["scale"]) == 2
  assert found["step"].dtype == np.int64 and found["step"] == 2**40


def test_names_that_contradict_each_other_are_an_error(tmp_path):
  np.savez(tmp_path / "p.npz", **{"a": np.ones(1), "a/b": np.ones(1)})
  with pytest.raises(ArrayFileError, match="'a/b' lies in 'a'"):
    read_parameters(tmp_path / "p.npz")


@pytest.mark.parametrize("name", ["p.npz", "p.safetensors"])
def test_other_files_are_errors(tmp_path, name):
  with pytest.raises(ArrayFileError, match="no such file"):
    read_parameters(tmp_path / name)
  (tmp_path / name).write_bytes(b"text, no numbers")
  with pytest.raises(ArrayFileError, match="not a"):
    read_parameters(tmp_path / name)


def test_objects_are_not_unpickled(tmp_path):
  np.savez(tmp_path / "p.npz", a=np.array([object()], object))
  with pytest.raises(ArrayFileError, match="not a .npz file of numbers"):
    read_parameters(tmp_path / "p.npz")
