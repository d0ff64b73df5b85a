"""Checks the arguments of a call against the module's signature and orders them as the parameters of `main`."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.xla_call_module import errors, ir, values
from graftax.xla_call_module.module import ArgumentSpec, Module

__all__ = ["as_array", "call_checked", "check", "for_main"]


def check(module: Module, args: Sequence[Any]) -> list[Any]:
  """Returns the arguments as arrays of the declared dtypes.

  Python scalars are converted to the declared dtype; arrays must have it already. Random keys are replaced by their
  key data.

  Raises:
    ArgumentError: the number of arguments, or the shape or dtype of one, is wrong.
  """
  if len(args) != len(module.inputs):
    raise errors.ArgumentError(
      f"module takes {len(module.inputs)} arguments ({', '.join(map(str, module.inputs))}); got {len(args)}."
    )
  return [_check_one(i, spec, arg) for i, (spec, arg) in enumerate(zip(module.inputs, args, strict=True))]


def call_checked(
  function: Callable[..., Sequence[Any]], module: Module, args: Sequence[Any], *, lacks_x64: bool, x64: str
) -> tuple[Any, ...]:
  """Calls `function` with the checked arguments and returns its results.

  Args:
    lacks_x64: whether the module has 64-bit values while 64-bit types are disabled in JAX.
    x64: what to do in that case: "error" raises, "enable" enables 64-bit types during the call.

  Raises:
    X64Error: an argument or a result has a 64-bit type, and `x64` is "error".
    ArgumentError: see `check`.
  """
  if lacks_x64 and x64 == "enable":
    with jax.enable_x64(True):
      return tuple(function(*check(module, args)))
  if lacks_x64:
    _refuse_64_bits(module)
  return tuple(function(*check(module, args)))


def _check_one(position: int, spec: ArgumentSpec, arg: Any) -> Any:
  if isinstance(arg, (bool, int, float, complex)):
    arg = _from_scalar(position, spec, arg)
  arg = as_array(position, arg)
  if jax.numpy.issubdtype(arg.dtype, jax.dtypes.prng_key):
    arg = jax.random.key_data(arg)
  if arg.dtype == jax.dtypes.float0:
    arg = np.zeros(arg.shape, np.bool_)
  shape = tuple(np.shape(arg))
  agrees = len(shape) == len(spec.shape) and all(
    want is None or dim == want for dim, want in zip(shape, spec.shape, strict=True)
  )
  if not agrees or arg.dtype != spec.dtype:
    hint = " Convert it first; arguments are never converted silently." if agrees else ""
    is_wide = spec.dtype.itemsize == 8 and spec.dtype.kind == getattr(arg.dtype, "kind", "")
    if agrees and is_wide and isinstance(arg, jax.core.Tracer):
      hint = (
        " While 64-bit types are disabled, jax.jit, vmap and grad convert their arguments to 32 bits: set"
        " jax_enable_x64, or run them under jax.enable_x64(True)."
      )
    raise errors.ArgumentError(
      f"argument {position}: got {arg.dtype}[{', '.join(map(str, shape))}], the module takes {spec}.{hint}"
    )
  return arg


def as_array(position: int, arg: Any) -> Any:
  """Returns an argument as an array, or as any other object with a shape and a dtype.

  Raises:
    ArgumentError: it is not an array and cannot be converted to one.
  """
  try:
    array = arg if hasattr(arg, "dtype") else np.asarray(arg)
  except ValueError as error:  # lists of different lengths
    raise errors.ArgumentError(
      f"argument {position}: got a {type(arg).__name__} that is not an array: {error}"
    ) from None
  if isinstance(array.dtype, np.dtype) and array.dtype.kind in "OSU":
    kind = "None" if arg is None else type(arg).__name__
    raise errors.ArgumentError(
      f"argument {position}: got {kind}; expected an array. Arguments are flat: pass the leaves of a pytree, in the"
      " order of jax.tree.leaves."
    )
  return array


# A dtype accepts Python scalars of its own rank and below.
_RANKS = {"b": 0, "i": 1, "f": 2, "c": 3}


def _from_scalar(position: int, spec: ArgumentSpec, arg: Any) -> np.ndarray:
  value = np.asarray(arg)
  wanted = _kind(spec.dtype)
  fits = _RANKS.get(value.dtype.kind, len(_RANKS)) <= _RANKS[wanted]
  if fits and wanted == "i":
    limits = jnp.iinfo(spec.dtype)
    fits = int(limits.min) <= int(arg) <= int(limits.max)
  with np.errstate(over="ignore"):
    made = value.astype(spec.dtype) if fits else value
  if not fits or (np.isfinite(value) and not np.isfinite(made.astype(np.complex128))):
    raise errors.ArgumentError(f"argument {position}: the Python scalar {arg!r} does not fit {spec}.")
  return made


def _kind(dtype: np.dtype) -> str:
  """Returns the key of `_RANKS` for a dtype. NumPy reports kind "V" for bfloat16, 8-bit floats and 4-bit integers."""
  if jnp.issubdtype(dtype, jnp.integer):
    return "i"
  return "f" if jnp.issubdtype(dtype, jnp.floating) else dtype.kind


def _refuse_64_bits(module: Module) -> None:
  """Raises X64Error if an argument or a result has a 64-bit type."""
  for what, specs in (("argument", module.inputs), ("result", module.outputs)):
    for position, spec in enumerate(specs):
      if values.is_64_bit(spec.dtype):
        raise errors.X64Error(
          f"{what} {position} of the module is {spec} and 64-bit types are disabled in JAX. Set jax_enable_x64, or"
          " pass x64='enable' to trace this module with 64-bit types enabled; values are never truncated."
        )


def for_main(module: Module, args: Sequence[Any], platform_index: int | None) -> list[Any]:
  """Returns the operands of `main`: platform index, dimension arguments, the used arguments, and tokens."""
  kept = [args[i] for i in module.kept]
  leading: list[Any] = []
  if module.has_platform_index:
    leading.append(np.asarray(platform_index or 0, np.int32))
  types = [kind for kind in module.ir.main.types if not isinstance(kind, ir.TokenType)]
  for (argument, axis), kind in zip(module.dim_args, types[len(leading) :], strict=False):
    leading.append(_dimension(np.shape(args[argument])[axis], kind))
  plain = iter([*leading, *kept])
  return [values.TOKEN if isinstance(kind, ir.TokenType) else next(plain) for kind in module.ir.main.types]


def _dimension(size: Any, kind: Any) -> Any:
  if isinstance(size, int):
    return np.asarray(size, kind.dtype)
  dims = np.empty((), object)
  dims[()] = size
  return values.SymbolicArray(dims, kind.dtype)
