"""Optionals; `graftax.testing.differential` has conditionals that use them, against TensorFlow."""

import types

import jax
import numpy as np
import pytest

from graftax.graphdef_ir import DType, PartialShape
from graftax.ops_jax import InvalidInputError
from graftax.ops_jax.lists.optional import optional_from_value, optional_get_value, optional_has_value, optional_none
from graftax.ops_jax.variants.structures import OneOf, conformed, joined, shapes_of
from graftax.ops_jax.variants.tensor_list_value import TensorList

_X = np.arange(3, dtype=np.float32)
_CONTEXT = types.SimpleNamespace(node_name="get", function_name="f")


def _get(optional, *dtypes, shape=None):
  shapes = (PartialShape(shape),) * len(dtypes)
  return optional_get_value(_CONTEXT, optional, output_types=dtypes, output_shapes=shapes)


def _of(value, dtype):
  return optional_from_value([value], Toutput_types=(dtype,))


def test_an_optional_gives_back_what_it_holds():
  optional = optional_from_value([jax.numpy.asarray(_X), np.int32(2)], Toutput_types=(DType.FLOAT, DType.INT32))
  assert optional_has_value(optional)
  x, two = _get(optional, DType.FLOAT, DType.INT32)
  np.testing.assert_array_equal(x, _X)
  assert isinstance(two, np.ndarray), "what is known stays known"
  assert two == 2


def test_nothing_cannot_be_read():
  assert not optional_has_value(optional_none())
  with pytest.raises(InvalidInputError, match="the optional holds nothing of types"):
    _get(optional_none(), DType.FLOAT)


def test_nothing_takes_the_shape_of_what_another_branch_holds():
  full, empty = _of(jax.numpy.asarray(_X), DType.FLOAT), optional_none()
  structure = joined(shapes_of(full), shapes_of(empty))
  branches = [conformed(full, structure), conformed(empty, structure)]
  assert jax.tree.structure(branches[0]) == jax.tree.structure(branches[1])
  assert _get(branches[1], DType.FLOAT)[0].shape == (3,)
  assert not optional_has_value(branches[1])


def test_branches_may_hold_different_things_in_one_optional():
  branches = [_of(_X, DType.FLOAT), _of(_of(np.int32(1), DType.INT32), DType.VARIANT), optional_none()]
  structure = shapes_of(branches[0])
  for branch in branches[1:]:
    structure = joined(structure, shapes_of(branch))
  full = [conformed(branch, structure) for branch in branches]
  assert len({jax.tree.structure(value) for value in full}) == 1
  np.testing.assert_array_equal(_get(full[0], DType.FLOAT)[0], _X)
  (inner,) = _get(full[1], DType.VARIANT)
  assert _get(inner, DType.INT32)[0] == 1
  with pytest.raises(InvalidInputError, match=r"holds nothing of types \['bool'\]"):
    _get(full[0], DType.BOOL)


def test_values_that_are_known_but_differ_become_arrays():
  structure = joined(shapes_of(_of(np.int32(1), DType.INT32)), shapes_of(_of(np.int32(2), DType.INT32)))
  (two,) = _get(conformed(_of(np.int32(2), DType.INT32), structure), DType.INT32)
  assert isinstance(two, jax.Array)
  assert two == 2


def test_the_reader_of_a_variant_says_what_it_is():
  a_list = TensorList.of(jax.numpy.asarray(_X))
  optional = _of(np.int32(1), DType.INT32)
  first, second = _of(a_list, DType.VARIANT), _of(optional, DType.VARIANT)
  structure = joined(shapes_of(first), shapes_of(second))
  (value,) = _get(conformed(second, structure), DType.VARIANT)
  assert isinstance(value, OneOf)
  assert _get(value, DType.INT32)[0] == 1


def test_what_fits_twice_is_an_error_and_no_guess():
  pair = [_of(jax.numpy.zeros(n), DType.FLOAT) for n in (2, 3)]
  both = conformed(pair[0], joined(*map(shapes_of, pair)))
  assert _get(both, DType.FLOAT, shape=(3,))[0].shape == (3,)
  with pytest.raises(InvalidInputError, match="may hold several things"):
    _get(both, DType.FLOAT, shape=(None,))


def test_an_optional_passes_through_jit():
  doubled = jax.jit(lambda optional: jax.tree.map(lambda x: x, optional))(_of(_X, DType.FLOAT))
  np.testing.assert_array_equal(_get(doubled, DType.FLOAT)[0], _X)
