"""Replaces a function's attribute placeholders by the values of a call."""

import dataclasses
from collections.abc import Mapping
from typing import TypeVar

from graftax.graphdef_ir.attributes import AttrPlaceholder, AttrValue, FunctionRef
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.errors import MissingAttributeError
from graftax.graphdef_ir.graph import Function, Parameter, Result

__all__ = ["bind_attributes"]

_Typed = TypeVar("_Typed", Parameter, Result)


def bind_attributes(function: Function, attrs: Mapping[str, AttrValue]) -> Function:
  """Returns the function with every placeholder `$name` replaced by `attrs[name]`; itself if it has none.

      >>> from graftax.graphdef_ir import Node, TensorRef
      >>> node = Node("y", "Neg", (TensorRef("x"),), attrs={"T": AttrPlaceholder("T")})
      >>> function = Function("f", (Parameter("x", DType.INVALID, type_attr="T"),), (), (node,))
      >>> print(bind_attributes(function, {"T": DType.HALF}))
      function f(x: float16[unknown rank]) -> ()
        y = Neg(x) {T=float16}
        return

  Args:
    function: the function.
    attrs: the attributes of a call; those that the function does not use are ignored.

  Raises:
    MissingAttributeError: the function uses an attribute that is not in `attrs`.
  """
  try:
    nodes = tuple(
      dataclasses.replace(node, attrs=_bind_all(node.attrs, attrs)) if _is_open_mapping(node.attrs) else node
      for node in function.nodes
    )
    parameters = tuple(_bind_type(parameter, attrs) for parameter in function.parameters)
    results = tuple(_bind_type(result, attrs) for result in function.results)
  except MissingAttributeError as e:
    raise MissingAttributeError(f"function {function.name!r}: {e}") from e
  if nodes == function.nodes and parameters == function.parameters and results == function.results:
    return function
  return dataclasses.replace(function, nodes=nodes, parameters=parameters, results=results)


def _is_open_mapping(attrs: Mapping[str, AttrValue]) -> bool:
  return any(_is_open(value) for value in attrs.values())


def _is_open(value: AttrValue) -> bool:
  """Returns whether the value contains a placeholder."""
  match value:
    case AttrPlaceholder():
      return True
    case FunctionRef():
      return _is_open_mapping(value.attrs)
    case tuple():
      return any(_is_open(element) for element in value)
  return False


def _bind_all(values: Mapping[str, AttrValue], attrs: Mapping[str, AttrValue]) -> dict[str, AttrValue]:
  return {name: _bind(value, attrs) for name, value in values.items()}


def _bind(value: AttrValue, attrs: Mapping[str, AttrValue]) -> AttrValue:
  match value:
    case AttrPlaceholder(name):
      return _look_up(name, attrs)
    case FunctionRef(name, inner):
      return FunctionRef(name, _bind_all(inner, attrs))
    case tuple():
      return tuple(_bind(element, attrs) for element in value)
  return value


def _bind_type(value: _Typed, attrs: Mapping[str, AttrValue]) -> _Typed:
  if value.type_attr is None:
    return value
  dtype = _look_up(value.type_attr, attrs)
  if isinstance(dtype, AttrPlaceholder):  # the caller's attributes are not bound yet
    return dataclasses.replace(value, type_attr=dtype.name)
  if not isinstance(dtype, DType):
    raise MissingAttributeError(f"attribute {value.type_attr!r} is {dtype!r}; expected an element type.")
  return dataclasses.replace(value, dtype=dtype, type_attr=None)


def _look_up(name: str, attrs: Mapping[str, AttrValue]) -> AttrValue:
  if name not in attrs:
    raise MissingAttributeError(f"attribute {name!r} has no value; the call has the attributes {sorted(attrs)}.")
  return attrs[name]
