"""`equinox_module`, a converted function as a module of equinox."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from graftax.convert.annotated import AnnotatedFunction
from graftax.convert.modules.variables import call, initial_values, refuse_trained, variable_specs
from graftax.convert.pytrees import PyTree
from graftax.graphdef_ir import optional_library
from graftax.ops_jax import Value

__all__ = ["equinox_module"]


def equinox_module(
  fn: AnnotatedFunction, params: Mapping[str, Value], eval_fn: AnnotatedFunction | None = None
) -> tuple[Any, Any]:
  """Returns a converted function as an `equinox.Module`, and its `eqx.nn.State`.

  `outputs, state = module(state, *args, **kwargs)` takes the arguments of the function. `module.params` maps names to
  the variables that TensorFlow trains. All others are in the state; `state.get(module.rest)` returns them. After
  `eqx.nn.inference_mode(module)` calls run `eval_fn`. A function that draws random numbers takes a key:
  `module(state, x, rng=key)`.

  Args:
    fn: the result of `convert`; of a model with two traces, the one for training.
    params: name -> value, for the variables of both functions.
    eval_fn: the trace for inference; by default `fn`.

  Raises:
    LibraryNotFoundError: equinox is not installed.
    ParameterError: a variable has no value, or `fn` is not a converted function.
      A call raises a `VariableWriteError` if the function assigns a variable that TensorFlow trains.

  Example:
    >>> from graftax.convert import convert_program, jax_program
    >>> program = jax_program(lambda params, x: x * params["w"], [2.0], params={"w": 3.0})
    >>> module, state = equinox_module(*convert_program(program))
    >>> outputs, state = module(state, 2.0)
    >>> float(outputs), list(module.params)
    (6.0, ['w'])
  """
  eqx, module_class = _module_class()
  return eqx.nn.make_with_state(module_class)(fn, params, eval_fn)


@cache
def _module_class() -> tuple[Any, Any]:
  with optional_library("equinox_module", "graftax-convert[equinox]"):
    import equinox as eqx

  class ConvertedFunction(eqx.Module):
    params: dict[str, Value]
    rest: Any  # `eqx.nn.StateIndex`
    inference: bool  # set by `eqx.nn.inference_mode`
    fn: AnnotatedFunction = eqx.field(static=True)
    eval_fn: AnnotatedFunction = eqx.field(static=True)

    def __init__(self, fn: AnnotatedFunction, params: Mapping[str, Value], eval_fn: AnnotatedFunction | None):
      specs = variable_specs(fn, eval_fn)
      values = initial_values(specs, params)
      self.params = {name: value for name, value in values.items() if specs[name].trainable}
      self.rest = eqx.nn.StateIndex({name: value for name, value in values.items() if not specs[name].trainable})
      self.inference = False
      self.fn = fn
      self.eval_fn = fn if eval_fn is None else eval_fn

    def __call__(self, state: eqx.nn.State, /, *args: PyTree, **kwargs: PyTree) -> tuple[PyTree, eqx.nn.State]:
      rest = state.get(self.rest)
      outputs, assigned = call(self.eval_fn if self.inference else self.fn, {**self.params, **rest}, args, kwargs)
      refuse_trained(self.fn.name, assigned, self.params)
      # `set` makes the old state unusable, and a call for inference may use it again.
      return outputs, state.set(self.rest, {**rest, **assigned}) if assigned else state

    def variable_values(self, state: eqx.nn.State) -> dict[str, Value]:
      """Returns variable name -> value, as `SavedModel.save` takes them."""
      return {**self.params, **state.get(self.rest)}

  return eqx, ConvertedFunction
