"""The whole circle: TensorFlow to JAX, to TensorFlow again, to a SavedModel, and back to JAX."""

import dataclasses
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tree

from graftax.convert import jax2tf
from graftax.savedmodel_io import load
from graftax.testing._tensorflow import import_tensorflow

__all__ = ["Circle", "around"]

# Any in this module: TensorFlow ships no type information, and parameters are nested structures of arrays.


@dataclasses.dataclass(frozen=True, slots=True)
class Circle:
  """A converted function that came back to JAX through TensorFlow and a SavedModel.

  Attributes:
    function: takes parameters and flat inputs; returns the arrays of the result in JAX's order of leaves.
    params: its parameters, as read from the SavedModel.
    names: for each parameter of the converted function, its name in `params`.
  """

  function: Callable[[Mapping[str, Any], Sequence[Any]], list[Any]]
  params: Mapping[str, Any]
  names: Mapping[str, str]


def around(function: Callable[..., Any], params: Mapping[str, Any], inputs: tuple[Any, ...]) -> Circle:
  """Returns a converted function after the circle.

  Args:
    function: `(params, *args) -> (outputs, new_params)`.
    params: its parameters.
    inputs: nested arguments, of which only structure, shapes and dtypes count.
  """
  tf = import_tensorflow()

  def flat(params: Mapping[str, Any], *leaves: Any) -> list[Any]:
    return jax.tree.leaves(function(params, *tree.unflatten_as(inputs, list(leaves)))[0])

  names = {name: f"parameter_{position}" for position, name in enumerate(params)}
  module = tf.Module()
  # A parameter may be a pytree: a pair of 32-bit words for the state of a random generator.
  module.params = {
    names[name]: jax.tree.map(lambda part, name=name: tf.Variable(np.asarray(part), name=names[name]), value)
    for name, value in params.items()
  }
  converted = jax2tf.convert(flat)
  variables = {name: module.params[names[name]] for name in params}
  specs = [tf.TensorSpec(leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype)) for leaf in tree.flatten(inputs)]
  module.call = tf.function(lambda *leaves: converted(variables, *leaves), autograph=False, input_signature=specs)
  with tempfile.TemporaryDirectory() as folder:
    tf.saved_model.save(module, folder, options=tf.saved_model.SaveOptions(experimental_custom_gradients=True))
    model = load(folder)
    back, read = model.convert(model.functions["call"])
    values = {name: jnp.array(value) for name, value in read.items()}  # copies, because the files are deleted
  return Circle(lambda params, leaves: back(params, *leaves)[0], values, names)
