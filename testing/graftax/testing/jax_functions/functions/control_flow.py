"""Branches and loops."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from graftax.testing.jax_functions.case import SHARED, Case, f32

_X = (f32(3, 4),)
_B = ("b, _",)


def _while(x: Array) -> Array:
  """Returns `1.5 * x + 1`, applied until the sum is large: a loop whose length depends on the values."""
  return lax.while_loop(lambda c: jnp.sum(c) < 40, lambda c: jnp.sin(c) + c + 1, x)


def _while_unrolled(x: Array) -> Array:
  """Computes the same as `_while` in a form that JAX differentiates."""
  return lax.scan(lambda c, _: (jnp.where(jnp.sum(c) < 40, jnp.sin(c) + c + 1, c), None), x, length=12)[0]


def _fori(x: Array, n: Array) -> Array:
  return lax.fori_loop(0, n, lambda i, c: jnp.sin(c) * 0.5 + i, x)


def _fori_unrolled(x: Array, n: Array) -> Array:
  return lax.scan(lambda c, i: (jnp.where(i < n, jnp.sin(c) * 0.5 + i, c), None), x, jnp.arange(9))[0]


@jax.custom_vjp
def _tripled_gradient(x: Array) -> Array:
  return jnp.round(x)


_tripled_gradient.defvjp(lambda x: (jnp.round(x), None), lambda _, g: (g * 3.0,))


def _while_then_custom_rule(x: Array) -> Array:
  return _tripled_gradient(_while(x) * 0.3) + x


def _while_unrolled_then_custom_rule(x: Array) -> Array:
  return _tripled_gradient(_while_unrolled(x) * 0.3) + x


def _batched_while(x: Array) -> Array:
  return jax.vmap(lambda r: lax.while_loop(lambda c: jnp.sum(c) < 10, lambda c: c * 1.5 + 1, r))(x)


def _batched_while_unrolled(x: Array) -> Array:
  def row(r: Array) -> Array:
    return lax.scan(lambda c, _: (jnp.where(jnp.sum(c) < 10, c * 1.5 + 1, c), None), r, length=12)[0]

  return jax.vmap(row)(x)


def _newton(x: Array) -> Array:
  """Returns cube roots, with the derivative of the implicit function."""
  return lax.custom_root(
    lambda y: y**3 - x,
    jnp.ones_like(x),
    lambda f, y: lax.fori_loop(0, 30, lambda _, z: z - f(z) / (3 * z**2), y),
    lambda g, y: y / g(jnp.ones_like(y)),
  )


CASES = (
  Case("cond", lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x), _X, _B),
  Case(
    "cond_of_input",
    lambda p, x: lax.cond(p, lambda a: (a * 2, a.sum()), lambda a: (a, 0.0), x),
    (np.bool_(False), f32(3, 4)),
    (None, "b, _"),
  ),
  Case("switch", SHARED["switch"], (f32(3, 4), np.int32(7)), ("b, _", None)),
  Case("vmapped_cond", jax.vmap(lambda r: lax.cond(r.sum() > 0, jnp.sin, jnp.cos, r)), _X, _B),
  Case("scan", lambda x: lax.scan(lambda c, a: (c * 0.9 + jnp.sin(a), c), jnp.zeros(x.shape[0]), x.T), _X, _B),
  Case("scan_of_batch", lambda x: lax.scan(lambda c, a: (c * 0.9 + jnp.sin(a), c), jnp.zeros(4), x), _X, _B),
  Case("scan_reverse", lambda x: lax.scan(lambda c, a: (c * a[0] + a[1], c), 1.0, x, reverse=True), _X, _B),
  Case("scan_unroll", lambda x: lax.scan(lambda c, a: (c + a**2, c * a), 0.0, x[0], unroll=2), _X, _B),
  Case("nested_scan", SHARED["nested_scan"], _X, _B),
  Case(
    "scan_with_carry_of_integers", lambda x: lax.scan(lambda c, a: ((c[0] + 1, c[1] * a), c[0]), (0, 1.0), x[0]), _X, _B
  ),
  Case("fori_loop", SHARED["fori_loop"], _X, _B),
  Case("fori_dynamic", _fori, (f32(3, 4), np.int32(4)), ("b, _", None), oracle=_fori_unrolled),
  Case("fori_of_batch", lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i], jnp.zeros(4)), _X, _B),
  Case("while_loop", _while, _X, _B, oracle=_while_unrolled),
  Case("while_then_custom_rule", _while_then_custom_rule, _X, _B, oracle=_while_unrolled_then_custom_rule),
  Case("vmapped_while", _batched_while, _X, _B, oracle=_batched_while_unrolled),
  Case(
    "while_of_integers",
    lambda n: lax.while_loop(
      lambda c: c[0] != 1, lambda c: (jnp.where(c[0] % 2, 3 * c[0] + 1, c[0] // 2), c[1] + 1), (n, 0)
    ),
    (np.int32(27),),
  ),
  Case("map", SHARED["map"], _X, _B),
  Case("map_batched", lambda x: lax.map(lambda r: r * 2, x, batch_size=2), (f32(5, 2),)),
  Case("vmapped_scan", SHARED["vmapped_scan"], _X, _B),
  Case("custom_root", _newton, _X, _B, low=0.5, high=2.0),
  Case("python_branches", lambda x: x * 2 if x.shape[1] == 4 else x, _X, _B),
)
