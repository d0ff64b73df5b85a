"""The converters whose results are compared with JAX."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["CONVERTERS", "convert"]

# `Any` in this module is the function that a converter returns, which takes and returns TensorFlow tensors.


def convert(converter: str, function: Callable[..., Any], polymorphic_shapes: tuple[Any, ...] | None) -> Any:
  """Returns `function` converted, with its gradient.

  Args:
    converter: a key of `CONVERTERS`.
    function: a JAX function.
    polymorphic_shapes: as `jax2tf.convert` takes them; None for static shapes.
  """
  return CONVERTERS[converter](function, polymorphic_shapes)


def _graftax(function: Callable[..., Any], polymorphic_shapes: Any) -> Any:
  jax2tf = importlib.import_module("graftax.convert.jax2tf")
  return jax2tf.convert(function, polymorphic_shapes=polymorphic_shapes)


def _jax2tf(function: Callable[..., Any], polymorphic_shapes: Any) -> Any:
  from jax.experimental import jax2tf

  return jax2tf.convert(function, polymorphic_shapes=polymorphic_shapes)


CONVERTERS: Mapping[str, Callable[[Callable[..., Any], Any], Any]] = {"graftax": _graftax, "jax2tf": _jax2tf}
"""Maps names to converters: ours and `jax.experimental.jax2tf`."""
