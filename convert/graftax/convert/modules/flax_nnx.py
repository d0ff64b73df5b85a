"""`nnx_module`, a converted function as a module of flax.nnx."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from graftax.convert.annotated import AnnotatedFunction
from graftax.convert.modules.variables import call, initial_values, variable_specs
from graftax.convert.pytrees import PyTree
from graftax.graphdef_ir import optional_library
from graftax.ops_jax import Value

__all__ = ["nnx_module"]


def nnx_module(fn: AnnotatedFunction, params: Mapping[str, Value], eval_fn: AnnotatedFunction | None = None) -> Any:
  """Returns a converted function as a `flax.nnx.Module`.

  Its attribute `variables` maps names to an `nnx.Param` if TensorFlow trains the variable, otherwise to an
  `nnx.BatchStat`. A call returns the function's outputs, and updates the variables that the function assigns. After
  `module.eval()` calls run `eval_fn`, after `module.train()` again `fn`. A function that draws random numbers takes a
  key: `module(x, rng=rngs())`.

  Args:
    fn: the result of `convert`; of a model with two traces, the one for training.
    params: name -> value, for the variables of both functions.
    eval_fn: the trace for inference; by default `fn`.

  Raises:
    LibraryNotFoundError: flax is not installed.
    ParameterError: a variable has no value, or `fn` is not a converted function.

  Example:
    >>> from graftax.convert import convert_program, jax_program
    >>> program = jax_program(lambda params, x: x * params["w"], [2.0], params={"w": 3.0})
    >>> module = nnx_module(*convert_program(program))
    >>> float(module(2.0)), list(module.variables)
    (6.0, ['w'])
  """
  return _module_class()(fn, params, eval_fn)


@cache
def _module_class() -> Any:
  with optional_library("nnx_module", "graftax-convert[flax]"):
    from flax import nnx

  class ConvertedFunction(nnx.Module):
    def __init__(self, fn: AnnotatedFunction, params: Mapping[str, Value], eval_fn: AnnotatedFunction | None):
      specs = variable_specs(fn, eval_fn)
      kinds = {True: nnx.Param, False: nnx.BatchStat}
      values = initial_values(specs, params)
      self.variables = nnx.Dict({name: kinds[specs[name].trainable](value) for name, value in values.items()})
      self.fn = fn
      self.eval_fn = fn if eval_fn is None else eval_fn
      self.deterministic = False  # set by `train` and `eval`

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
      values = self.variable_values()
      outputs, assigned = call(self.eval_fn if self.deterministic else self.fn, values, args, kwargs)
      for name, value in assigned.items():
        self.variables[name].set_value(value)
      return outputs

    def variable_values(self) -> dict[str, Value]:
      """Returns variable name -> value, as `SavedModel.save` takes them."""
      return {name: variable.get_value() for name, variable in self.variables.items()}

  return ConvertedFunction
