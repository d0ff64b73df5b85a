import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from graftax.savedmodel_io.writing.bundles import array_bytes as module
from graftax.savedmodel_io.writing.bundles.array_bytes import CHUNK_BYTES, array_bytes, cast_array


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (7, 300_001), (2, 3, 500_000), (3 * CHUNK_BYTES + 1,)])
@pytest.mark.parametrize("order", ["C", "F", "reversed"])
def test_chunks_are_the_bytes_in_c_order(shape, order):
  array = np.asarray(np.random.default_rng(0).integers(0, 256, shape, np.uint8))
  array = np.asfortranarray(array) if order == "F" else array
  if order == "reversed":
    array = array[tuple(slice(None, None, -1) for _ in shape)]
  chunks = list(array_bytes(np.asarray(array), array.dtype))
  assert all(0 < chunk.size <= CHUNK_BYTES for chunk in chunks if array.size)
  assert b"".join(chunk.tobytes() for chunk in chunks) == array.tobytes()


@pytest.mark.parametrize("shape", [(), (0, 2), (7, 30), (2, 3, 50), (301,)])
def test_arrays_on_another_device_come_in_pieces(shape, monkeypatch):
  monkeypatch.setattr(module, "_is_on_cpu", lambda array: False)
  monkeypatch.setattr(module, "_DEVICE_CHUNK_BYTES", 80)
  array = np.random.default_rng(0).random(shape, np.float32)
  chunks = list(array_bytes(jnp.asarray(array), array.dtype))
  assert len(chunks) >= array.nbytes // 80
  assert b"".join(chunk.tobytes() for chunk in chunks) == array.tobytes()


@pytest.mark.parametrize(
  ("value", "to"),
  [
    (np.uint64(2**63), np.int64),
    (np.int64(-1), np.uint64),
    (np.int16(-1), np.uint64),
    (np.int32(128), np.int8),
    (np.int32(8), ml_dtypes.int4),
    (np.asarray(-1, ml_dtypes.int4), np.uint8),
    (np.float64(3.5e38), np.float32),
    (np.float32(70_000), np.float16),
    (np.float32(500), ml_dtypes.float8_e4m3fn),
    (np.complex128(1e300j), np.complex64),
  ],
)
def test_a_value_that_does_not_fit_is_an_error(value, to):
  with pytest.raises(OverflowError, match=f"does not fit {np.dtype(to).name}"):
    cast_array(np.asarray([value, value * 0]), np.dtype(to))


@pytest.mark.parametrize(
  ("value", "to", "expected"),
  [
    (np.uint64(2**63 - 1), np.int64, 2**63 - 1),
    (np.asarray(-8, ml_dtypes.int4), np.int64, -8),
    (np.int32(7), ml_dtypes.int4, 7),
    (np.float32(1.00390625), ml_dtypes.bfloat16, 1.0),
    (np.float32("inf"), np.float16, float("inf")),
    (np.asarray(1.5, ml_dtypes.bfloat16), np.float64, 1.5),
  ],
)
def test_a_value_that_fits_is_rounded(value, to, expected):
  cast = cast_array(np.asarray(value), np.dtype(to))
  assert cast.dtype == to and cast[()] == expected
