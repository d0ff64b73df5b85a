"""Functions that several modules of rules use."""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from graftax.convert.jax2tf.short_integers import CAST_BITS, is_short_integer
from graftax.convert.jax2tf.tf_ops import complex_parts
from graftax.convert.jax2tf.tf_ops.builder import Builder, Input
from graftax.convert.jax2tf.tf_ops.cpu_kernels import has_kernel
from graftax.convert.jax2tf.tf_ops.registry import Unsupported
from graftax.convert.jax2tf.tf_ops.tensors import MAX_FOLDED_SIZE, Dim, Shape, Tensor
from graftax.graphdef_ir import DType, op_signature

__all__ = [
  "at_least_float32",
  "binary",
  "broadcast",
  "cast",
  "compare",
  "full",
  "is_nan",
  "joint_shape",
  "pad",
  "reshape",
  "same_shape",
  "select",
  "static_slice",
  "through",
  "transpose",
]


# TensorFlow casts only floats to the first, and has no kernel of Cast for the others.
_CAST_FROM_FLOATS = ("float8_e4m3fn", "float8_e5m2")
_NOT_CAST = ("float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2fnuz")


def through(b: Builder, op: str, operands: Sequence[Tensor]) -> Tensor:
  """Returns an op of operands of one dtype, and of one shape or scalars.

  Short floats go through float32 if TensorFlow has no kernel.
  """
  first = operands[0]
  shape = functools.reduce(lambda shape, operand: shape or operand.shape, operands, first.shape)
  wide = np.dtype(np.float32)
  if _takes(op, first.dtype) or not first.is_float or first.dtype.itemsize >= wide.itemsize:
    return b.op(op, *operands, shape=shape)
  found = b.op(op, *(cast(b, operand, wide) for operand in operands), shape=shape)
  return cast(b, found, first.dtype) if found.dtype == wide else found


def binary(b: Builder, op: str, x: Tensor, y: Tensor) -> Tensor:
  """Returns an op of two operands of one shape. If one is a broadcast, TensorFlow broadcasts it."""
  shape = joint_shape(x, y)
  # The other operand must have the whole shape: JAX, too, adds tensors whose axes of size 1 are repeated.
  if y.narrow is not None and same_shape(x.shape, shape):
    y = y.narrow
  elif x.narrow is not None and same_shape(y.shape, shape):
    x = x.narrow
  if not _takes(op, x.dtype) and x.is_float and x.dtype.itemsize < 4:
    found = b.op(op, cast(b, x, np.float32), cast(b, y, np.float32), shape=shape)
    return cast(b, found, x.dtype) if found.dtype == np.float32 else found
  return b.op(op, x, y, shape=shape)


def joint_shape(x: Tensor, y: Tensor) -> Shape:
  """Returns the shape of the result of an op on two tensors; one may be a scalar or have axes of size 1."""
  if not x.rank or not y.rank:
    return x.shape or y.shape
  return tuple(m if isinstance(n, int) and n == 1 else n for m, n in zip(x.shape, y.shape, strict=True))


def _takes(op: str, dtype: np.dtype) -> bool:
  """Returns whether TensorFlow has a CPU kernel whose first input has a dtype."""
  signature = op_signature(op)
  attr = signature.inputs[0].type_attr
  return attr is None or has_kernel(op, {attr: DType.from_numpy(dtype)})


def at_least_float32(b: Builder, x: Tensor) -> Tensor:
  """Returns floats of 16 bits or less as float32, and other tensors unchanged."""
  return cast(b, x, np.float32) if x.is_float and x.dtype.itemsize < 4 else x


def cast(b: Builder, x: Tensor, dtype: DTypeLike) -> Tensor:
  """Returns a tensor as another dtype, as TensorFlow's Cast does.

  Raises:
    Unsupported: TensorFlow does not cast to or from one of the dtypes.
  """
  dtype = np.dtype(dtype)
  if x.dtype == dtype:
    return x
  if x.narrow is not None:
    return broadcast(b, cast(b, x.narrow, dtype), x.shape)
  if dtype.name in _CAST_FROM_FLOATS and not x.is_float:
    x = cast(b, x, np.float32)
  if is_short_integer(dtype) != is_short_integer(x.dtype) and np.int8 not in (dtype, x.dtype):
    return cast(b, cast(b, x, np.int8), dtype)  # TensorFlow casts integers below 8 bits to and from other integers only
  for either in (x.dtype, dtype):
    if either.name in _NOT_CAST or (is_short_integer(either) and jnp.iinfo(either).bits not in CAST_BITS):
      raise Unsupported(f"TensorFlow has no CPU kernel of Cast for {either}")
  return b.op("Cast", x, shape=x.shape, DstT=DType.from_numpy(dtype))


def full(b: Builder, like: Tensor, value: Any) -> Tensor:
  """Returns a scalar of a tensor's dtype."""
  return b.constant(np.asarray(value).astype(like.dtype))


