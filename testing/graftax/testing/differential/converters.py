"""The converters that can be tested: graftax, and TF2JAX if it is installed."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from graftax.graphdef_ir import optional_library
from graftax.testing._tensorflow import import_tensorflow

__all__ = ["CONVERTERS", "Converter"]

# `Any` in this module is a function or a parameter of either library.


@dataclasses.dataclass(frozen=True, slots=True)
class Converter:
  """A way to convert a TensorFlow function.

  Attributes:
    name: its name in reports.
    convert: `(tf function, specs) -> (fn, params)` with `fn(params, *args) -> (outputs, new_params)`.
  """

  name: str
  convert: Callable[[Any, tuple[Any, ...]], tuple[Callable[..., Any], Mapping[str, Any]]]


def _graftax(function: Any, specs: tuple[Any, ...]) -> tuple[Callable[..., Any], Mapping[str, Any]]:
  from graftax.convert import convert

  return convert(function, *specs)


def _tf2jax(function: Any, specs: tuple[Any, ...]) -> tuple[Callable[..., Any], Mapping[str, Any]]:
  with optional_library("the converter tf2jax", "graftax-testing[tf2jax]"):
    import tf2jax
  tf = import_tensorflow()
  if not hasattr(function, "get_concrete_function"):
    concrete = function
    function = tf.function(lambda *args: concrete(*args), autograph=False)
  return tf2jax.convert(function, *specs)


CONVERTERS: Mapping[str, Converter] = {
  "graftax": Converter("graftax", _graftax),
  "tf2jax": Converter("tf2jax", _tf2jax),
}
"""The converters that can be compared, by name."""
