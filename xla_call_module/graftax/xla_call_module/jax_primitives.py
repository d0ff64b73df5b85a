"""`with_jax_primitives`: functions for tools that read jaxprs and know only JAX's own primitives."""

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np
from jax import Array
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

from graftax.xla_call_module import errors, platforms
from graftax.xla_call_module.jax_versions import Operand
from graftax.xla_call_module.jaxprs import as_closed, bound, evaluated, has_primitives, inner_jaxprs

__all__ = ["with_jax_primitives"]

P = ParamSpec("P")
T = TypeVar("T")

_RULES = ("graftax_call_with_tangents", "graftax_linear_call")
_CHECK = "stablehlo_platform_check"
_CHOICE = "platform_index"


def with_jax_primitives(function: Callable[P, T], *, platform: str | None = None) -> Callable[P, T]:
  """Returns the function made of JAX's primitives only, for tools that read jaxprs.

  Values do not change. Where a primitive of this package defined a derivative, the result is a `jax.custom_vjp`
  function: reverse mode computes the same derivative, and forward mode raises JAX's TypeError. Jaxprs of derivatives
  contain our primitives again, so differentiate first. Checks of the platform are left out. Two primitives stay,
  because they cannot be written as others: `stablehlo_embed`, which `embed` and the fallback of `call` make, and the
  reads of live TensorFlow variables in `call_tf`.

  Args:
    function: a function of pytrees of arrays.
    platform: for this platform ("cpu", "cuda", "rocm" or "tpu") only: the code for others, and the primitive
      `platform_index` that chooses, are left out, which many tools do not know.

  Raises:
    PlatformError: the function has no code for `platform`. Calls raise it.

  Example:
    >>> import jax
    >>> from graftax.xla_call_module import Module, lift, with_jax_primitives
    >>> exported = jax.export.export(jax.jit(jax.numpy.sin))(jax.ShapeDtypeStruct((3,), "float32"))
    >>> lifted = lift(Module.from_exported(exported))
    >>> "stablehlo_platform_check" in str(jax.make_jaxpr(lifted)(jax.numpy.ones(3)))
    True
    >>> "stablehlo" in str(jax.make_jaxpr(with_jax_primitives(lifted))(jax.numpy.ones(3)))
    False
  """
  chosen = None if platform is None else platforms.canonical(platform)

  def plain(*args: P.args, **kwargs: P.kwargs) -> T:
    closed, shapes = jax.make_jaxpr(lambda args, kwargs: function(*args, **kwargs), return_shape=True)(args, kwargs)
    results = _run(closed, jax.tree.leaves((args, kwargs)), chosen)
    found: T = jax.tree.unflatten(jax.tree.structure(shapes), results)
    return found

  return plain


def _run(closed: ClosedJaxpr, operands: Sequence[Operand], platform: str | None) -> list[Operand]:
  """Returns the results of a jaxpr, computed with JAX's primitives."""
  return evaluated(closed, operands, lambda equation, operands: _equation(equation, operands, platform))


def _equation(equation: JaxprEqn, operands: Sequence[Operand], platform: str | None) -> Sequence[Operand]:
  name, params = equation.primitive.name, equation.params
  if name == _CHOICE and platform is not None:
    return [_Branch(_position(params["platforms"], platform))]
  if name == _CHECK:
    if platform is not None and platform not in params["platforms"]:
      raise errors.PlatformError(f"a module in the function was lowered for {', '.join(params['platforms'])}.")
    return operands
  if operands and isinstance(operands[0], _Branch):
    if name != "cond":  # the position itself, such as an operand of a jitted function
      operands = [np.int32(x.position) if isinstance(x, _Branch) else x for x in operands]
    else:
      return _run(params["branches"][operands[0].position], operands[1:], platform)
  if name in _RULES:
    return _with_derivative_of(equation, operands, _expansion(equation, operands), platform)
  if not any(_has_others(inner, platform) for inner in inner_jaxprs(params.values())):
    return bound(equation, operands, params)
  if name == "custom_jvp_call":
    return _with_rule_of(equation, operands, platform)
  if name in ("custom_vjp_call", "custom_vjp_call_jaxpr"):
    (jaxpr,) = inner_jaxprs(params.values())
    return _with_derivative_of(equation, operands, jaxpr, platform)
  return bound(equation, operands, {key: _replaced(value, platform) for key, value in params.items()})


class _Branch:
  """The value of `platform_index` for a known platform."""

  def __init__(self, position: int):
    self.position = position


def _position(choices: Sequence[Sequence[str] | None], platform: str) -> int:
  for position, names in enumerate(choices):
    if names is None or platform in names:
      return position
  raise errors.PlatformError(f"the function has code for {choices} and none for {platform!r}.")


def _expansion(equation: JaxprEqn, operands: Sequence[Operand]) -> ClosedJaxpr:
  """Returns what an equation of ours computes."""
  if "jaxpr" in equation.params:
    found: ClosedJaxpr = equation.params["jaxpr"]
    return found
  return jax.make_jaxpr(equation.params["forward"])(*operands)


def _with_derivative_of(
  equation: JaxprEqn, operands: Sequence[Operand], jaxpr: ClosedJaxpr, platform: str | None
) -> Sequence[Operand]:
  """Returns the results of `jaxpr`, with the reverse mode of the equation."""

  def original(*operands: Array) -> list[Array]:
    return list(bound(equation, operands))

  function = jax.custom_vjp(lambda *operands: _run(jaxpr, operands, platform))
  function.defvjp(
    lambda *operands: jax.vjp(original, *operands),
    lambda pull, cotangents: pull(cotangents),
  )
  return function(*operands)


def _with_rule_of(equation: JaxprEqn, operands: Sequence[Operand], platform: str | None) -> Sequence[Operand]:
  """Returns the results of an equation of `jax.custom_jvp` made of JAX's primitives, with the same rule."""
  (jaxpr,) = inner_jaxprs([equation.params["call_jaxpr"]])

  def original(*operands: Array) -> list[Array]:
    return list(bound(equation, operands))

  function = jax.custom_jvp(lambda *operands: _run(jaxpr, operands, platform))
  function.defjvp(lambda primals, tangents: jax.jvp(original, primals, tangents))
  return function(*operands)


def _has_others(closed: ClosedJaxpr, platform: str | None) -> bool:
  """Returns whether a jaxpr has equations that are to be replaced."""
  names = (*_RULES, _CHECK) if platform is None else (*_RULES, _CHECK, _CHOICE)
  return has_primitives(closed.jaxpr, names)


def _replaced(value: Any, platform: str | None) -> Any:
  """Returns a parameter of an equation with its jaxprs made of JAX's primitives."""
  if isinstance(value, list | tuple) and any(True for _ in inner_jaxprs(value)):
    return type(value)(_replaced(part, platform) for part in value)
  if not isinstance(value, ClosedJaxpr | Jaxpr):
    return value
  closed = as_closed(value)
  if not _has_others(closed, platform):
    return value
  specs = [
    jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=getattr(aval, "weak_type", False))
    for aval in closed.in_avals
  ]
  found = jax.make_jaxpr(lambda *operands: _run(closed, operands, platform))(*specs)
  if isinstance(value, ClosedJaxpr) or not found.consts:
    return found if isinstance(value, ClosedJaxpr) else found.jaxpr
  raise errors.UnsupportedModuleError("a part of the function that runs on several devices has constants.")
