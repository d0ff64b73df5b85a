"""Numbers and fields in strings: DecodeCSV, DecodePaddedRaw, ParseTensor, SerializeTensor."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from graftax.convert.host_ops.numeric_text import string_to_number
from graftax.convert.host_ops.registry import host_op
from graftax.convert.host_ops.values import as_strings, scalar_string, string_array
from graftax.graphdef_ir import DType, GraftaxError, Tensor, parse_message, schema
from graftax.ops_jax import Context, InvalidInputError

__all__ = ["decode_csv", "decode_padded_raw", "parse_tensor", "serialize_tensor"]


@host_op("DecodePaddedRaw")
def decode_padded_raw(
  ctx: Context, input_bytes: np.ndarray, fixed_length: np.ndarray, *, out_type: np.dtype, little_endian: bool = True
) -> np.ndarray:
  """Returns the numbers that strings hold, cut or filled with zeros to `fixed_length` bytes.

  Raises:
    InvalidInputError: the length is not a positive multiple of the size of a number.
    LimitExceededError: the result would be larger than the limits of the conversion allow.
  """
  length = int(fixed_length)
  if length <= 0 or length % out_type.itemsize:
    raise InvalidInputError(
      f"DecodePaddedRaw: fixed_length={length}; expected a positive multiple of {out_type.itemsize}."
    )
  ctx.budget.check_array((input_bytes.size, length), 1, f"DecodePaddedRaw node {ctx.node_name!r}")
  data = b"".join(item[:length].ljust(length, b"\0") for item in input_bytes.reshape(-1).tolist())
  stored = out_type if little_endian or out_type.itemsize == 1 else out_type.newbyteorder(">")
  return np.frombuffer(data, stored).astype(out_type).reshape(*input_bytes.shape, length // out_type.itemsize)


@host_op("ParseTensor")
def parse_tensor(ctx: Context, serialized: np.ndarray, *, out_type: DType) -> np.ndarray:
  """Returns the tensor that a serialized TensorProto holds.

  Raises:
    InvalidInputError: the string is not a TensorProto, or holds another dtype.
    LimitExceededError: a few bytes spell out a tensor larger than the limits of the conversion allow.
  """
  data = scalar_string(serialized, "ParseTensor: serialized")
  try:
    message = parse_message(schema.TensorProto, data)
    if message.dtype != out_type:
      raise InvalidInputError(f"ParseTensor: the tensor is of dtype number {message.dtype}; expected {out_type}.")
    sizes = [dim.size for dim in message.tensor_shape.dim]
    ctx.budget.check_array(sizes, out_type.numpy.itemsize, f"ParseTensor node {ctx.node_name!r}")
    value = Tensor.from_proto(message).numpy()
  except InvalidInputError:
    raise
  except GraftaxError as e:
    if type(e).__name__ == "LimitExceededError":
      raise
    raise InvalidInputError(f"ParseTensor: {len(data)} bytes are not a serialized tensor: {e}") from e
  return as_strings(value) if out_type is DType.STRING else np.asarray(value)


@host_op("SerializeTensor", ignores=("T",))
def serialize_tensor(tensor: np.ndarray) -> np.ndarray:
  """Returns a tensor as a serialized TensorProto, in the form of TensorFlow's kernel."""
  return as_strings(Tensor.from_numpy(tensor).to_proto().SerializeToString())


@host_op("DecodeCSV", ignores=("OUT_TYPE",))
def decode_csv(
  records: np.ndarray,
  record_defaults: list[np.ndarray],
  *,
  field_delim: bytes = b",",
  use_quote_delim: bool = True,
  na_value: bytes = b"",
  select_cols: tuple[int, ...] = (),
) -> tuple[np.ndarray, ...]:
  """Returns an array for each column of lines of text; empty fields have the default of their column.

  Raises:
    InvalidInputError: a line has another number of fields, a field is empty and has no default, or is not a number.
  """
  # TensorFlow does not read on after the last column that it needs.
  most = max(select_cols) + 1 if select_cols else None
  rows = [
    list(itertools.islice(_fields(line, field_delim[0], use_quote_delim), most))
    for line in records.reshape(-1).tolist()
  ]
  if select_cols:
    short = [len(row) for row in rows if len(row) <= max(select_cols)]
    if short:
      raise InvalidInputError(f"DecodeCSV: a line has {short[0]} fields; expected more than {max(select_cols)}.")
    rows = [[row[column] for column in select_cols] for row in rows]
  wrong = [len(row) for row in rows if len(row) != len(record_defaults)]
  if wrong:
    raise InvalidInputError(f"DecodeCSV: a line has {wrong[0]} fields; expected {len(record_defaults)}.")
  columns = zip(*rows, strict=True) if rows else ((),) * len(record_defaults)
  return tuple(
    _column(column, default, na_value, records.shape, number)
    for number, (column, default) in enumerate(zip(columns, record_defaults, strict=True))
  )


def _column(
  fields: Sequence[bytes], default: np.ndarray, na_value: bytes, shape: tuple[int, ...], number: int
) -> np.ndarray:
  missing = np.array([field in (b"", na_value) for field in fields], bool)
  if missing.any() and not default.size:
    raise InvalidInputError(f"DecodeCSV: field {number} is required but missing in a line.")
  texts = string_array(b"0" if is_missing else field for field, is_missing in zip(fields, missing, strict=True))
  found = texts if default.dtype == object else string_to_number(texts, out_type=default.dtype)
  if missing.any():
    found[missing] = default.reshape(-1)[0]
  return found.reshape(shape)


def _fields(line: bytes, delimiter: int, quotes: bool) -> Iterator[bytes]:
  """Yields the fields of one line; a quote inside of quotes is written twice.

  As in TensorFlow's kernel, ends of lines before a field are left out, and do not make a field if none follows.
  """
  position, end = 0, len(line)
  while (position := _after_line_ends(line, position)) < end:
    if quotes and line[position : position + 1] == b'"':
      field, position = _quoted(line, position + 1)
      if position < end and line[position] != delimiter:
        raise InvalidInputError(f"DecodeCSV: quotes in {line[:50]!r} must be followed by the delimiter or the end.")
    else:
      stop = line.find(delimiter, position)
      stop = end if stop < 0 else stop
      field, position = line[position:stop], stop
      if b"\r" in field or b"\n" in field or (quotes and b'"' in field):
        raise InvalidInputError(
          f"DecodeCSV: {line[:50]!r} has quotes or ends of lines inside of a field without quotes around it."
        )
    yield field
    position += 1
  if line.endswith(bytes([delimiter])):
    yield b""


def _after_line_ends(line: bytes, position: int) -> int:
  while line[position : position + 1] in (b"\r", b"\n"):
    position += 1
  return position


def _quoted(line: bytes, position: int) -> tuple[bytes, int]:
  parts = []
  while True:
    stop = line.find(b'"', position)
    if stop < 0:
      raise InvalidInputError(f"DecodeCSV: a quote in {line[:50]!r} is not closed.")
    parts.append(line[position:stop])
    if line[stop + 1 : stop + 2] != b'"':
      return b"".join(parts), stop + 1
    parts.append(b'"')
    position = stop + 2
