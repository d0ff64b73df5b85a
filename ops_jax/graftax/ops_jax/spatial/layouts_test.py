"""Layouts."""

import pytest

from graftax.ops_jax._core.errors import InvalidInputError, UnsupportedAttrError
from graftax.ops_jax.spatial.layouts import layout


@pytest.mark.parametrize(
  ("name", "rank", "channel_axis", "spatial_axes", "spec"),
  [
    ("NHWC", 4, 3, (1, 2), "N01C"),
    ("NCHW", 4, 1, (2, 3), "NC01"),
    ("NDHWC", 5, 4, (1, 2, 3), "N012C"),
    ("NCDHW", 5, 1, (2, 3, 4), "NC012"),
    ("CHANNELS_LAST", 3, 2, (1,), "N0C"),
    ("CHANNELS_FIRST", 5, 1, (2, 3, 4), "NC012"),
  ],
)
def test_positions(name, rank, channel_axis, spatial_axes, spec):
  place = layout("Test", name, rank)
  assert (place.channel_axis, place.spatial_axes, place.spec, place.rank) == (channel_axis, spatial_axes, spec, rank)


def test_an_unknown_layout_is_named():
  with pytest.raises(UnsupportedAttrError, match="'NCHW_VECT_C'"):
    layout("Conv2D", "NCHW_VECT_C", 5)


def test_a_rank_that_does_not_fit_is_named():
  with pytest.raises(InvalidInputError, match="rank 3"):
    layout("Conv2D", "NHWC", 3)
