"""Sliding windows: what each cell sees, and descriptions that do not fit."""

import jax
import numpy as np
import pytest

from graftax.ops_jax._core.errors import InvalidInputError, UnsupportedAttrError
from graftax.ops_jax.spatial.layouts import layout
from graftax.ops_jax.spatial.windows import full_window, spatial_window, window_views

_PLACE = layout("Test", "NHWC", 4)


def test_views_add_up_to_the_window_sum():
  x = np.arange(2 * 5 * 6 * 3, dtype=np.float32).reshape(2, 5, 6, 3)
  window = full_window("Test", x.shape, (1, 3, 2, 1), (1, 2, 1, 1), "SAME")
  total = sum(view for _, view in window_views(x, window, range(4), 0))
  want = jax.lax.reduce_window(x, np.float32(0), jax.lax.add, window.size, window.strides, "SAME")
  np.testing.assert_array_equal(total, want)


@pytest.mark.parametrize(
  ("padding", "strides", "dilations"),
  [
    ("SAME", (1, 1), (2, 1)),
    ("SAME", (2, 3), (3, 2)),
    ("SAME", (1, 2), (1, 4)),
    ("VALID", (2, 3), (3, 2)),
  ],
)
def test_dilated_views_add_up_to_the_window_sum(padding, strides, dilations):
  x = np.arange(2 * 9 * 8 * 3, dtype=np.float32).reshape(2, 9, 8, 3)
  attrs = {"strides": (1, *strides, 1), "padding": padding, "dilations": (1, *dilations, 1)}
  window = spatial_window("Test", _PLACE, x.shape, (3, 2), **attrs)
  total = sum(view for _, view in window_views(x, window, (1, 2), 0))
  want = jax.lax.reduce_window(
    x, np.float32(0), jax.lax.add, (1, 3, 2, 1), attrs["strides"], padding, window_dilation=attrs["dilations"]
  )
  np.testing.assert_array_equal(total, want)


def test_the_odd_padding_cell_is_at_the_end():
  window = spatial_window("Test", _PLACE, (1, 4, 5, 1), (2, 3), strides=(1, 1, 2, 1), padding="SAME")
  assert window.padding == ((0, 1), (1, 1))


def test_dilated_cells_are_apart():
  x = np.arange(7, dtype=np.float32).reshape(1, 7, 1, 1)
  window = spatial_window(
    "Test", _PLACE, x.shape, (2, 1), strides=(1, 1, 1, 1), padding="VALID", dilations=(1, 3, 1, 1)
  )
  first, second = (np.ravel(view) for _, view in window_views(x, window, (1, 2), 0))
  np.testing.assert_array_equal(first, [0, 1, 2, 3])
  np.testing.assert_array_equal(second, [3, 4, 5, 6])


def test_padding_by_a_symbolic_size_has_a_name_instead_of_numbers():
  shape = jax.export.symbolic_shape("b, h, w, 3")
  window = spatial_window("Test", _PLACE, shape, (3, 3), strides=(1, 2, 2, 1), padding="SAME")
  assert window.lax_padding == "SAME"


def test_descriptions_that_do_not_fit_raise():
  with pytest.raises(UnsupportedAttrError, match="batch or channels"):
    spatial_window("Test", _PLACE, (1, 4, 4, 1), (2, 2), strides=(1, 1, 1, 2), padding="SAME")
  with pytest.raises(UnsupportedAttrError, match="'HALF'"):
    spatial_window("Test", _PLACE, (1, 4, 4, 1), (2, 2), strides=(1, 1, 1, 1), padding="HALF")
  with pytest.raises(InvalidInputError, match="3 entries"):
    spatial_window("Test", _PLACE, (1, 4, 4, 1), (2, 2), strides=(1, 1, 1), padding="SAME")
  with pytest.raises(InvalidInputError, match="expected 8"):
    full_window("Test", (1, 4, 4, 1), (1, 2, 2, 1), (1, 1, 1, 1), "EXPLICIT", (0, 0))
