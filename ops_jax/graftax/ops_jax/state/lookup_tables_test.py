import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax.state.lookup_tables import LookupTable, lookup_table_export, lookup_table_find, lookup_table_size

TABLE = LookupTable("t", keys=np.array([7, -2, 40], np.int64), values=np.array([1.5, 2.5, 3.5], np.float32))


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit, jax.vmap])
def test_known_keys_have_their_value_and_others_the_default(transform):
  keys = jnp.array([[40, 7], [8, -2], [41, -3]])
  found = transform(lambda k: lookup_table_find(TABLE, k, np.float32(-1)))(keys)
  np.testing.assert_array_equal(found, [[3.5, 1.5], [-1, 2.5], [-1, -1]])


def test_values_can_be_tensors_and_defaults_one_per_key():
  table = LookupTable("t", keys=np.array([3, 1]), values=np.array([[30, 31], [10, 11]], np.int32))
  np.testing.assert_array_equal(lookup_table_find(table, jnp.array([1, 2]), np.array([5, 6])), [[10, 11], [5, 6]])
  defaults = np.array([[0, 1], [2, 3]])
  np.testing.assert_array_equal(lookup_table_find(table, jnp.array([1, 2]), defaults), [[10, 11], [2, 3]])


def test_keys_can_be_tensors():
  table = LookupTable("t", keys=np.array([[1, 2], [3, 4]]), values=np.array([12, 34]))
  np.testing.assert_array_equal(lookup_table_find(table, jnp.array([[3, 4], [4, 3]]), np.int64(0)), [34, 0])


def test_an_empty_table_has_only_the_default():
  empty = LookupTable("t")
  np.testing.assert_array_equal(lookup_table_find(empty, jnp.array([1, 2]), np.int64(-1)), [-1, -1])
  assert lookup_table_size(empty) == 0


def test_wide_keys_are_found_with_64_bits_and_never_taken_for_narrow_ones():
  table = LookupTable("t", keys=np.array([2**32 + 5]), values=np.array([1]))
  assert lookup_table_find(table, jnp.array(5), np.int64(0)) == 0
  with jax.enable_x64(True):
    assert lookup_table_find(table, jnp.array(2**32 + 5), np.int64(0)) == 1


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit])
def test_wide_values_and_defaults_keep_all_bits(transform):
  table = LookupTable("t", keys=np.array([7, 8]), values=np.array([2**40 + 1, -3]))
  found = transform(lambda k: lookup_table_find(table, k, np.int64(0)))(jnp.array([8, 7, 9]))
  np.testing.assert_array_equal(np.asarray(found), [-3, 2**40 + 1, 0])
  narrow = LookupTable("t", keys=np.array([7, 8]), values=np.array([1, 2]))
  found = transform(lambda k: lookup_table_find(narrow, k, np.int64(-(2**35))))(jnp.array([8, 9]))
  np.testing.assert_array_equal(np.asarray(found), [2, -(2**35)])


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit])
def test_a_wide_default_keeps_all_bits_if_no_key_can_be_found(transform):
  table = LookupTable("t", keys=np.array([2**40, 2**41]), values=np.array([1, 2]))
  found = transform(lambda keys: lookup_table_find(table, keys, np.int64(2**45 + 2**11)))(jnp.array([0, 3]))
  np.testing.assert_array_equal(np.asarray(found), [2**45 + 2**11] * 2)


def test_size_and_contents_are_known():
  assert lookup_table_size(TABLE) == 3
  keys, values = lookup_table_export(TABLE)
  assert dict(zip(keys.tolist(), values.tolist(), strict=True)) == {7: 1.5, -2: 2.5, 40: 3.5}


@pytest.mark.parametrize(
  ("keys", "values", "message"),
  [
    (np.array([b"a"], object), np.array([1]), "'t' from object to int64: strings"),
    (np.array([1]), np.array([b"a"], object), "'t' from int64 to object: strings"),
    (np.array([1, 2]), np.array([1]), "'t': 2 keys and 1 values"),
  ],
)
def test_contents_without_a_counterpart_raise_with_their_name(keys, values, message):
  with pytest.raises(InvalidInputError, match=message):
    LookupTable("t", keys=keys, values=values)
