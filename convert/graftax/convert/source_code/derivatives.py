"""Traces the derivative rules of functions that have their own."""

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun

from graftax.convert.source_code.errors import SourceError
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
    refused: arguments that have tangents for which the rule raises an error: position -> message.
  """

  key: str
  name: str
  primal: ClosedJaxpr
  jaxprs: dict[str, ClosedJaxpr]
  num_residuals: int
  differentiable: tuple[bool, ...]
  results_differentiable: tuple[bool, ...]
  refused: dict[int, str]


_LINEAR_CALL = "graftax_linear_call"


def is_stored(equation: JaxprEqn) -> bool:
  """Returns whether an equation calls a function whose gradient is stored in an artifact."""
  if equation.primitive.name == _LINEAR_CALL:
    return True
  if equation.primitive.name not in ("custom_jvp_call", "graftax_call_with_tangents"):
    return False
  inputs, specs = _inputs(equation)
  moving = _moving(equation, inputs)
  try:
    closed = _jvp(_function(equation, inputs), specs, moving, tuple(is_inexact(v.aval) for v in equation.outvars))
  except Exception:  # of the rule, which `trace` calls again
    return False
  return any(e.primitive.name == _LINEAR_CALL for e in closed.jaxpr.eqns)


def is_nearly_own(equation: JaxprEqn) -> bool:
  """Returns whether a rule is JAX's derivative of the function in another form, or differs for tangents of 0 only."""
  if equation.primitive.name == _LINEAR_CALL:
    return bool(equation.params["is_transpose"])
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
  """Returns the rule of an equation that calls a function with a derivative of its own.

  A rule may raise an error: equinox and the libraries on it do so for arguments that must not be differentiated.
  """
  inputs, specs = _inputs(equation)
  results_moving = tuple(is_inexact(v.aval) for v in equation.outvars)
  params = equation.params
  whole = _function(equation, inputs)
  closed = primal(equation)

  def traced(moving: tuple[bool, ...]) -> tuple[dict[str, ClosedJaxpr], int]:
    if kind == "jvp":
      jaxprs, num_residuals = {"jvp": _jvp(whole, specs, moving, results_moving)}, 0
    else:
      jaxprs, num_residuals = _vjp(whole, specs, moving, results_moving)
    if any(isinstance(const, jax.core.Tracer) for closed in jaxprs.values() for const in _consts(closed)):
      raise SourceError("The derivative reads a value around the function. Pass it as an argument, or as a residual.")
    return jaxprs, num_residuals

  jaxprs: dict[str, ClosedJaxpr] = {}
  num_residuals, moving, refused = 0, (False,) * len(inputs), dict[int, str]()
  candidates = [i for i, m in enumerate(_moving(equation, inputs)) if m]
  # Only rules that are told which tangents are zero can tell arguments apart. Others raise for all or none.
  for group in [[i] for i in candidates] if params.get("symbolic_zeros") else [candidates]:
    wanted = tuple(m or i in group for i, m in enumerate(moving))
    try:
      jaxprs, num_residuals = traced(wanted)
      moving = wanted
    except Exception as e:
      # JAX does not run a rule again that has raised an error, so the first message says the most.
      refused |= dict.fromkeys(group, next(iter(refused.values()), _message(e)))
  refused |= _closed_over(equation, inputs)
  inner = params.get("call_jaxpr")
  debug = getattr(getattr(inner, "jaxpr", inner), "debug_info", None)
  name = str(params.get("name") or getattr(debug, "func_name", "") or "function")
  key = "\n".join([name, *map(_text, (closed, *jaxprs.values())), repr(moving)])
  return TracedRule(key, name, closed, jaxprs, num_residuals, moving, results_moving, refused)


def _moving(equation: JaxprEqn, inputs: Sequence[Var]) -> tuple[bool, ...]:
  """Returns which arguments have tangents: those of floating point that the function does not close over."""
  closed_over = _closed_over(equation, inputs)
  return tuple(is_inexact(v.aval) and i not in closed_over for i, v in enumerate(inputs))


def _closed_over(equation: JaxprEqn, inputs: Sequence[Var]) -> dict[int, str]:
  """Returns the arguments that the function closes over, for which JAX has no derivative: position -> message."""
  count = equation.params.get("num_consts", 0)
  arguments = {v for v in equation.invars[count:] if not isinstance(v, Literal)}
  message = "A function with a derivative of its own closes over this value. Pass it as an argument."
  closed_over = {v for v in equation.invars[:count] if not isinstance(v, Literal)} - arguments
  return {i: message for i, v in enumerate(inputs) if v in closed_over and is_inexact(v.aval)}


def _message(error: Exception) -> str:
  return " ".join(str(error).split()) or type(error).__name__


def _text(closed: ClosedJaxpr) -> str:
  """Returns text that differs for different programs: a printed jaxpr does not have the values of its constants."""
  return "\n".join([str(closed), *(_digest(const) for const in _consts(closed))])


def _consts(value: Any) -> Iterator[Any]:
  """Yields the constants of a program and of the programs in it."""
  if isinstance(value, ClosedJaxpr):
    yield from value.consts
    value = value.jaxpr
  if isinstance(value, Jaxpr):
    for equation in value.eqns:
      for param in equation.params.values():
        yield from _consts(param)
  elif isinstance(value, tuple | list):
    for part in value:
      yield from _consts(part)


def _digest(const: Any) -> str:
  is_extended = hasattr(const, "dtype") and jnp.issubdtype(const.dtype, jax.dtypes.extended)
  if is_extended or isinstance(const, jax.core.Tracer):  # neither has values to read
    return str(id(const))
  return hashlib.sha256(np.asarray(const).tobytes()).hexdigest()


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
    def some(*moved: jax.Array) -> Any:
      values = iter(moved)
      return function(*[next(values) if m else p for p, m in zip(primals, moving, strict=True)])

    given = [p for p, m in zip(primals, moving, strict=True) if m]
    results, moved = jax.jvp(some, given, list(tangents))
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


def is_inexact(aval: Any) -> bool:
  """Returns whether an abstract value is of floating-point or complex numbers."""
  return bool(jnp.issubdtype(aval.dtype, np.inexact))
