"""XlaCallModule nodes as calls of functions of plain TensorFlow ops."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax

from graftax.convert.errors import ConversionError
from graftax.convert.jax2tf.program import jax_program
from graftax.graphdef_ir import DType, function_to_proto, schema

if TYPE_CHECKING:
  from graftax.xla_call_module.rewriting import SharedLimits

__all__ = ["PlainFunctions"]

_CALL = "PartitionedCall"


class PlainFunctions:
  """The functions of plain ops that were made for one graph, which replace its modules."""

  def __init__(self, library: schema.FunctionDefLibrary, limits: "SharedLimits", consumer: str | None = None):
    self._consumer = consumer
    self._library = library
    self._limits = limits
    self._names = {function.signature.name for function in library.function}
    self._made: dict[Any, schema.OpDef] = {}

  def replace(self, node: schema.NodeDef, attributes: Mapping[str, Any], *, for_consumer: bool = True) -> None:
    """Turns an XlaCallModule node into a call of a function of plain ops, with the same inputs and results.

    Args:
      node: the node.
      attributes: its attributes.
      for_consumer: use only ops that the consumer has; if false, all of TensorFlow's.

    Raises:
      ConversionError: the module calls functions of TensorFlow, or its arguments and results are not those of the node.
      UnsupportedPrimitiveError: an operation has no plain form; the message lists all of them.
      StableHloError: the module cannot be read or lifted.
    """
    if attributes["function_list"]:
      raise ConversionError(
        f"the module calls the functions {list(attributes['function_list'])!r} of the graph, which plain ops cannot "
        "express. Write it for a TensorFlow from 2.15 on."
      )
    consumer = self._consumer if for_consumer else None
    key = consumer, *sorted(attributes.items())
    if key not in self._made:
      self._made[key] = self._make(node, attributes, consumer)
    signature = self._made[key]
    for what, attribute, arguments in (
      ("arguments", "Tin", signature.input_arg),
      ("results", "Tout", signature.output_arg),
    ):
      declared, made = list(node.attr[attribute].list.type), [argument.type for argument in arguments]
      if declared != made:
        raise ConversionError(f"the {what} of the node are {_names(declared)}, and those of its module {_names(made)}.")
    num_inputs = sum(not name.startswith("^") for name in node.input)
    if num_inputs != len(signature.input_arg):
      raise ConversionError(f"the node has {num_inputs} inputs, and its module takes {len(signature.input_arg)}.")
    for name in [name for name in node.attr if name not in ("Tin", "Tout") and not name.startswith("_")]:
      del node.attr[name]
    node.op = _CALL
    node.attr["f"].func.name = signature.name

  def _make(self, node: schema.NodeDef, attributes: Mapping[str, Any], consumer: str | None) -> schema.OpDef:
    """Adds the functions for a module to the library and returns the signature of the one to call."""
    from graftax.xla_call_module import Module, lift
    from graftax.xla_call_module.rewriting import open_arguments

    module = Module.from_call_module(**attributes, limits=self._limits)
    lifted = lift(module, check_platform=False, gradient="primal", x64="enable", limits=self._limits)
    with jax.enable_x64(True):
      program = jax_program(
        lambda *args: lifted(*args),
        open_arguments(module),
        name=_name(node),
        gradient_order=0,
        lowering="tf_ops",
        target=consumer,
      )
    functions = {**program.library, program.function.name: program.function}
    renamed = {name: self._unused_name(name) for name in functions}
    for name, function in functions.items():
      message = function_to_proto(function, program.library)
      _rename(message, renamed)
      self._library.function.append(message)
      if name == program.function.name:
        signature = message.signature
    return signature

  def _unused_name(self, name: str) -> str:
    number, unused = 0, name
    while unused in self._names:
      number += 1
      unused = f"{name}_{number}"
    self._names.add(unused)
    return unused


def _rename(message: schema.FunctionDef, names: Mapping[str, str]) -> None:
  """Gives a function and those that it calls other names."""
  message.signature.name = names[message.signature.name]
  for node in message.node_def:
    node.op = names.get(node.op, node.op)
    for value in node.attr.values():
      for function in (value.func, *value.list.func):
        if function.name:
          function.name = names.get(function.name, function.name)


def _name(node: schema.NodeDef) -> str:
  return "plain_" + "".join(c if c.isalnum() else "_" for c in node.name)


def _names(types: list[int]) -> list[str]:
  return [DType(number).name for number in types]
