"""Traces the derivative rules of functions that have their own."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun

from graftax.xla_call_module import lax_extras

__all__ = ["TracedRule", "has_derivative", "is_nearly_own", "is_stored", "primal", "trace"]


@dataclasses.dataclass(frozen=True, slots=True)
class TracedRule:
  """A function with a derivative of its own, as jaxprs.

  Attributes:
    key: equal for equal functions with equal rules.
    name: what the function is called.
    primal: the function.
    jaxprs: the rule's functions, as in `program.Rule`.
    num_residuals, differentiable, results_differentiable: as in `program.Rule`.
  """

  key: str
  name: str
  primal: ClosedJaxpr
  jaxprs: dict[str, ClosedJaxpr]
  num_residuals: int
  differentiable: tuple[bool, ...]
  results_differentiable: tuple[bool, ...]


_LINEAR_CALL = "graftax_linear_call"


def is_stored(equation: JaxprEqn) -> bool:
  """Returns whether an equation calls a function whose gradient is stored in an artifact."""
  if equation.primitive.name == _LINEAR_CALL:
    return True
  if equation.primitive.name not in ("custom_jvp_call", "graftax_call_with_tangents"):
    return False
  inputs, specs = _inputs(equation)
  moving = tuple(is_inexact(v.aval) for v in inputs)
  closed = _jvp(_function(equation, inputs), specs, moving, tuple(is_inexact(v.aval) for v in equation.outvars))
  return any(e.primitive.name == _LINEAR_CALL for e in closed.jaxpr.eqns)


def is_nearly_own(equation: JaxprEqn) -> bool:
  """Returns whether JAX's derivative of a function with a rule differs from the rule in the direction of 0 only."""
  return lax_extras.keeps_zero_tangents(equation)


def primal(equation: JaxprEqn) -> ClosedJaxpr:
  """Returns the function that such an equation calls, without its rule. Literals are not among its arguments."""
  inputs, specs = _inputs(equation)
  return jax.make_jaxpr(_primal(equation, inputs))(*specs)


def _inputs(equation: JaxprEqn) -> tuple[list[Var], list[jax.ShapeDtypeStruct]]:
  inputs = list(dict.fromkeys(v for v in equation.invars if not isinstance(v, Literal)))
  avals: list[Any] = [v.aval for v in inputs]  # the class that JAX declares for them has no shape and no dtype
  return inputs, [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]


def has_derivative(equation: JaxprEqn) -> bool:
  """Returns whether a function takes and returns floating-point numbers, so that its rule says something."""
  return any(is_inexact(v.aval) for v in equation.invars) and any(is_inexact(v.aval) for v in equation.outvars)


def trace(equation: JaxprEqn, kind: str) -> TracedRule:
  """Returns the rule of an equation that calls a function with a derivative of its own."""
  inputs, specs = _inputs(equation)
  moving = tuple(is_inexact(v.aval) for v in inputs)
  results_moving = tuple(is_inexact(v.aval) for v in equation.outvars)
  params = equation.params
  whole = _function(equation, inputs)
  closed = primal(equation)
  if kind == "jvp":
    jaxprs, num_residuals = {"jvp": _jvp(whole, specs, moving, results_moving)}, 0
  else:
    jaxprs, num_residuals = _vjp(whole, specs, moving, results_moving)
  inner = params.get("call_jaxpr")
  debug = getattr(getattr(inner, "jaxpr", inner), "debug_info", None)
  name = str(params.get("name") or getattr(debug, "func_name", "") or "function")
  key = "\n".join([name, str(closed), *map(str, jaxprs.values())])
  return TracedRule(key, name, closed, jaxprs, num_residuals, moving, results_moving)


def _function(equation: JaxprEqn, inputs: Sequence[Var]) -> Callable[..., Any]:
  """Returns the function that is one equation."""
  jaxpr = equation.params.get("call_jaxpr", equation.params.get("jaxpr"))
  debug = getattr(getattr(jaxpr, "jaxpr", jaxpr), "debug_info", None)
  if debug is None:
    debug = jax.make_jaxpr(lambda: 0)().jaxpr.debug_info
  one = Jaxpr((), inputs, equation.outvars, [equation], debug_info=debug)
  return jaxpr_as_fun(ClosedJaxpr(one, ()))


def _primal(equation: JaxprEqn, inputs: Sequence[Var]) -> Callable[..., Any]:
  params = equation.params
  if "forward" in params:
    run = params["forward"]
  else:
    jaxpr: Any = params.get("call_jaxpr", params.get("jaxpr"))
    run = jaxpr_as_fun(jaxpr if hasattr(jaxpr, "consts") and hasattr(jaxpr, "jaxpr") else ClosedJaxpr(jaxpr, ()))

  def call(*arrays: jax.Array) -> Any:
    given = dict(zip(inputs, arrays, strict=True))
    return run(*[v.val if isinstance(v, Literal) else given[v] for v in equation.invars])

  return call


def _jvp(
  function: Callable[..., Any],
  specs: Sequence[jax.ShapeDtypeStruct],
  moving: Sequence[bool],
  results_moving: Sequence[bool],
) -> ClosedJaxpr:
  """Returns the rule as a function of primals and tangents of the arguments that have some."""

  def rule(primals: Sequence[jax.Array], tangents: Sequence[jax.Array]) -> Any:
    results, moved = jax.jvp(function, primals, _with_float0(tangents, primals, moving))
    return results, [tangent for tangent, wanted in zip(moved, results_moving, strict=True) if wanted]

  return jax.make_jaxpr(rule)(tuple(specs), tuple(s for s, m in zip(specs, moving, strict=True) if m))


def _vjp(
  function: Callable[..., Any],
  specs: Sequence[jax.ShapeDtypeStruct],
  moving: Sequence[bool],
  results_moving: Sequence[bool],
) -> tuple[dict[str, ClosedJaxpr], int]:
  def some(primals: Sequence[jax.Array]) -> Callable[..., Any]:
    def call(*moved: jax.Array) -> Any:
      values = iter(moved)
      results = function(*[next(values) if m else p for p, m in zip(primals, moving, strict=True)])
      return [r for r, m in zip(results, results_moving, strict=True) if m], [
        r for r, m in zip(results, results_moving, strict=True) if not m
      ]

    return call

  def forward(*primals: jax.Array) -> Any:
    given = [p for p, m in zip(primals, moving, strict=True) if m]
    results, pullback, others = jax.vjp(some(primals), *given, has_aux=True)
    first, second = iter(results), iter(others)
    return [next(first) if m else next(second) for m in results_moving], pullback

  traced, shapes = jax.make_jaxpr(forward, return_shape=True)(*specs)
  residuals, structure = jax.tree.flatten(shapes[1])
  cotangents = [s for s, m in zip(shapes[0], results_moving, strict=True) if m]

  def backward(leaves: Sequence[jax.Array], cotangents: Sequence[jax.Array]) -> Any:
    return jax.tree.unflatten(structure, leaves)(list(cotangents))

  return {"fwd": traced, "bwd": jax.make_jaxpr(backward)(residuals, cotangents)}, len(residuals)


def _with_float0(
  tangents: Sequence[jax.Array], primals: Sequence[jax.Array], moving: Sequence[bool]
) -> tuple[Any, ...]:
  given = iter(tangents)
  return tuple(next(given) if m else np.zeros(p.shape, jax.dtypes.float0) for p, m in zip(primals, moving, strict=True))


def is_inexact(aval: Any) -> bool:
  """Returns whether an abstract value is of floating-point or complex numbers."""
  return bool(jnp.issubdtype(aval.dtype, np.inexact))
