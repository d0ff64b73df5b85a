"""Lists of lists and of optionals, and what they have in common; whole programs are in `graftax.testing`."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.graphdef_ir import DType
from graftax.ops_jax import InvalidInputError
from graftax.ops_jax.lists.tensor_list import empty_tensor_list, tensor_list_pop_back, tensor_list_push_back
from graftax.ops_jax.math.binary import add, add_n
from graftax.ops_jax.variants.structures import conformed, joined, shapes_of
from graftax.ops_jax.variants.tensor_array_gradient import FlowGradient
from graftax.ops_jax.variants.tensor_list_value import TensorList

_CONTEXT = types.SimpleNamespace(node_name="node", function_name="f")
_ANY = np.int32(-1)


def _empty(dtype):
  return empty_tensor_list(_ANY, -1, element_dtype=dtype)


def _pushed(tensor_list, *elements):
  for element in elements:
    tensor_list = tensor_list_push_back(_CONTEXT, tensor_list, element)
  return tensor_list


def _popped(tensor_list):
  return tensor_list_pop_back(_CONTEXT, tensor_list, _ANY)


def test_lists_of_different_lengths_are_elements_of_one_list():
  short = _pushed(_empty(DType.FLOAT), jnp.float32(1))
  long = _pushed(_empty(DType.FLOAT), jnp.float32(2), jnp.float32(3))
  lists = _pushed(_empty(DType.VARIANT), short, long, short)
  lists, _ = _popped(lists)
  lists, inner = _popped(lists)
  inner, last = _popped(inner)
  assert (last, _popped(inner)[1]) == (3, 2)
  assert _popped(_popped(lists)[1])[1] == 1


def test_what_is_always_the_same_known_value_stays_known():
  shapes = _pushed(_empty(DType.INT32), np.array([2, 3], np.int32), np.array([2, 3], np.int32))
  rest, shape = _popped(shapes)
  assert isinstance(shape, np.ndarray)
  _, shape = _popped(_pushed(rest, np.array([4, 3], np.int32)))
  assert isinstance(shape, jax.Array)
  np.testing.assert_array_equal(shape, [4, 3])
  np.testing.assert_array_equal(_popped(_popped(_pushed(rest, np.array([4, 3], np.int32)))[0])[1], [2, 3])


def test_a_known_shape_keeps_its_symbolic_dimension():
  (batch,) = jax.export.symbolic_shape("batch")
  shape = np.array([batch, 3], object)
  _, popped = _popped(_pushed(_empty(DType.INT32), shape, shape))
  assert list(popped) == [batch, 3]


def test_elements_of_other_shapes_keep_them():
  lists = _pushed(_empty(DType.FLOAT), jnp.ones(2), jnp.full(3, 2.0), jnp.full(1, 3.0))
  for element in ([3], [2, 2, 2], [1, 1]):
    lists, popped = _popped(lists)
    assert popped.tolist() == element


def test_elements_of_other_ranks_and_dtypes_raise():
  with pytest.raises(InvalidInputError, match=r"shape \(2,\).*shape \(3, 1\)"):
    _pushed(_empty(DType.FLOAT), jnp.zeros(2), jnp.zeros((3, 1)))
  with pytest.raises(InvalidInputError, match=r"shape \(4,\) for a list of elements of shape \(3,\)"):
    _pushed(empty_tensor_list(np.array([3]), -1, element_dtype=DType.FLOAT), jnp.zeros(4))


def test_lists_of_branches_get_one_length_which_is_traced():
  lists = [TensorList.of(jnp.arange(n, dtype=jnp.float32)) for n in (2, 3)]
  structure = joined(*map(shapes_of, lists))
  short, long = (conformed(value, structure) for value in lists)
  assert jax.tree.structure(short) == jax.tree.structure(long)
  assert (short.length, long.length) == (2, 3)
  assert _popped(short)[1] == 1


def test_pushing_to_a_list_of_traced_length_makes_room():
  def push(length):
    value = TensorList.of(jnp.arange(2, dtype=jnp.float32))
    traced = conformed(value, joined(shapes_of(value), shapes_of(TensorList.of(jnp.zeros(1)))))
    traced = _pushed(traced, jnp.float32(5), jnp.float32(6))
    rest, last = _popped(traced)
    return last, _popped(rest)[1], _popped(_popped(rest)[0])[1]

  assert jax.jit(push)(2) == (6, 5, 1)


def test_lists_are_added_element_by_element():
  total = add_n([TensorList.of(jnp.ones(3)), TensorList.of(jnp.arange(3.0))])
  np.testing.assert_array_equal(total.buffer, [1, 2, 3])
  with pytest.raises(InvalidInputError, match="lists of 3 and 2 elements"):
    add_n([TensorList.of(jnp.ones(3)), TensorList.of(jnp.ones(2))])


def test_a_number_where_gradients_of_an_array_are_expected_counts_as_zeros():
  gradient = FlowGradient(jnp.arange(3.0))
  for total in (add(np.float32(0), gradient), add_n([gradient, jnp.float32(0)])):
    np.testing.assert_array_equal(total.buffer, [0, 1, 2])
  np.testing.assert_array_equal(conformed(np.float32(0), shapes_of(gradient)).buffer, [0, 0, 0])
