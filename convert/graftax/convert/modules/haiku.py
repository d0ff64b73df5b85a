"""`haiku_module`, a converted function as a module of haiku."""

from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from graftax.convert.annotated import AnnotatedFunction
from graftax.convert.modules.variables import call, initial_values, refuse_trained, variable_specs
from graftax.convert.pytrees import PyTree
from graftax.graphdef_ir import optional_library
from graftax.ops_jax import Value

__all__ = ["haiku_module"]


def haiku_module(fn: AnnotatedFunction, params: Mapping[str, Value], name: str | None = None) -> Any:
  """Returns a converted function as a `haiku.Module`, to be called inside of `hk.transform_with_state`.

  The variables that TensorFlow trains are parameters, and all others are state. If the transformed function is called
  with a key, a new one is passed to the function. As with all modules of haiku, those of one `name` share parameters,
  so the trace for inference is another module of the same name:

  `hk.transform_with_state(lambda x, training: haiku_module(fn if training else eval_fn, params, "model")(x))`

  Args:
    fn: the result of `convert`.
    params: name -> value of its variables, from which `init` makes parameters and state.
    name: the name of the module.

  Raises:
    LibraryNotFoundError: haiku is not installed.
    ParameterError: `fn` is not a converted function. `init` raises it if a variable has no value.
      A call raises a `VariableWriteError` if the function assigns a variable that TensorFlow trains.

  Example:
    >>> import haiku as hk
    >>> from graftax.convert import convert_program, jax_program
    >>> fn, params = convert_program(jax_program(lambda params, x: x * params["w"], [2.0], params={"w": 3.0}))
    >>> model = hk.transform_with_state(lambda x: haiku_module(fn, params, "model")(x))
    >>> weights, state = model.init(None, 2.0)
    >>> float(model.apply(weights, state, None, 2.0)[0])
    6.0
  """
  return _module_class()(fn, params, name)


@cache
def _module_class() -> Any:
  with optional_library("haiku_module", "graftax-convert[haiku]"):
    import haiku as hk

  class ConvertedFunction(hk.Module):
    def __init__(self, fn: AnnotatedFunction, params: Mapping[str, Value], name: str | None):
      super().__init__(name=name)
      self._fn = fn
      self._specs = variable_specs(fn)
      self._initial = partial(initial_values, params=params)

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
      values = {}
      for name, spec in self._specs.items():
        get = hk.get_parameter if spec.trainable else hk.get_state
        # Only `init` asks for initial values.
        values[name] = get(name, spec.shape, spec.dtype, init=lambda *_, n=name: self._initial({n: self._specs[n]})[n])
      key = hk.maybe_next_rng_key()
      if key is not None:
        kwargs = {self._fn.rng_name: key, **kwargs}
      outputs, assigned = call(self._fn, values, args, kwargs)
      refuse_trained(self._fn.name, assigned, [name for name, spec in self._specs.items() if spec.trainable])
      for name, value in assigned.items():
        hk.set_state(name, value)
      return outputs

  return ConvertedFunction
