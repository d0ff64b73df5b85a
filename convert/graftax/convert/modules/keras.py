"""`keras_layer`, a converted function as a layer of Keras 3 on its JAX backend."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import jax

from graftax.convert.annotated import AnnotatedFunction
from graftax.convert.errors import ParameterError
from graftax.convert.modules.variables import call, initial_values, variable_specs
from graftax.convert.pytrees import Leaf, PyTree
from graftax.graphdef_ir import LibraryNotFoundError, optional_library
from graftax.ops_jax import Value

__all__ = ["keras_layer"]


def keras_layer(
  fn: AnnotatedFunction,
  params: Mapping[str, Value],
  eval_fn: AnnotatedFunction | None = None,
  *,
  seed: int | None = None,
  **kwargs: PyTree,
) -> Any:
  """Returns a converted function as a `keras.Layer`. Keras must run on JAX: set `KERAS_BACKEND=jax`.

  The variables are weights of the layer, under their names with dots for slashes. Those that TensorFlow does not train
  are not trainable. With `training=True` a call runs `fn`, otherwise `eval_fn`, and the variables that the function
  assigns get their new values. The input is the argument of the function; several are a tuple, list or dict by name.

  Args:
    fn: the result of `convert`; of a model with two traces, the one for training.
    params: name -> value, for the variables of both functions.
    eval_fn: the trace for inference; by default `fn`.
    seed: for functions that draw random numbers.
    **kwargs: those of `keras.Layer`, such as `name`.

  Raises:
    LibraryNotFoundError: Keras is not installed, or runs on another backend.
    ParameterError: a variable has no value, Keras cannot hold it, or `fn` is not a converted function.
  """
  layer = _layer_class()(fn, eval_fn, seed, **kwargs)
  specs = variable_specs(fn, eval_fn)
  for name, value in initial_values(specs, params).items():
    layer.add_variable(name, value, trainable=specs[name].trainable)
  layer.built = True
  return layer


@cache
def _layer_class() -> Any:
  with optional_library("keras_layer", "graftax-convert[keras]"):
    import keras

  backend = keras.backend.backend()
  if backend != "jax":
    raise LibraryNotFoundError(
      f"keras_layer: Keras runs on {backend}; set the environment variable KERAS_BACKEND=jax before Keras is imported."
    )

  class ConvertedFunction(keras.layers.Layer):
    def __init__(
      self, fn: AnnotatedFunction, eval_fn: AnnotatedFunction | None, seed: int | None, **kwargs: PyTree
    ) -> None:
      super().__init__(**kwargs)
      self.fn = fn
      self.eval_fn = fn if eval_fn is None else eval_fn
      self.weights_by_name: dict[str, Leaf] = {}
      self.seed_generator = None if seed is None else keras.random.SeedGenerator(seed)

    def add_variable(self, name: str, value: object, *, trainable: bool) -> None:
      if not isinstance(value, jax.Array):
        raise ParameterError(
          f"variable {name!r} holds integers of 64 bits, which Keras holds with jax_enable_x64 alone."
        )
      self.weights_by_name[name] = self.add_weight(
        name=name.replace("/", "."),
        shape=value.shape,
        dtype=value.dtype.name,
        initializer=lambda shape, dtype=None: value,
        trainable=trainable,
        autocast=False,
      )

    def call(self, inputs: PyTree, training: bool | None = None) -> PyTree:
      fn = self.fn if training else self.eval_fn
      args, kwargs = _arguments(fn, inputs)
      if self.seed_generator is not None:
        kwargs = {**kwargs, fn.rng_name: self.seed_generator.next()}
      outputs, assigned = call(fn, self.variable_values(), args, kwargs)
      for name, value in assigned.items():
        self.weights_by_name[name].assign(value)
      return outputs

    def variable_values(self) -> dict[str, Value]:
      """Returns variable name -> value, as `SavedModel.save` takes them."""
      return {name: weight.value for name, weight in self.weights_by_name.items()}

  return ConvertedFunction


def _arguments(fn: AnnotatedFunction, inputs: PyTree) -> tuple[tuple[PyTree, ...], dict[str, PyTree]]:
  if isinstance(inputs, Mapping):
    return (), dict(inputs)
  if isinstance(inputs, tuple | list):
    return tuple(inputs), {}
  # The only input of a signature needs no name.
  names = list(fn.signature.parameters.values())
  return (
    ((), {names[0].name: inputs}) if len(names) == 1 and names[0].kind is names[0].KEYWORD_ONLY else ((inputs,), {})
  )
