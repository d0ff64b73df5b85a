"""Library functions of scalars (of reductions, windows and scatters) as Python functions, and as known monoids."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr

from graftax.graphdef_ir import FunctionRef
from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.values import Array, materialize
from graftax.xla_call_module.lax_extras import identity, monoid_of_primitive, only_primitive, unwrapped

__all__ = ["Computation", "monoid", "scalar_function", "takes_the_second"]

Computation = Callable[..., tuple[Array, ...]]


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
  primitive = only_primitive(_traced(combine, dtype), ignores_rules=True)
  name = monoid_of_primitive(primitive) if primitive else None
  return name if name and identity(name, dtype) is not None else None


def takes_the_second(combine: Computation, dtype: np.dtype) -> bool:
  """Returns whether a function of two scalars of `dtype` returns its second argument unchanged."""
  jaxpr = unwrapped(_traced(combine, dtype), ignores_rules=True)
  return len(jaxpr.outvars) == 1 and jaxpr.outvars[0] is jaxpr.invars[1]


def _traced(combine: Computation, dtype: np.dtype) -> ClosedJaxpr:
  scalar = jax.ShapeDtypeStruct((), dtype)
  return jax.make_jaxpr(combine)(scalar, scalar)
