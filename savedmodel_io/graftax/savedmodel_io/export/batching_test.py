"""Functions with default inputs and inputs repeated to one batch size, in TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf

from graftax.savedmodel_io import TensorSpecWithDefault, make_auto_batching_function, with_default_args
from graftax.savedmodel_io.errors import SaveInputError


def _vector(name=None):
  return tf.TensorSpec([None], tf.int32, name)


def test_defaults_become_tensors():
  spec = TensorSpecWithDefault(_vector(), [1, 2])
  assert isinstance(spec.default_val, tf.Tensor)
  assert spec.default_val.dtype == tf.int32
  assert TensorSpecWithDefault(tf.TensorSpec([], tf.string), "text").default_val == b"text"
  with pytest.raises(SaveInputError, match="cannot become int32"):
    TensorSpecWithDefault(_vector(), ["a"])


def test_functions_use_defaults():
  function = with_default_args(lambda x, y: x + y["a"], [_vector(), {"a": TensorSpecWithDefault(_vector(), [3])}])
  np.testing.assert_array_equal(function([1]), [4])
  np.testing.assert_array_equal(function([1], {"a": [5]}), [6])


def test_inputs_of_batch_size_one_are_repeated():
  nested = {"one": TensorSpecWithDefault(_vector("one"), [5]), "two": TensorSpecWithDefault(_vector("two"), [6])}
  second = TensorSpecWithDefault(_vector("second"), [1], is_primary=True)
  function = make_auto_batching_function([_vector("first"), second, nested])
  first, second, found = function([1, 2, 3], [4, 5, 6])
  np.testing.assert_array_equal(first, [1, 2, 3])
  np.testing.assert_array_equal(second, [4, 5, 6])
  np.testing.assert_array_equal(found["one"], [5, 5, 5])
  np.testing.assert_array_equal(found["two"], [6, 6, 6])
  np.testing.assert_array_equal(function([1, 2], [1, 2], {"one": [7, 8], "two": [9]})[2]["one"], [7, 8])
  np.testing.assert_array_equal(function([], [])[2]["one"], [])


def test_batch_sizes_that_do_not_fit_raise():
  function = make_auto_batching_function([_vector("a"), _vector("b"), TensorSpecWithDefault(_vector("c"), [1])])
  with pytest.raises(tf.errors.InvalidArgumentError, match="All primary input tensors must have the same batch size"):
    function([1, 2], [3])
  with pytest.raises(tf.errors.InvalidArgumentError, match=r"batch size of .*c.* must be 1 or the same as that of the"):
    function([1, 2, 3], [4, 5, 6], [7, 8])


def test_one_input_must_be_primary():
  with pytest.raises(SaveInputError, match=r"no primary input tensors among \['a'\]"):
    make_auto_batching_function([TensorSpecWithDefault(_vector("a"), [1])])


def test_scalars_have_no_batch_size():
  with pytest.raises(SaveInputError, match=r"the inputs \['a'\] are scalars"):
    make_auto_batching_function([tf.TensorSpec([], name="a")])


def test_names_of_nested_inputs_may_repeat():
  # orbax.export accepts them; TensorFlow numbers them.
  x = tf.TensorSpec([None], tf.int32, "x")
  weight = TensorSpecWithDefault(tf.TensorSpec([None], tf.float32, "x"), [1.0])
  batched = make_auto_batching_function([{"a": x, "b": x}, weight])
  pair, repeated = batched({"a": [1, 2], "b": [3, 4]})
  np.testing.assert_array_equal(pair["b"], [3, 4])
  np.testing.assert_array_equal(repeated, [1.0, 1.0])
