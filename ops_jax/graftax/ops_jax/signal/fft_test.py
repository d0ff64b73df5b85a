"""Fourier transforms against TensorFlow."""

import jax
import numpy as np
import pytest

from graftax.ops_jax.signal.fft import fftnd, ifftnd, irfftnd, rfftnd
from graftax.testing.raw_ops import check_raw_op, check_raw_op_rejects

_TOLERANCE = {
  np.complex64: (1e-4, 1e-4),
  np.complex128: (1e-10, 1e-10),
  np.float32: (1e-4, 1e-4),
  np.float64: (1e-10, 1e-10),
}


def _values(shape, dtype):
  rng = np.random.default_rng(0)
  values = rng.normal(size=shape)
  return (values + 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else values).astype(dtype)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("inverse", ["", "I"])
def test_complex_transforms(dtype, dims, inverse):
  op = f"{inverse}FFT{'' if dims == 1 else f'{dims}D'}"
  check_raw_op(op, [_values((2, 3, 4, 5)[: dims + 1], dtype)], grad=True, tolerance=_TOLERANCE[dtype])


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("dims", "lengths"), [(1, [4]), (1, [5]), (1, [3]), (2, [3, 4]), (2, [2, 5]), (3, [2, 3, 4])])
def test_real_transforms_cut_their_input(dtype, dims, lengths, extra):
  op = f"RFFT{'' if dims == 1 else f'{dims}D'}"
  attrs = {"Tcomplex": np.complex64 if dtype is np.float32 else np.complex128}
  inputs = [_values((2, *[n + extra for n in lengths]), dtype), np.array(lengths, np.int32)]
  # TensorFlow has no gradient in three dimensions, and fails to compute that of an input that is cut.
  check_raw_op(op, inputs, attrs, grad=dims < 3 and not extra, tolerance=_TOLERANCE[dtype])


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize(("dims", "lengths"), [(1, [4]), (1, [5]), (2, [3, 4]), (2, [2, 5]), (3, [2, 3, 4])])
def test_real_inverse_transforms_cut_their_input(dtype, dims, lengths, extra):
  op = f"IRFFT{'' if dims == 1 else f'{dims}D'}"
  attrs = {"Treal": np.float32 if dtype is np.complex64 else np.float64}
  shape = [2, *lengths[:-1], lengths[-1] // 2 + 1]
  inputs = [_values([n + extra for n in shape], dtype), np.array(lengths, np.int32)]
  check_raw_op(op, inputs, attrs, grad=dims < 3 and not extra, tolerance=_TOLERANCE[dtype])


# TensorFlow declares transforms of any axes but has no kernel for them; NumPy is the oracle.
_AXES = [((4, 3), (0, 2)), ((3,), (1,)), ((2, 3, 4), (0, 1, 2)), ((6,), (2,))]


@pytest.mark.parametrize(("lengths", "axes"), _AXES)
def test_transforms_of_some_axes(lengths, axes):
  x, real = _values((4, 3, 5), np.complex128), _values((4, 3, 5), np.float64)
  with jax.enable_x64(True):
    np.testing.assert_allclose(fftnd(x, lengths, axes), np.fft.fftn(x, lengths, axes), atol=1e-12)
    np.testing.assert_allclose(ifftnd(x, lengths, axes), np.fft.ifftn(x, lengths, axes), atol=1e-12)
    np.testing.assert_allclose(rfftnd(real, lengths, axes), np.fft.rfftn(real, lengths, axes), atol=1e-12)
    np.testing.assert_allclose(irfftnd(x, lengths, axes), np.fft.irfftn(x, lengths, axes), atol=1e-12)


def test_transforms_of_nothing():
  check_raw_op("FFT", [np.zeros((0, 4), np.complex64)], vmap=False)
  check_raw_op("RFFT", [np.zeros((0, 4), np.float32), np.array([4], np.int32)], vmap=False)
  check_raw_op("IRFFT", [np.zeros((0, 3), np.complex64), np.array([4], np.int32)], vmap=False)


def test_a_transform_of_too_few_axes_raises():
  check_raw_op_rejects("FFT2D", [np.zeros(3, np.complex64)], match="(3,)")
