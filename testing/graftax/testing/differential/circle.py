"""The whole circle: TensorFlow to JAX, to TensorFlow again, to a SavedModel, and back to JAX."""

import dataclasses
import tempfile
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import tree

from graftax.convert import jax2tf
from graftax.savedmodel_io import load
from graftax.testing._tensorflow import import_tensorflow
from graftax.testing.pytrees import Leaf, PyTree

__all__ = ["Circle", "around"]


@dataclasses.dataclass(frozen=True, slots=True)
class Circle:
  """A converted function that came back to JAX through TensorFlow and a SavedModel.

  Attributes:
    function: takes parameters and flat inputs; returns the arrays of the result in JAX's order of leaves.
    params: its parameters, as read from the SavedModel.
    names: for each parameter of the converted function, its name in `params`.
  """

  function: Callable[[Mapping[str, Leaf], Sequence[Leaf]], list[Leaf]]
  params: Mapping[str, Leaf]
  names: Mapping[str, str]


def around(function: Callable[..., Leaf], params: Mapping[str, Leaf], inputs: tuple[PyTree, ...]) -> Circle:
  """Returns a converted function after the circle.

  Args:
    function: `(params, *args) -> (outputs, new_params)`.
    params: its parameters.
    inputs: nested arguments, of which only structure, shapes and dtypes count.
  """
  tf = import_tensorflow()

  def flat(params: Mapping[str, Leaf], *leaves: Leaf) -> list[Leaf]:
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
