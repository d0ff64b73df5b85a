"""The variables and functions of a `JaxModule` in TensorFlow."""

import inspect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from graftax.convert import jax2tf
from graftax.savedmodel_io.export._tensorflow import TensorFlow, TfFunction, TfTensor
from graftax.savedmodel_io.export.dtensor_arrays import jax_array_to_dtensor
from graftax.savedmodel_io.export.module_methods import ModuleMethod
from graftax.savedmodel_io.export.module_parameters import ModuleParameters
from graftax.savedmodel_io.export.module_sharding import Sharding
from graftax.savedmodel_io.pytrees import Leaf, PyTree

__all__ = ["LiveMethods", "live_methods"]


@dataclass(frozen=True, eq=False)
class LiveMethods:
  """Variables and functions.

  Attributes:
    variables: a variable for each parameter.
    functions: key -> `tf.function` of the inputs.
    sharding: None if the variables are on one device.
  """

  variables: tuple[TfTensor, ...]
  functions: dict[str, TfFunction]
  sharding: Sharding | None

  def assign(self, parameters: ModuleParameters) -> None:
    """Gives the variables new values."""
    for i, (variable, value) in enumerate(zip(self.variables, parameters.values, strict=True)):
      variable.assign(_initial_value(value, i, self.sharding))


def live_methods(
  tf: TensorFlow, parameters: ModuleParameters, methods: Sequence[ModuleMethod], sharding: Sharding | None
) -> LiveMethods:
  """Returns new variables with the values of the parameters, and functions that read them."""
  variables = tuple(_variable(tf, parameters, i, sharding) for i in range(len(parameters.names)))
  functions = {method.key: _function(tf, parameters.structure.rebuilt, method, variables) for method in methods}
  return LiveMethods(variables, functions, sharding)


def _variable(tf: TensorFlow, parameters: ModuleParameters, i: int, sharding: Sharding | None) -> TfTensor:
  settings = {"trainable": parameters.trainable[i], "name": parameters.names[i]}
  value = _initial_value(parameters.values[i], i, sharding)
  if sharding is not None:
    return tf.experimental.dtensor.DVariable(value, **settings)
  with tf.device(tf.config.list_logical_devices("CPU")[0].name):
    return tf.Variable(value, **settings)


def _initial_value(value: Leaf, i: int, sharding: Sharding | None) -> Leaf:
  if sharding is None:
    return np.asarray(value)
  mesh = sharding.mesh
  return jax_array_to_dtensor(value, sharding.pspecs[i], mesh.dtensor_mesh, mesh.jax_mesh, sharding.consolidate)


def _function(
  tf: TensorFlow, rebuilt: Callable[[Sequence[Leaf]], PyTree], method: ModuleMethod, variables: tuple[TfTensor, ...]
) -> TfFunction:
  def apply(values: Sequence[TfTensor], *inputs: PyTree) -> PyTree:
    return method.apply_fn(rebuilt(values), *inputs)

  by_shapes: dict[str, Callable[..., Any]] = {}

  def converted(inputs: Sequence[PyTree]) -> Callable[..., Any]:
    shapes = [None, *method.shape_specs(len(inputs))]
    if not any(shape is not None for shape in shapes):
      shapes[1:] = _open_shapes(inputs)
    key = repr(shapes)
    if key not in by_shapes:
      by_shapes[key] = jax2tf.convert(apply, polymorphic_shapes=shapes, **method.options)
    return by_shapes[key]

  signature = method.input_signature()
  defaults = [] if signature is None else [p.default for p in signature.parameters.values()]

  def predict(*inputs: PyTree) -> PyTree:
    # TensorFlow passes the defaults of Python too. They are left to the function, because they may not be arrays.
    num_inputs = len(inputs)
    while 0 < num_inputs <= len(defaults) and inputs[num_inputs - 1] is defaults[num_inputs - 1]:
      num_inputs -= 1
    return converted(inputs[:num_inputs])(list(variables), *inputs[:num_inputs])

  if signature is not None:
    predict.__signature__ = _of_positional(signature)  # type: ignore[attr-defined]
  return tf.function(predict, jit_compile=method.jit_compile, autograph=False)


def _open_shapes(inputs: Sequence[PyTree]) -> list[PyTree]:
  """Returns names for the unknown sizes of nested tensors: the same for all first ones, and others for the rest."""
  numbers = itertools.count(1)

  def named(leaf: Leaf) -> str:
    shape = getattr(leaf, "shape", ())
    if getattr(shape, "rank", 0) is None:
      return "..."
    names = [
      "_" if n is not None else f"dimension_{next(numbers)}" if axis else "batch" for axis, n in enumerate(shape)
    ]
    return ", ".join([*names, "..."])

  return [jax.tree.map(named, nested) for nested in inputs]


def _of_positional(signature: inspect.Signature) -> inspect.Signature:
  """Returns a signature without keyword-only parameters, whose values TensorFlow would otherwise pass by name."""
  by_name = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
  return signature.replace(parameters=[p for p in signature.parameters.values() if p.kind not in by_name])
