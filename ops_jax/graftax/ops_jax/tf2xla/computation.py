"""Library functions of scalars (of reductions, windows and scatters) as Python functions, and as known monoids."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.graphdef_ir import FunctionRef
from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.values import Array, materialize
from graftax.xla_call_module.lax_extras import MONOIDS, identity

__all__ = ["Computation", "monoid", "scalar_function", "takes_the_second"]

Computation = Callable[..., tuple[Array, ...]]

# JAX's primitives by the name that lax_extras gives the function.
_NAMES = {"mul": "multiply", "max": "maximum", "min": "minimum"}


def scalar_function(ctx: Context, function: FunctionRef, dtypes: list[np.dtype]) -> Computation:
  """Returns a library function of scalars as a Python function of scalars, with the current values of variables.

  Args:
    ctx: the program around the node.
    function: the library function.
    dtypes: dtypes of its arguments.
  """
  pure = ctx.pure(function, [jnp.zeros((), dtype) for dtype in dtypes])
  state = tuple(ctx.read(handle) for handle in pure.written)

  def apply(*args: Array) -> tuple[Array, ...]:
    results, _ = pure.apply(state, args, None)
    return tuple(jnp.asarray(materialize(result)) for result in results)

  return apply


def monoid(combine: Computation, dtype: np.dtype) -> str | None:
  """Returns the key of `MONOIDS` for a function of two scalars of `dtype`, or None if it is not one of them."""
  jaxpr = _jaxpr(combine, dtype)
  if len(jaxpr.eqns) != 1 or len(jaxpr.outvars) != 1 or jaxpr.outvars[0] is not jaxpr.eqns[0].outvars[0]:
    return None
  primitive, operands = jaxpr.eqns[0].primitive.name, jaxpr.eqns[0].invars
  name = _NAMES.get(primitive, primitive)
  if name not in MONOIDS or {id(v) for v in operands} != {id(v) for v in jaxpr.invars}:
    return None
  return name if identity(name, dtype) is not None and jaxpr.outvars[0].aval.dtype == dtype else None


def takes_the_second(combine: Computation, dtype: np.dtype) -> bool:
  """Returns whether a function of two scalars of `dtype` returns its second argument unchanged."""
  jaxpr = _jaxpr(combine, dtype)
  return len(jaxpr.outvars) == 1 and jaxpr.outvars[0] is jaxpr.invars[1]


def _jaxpr(combine: Computation, dtype: np.dtype) -> Any:
  """Returns the jaxpr of the function, without calls that only wrap it."""
  scalar = jax.ShapeDtypeStruct((), dtype)
  jaxpr = jax.make_jaxpr(combine)(scalar, scalar).jaxpr
  while len(jaxpr.eqns) == 1:
    (call,) = jaxpr.eqns
    inner = call.params.get("jaxpr", call.params.get("call_jaxpr"))
    if inner is None or call.invars != jaxpr.invars or call.outvars != jaxpr.outvars:
      break
    jaxpr = inner.jaxpr
  return jaxpr
