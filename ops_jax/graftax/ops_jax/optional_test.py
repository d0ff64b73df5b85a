"""Optionals; `graftax.testing.differential` has conditionals that use them, against TensorFlow."""

import jax
import numpy as np
import pytest

from graftax.graphdef_ir import DType, PartialShape
from graftax.ops_jax import InvalidInputError
from graftax.ops_jax.optional import (
  completed,
  optional_from_value,
  optional_get_value,
  optional_has_value,
  optional_none,
)

_X = np.arange(3, dtype=np.float32)


def _get(optional, *types):
  return optional_get_value(optional, output_types=types, output_shapes=(PartialShape(None),) * len(types))


def test_an_optional_gives_back_what_it_holds():
  optional = optional_from_value([_X, np.int32(2)])
  assert optional_has_value(optional)
  x, two = _get(optional, DType.FLOAT, DType.INT32)
  np.testing.assert_array_equal(x, _X)
  assert two == 2


def test_nothing_cannot_be_read():
  assert not optional_has_value(optional_none())
  with pytest.raises(InvalidInputError, match="the optional holds nothing of types"):
    _get(optional_none(), DType.FLOAT)


def test_nothing_takes_the_shape_of_what_another_branch_holds():
  seen = {}
  first = completed((_X, optional_from_value([_X])), seen)
  second = completed((_X, optional_none()), seen)
  assert jax.tree.structure(first) == jax.tree.structure(second)
  assert _get(second[1], DType.FLOAT)[0].shape == (3,)
  assert not optional_has_value(second[1])


def test_branches_may_hold_different_things_in_one_optional():
  seen = {}
  branches = [optional_from_value([_X]), optional_from_value([optional_from_value([np.int32(1)])]), optional_none()]
  for branch in branches:
    completed((branch,), seen)
  full = [completed((branch,), seen)[0] for branch in branches]
  assert len({jax.tree.structure(value) for value in full}) == 1
  np.testing.assert_array_equal(_get(full[0], DType.FLOAT)[0], _X)
  (inner,) = _get(full[1], DType.VARIANT)
  assert _get(inner, DType.INT32)[0] == 1
  with pytest.raises(InvalidInputError, match=r"holds nothing of types \['bool'\]"):
    _get(full[0], DType.BOOL)


def test_an_optional_passes_through_jit():
  doubled = jax.jit(lambda optional: jax.tree.map(lambda x: x, optional))(optional_from_value([_X]))
  np.testing.assert_array_equal(_get(doubled, DType.FLOAT)[0], _X)
