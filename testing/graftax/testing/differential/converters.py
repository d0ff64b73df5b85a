"""The converters that can be tested: graftax, and TF2JAX if it is installed."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from graftax.graphdef_ir import optional_library
from graftax.testing._tensorflow import TfFunction, import_tensorflow
from graftax.testing.pytrees import Leaf, PyTree

__all__ = ["CONVERTERS", "Converter"]


@dataclasses.dataclass(frozen=True, slots=True)
class Converter:
  """A way to convert a TensorFlow function.

  Attributes:
    name: its name in reports.
    convert: `(tf function, specs) -> (fn, params)` with `fn(params, *args) -> (outputs, new_params)`.
  """

  name: str
  convert: Callable[[TfFunction, tuple[PyTree, ...]], tuple[Callable[..., Any], Mapping[str, Leaf]]]


def _graftax(function: TfFunction, specs: tuple[PyTree, ...]) -> tuple[Callable[..., Any], Mapping[str, Leaf]]:
  from graftax.convert import convert

  return convert(function, *specs)


def _tf2jax(function: TfFunction, specs: tuple[PyTree, ...]) -> tuple[Callable[..., Any], Mapping[str, Leaf]]:
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
