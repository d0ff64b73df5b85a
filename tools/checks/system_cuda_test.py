"""CUDA libraries of the system are found, whether on the path of a process or loaded by it."""

import subprocess
import sys
from pathlib import Path

import pytest
from cleanroom import ROOT
from system_cuda import load_libraries, loaded_from_elsewhere, on_library_path

_MAPS = """\
7f0000000000-7f0000001000 r-xp 00000000 08:01 1   /venv/lib/python3.11/site-packages/nvidia/cublas/lib/libcublas.so.12
7f0000002000-7f0000003000 r-xp 00000000 08:01 2   /usr/lib/x86_64-linux-gnu/libcuda.so.1
7f0000004000-7f0000005000 rw-p 00000000 00:00 0
7f0000006000-7f0000007000 r-xp 00000000 08:01 3   /usr/lib/x86_64-linux-gnu/libc.so.6
"""
_SYSTEM = "7f0000008000-7f0000009000 r-xp 00000000 08:01 4   /usr/local/cuda/lib64/libcudart.so.12\n"


def test_libraries_of_the_environment_and_the_driver_are_allowed():
  assert not loaded_from_elsewhere(_MAPS, Path("/venv"))


def test_a_loaded_library_of_the_system_is_found():
  assert loaded_from_elsewhere(_MAPS + _SYSTEM, Path("/venv")) == [Path("/usr/local/cuda/lib64/libcudart.so.12")]


@pytest.mark.parametrize("name", ["libcublasLt.so.13", "libcudnn_ops.so.9", "libcusolverMg.so", "libnvrtc.so.12"])
def test_a_library_on_the_path_of_a_test_fails_it(name, tmp_path):
  (tmp_path / name).touch()
  command = [sys.executable, str(ROOT / "tools/checks/system_cuda.py")]
  variables = {"LD_LIBRARY_PATH": f"/nowhere:{tmp_path}"}
  result = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
  assert result.returncode != 0
  assert f"{tmp_path / name}: a CUDA library of the system" in result.stderr


def test_the_driver_on_the_path_is_allowed(tmp_path):
  (tmp_path / "libcuda.so.1").touch()
  assert not on_library_path(str(tmp_path))


def test_a_library_that_does_not_load_is_an_error(tmp_path):
  (tmp_path / "libcufft.so.12").write_text("not a library")
  loaded, errors = load_libraries([tmp_path / "libcufft.so.12"])
  assert loaded == 0
  assert "libcufft.so.12" in errors[0]
