"""Elementwise functions whose derivative is 0 in the direction of 0, also where it is infinite or NaN.

TensorFlow's gradients of `Sqrt`, `Rsqrt` and `Reciprocal` return 0 for an incoming gradient of 0. So
`tf.where(x > 0, tf.sqrt(x), 0.0)` has a finite gradient at 0. JAX multiplies 0 by infinity, which is NaN.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from graftax.xla_call_module.lax_extras.linear_calls import linear_call, unmapped

__all__ = ["keeping_zero_tangents", "keeps_zero_tangents"]

_NAME = "graftax_keeping_zero_tangents"


def keeping_zero_tangents(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
  """Returns `function` with the derivative that JAX gives it, except that tangents and cotangents of 0 give 0.

  Args:
    function: an elementwise function of one floating-point or complex array, with a result of the same dtype. It must
      not close over traced values.

  Example:
    >>> root = keeping_zero_tangents(jax.lax.sqrt)
    >>> float(jax.grad(lambda x: jnp.where(x > 0, root(x), 0.0))(0.0)), float(jax.grad(root)(4.0))
    (0.0, 0.25)
  """

  def call(x: Array) -> Array:
    return function(x)

  call.__name__ = _NAME
  wrapped = jax.custom_jvp(call)

  @functools.cache
  def derivative() -> Callable[[Array], Array]:
    # Derivatives of the second order multiply by derivatives of the factor, so that it is such a function too.
    return keeping_zero_tangents(lambda x: jax.jvp(function, (x,), (jnp.ones_like(x),))[1])

  def jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    (x,), (tangent,) = primals, tangents
    return wrapped(x), linear_call(_scaled, _scaled, [derivative()(x)], [tangent])[0]

  wrapped.defjvp(jvp)
  return wrapped


def keeps_zero_tangents(equation: Any) -> bool:
  """Returns whether an equation of a jaxpr calls a function made by `keeping_zero_tangents`, or its linear part.

  Args:
    equation: of a jaxpr.

  Example:
    >>> jaxpr = jax.make_jaxpr(keeping_zero_tangents(jax.lax.sqrt))(2.0)
    >>> [keeps_zero_tangents(equation) for equation in jaxpr.eqns]
    [True]
  """
  if equation.primitive.name == "graftax_linear_call":
    return unmapped(equation.params["forward"]) is _scaled
  if equation.primitive.name != "custom_jvp_call":
    return False
  # Mapping and tracing keep nothing else of a function with a rule than its name.
  inner = equation.params["call_jaxpr"]
  return getattr(inner, "jaxpr", inner).debug_info.func_name == _NAME


def _scaled(factor: Array, tangent: Array) -> list[Array]:
  return [jnp.where(tangent == 0, jnp.zeros_like(tangent), tangent * factor)]
