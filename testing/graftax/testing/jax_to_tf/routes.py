"""The ways in which TensorFlow runs a converted function.

A route makes a `Runnable` of a `Conversion`; the runnable computes values and gradients in TensorFlow.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from graftax.savedmodel_io import JaxFunction, save
from graftax.testing._tensorflow import TfFunction, import_tensorflow
from graftax.testing.jax_to_tf.converters import CONVERTERS
from graftax.testing.pytrees import Leaf, PyTree

__all__ = ["ROUTES", "Conversion", "Route", "Runnable"]


@dataclass(frozen=True, slots=True)
class Conversion:
  """What is converted.

  Attributes:
    converter: a key of `CONVERTERS`.
    function: the JAX function.
    arguments: numpy arrays, nested as the function takes them.
    polymorphic_shapes: as `jax2tf.convert` takes them; None for static shapes.
    with_gradient: whether TensorFlow can differentiate the result.
  """

  converter: str
  function: Callable[..., Any]
  arguments: tuple[PyTree, ...]
  polymorphic_shapes: tuple[PyTree, ...] | None
  with_gradient: bool

  def convert(self) -> TfFunction:
    """Returns the function in live TensorFlow."""
    return CONVERTERS[self.converter].convert(self.function, self.polymorphic_shapes, self.with_gradient)


@dataclass(frozen=True, slots=True)
class Runnable:
  """A converted function in TensorFlow; both members take and return flat lists of tensors.

  Attributes:
    value: takes the flat arguments and returns the flat results.
    gradient: takes the flat arguments and a cotangent for each result of floating point; returns the gradient for each
      argument of floating point, None if TensorFlow has none.
  """

  value: Callable[[Sequence[Leaf]], list[Leaf]]
  gradient: Callable[[Sequence[Leaf], Sequence[Leaf]], list[Leaf]]


@dataclass(frozen=True, slots=True)
class Route:
  """A way to TensorFlow.

  Attributes:
    prepare: converts.
    converters: the converters that have this way.
  """

  prepare: Callable[[Conversion], Runnable]
  converters: tuple[str, ...] = tuple(CONVERTERS)


def _eager(conversion: Conversion) -> Runnable:
  return _runnable(conversion, conversion.convert())


def _graph(conversion: Conversion, **settings: Any) -> Runnable:
  tf = import_tensorflow()
  converted = conversion.convert()
  inner = _runnable(conversion, tf.function(converted, autograph=False, **settings))
  gradient = tf.function(inner.gradient, autograph=False, **settings)
  return Runnable(inner.value, lambda args, cotangents: list(gradient(list(args), list(cotangents))))


def _xla(conversion: Conversion) -> Runnable:
  return _graph(conversion, jit_compile=True)


def _saved(conversion: Conversion) -> Runnable:
  """Returns the function saved by TensorFlow and loaded again."""
  tf = import_tensorflow()
  converted = conversion.convert()
  module = tf.Module()
  module.f = tf.function(converted, autograph=False, input_signature=_specs(conversion))
  options = tf.saved_model.SaveOptions(experimental_custom_gradients=True)
  with tempfile.TemporaryDirectory() as folder:
    tf.saved_model.save(module, folder, options=options)
    return _runnable(conversion, tf.saved_model.load(folder).f)


def _written(conversion: Conversion) -> Runnable:
  """Returns the function written by graftax, without TensorFlow, and loaded by TensorFlow."""
  tf = import_tensorflow()
  specs = jax.export.symbolic_args_specs(conversion.arguments, conversion.polymorphic_shapes)
  function = JaxFunction(conversion.function, specs, with_gradient=conversion.with_gradient)
  with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model"
    save(path, {"f": function}, lowering=CONVERTERS[conversion.converter].lowering)
    return _runnable(conversion, tf.saved_model.load(str(path)).f)


ROUTES: Mapping[str, Route] = {
  "eager": Route(_eager),
  "graph": Route(_graph),
  "xla": Route(_xla),
  "saved": Route(_saved),
  "written": Route(_written, converters=("graftax", "graftax_tf_ops")),
}
"""Maps names to routes. "saved" is saved and loaded by TensorFlow, "written" is written by graftax and loaded by
TensorFlow, "xla" is `tf.function(jit_compile=True)`."""


def _runnable(conversion: Conversion, function: TfFunction) -> Runnable:
  """Returns the value and the gradient of a TensorFlow function that takes arguments nested as JAX's function does."""
  tf = import_tensorflow()
  structure = jax.tree.structure(conversion.arguments)

  def value(flat: Sequence[Leaf]) -> list[Leaf]:
    return tf.nest.flatten(function(*jax.tree.unflatten(structure, flat)))

  def gradient(flat: Sequence[Leaf], cotangents: Sequence[Leaf]) -> list[Leaf]:
    sources = [x for x in flat if _is_inexact(x)]
    with tf.GradientTape() as tape:
      tape.watch(sources)
      results = [y for y in value(flat) if _is_inexact(y)]
    found = tape.gradient(results, sources, list(cotangents))
    return [tf.zeros_like(x) if g is None else tf.convert_to_tensor(g) for g, x in zip(found, sources, strict=True)]

  return Runnable(value, gradient)


def _is_inexact(x: Leaf) -> bool:
  return bool(x.dtype.is_floating or x.dtype.is_complex)


def _specs(conversion: Conversion) -> tuple[PyTree, ...]:
  """Returns a TensorSpec for each argument; symbolic sizes are None."""
  tf = import_tensorflow()
  specs = jax.export.symbolic_args_specs(conversion.arguments, conversion.polymorphic_shapes)

  def tensor_spec(spec: jax.ShapeDtypeStruct) -> PyTree:
    return tf.TensorSpec([size if isinstance(size, int) else None for size in spec.shape], np.dtype(spec.dtype))

  return jax.tree.map(tensor_spec, specs)
