"""Constant tensors, decoded on first use.

>>> tensor = Tensor.from_numpy(np.array([[1, 2], [3, 4]], np.int32))
>>> tensor
Tensor(int32[2, 2])
>>> Tensor.from_proto(tensor.to_proto()).numpy()
array([[1, 2],
       [3, 4]], dtype=int32)
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from graftax.graphdef_ir import schema
from graftax.graphdef_ir._tensor_decoding import decode_tensor, num_listed
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import TensorError, UnsupportedDTypeError
from graftax.graphdef_ir.shapes import shape_to_proto

__all__ = ["Tensor"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tensor:
  """A tensor of known value, created by `from_proto` or `from_numpy`. Two tensors are equal if their bits are.

  Example:
    >>> import numpy as np
    >>> tensor = Tensor.from_numpy(np.float32([[1, 2], [3, 4]]))
    >>> tensor.dtype.name, tensor.shape
    ('FLOAT', (2, 2))
  """

  dtype: DType
  shape: tuple[int, ...]
  _source: "schema.TensorProto | np.ndarray[Any, Any]"

  @classmethod
  def from_proto(cls, message: schema.TensorProto) -> "Tensor":
    """Returns a tensor that keeps `message` and decodes it on demand. Do not change the message afterwards.

    Raises:
      TensorError: dimensions are unknown or negative, or TensorFlow has no such element type.
    """
    try:
      dtype = DType(message.dtype)
    except ValueError:
      raise TensorError(f"TensorProto: dtype number {message.dtype} is unknown.") from None
    shape = tuple(dim.size for dim in message.tensor_shape.dim)
    if message.tensor_shape.unknown_rank or (shape and min(shape) < 0):
      raise TensorError(f"TensorProto: shape {list(shape)} is not fully known; a value needs a static shape.")
    return cls(dtype, shape, message)

  @classmethod
  def from_numpy(cls, array: Any, dtype: DType | None = None) -> "Tensor":
    """Returns a tensor of `array`, which is not copied. Do not change it afterwards.

    Args:
      array: anything that `np.asarray` accepts. Strings become bytes (UTF-8).
      dtype: needed only for quantized types, since their arrays have plain integer dtypes.

    Raises:
      UnsupportedDTypeError: TensorFlow has no such element type, or `array` does not have the dtype of `dtype`.
    """
    value = np.asarray(array)
    if value.dtype.kind in "SU" and not isinstance(array, np.ndarray):
      value = np.asarray(array, object)  # numpy's own string types drop trailing zero bytes
    dtype = DType.from_numpy(value.dtype) if dtype is None else dtype
    if dtype == DType.STRING:
      value = _as_bytes_objects(value)
    if value.dtype != dtype.numpy:
      raise UnsupportedDTypeError(
        f"array of dtype {value.dtype.name!r} cannot be a {dtype} tensor; cast it to {dtype.numpy.name!r}."
      )
    return cls(dtype, value.shape, value)

  def numpy(self) -> "np.ndarray[Any, Any]":
    """Returns the value, read-only. It may share memory with the message. Strings are bytes in an object array.

    If one element is repeated (a splat), it is stored once: the array has stride 0.

    Raises:
      TensorError: values and shape do not match, or the value would exceed 2 GiB after expansion.
      UnsupportedDTypeError: resources and variants have no array form.
    """
    if isinstance(self._source, np.ndarray):
      view = self._source.view()
      view.flags.writeable = False
      return view
    return decode_tensor(self._source, self.dtype, self.shape)

  def expanded_bytes(self, stored_bytes: int) -> int:
    """Returns the size of the array that `numpy` makes if the message lists fewer values than that; otherwise 0.

    One value that is repeated takes no memory.

    Args:
      stored_bytes: the size of the message.
    """
    if not self.shape or isinstance(self._source, np.ndarray):
      return 0
    try:
      num_bytes = self.size * self.dtype.base.numpy.itemsize
    except UnsupportedDTypeError:  # it has no array at all
      return 0
    # Not `tensor_content`, which would be copied.
    return num_bytes if num_bytes > stored_bytes and num_listed(self._source, self.dtype) > 1 else 0

  def to_proto(self) -> schema.TensorProto:
    """Returns the message; shared with this tensor if it was created from one."""
    if not isinstance(self._source, np.ndarray):
      return self._source
    message = schema.TensorProto(dtype=int(self.dtype), tensor_shape=shape_to_proto(self.shape))
    if self.dtype == DType.STRING:
      message.string_val.extend(self._source.ravel().tolist())
    else:
      message.tensor_content = self._source.tobytes()
    return message

  @property
  def size(self) -> int:
    """Returns the number of elements."""
    return math.prod(self.shape)

  def __eq__(self, other: object) -> bool:
    if not isinstance(other, Tensor):
      return NotImplemented
    if self.dtype != other.dtype or self.shape != other.shape:
      return False
    if self._source is other._source:
      return True
    mine, theirs = self.to_proto(), other.to_proto()
    if mine.SerializeToString(deterministic=True) == theirs.SerializeToString(deterministic=True):
      return True
    if self.dtype.base in (DType.RESOURCE, DType.VARIANT):
      return False
    a, b = self.numpy(), other.numpy()
    return bool(np.array_equal(a, b)) if self.dtype == DType.STRING else a.tobytes() == b.tobytes()

  def __hash__(self) -> int:
    return hash((self.dtype, self.shape))

  def __repr__(self) -> str:
    return f"Tensor({self.dtype}{list(self.shape)})"

  def __reduce__(self) -> tuple[Any, ...]:
    return _unpickle, (self.to_proto().SerializeToString(),)


def _unpickle(data: bytes) -> Tensor:
  return Tensor.from_proto(schema.TensorProto.FromString(data))


def _as_bytes_objects(array: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
  result = np.empty(array.shape, object)
  for index, element in np.ndenumerate(array):
    if not isinstance(element, (str, bytes)):
      raise UnsupportedDTypeError(
        f"element {element!r} at {index} of an object array is not a string; expected str or bytes."
      )
    result[index] = element.encode() if isinstance(element, str) else bytes(element)
  return result
