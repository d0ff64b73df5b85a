"""What the modules of all libraries do with a converted function: initial values, and calls."""

from collections.abc import Container, Mapping

import numpy as np
import tree

from graftax.convert.annotated import AnnotatedFunction
from graftax.convert.errors import ParameterError, VariableWriteError
from graftax.convert.pytrees import PyTree
from graftax.convert.shown_names import shown
from graftax.convert.structures.nested import is_spec
from graftax.convert.variable import VariableSpec
from graftax.ops_jax import Value, to_jax_exactly

__all__ = ["call", "initial_values", "refuse_trained", "variable_specs"]


def variable_specs(*functions: AnnotatedFunction | None) -> dict[str, VariableSpec]:
  """Returns the variables of several converted functions of one model, by name.

  Raises:
    ParameterError: something is not a converted function with parameters.
  """
  specs: dict[str, VariableSpec] = {}
  for fn in functions:
    if fn is None:
      continue
    if not isinstance(fn, AnnotatedFunction) or not fn.has_params:
      raise ParameterError(f"{fn!r:.80}: expected the function that `convert` returned, which takes parameters.")
    specs.update(fn.variables)
  return specs


def initial_values(specs: Mapping[str, VariableSpec], params: Mapping[str, Value]) -> dict[str, Value]:
  """Returns the values of variables as JAX holds them, without loss of integers.

  Raises:
    ParameterError: one has no value.
  """
  missing = [name for name in specs if name not in params]
  if missing:
    raise ParameterError(
      f"params has no values for the variables {shown(missing)}; pass those of all functions, as in "
      "{**eval_params, **params}."
    )
  return {
    name: to_jax_exactly(np.asarray(params[name])) if isinstance(params[name], np.ndarray) else params[name]
    for name in specs
  }


def call(
  fn: AnnotatedFunction, values: Mapping[str, Value], args: tuple[PyTree, ...], kwargs: Mapping[str, PyTree]
) -> tuple[PyTree, dict[str, Value]]:
  """Returns the outputs of a call, and the values that it assigned by the names of their variables.

  Arguments that the conversion fixed, such as `training=True`, may be left out, so that one call fits both traces.
  """
  given = {name: values[name] for name in fn.variables}
  outputs, new = fn(given, *args, **_fixed_arguments(fn, args, kwargs), **kwargs)
  return outputs, {name: value for name, value in new.items() if value is not given[name]}


def _fixed_arguments(
  fn: AnnotatedFunction, args: tuple[PyTree, ...], kwargs: Mapping[str, PyTree]
) -> dict[str, PyTree]:
  """Returns the values that the conversion fixed for arguments that a call leaves out."""
  given = {name: value for name, value in kwargs.items() if name != fn.rng_name}
  try:
    bound = fn.signature.bind_partial(*args, **given).arguments
  except TypeError:
    return {}  # the call itself says what is wrong
  arguments = fn.inputs.arguments
  names = [p.name for p in fn.signature.parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
  return {
    name: arguments[name]
    for name in names
    if name in arguments and name not in bound and not any(map(is_spec, tree.flatten(arguments[name])))
  }


def refuse_trained(function: str, assigned: Mapping[str, Value], trained: Container[str]) -> None:
  """Raises a `VariableWriteError` if a call assigned parameters, in libraries whose modules cannot change them."""
  wrong = [name for name in assigned if name in trained]
  if wrong:
    raise VariableWriteError(
      f"{function}: assigns the variables {wrong}, which TensorFlow trains; modules of this library cannot change "
      "their parameters in a call. Call the converted function itself, which returns the new values."
    )
