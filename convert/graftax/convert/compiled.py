"""Compiles a converted function as `jax.jit` does, without copying the parameters that it does not assign."""

from collections.abc import Callable, Mapping
from typing import Any

import jax

from graftax.convert import xla_options
from graftax.convert.pytrees import PyTree
from graftax.convert.trace_state import is_outside_of_transformations
from graftax.ops_jax import Value

__all__ = ["jit"]

_Function = Callable[..., tuple[PyTree, Mapping[str, Value]]]

_EXPECTED = (
  "expected a function (params, ...) -> (outputs, new_params), as convert returns. For others there is jax.jit."
)


def jit(function: _Function, *, compiler_options: Mapping[str, str] | None = None) -> Callable[..., Any]:
  """Returns a converted function compiled, with the same arguments and results.

  A converted function returns all of its parameters, and a program of `jax.jit` copies each result that is one of its
  arguments. This function leaves parameters that are not assigned out of the program, and returns the arrays that were
  passed.

  Args:
    function: `(params, ...) -> (outputs, new_params)`, as conversions return it.
    compiler_options: for XLA. By default those that `graftax.convert.compiler_options` returns for the program of the
      first call; `{}` is XLA's own choice.

  Returns:
    A function that can be passed to JAX's transformations, which differentiate or batch the compiled function. Options
    for XLA are left out there, since JAX accepts them only for the outermost `jax.jit`.

  Raises:
    TypeError: `function` is not a function; or, when the result is called, it does not return such a pair.

  Example:
    >>> import numpy as np
    >>> double = jit(lambda params, x: (params["w"] * x, params))
    >>> params = jax.device_put({"w": np.float32(2)})
    >>> outputs, new_params = double(params, np.float32(3))
    >>> float(outputs), new_params["w"] is params["w"]
    (6.0, True)
  """

  if not callable(function):
    raise TypeError(f"jit: got {function!r:.200}; {_EXPECTED}")

  def changes(params: Mapping[str, Value], /, *args: PyTree, **kwargs: PyTree) -> tuple[PyTree, dict[str, Value]]:
    if not isinstance(params, Mapping):
      raise TypeError(f"jit: got parameters of type {type(params).__name__}; expected a dict of arrays by name.")
    outputs, new_params = _pair(function(params, *args, **kwargs), function)
    return outputs, {name: value for name, value in new_params.items() if value is not params.get(name)}

  inner = jax.jit(changes)
  chosen: list[Callable[..., tuple[PyTree, dict[str, Value]]]] = []

  def call(params: Mapping[str, Value], /, *args: PyTree, **kwargs: PyTree) -> tuple[PyTree, dict[str, Value]]:
    compiled: Callable[..., tuple[PyTree, dict[str, Value]]] = inner
    if is_outside_of_transformations():
      if not chosen:
        options = compiler_options
        if options is None and xla_options.compiler_options():
          options = xla_options.compiler_options(program=inner.trace(params, *args, **kwargs).jaxpr)
        chosen.append(jax.jit(changes, compiler_options=dict(options)) if options else inner)
      # If the first calls of several threads overlap, each chooses; the choices are alike.
      compiled = chosen[0]
    outputs, assigned = compiled(params, *args, **kwargs)
    return outputs, {**params, **assigned}

  return call


def _pair(result: PyTree, function: _Function) -> tuple[PyTree, Mapping[str, Value]]:
  """Returns what a function returned, if that is `(outputs, new_params)`."""
  if not isinstance(result, (tuple, list)) or len(result) != 2 or not isinstance(result[1], Mapping):
    what = (
      f"({', '.join(type(part).__name__ for part in result)})" if isinstance(result, tuple) else type(result).__name__
    )
    raise TypeError(f"jit: {function!r:.200} returned {what}; {_EXPECTED}")
  outputs, new_params = result
  return outputs, new_params
