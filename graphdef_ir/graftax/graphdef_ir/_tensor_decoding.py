"""TensorProto to numpy, one function for each way the bytes can be laid out.

The rules that matter:
- `tensor_content` holds the raw bytes; otherwise one `*_val` list holds values, in a wider type than the elements.
- If a list is shorter than the tensor, its last value is repeated; an empty list means zeros.
- Sizes come from the file and may be wrong, so nothing is allocated before they are checked.
"""

import math
from typing import Any

import numpy as np

from graftax.graphdef_ir import schema
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import TensorError

MAX_EXPANDED_BYTES = 2 << 30
"""Largest tensor expanded from a shorter list of values. Stored bytes have no limit: they are in memory already."""

_MAX_RANK = 64  # numpy's limit

_VALUE_FIELDS = {
  DType.FLOAT: "float_val",
  DType.DOUBLE: "double_val",
  DType.STRING: "string_val",
  DType.COMPLEX64: "scomplex_val",
  DType.COMPLEX128: "dcomplex_val",
  DType.BOOL: "bool_val",
  DType.INT64: "int64_val",
  DType.UINT32: "uint32_val",
  DType.UINT64: "uint64_val",
  DType.HALF: "half_val",
  DType.BFLOAT16: "half_val",
  DType.FLOAT8_E5M2: "float8_val",
  DType.FLOAT8_E4M3FN: "float8_val",
  DType.FLOAT8_E4M3FNUZ: "float8_val",
  DType.FLOAT8_E4M3B11FNUZ: "float8_val",
  DType.FLOAT8_E5M2FNUZ: "float8_val",
  DType.FLOAT4_E2M1FN: "float8_val",
}
_NARROW_INTEGER_FIELD = "int_val"

_INTEGER_RANGES = {DType.INT4: (-8, 7), DType.UINT4: (0, 15), DType.INT2: (-2, 1), DType.UINT2: (0, 3)}


def decode_tensor(message: schema.TensorProto, dtype: DType, shape: tuple[int, ...]) -> "np.ndarray[Any, Any]":
  """Returns the read-only value of `message`, whose dtype and shape the caller has read already."""
  dtype = dtype.base
  element_type = dtype.numpy
  if len(shape) > _MAX_RANK:
    raise TensorError(f"TensorProto ({dtype}): rank {len(shape)}; expected at most {_MAX_RANK} dimensions.")
  try:
    if message.tensor_content:
      return _from_content(message.tensor_content, dtype, shape)
    return _expand(_read_values(message, dtype, element_type), dtype, shape)
  except TensorError:
    raise
  except ValueError as e:  # numpy rejects huge sizes even if a dimension of 0 makes the tensor empty
    raise TensorError(f"{_describe(dtype, shape)}: {e}.") from e


def num_listed(message: schema.TensorProto, dtype: DType) -> int:
  """Returns how many numbers or strings `message` lists, if it has no raw bytes."""
  return len(getattr(message, _VALUE_FIELDS.get(dtype.base, _NARROW_INTEGER_FIELD)))


def _describe(dtype: DType, shape: tuple[int, ...]) -> str:
  return f"TensorProto ({dtype}{list(shape)})"


def _from_content(content: bytes, dtype: DType, shape: tuple[int, ...]) -> "np.ndarray[Any, Any]":
  num_elements = math.prod(shape)
  if dtype == DType.STRING:
    return _frozen(_split_strings(content, num_elements, shape).reshape(shape))
  expected = num_elements * dtype.numpy.itemsize
  if len(content) != expected:
    raise TensorError(f"{_describe(dtype, shape)}: tensor_content has {len(content)} bytes; expected {expected}.")
  if dtype == DType.BOOL:
    return _frozen((np.frombuffer(content, np.uint8) != 0).reshape(shape))
  return np.frombuffer(content, dtype.numpy).reshape(shape)


