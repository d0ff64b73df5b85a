"""32-bit integers for consumers without uint32, or without ops on bits: TFLite and TensorFlow.js.

A tensor of uint32 keeps its dtype while the graph is built, and the graph has int32 of the same bits. `Builder.op`
passes ops on 32-bit integers to `computed`, which uses the ops that the consumer has.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graftax.convert.jax2tf.tf_ops.registry import Unsupported
from graftax.convert.jax2tf.tf_ops.tensors import Shape, Tensor
from graftax.graphdef_ir import AttrValue, DType

if TYPE_CHECKING:
  from graftax.convert.jax2tf.tf_ops.builder import Builder, Input

__all__ = ["as_signed", "as_unsigned", "check_moves", "computed", "lacks_uint32", "signed_attrs"]

_UINT32, _INT32 = np.dtype(np.uint32), np.dtype(np.int32)
_HALF = 16
# Numbers of JavaScript have 53 bits, so that a product with a factor of 22 bits is exact. TensorFlow's optimizer makes
# one factor of two.
_SMALL_FACTOR = 1 << 11
# Ops that only move words, or whose words are the same for int32 and uint32.
_MOVES = frozenset(
  "AddV2 BitwiseAnd BitwiseXor BroadcastTo ConcatV2 Const Equal ExpandDims GatherNd GatherV2 Identity Mul NotEqual "
  "Pack Pad PadV2 Reshape ReverseV2 SelectV2 Shape Slice Split SplitV Squeeze StatelessIf StatelessWhile StridedSlice "
  "Sub TensorListFromTensor TensorListGetItem TensorListReserve TensorListSetItem TensorListStack TensorScatterUpdate "
  "Tile Transpose Unpack".split()
)  # fmt: skip


def lacks_uint32(consumer: str | None) -> bool:
  """Returns whether a consumer computes with int32 only; TFLite moves uint32, but does not add them."""
  return consumer in ("tflite", "tfjs")


def as_signed(x: Tensor) -> Tensor:
  """Returns the same words as int32, without a node."""
  return _with_dtype(x, _INT32) if x.dtype == _UINT32 else x


def as_unsigned(x: Tensor) -> Tensor:
  """Returns the same words as uint32, without a node."""
  return _with_dtype(x, _UINT32) if x.dtype == _INT32 else x


def _with_dtype(x: Tensor, dtype: "np.dtype[Any]") -> Tensor:
  value = None if x.value is None else x.value.view(dtype)
  narrow = None if x.narrow is None else _with_dtype(x.narrow, dtype)
  return dataclasses.replace(x, dtype=dtype, value=value, narrow=narrow, unrounded=None)


def signed_attrs(attrs: dict[str, AttrValue]) -> dict[str, AttrValue]:
  """Returns attributes with INT32 in place of UINT32."""

  def signed(value: Any) -> Any:
    if isinstance(value, tuple):
      return tuple(map(signed, value))
    return DType.INT32 if isinstance(value, DType) and value == DType.UINT32 else value

  return {name: signed(value) for name, value in attrs.items()}


def check_moves(op: str, consumer: str | None) -> None:
  """Checks that an op has the same words as its result for int32 and uint32.

  Raises:
    Unsupported: the op gives other words for uint32.
  """
  if op not in _MOVES:
    raise Unsupported(f"the converter to {consumer} does not read the op {op} of uint32")


def computed(
  b: "Builder", op: str, inputs: Sequence["Input"], shape: Shape, attrs: dict[str, AttrValue]
) -> Tensor | None:
  """Returns an op on 32-bit integers by the ops that a consumer has; None if it has the op itself."""
  if not lacks_uint32(b.library.consumer):
    return None
  if op in ("Bitcast", "Cast"):
    found = attrs["type" if op == "Bitcast" else "DstT"]
    assert isinstance(found, DType), "internal: a cast without its dtype."
    return (_bitcast if op == "Bitcast" else _cast)(b, _tensor(b, inputs[0]), found, shape)
  if op not in _UNARY and op not in _BINARY:
    return None
  operands = [_tensor(b, x) for x in inputs]
  if operands[0].dtype not in (_INT32, _UINT32):
    return None
  is_unsigned = operands[0].dtype == _UINT32
  signed = [as_signed(x) for x in operands]
  if op in _UNARY:
    result = _UNARY[op](b, signed[0], shape, is_unsigned)
  else:
    result = _BINARY[op](b, signed[0], signed[1], shape, is_unsigned)
  return as_unsigned(result) if result is not None and is_unsigned else result


def _tensor(b: "Builder", x: "Input") -> Tensor:
  return x if isinstance(x, Tensor) else b.constant(x)


def _bitcast(b: "Builder", x: Tensor, dtype: DType, shape: Shape) -> Tensor | None:
  if x.dtype in (_INT32, _UINT32) and dtype in (DType.INT32, DType.UINT32):
    return as_unsigned(as_signed(x)) if dtype == DType.UINT32 else as_signed(x)
  if x.dtype == _UINT32:
    return b.op("Bitcast", as_signed(x), shape=shape, type=dtype)
  return as_unsigned(b.op("Bitcast", x, shape=shape, type=DType.INT32)) if dtype == DType.UINT32 else None


def _cast(b: "Builder", x: Tensor, dtype: DType, shape: Shape) -> Tensor | None:
  if dtype == DType.UINT32:
    words = _words_of_floats(b, x, shape) if x.is_float else _cast_to(b, as_signed(x), DType.INT32, shape)
    return as_unsigned(words)
  if x.dtype != _UINT32:
    return None
  words = as_signed(x)
  if dtype == DType.BOOL:
    return b.op("NotEqual", words, np.int32(0), shape=shape)
  if dtype.numpy.itemsize <= _INT32.itemsize and dtype.numpy.kind in "iu":
    return _cast_to(b, words, dtype, shape)
  if dtype in (DType.FLOAT, DType.HALF, DType.BFLOAT16):
    high, low = (_cast_to(b, half, DType.FLOAT, shape) for half in _halves(b, words, shape))
    number = b.op("AddV2", b.op("Mul", high, np.float32(1 << _HALF), shape=shape), low, shape=shape)
    return _cast_to(b, number, dtype, shape)
  raise Unsupported(f"the converter to {b.library.consumer} does not cast uint32 to {dtype}")


def _cast_to(b: "Builder", x: Tensor, dtype: DType, shape: Shape) -> Tensor:
  return x if x.dtype == dtype.numpy else b.op("Cast", x, shape=shape, DstT=dtype)


def _words_of_floats(b: "Builder", x: Tensor, shape: Shape) -> Tensor:
  """Returns the words of floats that are not negative, and below 2**32."""
  if x.dtype.itemsize > 4:
    raise Unsupported(f"the converter to {b.library.consumer} does not cast {x.dtype} to uint32")
  numbers = _cast_to(b, x, DType.FLOAT, shape)
  high = b.op("Floor", b.op("Mul", numbers, np.float32(2.0**-_HALF), shape=shape), shape=shape)
  low = b.op("Sub", numbers, b.op("Mul", high, np.float32(1 << _HALF), shape=shape), shape=shape)
  return _joined(b, _cast_to(b, high, DType.INT32, shape), _cast_to(b, low, DType.INT32, shape), shape)


# The functions below take and return int32.


def _constant(x: Tensor) -> int | None:
  """Returns the word that all elements of a constant are, as an unsigned number; None for other tensors."""
  value = (x.narrow or x).value
  if value is None or not value.size or np.any(value != value.flat[0]):
    return None
  return int(value.flat[0]) & 0xFFFFFFFF


def _word(value: int) -> np.int32:
  return np.int32((value & 0xFFFFFFFF) - ((value & 1 << 31) << 1))


def _op(b: "Builder", op: str, x: "Input", y: "Input", shape: Shape) -> Tensor:
  return b.op(op, x, y, shape=shape)


def _halves(b: "Builder", x: Tensor, shape: Shape) -> tuple[Tensor, Tensor]:
  """Returns the upper and the lower 16 bits, as numbers that are not negative."""
  high = _shifted_right(b, x, _HALF, shape)
  return high, _op(b, "Sub", x, _op(b, "Mul", high, np.int32(1 << _HALF), shape), shape)


def _joined(b: "Builder", high: Tensor, low: Tensor, shape: Shape) -> Tensor:
  return _op(b, "AddV2", _op(b, "Mul", high, np.int32(1 << _HALF), shape), low, shape)


def _shifted_right(b: "Builder", x: Tensor, distance: int, shape: Shape) -> Tensor:
  """Returns words moved down by a known distance, with zeros above."""
  if not distance:
    return x
  moved = _shifted_with_sign(b, x, distance, shape)
  if not b.lacks("BitwiseAnd"):
    return _op(b, "BitwiseAnd", moved, _word((1 << 32 - distance) - 1), shape)
  sign = _shifted_with_sign(b, x, 31, shape)  # 0 or -1
  return _op(b, "Sub", moved, _op(b, "Mul", sign, _word(1 << 32 - distance), shape), shape)


def _shifted_with_sign(b: "Builder", x: Tensor, distance: int, shape: Shape) -> Tensor:
  if not distance:
    return x
  if not b.lacks("RightShift"):
    return _op(b, "RightShift", x, np.int32(distance), shape)
  if distance < 31:
    return _op(b, "FloorDiv", x, np.int32(1 << distance), shape)
  return b.op("Neg", _cast_to(b, _op(b, "Less", x, np.int32(0), shape), DType.INT32, shape), shape=shape)


def _right_shift(b: "Builder", x: Tensor, y: Tensor, shape: Shape, is_unsigned: bool) -> Tensor | None:
  if not is_unsigned and not b.lacks("RightShift"):
    return None
  distance = _constant(y)
  if distance is not None:
    return (_shifted_right if is_unsigned else _shifted_with_sign)(b, x, distance, shape)
  powers = _powers_of_two(b, y)
  if is_unsigned:
    return _divided(b, x, powers, shape)
  is_negative = _op(b, "Less", x, np.int32(0), x.shape)
  size = b.op("SelectV2", is_negative, _inverted(b, x, x.shape), x, shape=x.shape)
  moved = _divided(b, size, powers, shape)
  return b.op("SelectV2", is_negative, _inverted(b, moved, shape), moved, shape=shape)


def _powers_of_two(b: "Builder", exponents: Tensor) -> Tensor:
  powers = np.array([_word(1 << n) for n in range(32)])
  return b.op("GatherV2", powers, exponents, np.int32(0), shape=exponents.shape)


def _left_shift(b: "Builder", x: Tensor, y: Tensor, shape: Shape, is_unsigned: bool) -> Tensor | None:
  if not is_unsigned and not b.lacks("LeftShift"):
    return None
  distance = _constant(y)
  factor = _powers_of_two(b, y) if distance is None else _word(1 << distance)
  return b.op_list("Mul", x, factor, shapes=[shape])[0]  # a power of two, so that the product is exact everywhere


def _bitwise_and(b: "Builder", x: Tensor, y: Tensor, shape: Shape, is_unsigned: bool) -> Tensor | None:
  if not b.lacks("BitwiseAnd"):
    return b.op_list("BitwiseAnd", x, y, shapes=[shape])[0] if is_unsigned else None
  for number, other in ((x, y), (y, x)):
    mask = _constant(other)
    if mask is not None and not mask & (mask + 1):
      distance = mask.bit_length()
      if distance in (0, 32):
        return _op(b, "AddV2", number, np.int32(0), shape) if distance else _op(b, "Mul", number, np.int32(0), shape)
      above = _op(b, "Mul", _shifted_right(b, number, distance, number.shape), _word(1 << distance), shape)
      return _op(b, "Sub", number, above, shape)

  if b.lacks("BitwiseXor"):
    return _by_table(b, np.bitwise_and, x, y, shape)

  def of_halves(m: Tensor, n: Tensor) -> Tensor:
    # The sum has each bit that both have twice, and the others once.
    twice = _op(b, "Sub", _op(b, "AddV2", m, n, shape), _op(b, "BitwiseXor", m, n, shape), shape)
    return _op(b, "RightShift", twice, np.int32(1), shape)

  (a1, a0), (b1, b0) = _halves(b, x, x.shape), _halves(b, y, y.shape)
  return _joined(b, of_halves(a1, b1), of_halves(a0, b0), shape)


def _bitwise_xor(b: "Builder", x: Tensor, y: Tensor, shape: Shape, is_unsigned: bool) -> Tensor | None:
  if not b.lacks("BitwiseXor"):
    return b.op_list("BitwiseXor", x, y, shapes=[shape])[0] if is_unsigned else None
  return _by_table(b, np.bitwise_xor, x, y, shape)


def _by_table(b: "Builder", function: "np.ufunc", x: Tensor, y: Tensor, shape: Shape) -> Tensor:
  """Returns a function of each four bits of two words, which a table has."""
  numbers = np.arange(16, dtype=np.int32)
  places = np.array([_word(16**i) for i in range(8)])  # 16**7 is below 2**31

  def digits(z: Tensor) -> Tensor:
    along = (*z.shape, 8)
    apart = b.op("Reshape", z, b.shape((*z.shape, 1)), shape=(*z.shape, 1))
    moved = _op(b, "FloorDiv", apart, places, along)
    above = _op(b, "Mul", _op(b, "FloorDiv", moved, np.int32(16), along), np.int32(16), along)
    return _op(b, "Sub", moved, above, along)

  along, first = (*shape, 8), digits(x)
  where = _op(b, "AddV2", _op(b, "Mul", first, np.int32(16), first.shape), digits(y), along)
  found = b.op("GatherV2", function.outer(numbers, numbers).reshape(-1), where, np.int32(0), shape=along)
  return b.op("Sum", _op(b, "Mul", found, places, along), np.int32(-1), shape=shape, keep_dims=False)


def _bitwise_or(b: "Builder", x: Tensor, y: Tensor, shape: Shape, is_unsigned: bool) -> Tensor | None:
  if not b.lacks("BitwiseOr"):
    return b.op_list("BitwiseOr", x, y, shapes=[shape])[0] if is_unsigned else None
  return _op(b, "Sub", _op(b, "AddV2", x, y, shape), _op(b, "BitwiseAnd", x, y, shape), shape)


def _invert(b: "Builder", x: Tensor, shape: Shape, is_unsigned: bool) -> Tensor | None:
  if not is_unsigned and not b.lacks("Invert"):
    return None
  return _inverted(b, x, shape)


def _inverted(b: "Builder", x: Tensor, shape: Shape) -> Tensor:
  return _op(b, "Sub", np.int32(-1), x, shape)


def _mul(b: "Builder", x: Tensor, y: Tensor, shape: Shape, is_unsigned: bool) -> Tensor | None:
  """Returns the lower words of products. TF.js computes them as floats of 53 bits."""
  if b.library.consumer != "tfjs" or any(_is_small(z) for z in (x, y)):
    return b.op_list("Mul", x, y, shapes=[shape])[0] if is_unsigned else None
  high, low = _halves(b, y, y.shape)

  def product(m: Tensor, n: "Input") -> Tensor:
    return b.op_list("Mul", m, n, shapes=[shape])[0]

  return _op(b, "AddV2", product(product(x, high), np.int32(1 << _HALF)), product(x, low), shape)


def _is_small(x: Tensor) -> bool:
  value = (x.narrow or x).value
  if value is None:
    return False
  powers = bool(np.all(value & (value - 1) == 0))
  return powers or bool(np.all((value > -_SMALL_FACTOR) & (value < _SMALL_FACTOR)))


def _square(b: "Builder", x: Tensor, shape: Shape, is_unsigned: bool) -> Tensor | None:
  return _op(b, "Mul", x, x, shape) if is_unsigned or b.library.consumer == "tfjs" else None


def _shifted_order(b: "Builder", x: Tensor) -> Tensor:
  """Returns numbers whose order as int32 is that of words as unsigned numbers."""
  return _op(b, "AddV2", x, _word(1 << 31), x.shape)


def _comparison(op: str) -> "_Binary":
  def compare(b: "Builder", x: Tensor, y: Tensor, shape: Shape, is_unsigned: bool) -> Tensor | None:
    return _op(b, op, _shifted_order(b, x), _shifted_order(b, y), shape) if is_unsigned else None

  return compare


def _extreme(op: str) -> "_Binary":
  def extreme(b: "Builder", x: Tensor, y: Tensor, shape: Shape, is_unsigned: bool) -> Tensor | None:
    if not is_unsigned:
      return None
    return _shifted_order(b, _op(b, op, _shifted_order(b, x), _shifted_order(b, y), shape))

  return extreme


def _quotient(b: "Builder", x: Tensor, y: Tensor, shape: Shape, is_unsigned: bool) -> Tensor | None:
  return _divided(b, x, y, shape) if is_unsigned else None


def _divided(b: "Builder", x: Tensor, y: Tensor, shape: Shape) -> Tensor:
  """Returns quotients of words as unsigned numbers; no divisor is zero."""
  # Half of the dividend is not negative. Twice its quotient is at most one too small, if the divisor is below 2**31.
  is_large = _op(b, "Less", y, np.int32(0), y.shape)
  divisor = b.op("SelectV2", is_large, np.int32(1), y, shape=y.shape)
  half = _op(b, "FloorDiv", _shifted_right(b, x, 1, x.shape), divisor, shape)
  found = _op(b, "AddV2", half, half, shape)
  rest = _op(b, "Sub", x, _op(b, "Mul", found, divisor, shape), shape)
  more = _op(b, "GreaterEqual", _shifted_order(b, rest), _shifted_order(b, divisor), shape)
  found = _op(b, "AddV2", found, _cast_to(b, more, DType.INT32, shape), shape)
  of_large = _cast_to(b, _op(b, "GreaterEqual", _shifted_order(b, x), _shifted_order(b, y), shape), DType.INT32, shape)
  return b.op("SelectV2", is_large, of_large, found, shape=shape)


_Binary = Callable[["Builder", Tensor, Tensor, Shape, bool], Tensor | None]
_UNARY = {"Invert": _invert, "Square": _square}
_BINARY: dict[str, _Binary] = {
  "BitwiseAnd": _bitwise_and,
  "BitwiseOr": _bitwise_or,
  "BitwiseXor": _bitwise_xor,
  "FloorDiv": _quotient,
  "Greater": _comparison("Greater"),
  "GreaterEqual": _comparison("GreaterEqual"),
  "LeftShift": _left_shift,
  "Less": _comparison("Less"),
  "LessEqual": _comparison("LessEqual"),
  "Maximum": _extreme("Maximum"),
  "Minimum": _extreme("Minimum"),
  "Mul": _mul,
  "RightShift": _right_shift,
  "TruncateDiv": _quotient,
}
