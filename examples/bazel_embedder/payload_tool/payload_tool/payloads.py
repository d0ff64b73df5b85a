"""A file of `jax.export` as a function of a batch."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import jax
from jax import Array

from graftax.xla_call_module import Module, Signature, Structured, lift, structured
from payload_tool.soft_clip import TARGET, SoftClip

__all__ = ["Payload", "read"]

Arrays: TypeAlias = Mapping[str, Array]


@dataclasses.dataclass(frozen=True, slots=True)
class Payload:
  """A function `loss(params, example)` from a file.

  Attributes:
    function: the function, with the arguments of the one that was exported.
  """

  function: Structured

  @property
  def signature(self) -> Signature:
    return self.function.signature

  @property
  def parameters(self) -> tuple[str, ...]:
    """The names of the parameters, with their types."""
    return tuple(str(leaf) for leaf in self.signature.inputs if leaf.path.startswith("args[0]"))

  def gradients(self, params: Arrays, batch: Array) -> Arrays:
    """Returns the gradients of the loss of each example with respect to the parameters."""

    def loss(params: Arrays, example: Array) -> Array:
      result: Array = self.function(params, example)
      return result

    transform: Any = jax  # strict checkers know no types of `grad` and `vmap`
    gradients: Arrays = transform.vmap(transform.grad(loss), in_axes=(None, 0))(params, batch)
    return gradients


def read(path: Path) -> Payload:
  """Returns the function of a file of `jax.export`, or of `Module.save` if its name ends in .zip."""
  module = Module.load(path) if path.suffix == ".zip" else Module.from_exported(path.read_bytes())
  # The derivative of the custom call is the plug-in's, so derivatives that the file has are not used.
  return Payload(structured(lift(module, gradient="primal", custom_calls={TARGET: SoftClip()})))
