"""Derivatives that the author gave, and derivatives inside the function."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from graftax.testing.jax_functions.case import SHARED, Case, f32
from graftax.testing.pytrees import PyTree

_X = (f32(3, 4),)
_B = ("b, _",)


@jax.custom_vjp
def _straight_through(x: Array) -> Array:
  return jnp.round(x)


_straight_through.defvjp(lambda x: (jnp.round(x), None), lambda _, g: (g * 3.0,))


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _clipped(x: Array, limit: float) -> Array:
  return x * 5.0


_clipped.defvjp(lambda x, limit: (x * 5.0, None), lambda limit, _, g: (jnp.clip(g * 5.0, -limit, limit),))


@jax.custom_jvp
def _log1pexp(x: Array) -> Array:
  return jnp.log(1.0 + jnp.exp(x))


_log1pexp.defjvps(lambda t, ans, x: 2.0 * t / (1 + jnp.exp(-x)))


@jax.custom_vjp
def _lookup(table: Array, ids: Array) -> Array:
  return table[ids]


def _lookup_backward(saved: PyTree, g: Array) -> PyTree:
  shape, ids = saved
  return jnp.zeros(shape).at[ids].add(g * 2.0), np.zeros(ids.shape, jax.dtypes.float0)


_lookup.defvjp(lambda table, ids: (table[ids], (table.shape, ids)), _lookup_backward)


def _linear_solve(x: Array) -> Array:
  """Returns `x / 3`, as the solution of a linear system."""
  return lax.custom_linear_solve(lambda y: 3.0 * y, x, lambda _, b: b / 3.0, lambda _, b: b / 3.0)


def _implicit(x: Array) -> Array:
  return jax.linearize(lambda y: jnp.sin(y) * y, x)[1](jnp.cos(x))


CASES = (
  Case("custom_vjp", _straight_through, _X, _B),
  Case(
    "custom_vjp_in_scan", lambda x: lax.scan(lambda c, a: (c + _straight_through(a * 3), c), jnp.zeros(4), x), _X, _B
  ),
  Case("custom_vjp_in_cond", lambda x: lax.cond(x[0, 0] > 9, jnp.sin, _straight_through, x * 2), _X, _B),
  Case("custom_vjp_vmapped", lambda x: jax.vmap(_straight_through)(x * 2), _X, _B),
  Case("custom_vjp_nondiff", lambda x: _clipped(x, 2.0), _X, _B),
  Case("custom_vjp_of_integers", _lookup, (f32(5, 2), np.array([0, 3, 3], np.int32))),
  Case("custom_jvp", _log1pexp, _X, _B),
  Case("stop_gradient", lambda x: x * lax.stop_gradient(jnp.sin(x)), _X, _B),
  Case("checkpoint", SHARED["checkpoint"], _X, _B),
  Case("gradient_inside", jax.grad(lambda x: (jnp.sin(x) ** 2).sum()), _X, _B),
  Case("custom_gradient_inside", jax.grad(lambda x: _straight_through(x * x).sum()), _X, _B),
  Case("hessian_inside", jax.hessian(lambda x: jnp.sin(x).prod()), (f32(3),)),
  Case("jvp_inside", lambda x: jax.jvp(jnp.tanh, (x,), (jnp.cos(x),)), _X, _B),
  Case("jacobian_inside", jax.jacrev(lambda x: jnp.outer(x, jnp.sin(x))), (f32(3),)),
  Case("linearize_inside", _implicit, _X, _B),
  Case("vmap_inside", jax.vmap(lambda r: r * r.sum()), _X, _B),
  Case("custom_linear_solve", _linear_solve, _X, _B),
  Case("gradient_of_relu_at_zero", jax.nn.relu, (np.zeros((3, 4), np.float32),), _B),
  Case(
    "gradient_of_norm_at_zero",
    lambda x: jnp.where(x > 0, jnp.sqrt(jnp.abs(x)), 0.0),
    (np.ones((3, 4), np.float32),),
    _B,
  ),
  Case("optimization_barrier", lambda x: lax.optimization_barrier(jnp.sin(x)) * 2, _X, _B),
  Case("named_scope", lambda x: jax.named_scope("inner")(jnp.sin)(x), _X, _B),
)
