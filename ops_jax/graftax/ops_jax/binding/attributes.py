"""Decodes a node's attributes to the annotated types of its lowering's keyword-only parameters."""

import inspect
import types
import typing
from collections.abc import Mapping
from typing import Any

import numpy as np

from graftax.graphdef_ir import AttrValue, DType, FunctionRef, Node, OpSignature, PartialShape, Tensor
from graftax.graphdef_ir.errors import MissingAttributeError
from graftax.ops_jax._core.errors import UnsupportedAttrError
from graftax.ops_jax._core.registry import Lowering

__all__ = ["decode_attr", "decode_attrs"]


def decode_attrs(
  node: Node, given: Mapping[str, AttrValue], signature: OpSignature | None, lowering: Lowering, where: str
) -> dict[str, Any]:
  """Returns the decoded attributes that the lowering accepts.

  Args:
    node: the node.
    given: the node's attributes and the op's defaults.
    signature: the op's signature, if known. Attributes that the op does not declare are ignored, as in TensorFlow.
    lowering: the lowering that receives the attributes.
    where: the node, for messages.

  Raises:
    UnsupportedAttrError: the lowering does not support an attribute, or its annotation does not fit the value.
    MissingAttributeError: the lowering needs an attribute that the node does not have.
  """
  declared = node.attrs.keys() if signature is None else node.attrs.keys() & signature.attrs.keys()
  unknown = [
    name for name in declared if name not in lowering.attrs and name not in lowering.ignores and name[0] != "_"
  ]
  if unknown:
    raise UnsupportedAttrError(
      f"{where}: attributes {sorted(unknown)!r} are not supported; the lowering accepts {sorted(lowering.attrs)!r}. "
      f"Register one that accepts them with @register({node.op!r}, override=True)."
    )
  decoded = {}
  for name, annotation in lowering.attrs.items():
    if name in given:
      try:
        decoded[name] = decode_attr(given[name], annotation)
      except (TypeError, ValueError) as e:
        raise UnsupportedAttrError(
          f"{where}: attribute {name}={given[name]!r} does not decode to {annotation}: {e}"
        ) from e
  if len(decoded) < len(lowering.attrs):
    _check_required(decoded, lowering, where)
  return decoded


def _check_required(decoded: Mapping[str, Any], lowering: Lowering, where: str) -> None:
  parameters = inspect.signature(lowering.function).parameters
  missing = [
    name
    for name in lowering.attrs
    if name not in decoded and name in parameters and parameters[name].default is inspect.Parameter.empty
  ]
  if missing:
    raise MissingAttributeError(f"{where}: attributes {missing!r} are missing; the op needs them.")


def decode_attr(value: AttrValue, annotation: Any) -> Any:
  """Converts an attribute's value to the annotated Python type.

  Raises:
    TypeError: the value is of another kind.
  """
  origin = typing.get_origin(annotation)
  if origin in (typing.Union, types.UnionType):
    annotation = next(option for option in typing.get_args(annotation) if option is not type(None))
    origin = typing.get_origin(annotation)
  if origin is tuple:
    item_type = typing.get_args(annotation)[0]
    if not isinstance(value, tuple):
      raise TypeError(f"expected a list, got {type(value).__name__}")
    return tuple(decode_attr(item, item_type) for item in value)
  return _decode_scalar(value, annotation)


def _decode_scalar(value: AttrValue, annotation: Any) -> Any:
  match value:
    case bytes() if annotation is str:
      return value.decode()
    case DType() if annotation is np.dtype:
      return value.base.numpy
    case Tensor() if annotation is np.ndarray:
      return value.numpy()
    case bool() | int() | float() | bytes() | DType() | PartialShape() | Tensor() | FunctionRef():
      if annotation is Any or isinstance(value, annotation):
        return value
      if annotation is float and isinstance(value, int):
        return float(value)
  raise TypeError(f"got {type(value).__name__}")
