"""Functions of scalars that tf2xla's reductions, windows and scatters take: as Python functions, and recognised."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.graphdef_ir import FunctionRef
from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.numeric import highest, lowest
from graftax.ops_jax._core.values import Array, materialize

__all__ = ["MONOIDS", "Computation", "identity", "monoid", "over_arrays", "scalar_function", "takes_the_second"]

Computation = Callable[..., tuple[Array, ...]]

MONOIDS: dict[str, Callable[..., Any]] = {
  "add": lax.add, "mul": lax.mul, "max": lax.max, "min": lax.min,
  "and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor,
}  # fmt: skip


def scalar_function(ctx: Context, function: FunctionRef, dtypes: list[np.dtype]) -> Computation:
  """A library function of scalars as a Python function of scalars, with variables as they are now.

  Args:
    ctx: the program around the node.
    function: what to call.
    dtypes: of its arguments.
  """
  pure = ctx.pure(function, [jnp.zeros((), dtype) for dtype in dtypes])
  state = tuple(ctx.read(handle) for handle in pure.written)

  def apply(*args: Array) -> tuple[Array, ...]:
    results, _ = pure.apply(state, args, None)
    return tuple(jnp.asarray(materialize(result)) for result in results)

  return apply


def over_arrays(combine: Computation, rank: int) -> Computation:
  """The same function for every element of arrays of one shape."""
  for _ in range(rank):
    combine = jax.vmap(combine)
  return combine


def monoid(combine: Computation, dtype: np.dtype) -> str | None:
  """The key of `MONOIDS` that a function of two scalars of `dtype` is, or None where it is none of them."""
  jaxpr = _jaxpr(combine, dtype)
  if len(jaxpr.eqns) != 1 or len(jaxpr.outvars) != 1 or jaxpr.outvars[0] is not jaxpr.eqns[0].outvars[0]:
    return None
  name, operands = jaxpr.eqns[0].primitive.name, jaxpr.eqns[0].invars
  if name not in MONOIDS or {id(v) for v in operands} != {id(v) for v in jaxpr.invars}:
    return None
  return name if identity(name, dtype) is not None and jaxpr.outvars[0].aval.dtype == dtype else None


def takes_the_second(combine: Computation, dtype: np.dtype) -> bool:
  """Whether a function of two scalars of `dtype` returns its second argument as it is."""
  jaxpr = _jaxpr(combine, dtype)
  return len(jaxpr.outvars) == 1 and jaxpr.outvars[0] is jaxpr.invars[1]


def identity(name: str, dtype: np.dtype) -> np.ndarray | None:
  """The neutral element of a monoid, or None where `dtype` has none, as the maximum of complex numbers."""
  if name in ("add", "or", "xor"):
    return np.zeros((), dtype)
  if name == "mul":
    return np.ones((), dtype)
  if name == "and":
    return np.ones((), dtype) if dtype == np.bool_ else np.invert(np.zeros((), dtype))
  if dtype == np.bool_:
    return np.asarray(name == "min")
  if jnp.issubdtype(dtype, jnp.complexfloating):
    return None
  return lowest(dtype) if name == "max" else highest(dtype)


def _jaxpr(combine: Computation, dtype: np.dtype) -> Any:
  """What the function does, as a jaxpr, without the calls that merely wrap it."""
  scalar = jax.ShapeDtypeStruct((), dtype)
  jaxpr = jax.make_jaxpr(combine)(scalar, scalar).jaxpr
  while len(jaxpr.eqns) == 1:
    (call,) = jaxpr.eqns
    inner = call.params.get("jaxpr", call.params.get("call_jaxpr"))
    if inner is None or call.invars != jaxpr.invars or call.outvars != jaxpr.outvars:
      break
    jaxpr = inner.jaxpr
  return jaxpr
