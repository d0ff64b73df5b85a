"""Decoding of constant tensors, without TensorFlow; tensorflow_test.py compares with it."""

import copy
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from graftax.graphdef_ir import schema
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import TensorError, UnsupportedDTypeError
from graftax.graphdef_ir.tensors import Tensor

_NUMERIC = [d for d in DType if not d.is_ref and d not in (DType.INVALID, DType.RESOURCE, DType.VARIANT, DType.STRING)]


def _proto(dtype: DType, shape: tuple[int, ...], **fields: object) -> schema.TensorProto:
  message = schema.TensorProto(dtype=int(dtype), **fields)
  for size in shape:
    message.tensor_shape.dim.add(size=size)
  return message


def _numpy(dtype: DType, shape: tuple[int, ...], **fields: object) -> np.ndarray:
  return Tensor.from_proto(_proto(dtype, shape, **fields)).numpy()


@st.composite
def _arrays(draw: st.DrawFn) -> tuple[DType, np.ndarray]:
  """Draws arrays of every numeric type, with every bit pattern."""
  dtype = draw(st.sampled_from(_NUMERIC))
  shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
  size = int(np.prod(shape)) * dtype.numpy.itemsize
  data = bytearray(draw(st.binary(min_size=size, max_size=size)))
  if dtype == DType.BOOL:
    data = bytearray(byte & 1 for byte in data)
  return dtype, np.frombuffer(bytes(data), dtype.numpy).reshape(shape)


@given(_arrays())
def test_numeric_round_trip_keeps_every_bit(case: tuple[DType, np.ndarray]):
  dtype, array = case
  tensor = Tensor.from_proto(
    schema.TensorProto.FromString(Tensor.from_numpy(array, dtype).to_proto().SerializeToString())
  )
  assert (tensor.dtype, tensor.shape) == (dtype, array.shape)
  assert tensor.numpy().dtype == array.dtype
  assert tensor.numpy().tobytes() == array.tobytes()


@given(hnp.arrays(object, hnp.array_shapes(min_dims=0, max_side=3), elements=st.binary(max_size=5)))
def test_string_round_trip(array: np.ndarray):
  tensor = Tensor.from_proto(Tensor.from_numpy(array).to_proto())
  np.testing.assert_array_equal(tensor.numpy(), array)


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=5), st.integers(0, 5))
def test_last_value_is_repeated(values: list[float], num_missing: int):
  size = len(values) + num_missing
  expected = np.array(values + values[-1:] * num_missing, np.float32)
  np.testing.assert_array_equal(_numpy(DType.FLOAT, (size,), float_val=values), expected)


@pytest.mark.parametrize(
  ("dtype", "fields", "expected"),
  [
    (DType.FLOAT, {"float_val": [1.5]}, 1.5),
    (DType.DOUBLE, {"double_val": [1.5]}, 1.5),
    (DType.INT32, {"int_val": [-3]}, -3),
    (DType.UINT8, {"int_val": [255]}, 255),
    (DType.INT16, {"int_val": [-32768]}, -32768),
    (DType.UINT16, {"int_val": [65535]}, 65535),
    (DType.INT64, {"int64_val": [-(2**63)]}, -(2**63)),
    (DType.UINT32, {"uint32_val": [2**32 - 1]}, 2**32 - 1),
    (DType.UINT64, {"uint64_val": [2**64 - 1]}, 2**64 - 1),
    (DType.BOOL, {"bool_val": [True]}, True),
    (DType.STRING, {"string_val": [b"\xff\x00"]}, b"\xff\x00"),
    (DType.COMPLEX64, {"scomplex_val": [1, -2]}, 1 - 2j),
    (DType.COMPLEX128, {"dcomplex_val": [1, -2]}, 1 - 2j),
    (DType.HALF, {"half_val": [0x3C00]}, 1.0),
    (DType.BFLOAT16, {"half_val": [0xBF80]}, -1.0),
    (DType.FLOAT8_E5M2, {"float8_val": b"\x3c"}, 1.0),
    (DType.FLOAT8_E4M3FN, {"float8_val": b"\xb8"}, -1.0),
    (DType.FLOAT4_E2M1FN, {"float8_val": b"\x02"}, 1.0),
    (DType.INT4, {"int_val": [-8]}, -8),
    (DType.UINT4, {"int_val": [15]}, 15),
    (DType.INT2, {"int_val": [-2]}, -2),
    (DType.UINT2, {"int_val": [3]}, 3),
    (DType.QINT8, {"int_val": [-128]}, -128),
    (DType.QINT32, {"int_val": [7]}, 7),
    (DType.FLOAT_REF, {"float_val": [1.5]}, 1.5),
  ],
)
def test_values_are_read_from_the_list_of_their_type(dtype: DType, fields: dict[str, object], expected: object):
  scalar = _numpy(dtype, (), **fields)
  assert scalar.dtype == dtype.numpy
  assert scalar[()] == expected
  assert _numpy(dtype, (2, 3), **fields).tolist() == [[scalar.item()] * 3] * 2