def select(b: Builder, condition: Tensor, x: Input, y: Input, shape: Shape) -> Tensor:
  """Returns `x` where a condition holds, and `y` elsewhere."""
  if b.library.consumer != "onnx" or (_is_finite(x) and _is_finite(y)):
    return b.op("SelectV2", condition, x, y, shape=shape)
  condition = _read_as_where(b, condition)
  x, y = (value if isinstance(value, Tensor) else b.constant(value) for value in (x, y))
  # tf2onnx chooses between values of float32 and float64 only.
  wide = [cast(b, value, np.float32) if value.dtype.itemsize < 4 else value for value in (x, y)]
  return cast(b, b.op("SelectV2", condition, *wide, shape=shape), x.dtype)


def _is_finite(x: Input) -> bool:
  """Returns whether zero times an operand is zero."""
  if isinstance(x, Tensor) and (x.value is None or not x.is_inexact):
    return not x.is_inexact
  value = np.asarray(x.value if isinstance(x, Tensor) else x)
  return bool(np.isfinite(value if value.dtype.kind == "c" else value.astype(np.float32)).all())


def _read_as_where(b: Builder, condition: Tensor) -> Tensor:
  """Returns a condition in a form for which tf2onnx chooses between values.

  It writes other selections as `condition * x + !condition * y`, which is NaN if the value that is not selected is NaN
  or infinite, unless the condition is made by IsInf.
  """
  as_number = b.op("Cast", condition, shape=condition.shape, DstT=DType.FLOAT)
  # Infinity where the condition holds; NaN, which is not infinite, elsewhere.
  return b.op("IsInf", b.op("Mul", as_number, np.float32(np.inf), shape=condition.shape), shape=condition.shape)


def compare(b: Builder, op: str, x: Tensor, value: Any) -> Tensor:
  """Returns a comparison of a tensor with a number."""
  return b.op(op, x, full(b, x, value), shape=x.shape)


def clip(b: Builder, x: Tensor, low: Input, high: Tensor) -> Tensor:
  """Returns a tensor between two scalars; the lower one if they are in the wrong order."""
  if high.value is not None and isinstance(low, np.generic | np.ndarray) and low <= high.value:
    # In the other order TFLite's converter makes a Relu6 of [0, 6], which it does not have for integers.
    return b.op("Minimum", b.op("Maximum", x, low, shape=x.shape), high, shape=x.shape)
  return b.op("Maximum", b.op("Minimum", x, high, shape=x.shape), low, shape=x.shape)


def is_nan(b: Builder, x: Tensor) -> Tensor:
  return b.op("IsNan", x, shape=x.shape)


def reshape(b: Builder, x: Tensor, shape: Shape) -> Tensor:
  """Returns a tensor with another shape."""
  if same_shape(x.shape, shape):
    return x
  if x.value is not None and all(isinstance(size, int) for size in shape):
    return b.constant(x.value.reshape(shape))
  unknown = [axis for axis, size in enumerate(shape) if not isinstance(size, int)]
  if len(unknown) == 1 and 0 not in shape:
    sizes: Any = b.constant(np.array([-1 if axis in unknown else size for axis, size in enumerate(shape)], np.int32))
  else:
    sizes = b.shape(shape)
  return b.op("Reshape", x, sizes, shape=shape)


def broadcast(b: Builder, narrow: Tensor, shape: Shape) -> Tensor:
  """Returns a tensor of the same rank, repeated along axes of size 1; ops that broadcast read `narrow` itself."""
  if same_shape(narrow.shape, shape):
    return narrow
  known = narrow.value is not None and all(isinstance(size, int) for size in shape)
  is_small = known and math.prod(shape) <= MAX_FOLDED_SIZE
  if (
    narrow.value is not None and known and (is_small or (narrow.dtype.kind == "c" and complex_parts.lacks_constants(b)))
  ):
    return Tensor(shape, narrow.dtype, value=np.broadcast_to(narrow.value, shape), narrow=narrow)
  return dataclasses.replace(b.op("BroadcastTo", narrow, b.shape(shape), shape=shape), narrow=narrow)


def transpose(b: Builder, x: Tensor, permutation: Sequence[int]) -> Tensor:
  """Returns a tensor with its axes in another order."""
  permutation = [int(axis) for axis in permutation]
  if permutation == list(range(x.rank)):
    return x
  if x.value is not None:
    return b.constant(x.value.transpose(permutation))
  shape = tuple(x.shape[axis] for axis in permutation)
  return b.op("Transpose", x, np.array(permutation, np.int32), shape=shape)


