"""The converters whose results are compared with JAX."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from graftax.testing._tensorflow import TfFunction
from graftax.testing.pytrees import PyTree

__all__ = ["CONVERTERS", "Converter"]


@dataclass(frozen=True, slots=True)
class Converter:
  """A way from JAX to live TensorFlow.

  Attributes:
    convert: takes a JAX function, polymorphic shapes and whether TensorFlow can differentiate the result, as
      `jax2tf.convert` does; returns the TensorFlow function.
    conjugates: whether gradients of complex values are the conjugates of JAX's, as TensorFlow's own are.
    lowering: what a function becomes. Plain TensorFlow ops may refuse any function, if the error is typed.
  """

  convert: Callable[[Callable[..., Any], tuple[PyTree, ...] | None, bool], TfFunction]
  conjugates: bool
  lowering: Literal["stablehlo", "tf_ops"] = "stablehlo"


def _graftax(
  function: Callable[..., Any], polymorphic_shapes: tuple[PyTree, ...] | None, with_gradient: bool
) -> TfFunction:
  from graftax.convert import jax2tf

  return jax2tf.convert(function, polymorphic_shapes=polymorphic_shapes, with_gradient=with_gradient)


def _plain_ops(
  function: Callable[..., Any], polymorphic_shapes: tuple[PyTree, ...] | None, with_gradient: bool
) -> TfFunction:
  from graftax.convert import jax2tf

  return jax2tf.convert(function, polymorphic_shapes=polymorphic_shapes, with_gradient=with_gradient, lowering="tf_ops")


def _jax2tf(
  function: Callable[..., Any], polymorphic_shapes: tuple[PyTree, ...] | None, with_gradient: bool
) -> TfFunction:
  from jax.experimental import jax2tf

  return jax2tf.convert(function, polymorphic_shapes=polymorphic_shapes, with_gradient=with_gradient)


CONVERTERS: Mapping[str, Converter] = {
  "graftax": Converter(_graftax, conjugates=True),
  "graftax_tf_ops": Converter(_plain_ops, conjugates=True, lowering="tf_ops"),
  "jax2tf": Converter(_jax2tf, conjugates=False),
}
"""Maps names to converters: ours, to StableHLO and to plain ops, and `jax.experimental.jax2tf`."""
