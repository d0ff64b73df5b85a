import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.savedmodel_io import CheckpointReader, load, save, write_checkpoint
from graftax.savedmodel_io.errors import CastError, DamagedCheckpointError

_DATA = Path(__file__).parents[1] / "testdata/2026_11_21"
_KERAS = _DATA / "keras_export"
_NORM = "sequential/norm/*"
_MIB = 1 << 20


@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.float16, np.float64, "float32"])
@pytest.mark.parametrize("verify", [True, False])
def test_variables_are_cast_as_numpy_casts_them(dtype, verify):
  plain, cast = load(_KERAS).variables, load(_KERAS, dtype=dtype, verify=verify).variables
  assert list(cast) == list(plain)
  for name, value in plain.items():
    expected = value.astype(np.dtype(dtype)) if value.dtype == np.float32 else value
    assert cast[name].dtype == expected.dtype
    np.testing.assert_array_equal(cast[name], expected)
    assert not cast[name].flags.writeable


def test_integers_and_names_that_match_keep_their_type():
  dtypes = {name: value.dtype for name, value in load(_DATA / "module", dtype=jnp.bfloat16).variables.items()}
  assert dtypes.pop("frozen") == np.int64
  assert set(dtypes.values()) == {np.dtype(jnp.bfloat16)}
  kept = load(_KERAS, dtype=jnp.bfloat16, keep=[_NORM, "*/bias"]).variables
  assert {name for name, value in kept.items() if value.dtype == jnp.bfloat16} == {
    name for name in kept if "kernel" in name or "bias_1" in name
  }
  assert load(_KERAS, dtype=jnp.bfloat16, keep=_NORM).variables["sequential/norm/gamma"].dtype == np.float32


@pytest.mark.parametrize("name", ["tf1_partitioned", "tf1_control_flow"])
def test_pieces_and_regions_are_cast_too(name):
  folder = next(_DATA.parent.glob(f"*/{name}"))
  plain, cast = load(folder, "serve").variables, load(folder, "serve", dtype=jnp.bfloat16).variables
  for key, value in plain.items():
    region = tuple(slice(0, max(1, size // 2)) for size in value.shape)
    np.testing.assert_array_equal(cast.read(key, region), value[region].astype(jnp.bfloat16))


@pytest.mark.parametrize("prefix", ["partitioned_v1/model.ckpt", "partitioned_v2/model.ckpt"])
def test_partitioned_tensors_of_both_formats_are_cast(prefix):
  reader = CheckpointReader(_DATA / prefix)
  expected = reader.read("rows").astype(np.float16)
  np.testing.assert_array_equal(reader.read("rows", dtype=np.dtype(np.float16)), expected)
  region = (slice(1, 4), slice(0, 2))
  np.testing.assert_array_equal(reader.read_region("rows", region, dtype=np.dtype(np.float16)), expected[region])


def test_tensors_of_many_pieces_are_cast_and_verified(tmp_path):
  value = np.random.default_rng(0).standard_normal((1500, 1700), np.float32)  # two and a half pieces
  write_checkpoint(tmp_path / "c", {"first": np.zeros(3, np.int8), "value": value})
  bfloat16 = np.dtype(jnp.bfloat16)
  np.testing.assert_array_equal(CheckpointReader(tmp_path / "c").read("value", dtype=bfloat16), value.astype(bfloat16))
  with open(tmp_path / "c.data-00000-of-00001", "r+b") as f:
    f.seek(-5, os.SEEK_END)
    f.write(b"\x00")
  with pytest.raises(DamagedCheckpointError, match="tensor 'value'.*its checksum is"):
    CheckpointReader(tmp_path / "c").read("value", dtype=bfloat16)


def test_a_cast_model_computes_nearly_the_same():
  x = np.random.default_rng(0).standard_normal((3, 2), np.float32)
  fn, params = load(_KERAS).convert()
  cast_fn, cast_params = load(_KERAS, dtype=jnp.bfloat16, keep=_NORM).convert()
  expected = fn(params, features=x)[0]["output_0"]
  outputs, _ = jax.jit(cast_fn)(cast_params, features=x)
  # bfloat16 has 8 bits of mantissa; measured 3e-3 of the largest value.
  np.testing.assert_allclose(outputs["output_0"], expected, atol=2e-2 * np.abs(expected).max())


def test_modules_of_stablehlo_get_cast_parameters_in_their_own_type(tmp_path):
  values = {"w": np.array([[1.5, 2.001]], np.float32), "n": np.array(3, np.int32)}
  save(tmp_path / "m", (lambda params, x: x @ params["w"] * params["n"], np.ones((2, 1), np.float32)), values)
  fn, params = load(tmp_path / "m", dtype=jnp.bfloat16).convert()
  assert params["w"].dtype == jnp.bfloat16
  result = jax.jit(fn)(params, x=np.full((2, 1), 0.1, np.float32))[0]["output_0"]
  assert result.dtype == np.float32
  expected = np.full((2, 1), 0.1, np.float32) @ values["w"].astype(jnp.bfloat16).astype(np.float32) * 3
  np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize(
  ("dtype", "keep", "message"),
  [
    (np.int8, (), "dtype=int8: variables of real numbers are cast; expected a floating type"),
    (np.complex64, (), "dtype=complex64"),
    ("no type", (), "is not a type of arrays"),
    (None, "*/bias", "without dtype="),
    (jnp.bfloat16, ["*/bias", "*/biass"], r"keep=\['\*/biass'\] fits no variable; .* there are: "),
  ],
)
def test_types_that_are_not_floating_raise(dtype, keep, message):
  with pytest.raises(CastError, match=message):
    load(_KERAS, dtype=dtype, keep=keep)


_PEAK = """
import pathlib, re, sys
import jax.numpy as jnp
from graftax.savedmodel_io import load

def kib(field):
  return int(re.search(rf"{field}:\\s*(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1])

load(sys.argv[1]).convert()  # what importing and converting take
pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
before = kib("VmRSS")
dtype = jnp.bfloat16 if sys.argv[3] == "cast" else None
fn, params = load(sys.argv[2], dtype=dtype, keep="*bias" if dtype else ()).convert()
assert sum(value.size for value in params.values()) > 1 << 24
assert max(float(value.max()) for value in params.values()) == 7  # uses all values, so mapped pages are in memory
print(kib("VmHWM") - before)
"""


def _peak_kib(small: Path, large: Path, how: str) -> int:
  environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
  command = [sys.executable, "-c", _PEAK, small, large, how]
  return int(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems count other things as a process's memory")
def test_casting_takes_half_of_the_memory(tmp_path):
  def apply(params, x):
    return x * sum(jnp.sum(p) for p in params.values())

  def write(name: str, size: int) -> Path:
    layers = {f"layer_{i}": np.full(size, i, np.float32) for i in range(8)}
    save(tmp_path / name, (apply, jax.ShapeDtypeStruct((), np.float32)), {**layers, "bias": np.zeros(8, np.float32)})
    return tmp_path / name

  small, large = write("small", 8), write("large", 3 * _MIB)  # 96 MiB of float32
  plain, cast = (_peak_kib(small, large, how) for how in ("plain", "cast"))
  print(f"peak of float32 {plain / 1024:.1f} MiB, of bfloat16 {cast / 1024:.1f} MiB")
  assert plain > 90 * 1024
  assert cast < 0.6 * plain