@pytest.mark.parametrize("dtype", [*_NUMERIC, DType.STRING])
def test_no_value_at_all_means_zeros(dtype: DType):
  expected = np.full((2,), b"", object) if dtype == DType.STRING else np.zeros(2, dtype.numpy)
  np.testing.assert_array_equal(_numpy(dtype, (2,)), expected)


def test_strings_in_tensor_content_have_their_lengths_in_front():
  long = b"x" * 300
  array = _numpy(DType.STRING, (3,), tensor_content=b"\x02\x00\xac\x02" + b"ab" + long)
  assert array.tolist() == [b"ab", b"", long]


@pytest.mark.parametrize("length", [1, 63, 64, 127, 128, 200, 16383, 16384, 100_000])
def test_lengths_of_strings_in_tensor_content_are_varints_of_protobuf(length: int):
  text = b"x" * length
  field = schema.TensorProto(tensor_content=text).SerializeToString()  # a tag of one byte, the length, and the bytes
  array = _numpy(DType.STRING, (2,), tensor_content=field[1:-length] + b"\x01" + text + b"y")
  assert array.tolist() == [text, b"y"]


def test_bools_in_tensor_content_may_be_any_nonzero_byte():
  assert _numpy(DType.BOOL, (3,), tensor_content=b"\x00\x01\xff").tolist() == [False, True, True]


def test_a_splat_takes_no_memory():
  array = _numpy(DType.FLOAT, (1 << 14, 1 << 14), float_val=[1])
  assert array.strides == (0, 0)
  assert array[5, 5] == 1


@pytest.mark.parametrize("shape", [(1 << 40,), (1 << 62, 1 << 62, 4), (1 << 16,) * 60])
@pytest.mark.parametrize("values", [[1.0], [1.0, 2.0], []])
def test_claimed_sizes_raise_without_allocating(shape: tuple[int, ...], values: list[float]):
  tensor = Tensor.from_proto(_proto(DType.FLOAT, shape, float_val=values))
  tracemalloc.start()
  with pytest.raises(TensorError, match=r"expand to \d+ bytes; expected at most 2147483648 bytes"):
    tensor.numpy()
  assert tracemalloc.get_traced_memory()[1] < 1 << 20
  tracemalloc.stop()


@pytest.mark.parametrize(
  ("dtype", "shape", "fields", "message"),
  [
    (DType.FLOAT, (2,), {"tensor_content": b"1234567"}, r"float32\[2\]\): tensor_content has 7 bytes; expected 8"),
    (DType.FLOAT, (1 << 40,), {"tensor_content": b"1234"}, r"has 4 bytes; expected 4398046511104"),
    (DType.FLOAT, (2,), {"float_val": [1, 2, 3]}, r"3 values are listed; expected at most 2"),
    (DType.FLOAT, (0,), {"float_val": [1]}, r"1 values are listed; expected at most 0"),
    (DType.COMPLEX64, (1,), {"scomplex_val": [1, 2, 3]}, r"scomplex_val has 3 numbers; expected pairs"),
    (DType.UINT8, (1,), {"int_val": [256]}, r"int_val holds 256; expected 0 to 255"),
    (DType.INT4, (1,), {"int_val": [8]}, r"int_val holds 8; expected -8 to 7"),
    (DType.HALF, (1,), {"half_val": [65536]}, r"half_val holds 65536; expected 0 to 65535"),
    (DType.HALF, (1,), {"half_val": [-1]}, r"half_val holds -1"),
    (DType.STRING, (2,), {"tensor_content": b"\x01"}, r"expected a length for each of 2 strings"),
    (DType.STRING, (1,), {"tensor_content": b"\xff"}, r"broken string length at byte 1"),
    (DType.STRING, (1,), {"tensor_content": b"\xff" * 9}, r"broken string length"),
    (DType.STRING, (1,), {"tensor_content": b"\x05ab"}, r"has 3 bytes; expected 6 by its string lengths"),
    (DType.FLOAT, (1,) * 65, {"float_val": [1]}, r"rank 65; expected at most 64"),
    (DType.FLOAT, (2**62, 2**62, 0), {}, r"TensorProto \(float32"),
  ],
)
def test_contradictions_raise(dtype: DType, shape: tuple[int, ...], fields: dict[str, object], message: str):
  with pytest.raises(TensorError, match=message):
    _numpy(dtype, shape, **fields)


