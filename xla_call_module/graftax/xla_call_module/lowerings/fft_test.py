import jax
import numpy as np
import pytest

from graftax.xla_call_module import Module, embed, lift

_REAL = np.sin(np.arange(24, dtype=np.float32)).reshape(2, 3, 4)
_COMPLEX = (_REAL + 1j * np.cos(_REAL)).astype(np.complex64)
_HALF = np.fft.rfft2(_REAL).astype(np.complex64)


@pytest.mark.parametrize(
  "kind, x, made",
  [
    ("FFT", _COMPLEX, "2x3x4xcomplex<f32>"),
    ("IFFT", _COMPLEX, "2x3x4xcomplex<f32>"),
    ("RFFT", _REAL, "2x3x3xcomplex<f32>"),
    ("IRFFT", _HALF, "2x3x4xf32"),
  ],
)
def test_transform_of_two_axes_gives_what_xla_gives_and_differentiates(kind, x, made):
  given = f"{'x'.join(map(str, x.shape))}x{'f32' if x.dtype == np.float32 else 'complex<f32>'}"
  module = Module.from_text(f"""module {{ func.func public @main(%x: tensor<{given}>) -> tensor<{made}> {{
    %r = stablehlo.fft %x, type = {kind}, length = [3, 4] : (tensor<{given}>) -> tensor<{made}>
    return %r : tensor<{made}> }} }}""")
  (got,), (want,) = lift(module)(x), embed(module)(x)
  np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
  # The transform is linear, so its derivative along a direction is the transform of that direction.
  _, (tangent,) = jax.jvp(lambda x: lift(module)(x), (x,), (2 * x,))
  np.testing.assert_allclose(tangent, 2 * want, rtol=1e-5, atol=1e-5)
