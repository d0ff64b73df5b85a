from collections import OrderedDict, namedtuple

import jax.numpy as jnp
import numpy as np
import pytest

from graftax.convert import IndexedSlices, RaggedTensor, SparseTensor
from graftax.graphdef_ir import DType, PartialShape, TensorSpec
from graftax.savedmodel_io.errors import SaveInputError
from graftax.savedmodel_io.objects.structured_encoding import encode_structure
from graftax.savedmodel_io.objects.structured_value import decode_structure
from graftax.savedmodel_io.objects.type_specs import (
  BoundedTensorSpec,
  IndexedSlicesSpec,
  RaggedTensorSpec,
  SparseTensorSpec,
  VariableSpec,
)

_FLOATS = TensorSpec(PartialShape((None, 2)), DType.FLOAT)
_SPLITS = TensorSpec(PartialShape((4,)), DType.INT64)
_Pair = namedtuple("_Pair", "left right")
_OPEN = PartialShape((None, 2))


@pytest.mark.parametrize(
  "structure",
  [
    None,
    True,
    -3,
    2**63 - 1,
    0.5,
    "n\u00e9",
    DType.BFLOAT16,
    PartialShape(None),
    PartialShape((None, 3)),
    TensorSpec(PartialShape(()), DType.STRING, "x"),
    BoundedTensorSpec(_OPEN, DType.FLOAT, "b", np.float32(0), np.float32(1)),
    [1, [], (None, ())],
    {"b": 1, "a": {"c": 2.0}},
    _Pair(1, _Pair(2, "x")),
    SparseTensorSpec(PartialShape((None, 3)), DType.INT32),
    RaggedTensorSpec(PartialShape((None, None, 3)), DType.FLOAT, 1, DType.INT64),
    IndexedSlicesSpec(_OPEN, DType.FLOAT, DType.INT64, DType.INT64, PartialShape((None,))),
    VariableSpec(PartialShape((2,)), DType.FLOAT, trainable=True),
  ],
)
def test_what_is_encoded_is_decoded_again(structure):
  decoded = decode_structure(encode_structure(structure, "x"))
  assert decoded == structure and type(decoded).__name__ == type(structure).__name__


def test_arrays_are_stored_with_their_dtype():
  for array in (np.float16(1.5), np.arange(6).reshape(2, 3), jnp.ones(2, jnp.bfloat16), np.array([b"a"], object)):
    decoded = decode_structure(encode_structure(array, "x"))
    np.testing.assert_array_equal(decoded, np.asarray(array), strict=True)


def test_any_mapping_is_stored_as_a_dict():
  assert decode_structure(encode_structure(OrderedDict(b=1, a=2), "x")) == {"a": 2, "b": 1}


def test_composite_tensors_are_stored_as_their_type_specs():
  ragged = RaggedTensor(_FLOATS, (_SPLITS, TensorSpec(PartialShape((None,)), DType.INT64)))
  shape = PartialShape((3, None, None, 2))
  assert decode_structure(encode_structure(ragged, "x")) == RaggedTensorSpec(shape, DType.FLOAT, 2, DType.INT64)
  indices, values, dense = (TensorSpec(PartialShape(dims), DType.INT64) for dims in ((None, 3), (None,), (3,)))
  sparse = decode_structure(encode_structure(SparseTensor(indices, values, dense), "x"))
  assert sparse == SparseTensorSpec(PartialShape((None,) * 3), DType.INT64)
  slices = decode_structure(encode_structure(IndexedSlices(_FLOATS, values), "x"))
  assert slices == IndexedSlicesSpec(_OPEN, DType.FLOAT, DType.INT64, None, PartialShape((None,)))


@pytest.mark.parametrize(
  ("structure", "message"),
  [
    ({1: 2}, "argument 'x' has a dict with the key 1;"),
    ([2**63], "holds 9223372036854775808 of type int"),
    (b"x", "holds b'x' of type bytes"),
    ({"a": object}, "holds <class 'object'> of type type"),
    (np.array([None]), "array that SavedModels cannot store"),
  ],
)
def test_what_cannot_be_stored_is_an_error(structure, message):
  with pytest.raises(SaveInputError, match=message.replace("[", "\\[")):
    encode_structure(structure, "argument 'x'")
