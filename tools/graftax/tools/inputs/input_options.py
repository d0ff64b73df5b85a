"""Shapes and dtypes of a function's arguments, from `--input` options."""

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import export

from graftax.tools.errors import InputOptionError
from graftax.tools.inputs.shape_options import symbolic_scope

__all__ = ["arguments_of", "input_spec"]

_OPTION = re.compile(r"(?P<name>[^=]+)=(?P<dtype>[a-z][a-z0-9_]*)?\[(?P<sizes>[^\]]*)\]")
_UNNAMED = re.compile(r"\bNone\b|\?")
_EXPECTED = "expected NAME=DTYPE[SIZES], such as images=float32[batch,28,28,1] or step=int32[]"


def arguments_of(
  function: Callable[..., Any], inputs: Sequence[str], constraints: Sequence[str] = (), *, has_params: bool
) -> tuple[tuple[jax.ShapeDtypeStruct, ...], dict[str, jax.ShapeDtypeStruct]]:
  """Returns shapes and dtypes of positional and of keyword-only arguments.

  Args:
    function: the function that is exported.
    inputs: each `name=dtype[sizes]`; the names are those of the function's arguments. A size that is not a number is a
      symbol; equal symbols are equal sizes.
    constraints: conditions on symbols, as in `jax.export.symbolic_shape`.
    has_params: whether the first argument is the parameters.

  Raises:
    InputOptionError: an option is malformed, an argument has no option and no default, or an option has no argument.
  """
  scope = symbolic_scope(constraints)
  specs: dict[str, jax.ShapeDtypeStruct] = {}
  for option in inputs:
    name, spec = input_spec(option, scope)
    if name in specs:
      raise InputOptionError(f"--input {option!r}: {name!r} is given twice.")
    specs[name] = spec
  parameters = list(_parameters(function))[has_params:]
  names = [parameter.name for parameter in parameters]
  takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)
  strangers = [name for name in specs if name not in names]
  if strangers and not takes_any:
    raise InputOptionError(f"--input {strangers[0]!r}: the function has no such argument; its arguments are {names}.")
  positional, missing = _positional(parameters, specs)
  keywords = {name: spec for name, spec in specs.items() if name not in positional}
  missing += [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty and p.name not in specs]
  if missing:
    options = " ".join(f"--input '{name}=float32[batch,...]'" for name in missing)
    raise InputOptionError(f"shape and dtype of {missing} are not known; add {options} with the sizes of each.")
  return tuple(positional.values()), keywords


def input_spec(option: str, scope: export.SymbolicScope) -> tuple[str, jax.ShapeDtypeStruct]:
  """Returns the name, and shape and dtype, of one `--input` option; the dtype is float32 by default.

  Raises:
    InputOptionError: the option is malformed, or there is no such dtype.

  Example:
    >>> input_spec("ids=int32[batch,7]", export.SymbolicScope())
    ('ids', ShapeDtypeStruct(shape=(batch, 7), dtype=int32))
  """
  match = _OPTION.fullmatch(option.strip())
  if match is None:
    raise InputOptionError(f"--input {option!r}: {_EXPECTED}.")
  try:
    dtype = jnp.dtype(match["dtype"] or "float32")
  except TypeError as e:
    raise InputOptionError(f"--input {option!r}: there is no dtype {match['dtype']!r}; {_EXPECTED}.") from e
  if dtype != jax.dtypes.canonicalize_dtype(dtype):
    raise InputOptionError(f"--input {option!r}: {dtype.name} needs 64-bit types; set JAX_ENABLE_X64=1.")
  if _UNNAMED.search(match["sizes"]):
    raise InputOptionError(f"--input {option!r}: sizes that are open need names; {_EXPECTED}.")
  try:
    shape = export.symbolic_shape(match["sizes"], scope=scope)
  except ValueError as e:
    reason = str(e).strip().partition("\n")[0]
    raise InputOptionError(f"--input {option!r}: {reason}; {_EXPECTED}.") from e
  if negative := [size for size in shape if isinstance(size, int) and size < 0]:
    raise InputOptionError(f"--input {option!r}: a size is {negative[0]}; sizes that are open need names; {_EXPECTED}.")
  return match["name"].strip(), jax.ShapeDtypeStruct(shape, dtype)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
  try:
    return list(inspect.signature(function).parameters.values())
  except (TypeError, ValueError) as e:
    raise InputOptionError(f"the arguments of {function!r} are not known to Python: {e}; wrap it in a function.") from e


def _positional(
  parameters: Sequence[inspect.Parameter], specs: dict[str, jax.ShapeDtypeStruct]
) -> tuple[dict[str, jax.ShapeDtypeStruct], list[str]]:
  """Returns positional arguments that have an option, in order, and the names of those that lack one."""
  found: dict[str, jax.ShapeDtypeStruct] = {}
  missing: list[str] = []
  for parameter in parameters:
    if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
      break
    if parameter.name in specs:
      found[parameter.name] = specs[parameter.name]
    elif parameter.default is not parameter.empty:
      break  # the rest is passed by name
    else:
      missing.append(parameter.name)
  return found, missing
