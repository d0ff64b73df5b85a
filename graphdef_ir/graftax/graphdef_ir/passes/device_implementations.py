"""Replaces functions that are for any device by the implementation for CPUs that their library holds beside them.

Functions with the same attribute `api_implements` compute the same thing in several ways, and `api_preferred_device`
names the device that one of them is for. TensorFlow chooses when it runs a graph. The choice matters where the ways
draw different random numbers, as in distributions of TensorFlow Probability.
"""

import dataclasses
from collections.abc import Iterable

from graftax.graphdef_ir.graph import Function, FunctionLibrary, Node, Result, TensorRef

__all__ = ["implementations_for_cpu"]

_API, _DEVICE, _CPU = "api_implements", "api_preferred_device", b"CPU"

# Functions of a tape have the attributes of the function that it differentiates.
_OF_TAPES = frozenset({"forward_function_name", "backward_function_name"})


def implementations_for_cpu(names: Iterable[str], library: FunctionLibrary) -> dict[str, Function]:
  """Returns the functions, by name, that have another implementation for CPUs; their new body calls it.

  Args:
    names: names of functions of the library.
    library: the functions. All of them are parsed if one of `names` may have another implementation.

  Example:
    >>> from graftax.graphdef_ir import FunctionLibrary, parse_function
    >>> texts = [
    ...   b'signature { name: "any" } attr { key: "api_implements" value { s: "draw" } }',
    ...   b'signature { name: "cpu" } attr { key: "api_implements" value { s: "draw" } }'
    ...   b' attr { key: "api_preferred_device" value { s: "CPU" } }',
    ... ]
    >>> library = FunctionLibrary({function.name: function for function in map(parse_function, texts)})
    >>> [node.op for node in implementations_for_cpu(["any"], library)["any"].nodes]
    ['cpu']
  """
  general = [function for name in names if _is_implementation(function := library[name]) and not _is_for_cpu(function)]
  if not general:
    return {}
  others = [function for name in library.known() if _is_for_cpu(function := library[name])]
  for_cpu = {function.attrs[_API]: function for function in others if _is_implementation(function)}
  pairs = [(function, for_cpu.get(function.attrs[_API])) for function in general]
  return {function.name: _calling(function, other) for function, other in pairs if other and _fits(function, other)}


def _is_implementation(function: Function) -> bool:
  return _API in function.attrs and _OF_TAPES.isdisjoint(function.attrs)


def _is_for_cpu(function: Function) -> bool:
  return function.attrs.get(_DEVICE) == _CPU


def _fits(function: Function, other: Function) -> bool:
  """Returns whether two functions have parameters and results of the same types."""
  return [p.dtype for p in function.parameters] == [p.dtype for p in other.parameters] and [
    r.dtype for r in function.results
  ] == [r.dtype for r in other.results]


def _calling(function: Function, other: Function) -> Function:
  call = Node(other.name, other.name, tuple(TensorRef(parameter.name) for parameter in function.parameters))
  results = tuple(
    Result(result.name, TensorRef(call.name, i), result.dtype) for i, result in enumerate(function.results)
  )
  effects = (call.name,) if other.is_stateful else ()
  return dataclasses.replace(
    function, nodes=(call,), results=results, control_results=effects, is_stateful=other.is_stateful
  )
