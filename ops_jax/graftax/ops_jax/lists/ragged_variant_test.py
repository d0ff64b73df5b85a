"""Ragged tensors in variants against TensorFlow."""

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
