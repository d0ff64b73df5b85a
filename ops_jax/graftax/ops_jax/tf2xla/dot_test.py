"""The general product against hand-encoded messages."""

import jax
import numpy as np
import pytest

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax.tf2xla.dot import xla_dot, xla_dot_v2

# xla.DotDimensionNumbers: contract axis 2 of the left with axis 1 of the right, batch over axis 0.
_BATCHED = bytes([0x0A, 1, 2, 0x12, 1, 1, 0x1A, 1, 0, 0x22, 1, 0])
# The same without packing.
_UNPACKED = bytes([0x08, 2, 0x10, 1, 0x18, 0, 0x20, 0])
_HIGHEST = bytes([0x0A, 2, 2, 2])


@pytest.mark.parametrize("dimensions", [_BATCHED, _UNPACKED])
@pytest.mark.parametrize("precision", [b"", _HIGHEST])
def test_batched_product(dimensions, precision):
  a = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
  b = np.random.default_rng(1).normal(size=(2, 4, 5)).astype(np.float32)
  product = jax.jit(lambda a, b: xla_dot(a, b, dimension_numbers=dimensions, precision_config=precision))(a, b)
  np.testing.assert_allclose(product, a @ b, rtol=1e-5, atol=1e-5)


def test_product_in_a_wider_type():
  a = np.full((1, 2, 3), 100, np.int8)
  attrs = {"dimension_numbers": _BATCHED, "precision_config": b"", "preferred_element_type": np.dtype(np.int32)}
  product = xla_dot_v2(a, np.swapaxes(a, 1, 2), **attrs)
  assert product.dtype == np.int32
  np.testing.assert_array_equal(product, np.full((1, 2, 2), 30000))


def test_a_damaged_message_raises():
  a = np.ones((2, 2), np.float32)
  with pytest.raises(InvalidInputError, match="ends within"):
    xla_dot(a, a, dimension_numbers=b"\x0a\x05\x80", precision_config=b"")
  with pytest.raises(InvalidInputError, match="wire type 5"):
    xla_dot(a, a, dimension_numbers=b"\x0d", precision_config=b"")
