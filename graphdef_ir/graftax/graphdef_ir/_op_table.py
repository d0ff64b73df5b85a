"""Reads op_signatures.txt, one tab-separated line for each op:

    name, marks ("s" stateful, "c" commutative), inputs, outputs, then one column for each attribute

    Split <tab> <tab> split_dim: int32, value: T <tab> output: num_split * T <tab> num_split: int >= 1 <tab> T: type

The file is indexed on first use (about a millisecond) and a line is parsed when its op is looked up. It is text
rather than compressed, so that a TensorFlow upgrade can be reviewed as a diff; the wheel compresses it anyway.
"""

import base64
import functools
import json
import pkgutil
import re
from collections.abc import KeysView
from typing import Any

from graftax.graphdef_ir import schema
from graftax.graphdef_ir.attributes import AttrValue
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.shapes import PartialShape
from graftax.graphdef_ir.tensors import Tensor

_FILE = "op_signatures.txt"

# Compiled on first use (`re` caches the result), so that importing this module stays cheap.
_ARG = r"(?P<name>\w+): (?:(?P<number>\w+) \* )?(?P<ref>Ref\()?(?P<kind>\w+)\)?"
_ATTR = (
  r"(?P<name>\w+): (?P<type>[\w()]+)(?: >= (?P<minimum>-?\d+))?(?: in (?P<allowed>\[.*?\]))?(?: = (?P<default>.*))?"
)


def source() -> str:
  """Returns the comment that says which TensorFlow the table was generated from."""
  data = pkgutil.get_data(__package__, _FILE) or b""
  return data.partition(b"\n")[0].decode()


def has(name: str) -> bool:
  return name in _lines()


def names() -> KeysView[str]:
  return _lines().keys()


def entry(name: str) -> dict[str, Any] | None:
  """Returns the line of an op as keyword arguments for OpSignature, OpArg and OpAttr, or None if unknown."""
  line = _lines().get(name)
  if line is None:
    return None
  marks, inputs, outputs, *attr_texts = line.split("\t")
  attrs = [parse_attr(text) for text in attr_texts]
  types = {attr["name"]: attr["type"] for attr in attrs}
  return {
    "inputs": _parse_args(inputs, types),
    "outputs": _parse_args(outputs, types),
    "attrs": attrs,
    "is_stateful": "s" in marks,
    "is_commutative": "c" in marks,
  }


@functools.cache
def _lines() -> dict[str, str]:
  data = pkgutil.get_data(__package__, _FILE)
  if data is None:
    raise AssertionError("internal: op_signatures.txt is missing from the installed package graftax.graphdef_ir")
  pairs = (line.partition("\t") for line in data.decode().splitlines() if not line.startswith("#"))
  return {name: rest for name, _, rest in pairs}


def _parse_args(text: str, attr_types: dict[str, str]) -> list[dict[str, Any]]:
  return [_parse_arg(part, attr_types) for part in text.split(", ")] if text else []


def _parse_arg(text: str, attr_types: dict[str, str]) -> dict[str, Any]:
  match = re.fullmatch(_ARG, text)
  if match is None:
    raise AssertionError(f"internal: malformed argument {text!r} in op_signatures.txt")
  kind = match["kind"]
  is_type_list = attr_types.get(kind) == "list(type)"
  return {
    "name": match["name"],
    "dtype": None if kind in attr_types else DType.from_name(kind),
    "type_attr": kind if kind in attr_types and not is_type_list else None,
    "type_list_attr": kind if is_type_list else None,
    "number_attr": match["number"],
    "is_ref": match["ref"] is not None,
  }


def parse_attr(text: str) -> dict[str, Any]:
  match = re.fullmatch(_ATTR, text)
  if match is None:
    raise AssertionError(f"internal: malformed attribute {text!r} in op_signatures.txt")
  type_ = match["type"]
  element_type = type_.removeprefix("list(").removesuffix(")")
  allowed, default, minimum = match["allowed"], match["default"], match["minimum"]
  return {
    "name": match["name"],
    "type": type_,
    "minimum": None if minimum is None else int(minimum),
    "allowed": None if allowed is None else tuple(_decode(value, element_type) for value in json.loads(allowed)),
    "default": None if default is None else _decode(json.loads(default), type_),
  }


def _decode(value: Any, type_: str) -> AttrValue:
  if type_.startswith("list("):
    return tuple(_decode(element, type_[5:-1]) for element in value)
  match type_:
    case "int":
      return int(value)
    case "float":
      return float(value)
    case "bool":
      return bool(value)
    case "string":
      return str(value).encode("latin-1")
    case "type":
      return DType.from_name(value)
    case "shape":
      return PartialShape(None if value is None else tuple(value))
    case "tensor":
      return Tensor.from_proto(schema.TensorProto.FromString(base64.b64decode(value)))
  raise AssertionError(f"internal: op_signatures.txt has a value of type {type_!r}")
