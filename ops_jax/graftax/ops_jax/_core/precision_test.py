import jax.numpy as jnp
import numpy as np
import pytest

from graftax.graphdef_ir import DType, op_signature
from graftax.ops_jax._core.precision import in_one_precision, promote_floats, promoted_dtype

ONE, TWO = jnp.ones(2, jnp.bfloat16), np.float32([1, 2])


def _types(op, inputs, **attrs):
  run = promote_floats(op_signature(op), attrs).wrap(lambda context, values: tuple(values))
  return [np.asarray(value).dtype.name for value in run(None, inputs)]


def test_inputs_of_one_declared_type_are_promoted_to_their_common_dtype():
  assert _types("Mul", [ONE, TWO], T=DType.FLOAT) == ["float32", "float32"]
  assert _types("Mul", [TWO.astype(np.float16), ONE], T=DType.FLOAT) == ["float32", "float32"]
  assert _types("ConcatV2", [ONE, TWO, ONE, np.int32(0)], T=DType.FLOAT, Tidx=DType.INT32, N=3) == ["float32"] * 3 + [
    "int32"
  ]


def test_inputs_of_different_declared_types_stay_as_they_are():
  attrs = {"T": DType.BFLOAT16, "U": DType.FLOAT, "data_format": b"NHWC"}
  types = _types("FusedBatchNormV3", [ONE, TWO, TWO, TWO, TWO], **attrs)
  assert types == ["bfloat16", *["float32"] * 4]


@pytest.mark.parametrize("values", [[ONE, ONE], [ONE, np.int32([1, 2])], [ONE, "no array"]])
def test_equal_precisions_and_other_values_stay_as_they_are(values):
  assert all(new is old for new, old in zip(in_one_precision(values), values, strict=True))


def test_different_half_precisions_become_float32():
  assert promoted_dtype(np.float16, jnp.bfloat16) == np.float32
