"""The converters whose results are compared with JAX."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["CONVERTERS", "Converter"]

# `Any` in this module is the function that a converter returns, which takes and returns TensorFlow tensors.


@dataclass(frozen=True, slots=True)
class Converter:
  """A way from JAX to live TensorFlow.

  Attributes:
    convert: takes a JAX function, polymorphic shapes and whether TensorFlow can differentiate the result, as
      `jax2tf.convert` does; returns the TensorFlow function.
    conjugates: whether gradients of complex values are the conjugates of JAX's, as TensorFlow's own are.
  """

  convert: Callable[[Callable[..., Any], tuple[Any, ...] | None, bool], Any]
  conjugates: bool


def _graftax(function: Callable[..., Any], polymorphic_shapes: tuple[Any, ...] | None, with_gradient: bool) -> Any:
  from graftax.convert import jax2tf

  return jax2tf.convert(function, polymorphic_shapes=polymorphic_shapes, with_gradient=with_gradient)


def _jax2tf(function: Callable[..., Any], polymorphic_shapes: tuple[Any, ...] | None, with_gradient: bool) -> Any:
  from jax.experimental import jax2tf

  return jax2tf.convert(function, polymorphic_shapes=polymorphic_shapes, with_gradient=with_gradient)


CONVERTERS: Mapping[str, Converter] = {
  "graftax": Converter(_graftax, conjugates=True),
  "jax2tf": Converter(_jax2tf, conjugates=False),
}
"""Maps names to converters: ours and `jax.experimental.jax2tf`."""