def test_a_value_needs_a_static_shape_and_a_known_type():
  with pytest.raises(TensorError, match=r"shape \[-1\] is not fully known"):
    Tensor.from_proto(_proto(DType.FLOAT, (-1,)))
  unknown_rank = _proto(DType.FLOAT, ())
  unknown_rank.tensor_shape.unknown_rank = True
  with pytest.raises(TensorError, match="is not fully known"):
    Tensor.from_proto(unknown_rank)
  message = schema.TensorProto()
  message.dtype = 99
  with pytest.raises(TensorError, match="dtype number 99 is unknown"):
    Tensor.from_proto(message)


@given(st.binary(max_size=60), st.sampled_from(list(DType)), st.lists(st.integers(0, 2**63 - 1), max_size=3))
def test_arbitrary_messages_give_an_array_or_a_typed_error(data: bytes, dtype: DType, shape: list[int]):
  try:
    message = schema.TensorProto.FromString(data)
  except schema.DecodeError:
    message = schema.TensorProto(tensor_content=data)
  message.dtype = int(dtype)
  del message.tensor_shape.dim[:]
  for size in shape:
    message.tensor_shape.dim.add(size=size)
  try:
    array = Tensor.from_proto(message).numpy()
  except (TensorError, UnsupportedDTypeError):
    return
  assert array.shape == tuple(shape)


@pytest.mark.parametrize("dtype", [DType.RESOURCE, DType.VARIANT])
def test_handles_have_no_array(dtype: DType):
  with pytest.raises(UnsupportedDTypeError, match=dtype.tf_name):
    _numpy(dtype, ())


def test_values_are_read_only():
  for tensor in (
    Tensor.from_numpy(np.zeros(3)),
    Tensor.from_proto(_proto(DType.FLOAT, (2,), float_val=[1, 2])),
    Tensor.from_proto(_proto(DType.FLOAT, (2,), float_val=[1])),
    Tensor.from_proto(_proto(DType.BOOL, (1,), tensor_content=b"\x01")),
    Tensor.from_proto(_proto(DType.STRING, (1,), tensor_content=b"\x00")),
    Tensor.from_proto(_proto(DType.FLOAT, (1,), tensor_content=b"1234")),
  ):
    assert not tensor.numpy().flags.writeable


def test_from_numpy_leaves_the_array_writable():
  array = np.zeros(3)
  Tensor.from_numpy(array).numpy()
  assert array.flags.writeable


def test_from_numpy_turns_text_into_utf8():
  assert Tensor.from_numpy(["é", "b\0"]).numpy().tolist() == ["é".encode(), b"b\0"]
  with pytest.raises(UnsupportedDTypeError, match=r"element 3 at \(1,\) of an object array is not a string"):
    Tensor.from_numpy(np.array(["a", 3], object))


def test_from_numpy_rejects_another_type_than_the_one_named():
  assert Tensor.from_numpy(np.zeros(2, np.int8), DType.QINT8).dtype == DType.QINT8
  with pytest.raises(UnsupportedDTypeError, match="'float64' cannot be a float32 tensor; cast it to 'float32'"):
    Tensor.from_numpy(np.zeros(2), DType.FLOAT)


def test_equality_is_of_value_not_of_encoding():
  written_out = Tensor.from_proto(_proto(DType.FLOAT, (2,), float_val=[1, 1]))
  splat = Tensor.from_proto(_proto(DType.FLOAT, (2,), float_val=[1]))
  assert written_out == splat == Tensor.from_numpy(np.ones(2, np.float32))
  assert hash(written_out) == hash(splat)
  assert splat != Tensor.from_numpy(np.ones(2, np.float64))
  assert splat != Tensor.from_numpy(np.ones(3, np.float32))
  assert splat != Tensor.from_numpy(np.zeros(2, np.float32))
  assert Tensor.from_numpy(np.array(np.nan)) == Tensor.from_numpy(np.array(np.nan))
  assert Tensor.from_numpy(np.array(0.0)) != Tensor.from_numpy(np.array(-0.0))
  assert splat != 1


@pytest.mark.parametrize("array", [np.arange(6).reshape(2, 3), np.array(["a", "bc"]), np.array(True)])
def test_pickle_and_copy(array: np.ndarray):
  tensor = Tensor.from_numpy(array)
  assert pickle.loads(pickle.dumps(tensor)) == tensor == copy.deepcopy(tensor)


def test_repr_shows_type_and_shape_only():
  assert repr(Tensor.from_proto(_proto(DType.FLOAT, (1 << 40,)))) == "Tensor(float32[1099511627776])"
