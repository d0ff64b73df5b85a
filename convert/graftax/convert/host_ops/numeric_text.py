"""Numbers as text and back: AsString, StringToNumber."""

import math
import re

import numpy as np

from graftax.convert.host_ops.registry import host_op
from graftax.convert.host_ops.values import ITEM_BYTES, map_strings, string_array
from graftax.graphdef_ir import Budget
from graftax.ops_jax import NO_BUDGET, InvalidInputError

__all__ = ["as_string", "string_to_number"]

# Flags of C's printf.
_FILLS = (b"", b" ", b"+", b"-", b"0", b"#")

# Its groups are the digits with their point, and the sign and the digits of the exponent without leading zeros.
_HEXADECIMAL = re.compile(r"[+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)(?:[pP]([+-]?)0*([0-9]+))?")
# Bits of hexadecimal floats that are kept to round to float32: more than 24 and less than the 53 of float64.
_KEPT_BITS = 50
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[+-]?(inf|infinity|nan)", re.IGNORECASE)
_INTEGER = re.compile(rb"[+-]?[0-9]+")


@host_op("AsString", ignores=("T",))
def as_string(
  input_: np.ndarray,
  *,
  precision: int = -1,
  scientific: bool = False,
  shortest: bool = False,
  width: int = -1,
  fill: bytes = b"",
  budget: Budget = NO_BUDGET,
) -> np.ndarray:
  """Returns numbers as text, formatted as C's `printf` does.

  Raises:
    InvalidInputError: `fill` is none of the characters that TensorFlow accepts, or the dtype has no such format.
    LimitExceededError: the width or the precision is too large.
  """
  if input_.dtype == object:
    return input_
  _check_format(input_.dtype, precision, scientific, shortest, fill)
  # A float64 has up to 309 digits before its point.
  budget.check_text(input_.size * (max(width, 0) + max(precision, 0) + ITEM_BYTES), "AsString")
  # C has no signs for integers without sign.
  flag = "" if input_.dtype.kind == "u" and fill in (b"+", b" ") else fill.decode()
  size = (str(width) if width > -1 else "") + (f".{precision}" if precision > -1 else "")
  kind = "d" if input_.dtype.kind in "iu" else "e" if scientific else "g" if shortest else "f"
  template = f"%{flag}{size}{kind}"
  # C does not pad these with zeros.
  not_finite = f"%{flag.replace('0', '')}{size}{kind}"

  def text(number: complex) -> str:
    if isinstance(number, bool):
      return "true" if number else "false"
    if isinstance(number, complex):
      return f"({text(number.real)},{text(number.imag)})"
    return (template if np.isfinite(number) else not_finite) % number

  # float16 and bfloat16 have no Python type of their own.
  wide = input_.astype(np.float64) if input_.dtype.kind in "fV" else input_
  return string_array((text(number).encode() for number in wide.reshape(-1).tolist()), input_.shape)


def _check_format(dtype: np.dtype, precision: int, scientific: bool, shortest: bool, fill: bytes) -> None:
  if fill not in _FILLS:
    raise InvalidInputError(f"AsString: fill is {fill!r}; expected one of {', '.join(map(repr, _FILLS))}.")
  if scientific and shortest:
    raise InvalidInputError("AsString: both scientific and shortest are set; expected at most one.")
  if dtype.kind in "biu" and (precision > -1 or scientific or shortest):
    raise InvalidInputError(
      f"AsString: precision={precision!r}, scientific={scientific!r}, shortest={shortest!r} of {dtype} numbers; only "
      "floats and complex numbers have a format."
    )


@host_op("StringToNumber")
def string_to_number(string_tensor: np.ndarray, *, out_type: np.dtype) -> np.ndarray:
  """Returns the numbers that strings spell.

  Raises:
    InvalidInputError: a string is not a number of that type.
  """
  parse = _parse_float if out_type.kind == "f" else _parse_integer
  return map_strings(lambda item: parse(item, out_type), string_tensor, out_type)


def _parse_float(item: bytes, dtype: np.dtype) -> float:
  text = item.strip().decode(errors="replace")
  with np.errstate(over="ignore"):
    if _DECIMAL.fullmatch(text) or _NOT_FINITE.fullmatch(text):
      # Through the text, since rounding to float64 first can change the last bit of a float32.
      return float(dtype.type(text))
    if hexadecimal := _HEXADECIMAL.fullmatch(text):
      return float(dtype.type(_parse_hexadecimal(hexadecimal, dtype)))
  raise InvalidInputError(f"StringToNumber: {item!r} is not a number; expected text such as '1.5' for {dtype}.")


def _parse_hexadecimal(match: re.Match[str], dtype: np.dtype) -> float:
  """Returns a float64 that rounds to `dtype` as the number itself does."""
  try:
    value = float.fromhex(match[0])
  except OverflowError:
    return -math.inf if match[0].startswith("-") else math.inf
  # Only now, because for 0 and what rounds to it the exponent may be of any size.
  if dtype == np.float64 or value == 0:
    return value
  whole, _, fraction = match[1].partition(".")
  digits = int(whole + fraction, 16)
  exponent = int(f"{match[2]}{match[3]}" if match[3] else "0") - 4 * len(fraction)
  num_dropped = max(digits.bit_length() - _KEPT_BITS, 0)
  kept = digits >> num_dropped
  # The last bit says whether there are others after it, so that what is more than a tie is not rounded as a tie.
  kept |= kept << num_dropped != digits
  return math.copysign(math.ldexp(kept, exponent + num_dropped), value)


def _parse_integer(item: bytes, dtype: np.dtype) -> int:
  text = item.strip()
  value = int(text) if _INTEGER.fullmatch(text) else None
  limits = np.iinfo(dtype)
  if value is None or not limits.min <= value <= limits.max:
    raise InvalidInputError(f"StringToNumber: {item!r} is not a number of {dtype}, {limits.min} to {limits.max}.")
  return value
