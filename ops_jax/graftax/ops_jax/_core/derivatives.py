"""Functions with TensorFlow's derivative, in every mode and order, if JAX has another convention."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from graftax.ops_jax._core.values import Array
from graftax.xla_call_module.lax_extras import default_promotion

__all__ = ["with_partials"]


def with_partials(function: Callable[..., Array], *partials: Callable[..., Array] | None) -> Callable[..., Array]:
  """Returns `function` with given partial derivatives.

  Args:
    function: `(*args) -> array`, all arguments of the result's shape.
    *partials: for each argument `(tangent, result, *args) -> array`, linear in `tangent`; None if the derivative is
      zero. They should call the returned function (not `function`), so that higher derivatives are right too.

  Example:
    >>> relu = with_partials(lambda x: jnp.maximum(x, 0), lambda t, y, x: jnp.where(x > 0, t, 0))
    >>> jax.grad(relu)(0.0).item()
    0.0
  """
  wrapped = jax.custom_jvp(function)

  @default_promotion()
  def jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    result = wrapped(*primals)
    terms = [
      partial(tangent, result, *primals)
      for partial, tangent in zip(partials, tangents, strict=True)
      if partial is not None and not isinstance(tangent, SymbolicZero)
    ]
    return result, sum(terms[1:], terms[0]) if terms else jnp.zeros_like(result)

  # Symbolic zeros keep the derivative with respect to a constant (the 2.0 of `x ** 2.0`) out of the program.
  wrapped.defjvp(jvp, symbolic_zeros=True)
  return wrapped