def _split_strings(content: bytes, count: int, shape: tuple[int, ...]) -> "np.ndarray[Any, Any]":
  """Returns the strings in tensor_content, which holds all lengths as varints and then all characters."""
  where = _describe(DType.STRING, shape)
  if count > len(content):
    raise TensorError(
      f"{where}: tensor_content has {len(content)} bytes; expected a length for each of {count} strings."
    )
  lengths, position = [], 0
  for _ in range(count):
    length, shift = 0, 0
    while True:
      if position >= len(content) or shift > 28:
        raise TensorError(f"{where}: tensor_content has a broken string length at byte {position}.")
      byte = content[position]
      position += 1
      length |= (byte & 0x7F) << shift
      if byte < 0x80:
        break
      shift += 7
    lengths.append(length)
  if position + sum(lengths) != len(content):
    end = position + sum(lengths)
    raise TensorError(f"{where}: tensor_content has {len(content)} bytes; expected {end} by its string lengths.")
  result = np.empty(count, object)
  for index, length in enumerate(lengths):
    result[index] = content[position : position + length]
    position += length
  return result


def _read_values(message: schema.TensorProto, dtype: DType, element_type: "np.dtype[Any]") -> "np.ndarray[Any, Any]":
  """Returns the listed values, flat, in the final element type."""
  field = _VALUE_FIELDS.get(dtype, _NARROW_INTEGER_FIELD)
  raw = getattr(message, field)
  if field == "string_val":
    strings = np.empty(len(raw), object)
    strings[:] = list(raw)
    return strings
  if field == "float8_val":
    return np.frombuffer(raw, element_type)
  if field in ("scomplex_val", "dcomplex_val"):
    if len(raw) % 2:
      raise TensorError(
        f"TensorProto ({dtype}): {field} has {len(raw)} numbers; expected pairs of real and imaginary part."
      )
    return np.array(raw, np.float32 if field == "scomplex_val" else np.float64).view(element_type)
  if field == "half_val":
    return _in_range(np.array(raw, np.int64), 0, 0xFFFF, dtype, field).astype(np.uint16).view(element_type)
  if field == _NARROW_INTEGER_FIELD:
    wide = np.array(raw, np.int64)
    low, high = _INTEGER_RANGES.get(dtype) or (np.iinfo(element_type).min, np.iinfo(element_type).max)
    return _in_range(wide, int(low), int(high), dtype, field).astype(element_type)
  return np.array(raw, element_type)


def _in_range(values: "np.ndarray[Any, Any]", low: int, high: int, dtype: DType, field: str) -> "np.ndarray[Any, Any]":
  if values.size and (values.min() < low or values.max() > high):
    bad = values[(values < low) | (values > high)][0]
    raise TensorError(f"TensorProto ({dtype}): {field} holds {int(bad)}; expected {low} to {high}.")
  return values


def _expand(values: "np.ndarray[Any, Any]", dtype: DType, shape: tuple[int, ...]) -> "np.ndarray[Any, Any]":
  num_elements = math.prod(shape)
  if values.size == num_elements:
    return _frozen(values.reshape(shape))
  where = _describe(dtype, shape)
  if values.size > num_elements:
    raise TensorError(f"{where}: {values.size} values are listed; expected at most {num_elements}.")
  size_bytes = num_elements * values.dtype.itemsize
  if size_bytes > MAX_EXPANDED_BYTES:
    raise TensorError(
      f"{where}: {values.size} values expand to {size_bytes} bytes; expected at most {MAX_EXPANDED_BYTES} bytes."
    )
  if values.size == 0:
    values = np.array([b""], object) if dtype == DType.STRING else np.zeros(1, values.dtype)
  if values.size == 1:
    return np.broadcast_to(values[0:1].reshape(()), shape)
  result = np.empty(num_elements, values.dtype)
  result[: values.size] = values
  result[values.size :] = values[-1]
  return _frozen(result.reshape(shape))


def _frozen(array: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
  array.flags.writeable = False
  return array
