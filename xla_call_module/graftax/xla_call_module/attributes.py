"""Parses MLIR types, and attributes that the bindings expose only as text, such as `#stablehlo.scatter<...>`."""

import functools
import re
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from graftax.xla_call_module import ir

__all__ = ["element_dtype", "element_spelling", "parse_attribute", "parse_type", "type_spelling"]

_COMPLEX: dict[str, np.dtype] = {"complex<f32>": np.dtype(np.complex64), "complex<f64>": np.dtype(np.complex128)}
_PLAIN = {
    "i1": "bool_", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "ui8": "uint8", "ui16": "uint16",
    "ui32": "uint32", "ui64": "uint64", "f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16",
    "i2": "int2", "i4": "int4", "ui2": "uint2", "ui4": "uint4", "f8E3M4": "float8_e3m4", "f8E4M3": "float8_e4m3",
    "f8E4M3FN": "float8_e4m3fn", "f8E4M3FNUZ": "float8_e4m3fnuz", "f8E4M3B11FNUZ": "float8_e4m3b11fnuz",
    "f8E5M2": "float8_e5m2", "f8E5M2FNUZ": "float8_e5m2fnuz", "f8E8M0FNU": "float8_e8m0fnu",
    "f4E2M1FN": "float4_e2m1fn",
}  # fmt: skip


@functools.cache
def element_dtype(text: str) -> np.dtype | None:
  """Returns the NumPy dtype of an MLIR element type, or None if neither NumPy nor this version of JAX has it."""
  if text in _COMPLEX:
    return _COMPLEX[text]
  scalar: Any = getattr(jnp, _PLAIN.get(text, ""), None)
  return None if scalar is None else np.dtype(scalar)


def element_spelling(dtype: np.dtype) -> str:
  """Returns MLIR's spelling of an element type."""
  for text in (*_COMPLEX, *_PLAIN):
    if element_dtype(text) == dtype:
      return text
  raise TypeError(f"dtype {dtype} has no element type in StableHLO")


def type_spelling(shape: Sequence[int | str], dtype: Any) -> str:
  """Returns MLIR's spelling of a tensor type; a size that is not static is "?"."""
  return f"tensor<{''.join(f'{dim}x' for dim in shape)}{element_spelling(np.dtype(dtype))}>"


_TENSOR = re.compile(r"^tensor<((?:(?:\d+|\?)x)*)([^,]+?)(?:, *(.*))?>$")


@functools.lru_cache(maxsize=4096)
def parse_type(text: str) -> ir.Type:
  """Returns the type with a given MLIR spelling; a type without a counterpart in our IR becomes an `OpaqueType`."""
  if text == "!stablehlo.token":
    return ir.TokenType()
  if text.startswith("tuple<"):
    return ir.TupleType(tuple(parse_type(part) for part in _split(text[6:-1])))
  match = _TENSOR.match(text)
  dtype = element_dtype(match[2]) if match else None
  if match is None or dtype is None:
    return ir.OpaqueType(text)
  dims = tuple(None if dim == "?" else int(dim) for dim in match[1].split("x")[:-1])
  return ir.TensorType(dims, dtype)


def _split(text: str) -> list[str]:
  """Splits at commas, except those inside brackets or quotes."""
  parts, depth, start, quoted = [], 0, 0, False
  for position, char in enumerate(text):
    if char == '"':
      quoted = not quoted
    elif quoted:
      continue
    elif char in "<[({":
      depth += 1
    elif char in "])}" or (char == ">" and text[position - 1] != "-"):
      depth -= 1
    elif char == "," and depth == 0:
      parts.append(text[start:position].strip())
      start = position + 1
  last = text[start:].strip()
  return parts + [last] if last else parts


# `#stablehlo<precision DEFAULT>`, and `#stablehlo.result_accuracy_mode<HIGHEST>` from jaxlib 0.12 on.
_ENUM = re.compile(r"^#(?:stablehlo|chlo|mhlo)(?:<[a-z_]+ |\.[a-z_]+<)([A-Za-z0-9_]+)>$")
_STRUCT = re.compile(r"^#([a-z]+)\.([a-z_]+)<(.*)>$", re.S)
_COMPLEX_NUMBER = re.compile(r"^#complex\.number<:f(32|64) ([^,]+), ([^,>]+)>")


def parse_attribute(text: str) -> ir.Attribute:
  """Parses the text of an attribute: an enum becomes a str, a struct `Attributes`; other text is returned as is."""
  if match := _ENUM.match(text):
    return match[1]
  if match := _COMPLEX_NUMBER.match(text):
    return complex(*(_real(part, int(match[1])) for part in match.groups()[1:]))
  match = _STRUCT.match(text)
  if not match:
    return text
  dialect, kind, body = match.groups()
  if dialect == "sdy":
    return text
  if kind == "conv":
    return _conv_dimensions(body)
  parts = (part.split("=", 1) for part in _split(body))
  return ir.Attributes({key.strip(): _field(value.strip()) for key, value in parts})


def _real(text: str, num_bits: int) -> float:
  """Parses a float. MLIR writes NaN and infinities as the hexadecimal bits."""
  if not text.startswith("0x"):
    return float(text)
  return float(np.asarray(int(text, 16), f"uint{num_bits}").view(f"float{num_bits}"))


def _field(text: str) -> ir.Attribute:
  if text.startswith("["):
    return tuple(_field(part) for part in _split(text[1:-1]))
  if re.fullmatch(r"-?\d+", text):
    return int(text)
  if text in ("true", "false"):
    return text == "true"
  dtype = element_dtype(text)
  if dtype is not None:
    return dtype
  return parse_attribute(text)


def _conv_dimensions(body: str) -> ir.Attributes:
  """Parses `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]` into JAX's order: batch, feature, then the spatial axes."""
  lhs, rest = body.split("]x[")
  rhs, out = rest.split("]->[")
  specs = ir.Attributes()
  for name, spec, leading in (("lhs", lhs, "bf"), ("rhs", rhs, "oi"), ("out", out, "bf")):
    labels = [label.strip() for label in spec.strip("[] ").split(",")]
    spatial = [str(axis) for axis in range(len(labels) - 2)]
    specs[name] = tuple(labels.index(label) for label in (*leading, *spatial))
  return specs
