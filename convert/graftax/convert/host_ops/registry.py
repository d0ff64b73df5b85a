"""The registry of host ops: TensorFlow op name -> Python function on NumPy arrays.

Functions are written as lowerings of `graftax.ops_jax` are: positional parameters are the op's tensor inputs,
keyword-only parameters its attributes, and a first parameter `ctx: Context` gives access to library functions. All
inputs are known. Strings are arrays of dtype object that hold `bytes`.
"""

import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from graftax.graphdef_ir import DType, GraftaxError, Node, OpSignature, traits_of
from graftax.ops_jax import Lowering, RegistrationError, lowering, read_lowering

__all__ = ["handles_strings", "host_lowering", "host_op", "host_op_modules"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True, slots=True)
class _HostOp:
  """One registered function.

  Attributes:
    function: the function.
    ignores: attributes that it does not need.
    always: whether it is used in place of a JAX lowering for nodes without strings, too.
  """

  function: Callable[..., Any]
  ignores: tuple[str, ...]
  always: bool


# JAX lowerings that compute on strings in NumPy.
_ON_STRINGS = frozenset({"ScatterNd"})

_HOST_OPS: dict[str, _HostOp] = {}


def host_op(*op_names: str, ignores: Iterable[str] = (), always: bool = False) -> Callable[[_Function], _Function]:
  """Returns a decorator that registers a function as the host's implementation of ops.

  Args:
    *op_names: TensorFlow's op names; all share the function.
    ignores: attributes that the function does not need.
    always: use it for all nodes of these ops. Otherwise it is used if a node has strings, or if JAX has no lowering.

  Raises:
    RegistrationError: an op is registered already.
  """

  def decorate(function: _Function) -> _Function:
    for op in op_names:
      if op in _HOST_OPS:
        raise RegistrationError(f"host_op({op!r}): {_HOST_OPS[op].function.__qualname__} implements this op already.")
      _HOST_OPS[op] = _HostOp(function, tuple(ignores), always)
    return function

  return decorate


def host_lowering(node: Node, signature: OpSignature | None) -> Lowering | None:
  """Returns what the host runs for a node: a host op, or JAX's lowering outside of `jit`; None if there is neither."""
  _load()
  found = _HOST_OPS.get(node.op)
  in_jax = lowering(node.op)
  has_strings = handles_strings(node, signature)
  if found is not None and (found.always or in_jax is None or has_strings):
    return read_lowering(found.function, ignores=found.ignores)
  if has_strings and (in_jax is None or not _accepts_strings(in_jax, node, signature)):
    return None
  return in_jax


def host_op_modules() -> dict[str, str]:
  """Returns the ops for which there is a function on the host, sorted, each with the module of the function.

  Example:
    >>> from graftax.convert import host_op_modules
    >>> host_op_modules()["StringLower"]
    'strings'
  """
  _load()
  return {op: found.function.__module__.rpartition(".")[2] for op, found in sorted(_HOST_OPS.items())}


def handles_strings(node: Node, signature: OpSignature | None) -> bool:
  """Returns whether an input, an output or an attribute of a node says that it has strings."""
  if any(map(_names_strings, node.attrs.values())):
    return True
  if signature is None:
    return False
  try:
    attributes = signature.with_defaults(node.attrs)
    types = (*signature.input_types(attributes), *signature.output_types(attributes))
  except GraftaxError:
    return False
  return _names_strings(types)


def _accepts_strings(in_jax: Lowering, node: Node, signature: OpSignature | None) -> bool:
  """Returns whether a JAX lowering runs on the strings of a node, or on numbers in their place."""
  if node.op in _ON_STRINGS or traits_of(node.op).reads_shapes:
    return True
  if signature is None:
    return False
  attributes = signature.with_defaults(node.attrs)
  strings = {
    parameter.name
    for parameter, arg in zip(in_jax.inputs, signature.inputs, strict=True)
    if arg.type_attr is not None and attributes.get(arg.type_attr) is DType.STRING
  }
  return bool(strings) and strings <= in_jax.data_inputs | in_jax.compared_inputs


def _names_strings(value: object) -> bool:
  """Returns whether an attribute is the dtype of strings, or a list with it.

  Equality is not enough: a DType equals its number, and lists of numbers are attributes too, such as the positions of
  the variables that a loop only reads.
  """
  items = value if isinstance(value, tuple) else (value,)
  return any(isinstance(item, DType) and item.base is DType.STRING for item in items)


@functools.cache
def _load() -> None:
  # Delayed until a model is split, as other conversions do not need these modules. Cached when it is done, not before:
  # other threads wait for the imports, and those that were interrupted are tried again.
  package = __name__.rpartition(".")[0]
  for module in importlib.import_module(package).HOST_OPS:
    importlib.import_module(f"{package}.{module}")
