"""Ragged tensors in variants against TensorFlow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.ops_jax import InvalidInputError, lowering
from graftax.testing.raw_ops import check_raw_op_rejects

_X = np.arange(3, dtype=np.float32)


@pytest.mark.tensorflow
@pytest.mark.parametrize(
  "splits", [[[-1, 2, 3]], [[1, 3]], [[0, 2]], [[0, 4]], [[0, 2, 1, 3]], [[]], [[0, 2], [-1, 1, 3]]]
)
def test_row_splits_that_do_not_divide_the_values_raise(splits):
  splits = [np.array(part, np.int64) for part in splits]
  attrs = {"batched_input": True}
  check_raw_op_rejects("RaggedTensorToVariant", [splits, _X], attrs, match="row splits do not divide")


def test_known_row_splits_that_do_not_divide_the_values_raise():
  to_variant = lowering("RaggedTensorToVariant").function
  for splits in ([-1, 2, 3], [1, 3], [0, 2]):
    with pytest.raises(InvalidInputError, match="row splits do not divide 3"):
      to_variant([np.array(splits)], jnp.asarray(_X), batched_input=True)


def test_values_of_a_ragged_tensor_in_variants_may_have_a_symbolic_size():
  def joined(values):
    rows = lowering("RaggedTensorToVariant").function([np.array([0, 2, 3])], values, batched_input=True)
    _, result = lowering("RaggedTensorFromVariant").function(rows, output_ragged_rank=1, input_ragged_rank=0)
    return result

  (size,) = jax.export.symbolic_shape("size")
  exported = jax.export.export(jax.jit(joined))(jax.ShapeDtypeStruct((3, size), jnp.float32))
  values = np.arange(6, dtype=np.float32).reshape(3, 2)
  np.testing.assert_array_equal(exported.call(values), values)