def pad(b: Builder, x: Tensor, padding: Sequence[tuple[Dim, Dim]], value: Any) -> Tensor:
  """Returns a tensor with elements added before and after it along each axis; negative numbers remove elements.

  The numbers may be symbolic, as those of SAME padding of a symbolic size are.
  """
  fill = value if isinstance(value, Tensor) else full(b, x, value)
  if any(not isinstance(n, int | np.integer) for pair in padding for n in pair):
    return _pad_symbolic(b, x, padding, fill)
  padding = [(int(before), int(after)) for before, after in padding]
  positive = [(max(0, before), max(0, after)) for before, after in padding]
  if any(n for pair in positive for n in pair):
    shape = tuple(size + before + after for size, (before, after) in zip(x.shape, positive, strict=True))
    x = b.op("PadV2", x, np.array(positive, np.int32), fill, shape=shape)
  # Elements are removed last, because some of them may be those that were added.
  starts = [max(0, -before) for before, _ in padding]
  ends = [size - max(0, -after) for size, (_, after) in zip(x.shape, padding, strict=True)]
  return static_slice(b, x, starts, ends) if any(n < 0 for pair in padding for n in pair) else x


def _pad_symbolic(b: Builder, x: Tensor, padding: Sequence[tuple[Dim, Dim]], fill: Tensor) -> Tensor:
  """Returns the tensor with symbolic numbers of elements added; their signs may be unknown before the graph runs."""
  shape = tuple(size + before + after for size, (before, after) in zip(x.shape, padding, strict=True))
  amounts = reshape(b, b.shape(tuple(n for pair in padding for n in pair)), (x.rank, 2))
  added = b.op("Maximum", amounts, np.int32(0), shape=amounts.shape)
  unknown: Any = (None,) * x.rank  # no rule reads these sizes
  padded = b.op("PadV2", x, added, fill, shape=unknown)
  starts = b.op("Neg", b.shape(tuple(before for before, _ in padding)), shape=(x.rank,))
  starts = b.op("Maximum", starts, np.int32(0), shape=(x.rank,))
  return b.op("Slice", padded, starts, b.shape(shape), shape=shape)


def static_slice(
  b: Builder, x: Tensor, starts: Sequence[Dim], limits: Sequence[Dim], strides: Sequence[int] | None = None
) -> Tensor:
  """Returns a slice with known bounds; a limit may be symbolic."""
  strides = [1] * x.rank if strides is None else list(strides)
  shape = tuple(
    (limit - start + stride - 1) // stride if stride != 1 else limit - start
    for start, limit, stride in zip(starts, limits, strides, strict=True)
  )
  if same_shape(shape, x.shape):
    return x
  whole = [same_shape([limit], [size]) for limit, size in zip(limits, x.shape, strict=True)]
  ends = [0 if is_whole else limit for is_whole, limit in zip(whole, limits, strict=True)]
  return b.op(
    "StridedSlice",
    x,
    b.shape(tuple(starts)),
    b.shape(tuple(ends)),
    np.array(strides, np.int32),
    shape=shape,
    end_mask=sum(1 << axis for axis, is_whole in enumerate(whole) if is_whole),
  )


def scatter_update(b: Builder, x: Tensor, positions: Tensor, updates: Tensor) -> Tensor:
  """Returns a tensor with rows replaced: those at positions, which have one axis more than the updates have rows."""
  if b.library.consumer == "tfjs":
    x = _own_copy(b, x, positions, updates)
  return b.op("TensorScatterUpdate", x, positions, updates, shape=x.shape)


def _own_copy(b: Builder, x: Tensor, positions: Tensor, updates: Tensor) -> Tensor:
  """Returns a tensor that nothing else reads: TF.js writes into the operand of TensorScatterUpdate on its CPU backend.

  The copy must not be a constant, nor be simplified by TensorFlow's optimizer when the model is converted, if any of
  the three is not a constant.
  """
  if x.dtype.kind == "c":
    raise Unsupported("updates of complex numbers, which TF.js writes into the operand")
  one = b.constant(1, np.int32)
  for other in (positions, updates):
    numbers = other if other.dtype.kind == "f" else cast(b, other, np.int32)
    if numbers.rank:
      axes = np.arange(numbers.rank, dtype=np.int32)
      numbers = b.op("Max", numbers, axes, shape=(), keep_dims=False)
    one = b.op("AddV2", cast(b, compare(b, "Greater", numbers, 0), np.int32), one, shape=())
  one = b.op("Sign", one, shape=())  # of 1, 2 or 3
  if x.dtype == np.bool_:
    copy = b.op("LogicalAnd", x, cast(b, one, np.bool_), shape=x.shape)
    return b.op("LogicalOr", copy, copy, shape=x.shape)
  (copy,) = b.op_list("Mul", x, cast(b, one, x.dtype), shapes=[x.shape])
  return b.op("Maximum", copy, copy, shape=x.shape)


def same_shape(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
  """Returns whether two shapes are known to be equal."""
  return len(a) == len(b) and all(
    isinstance(m, int) == isinstance(n, int) and m == n for m, n in zip(a, b, strict=True)
  )
