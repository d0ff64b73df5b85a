"""Loops, branches and solvers are written, and their text runs beside the functions that it was written from."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.convert.source_code import SourceError, to_source

_X = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
_MATRIX = (_X @ _X.T + 4 * np.eye(4)).astype(np.float32)


def _solved(x, symmetric):
  def product(matrix):
    return lambda vector: matrix @ vector

  def solve(matrix):
    return lambda _, vector: jnp.linalg.solve(matrix, vector)

  transposed = None if symmetric else solve(_MATRIX.T)
  return lax.custom_linear_solve(product(_MATRIX), x[:, 0], solve(_MATRIX), transposed, symmetric=symmetric)


_FUNCTIONS = {
  # The new carry is computed from the whole old one.
  "a loop that swaps its values": (
    lambda x: lax.while_loop(lambda c: c[2] < 3, lambda c: (c[1], c[0] + c[1], c[2] + 1), (x, jnp.cos(x), 0))[:2],
    "lax.while_loop(",
  ),
  "a loop with a branch in it": (
    lambda x: lax.fori_loop(0, 5, lambda i, y: lax.cond(i % 2 == 0, lambda: y + x, lambda: y * 0.5), x),
    "lax.cond(",
  ),
  "a loop in a loop that reads both": (
    lambda x: lax.scan(
      lambda c, row: (lax.fori_loop(0, 3, lambda i, y: y + row * i + x[0], c), c.max()), x[0], jnp.sin(x)
    ),
    "lax.scan(",
  ),
  "several carries and rows": (
    lambda x: lax.scan(lambda c, r: ((c[1] + r[0], c[0] * r[1]), (c[0], r[0] - c[1])), (x[0], x[1]), (x, x * 2)),
    "lax.scan(",
  ),
  "rows that nothing reads": (lambda x: lax.scan(lambda c, _: (c * 1.5, None), x, x)[0], "length=4"),
  "steps that are unrolled": (lambda x: lax.scan(lambda c, r: (c + r, c), x[0], x, unroll=2), "unroll=2"),
  "from the last row on": (lambda x: lax.scan(lambda c, r: (c * 0.5 + r, c), x[0], x, reverse=True), "reverse=True"),
  "branches with several results": (
    lambda x: lax.switch(jnp.argmax(x[0]) - 3, [lambda: (x, x[0]), lambda: (-x, x[1]), lambda: (x * 2, x[2])]),
    "lax.switch(",
  ),
  "branches that are other functions' results": (
    lambda x: lax.cond(x.sum() > 0, lambda y: (y, x), lambda y: (x, y), jnp.sin(x)),
    "lax.cond(",
  ),
  "branches by platform": (
    lambda x: lax.platform_dependent(x, cpu=jnp.sin, cuda=jnp.cos, default=jnp.tanh),
    "lax.platform_dependent(",
  ),
  "a solver": (lambda x: _solved(x, symmetric=False), "lax.custom_linear_solve("),
  "a symmetric solver": (lambda x: _solved(x, symmetric=True), "symmetric=True"),
  "a window with holes in the input": (
    lambda x: lax.stop_gradient(
      lax.reduce_window(x, np.float32(0), lambda a, b: a + jnp.abs(b), (2, 2), (1, 2), "SAME", base_dilation=(2, 1))
    ),
    "base_dilation=(2, 1)",
  ),
  "a block that may be merged": (
    lambda x: jax.checkpoint(lambda y: jnp.sin(y) @ x.T, prevent_cse=False)(x),
    "prevent_cse=False",
  ),
}


@pytest.mark.parametrize("name", list(_FUNCTIONS))
def test_the_text_computes_what_the_function_does(name):
  function, spelled = _FUNCTIONS[name]
  source = to_source(function, _X)
  assert spelled in source.text
  written = source.function()
  jax.tree.map(np.testing.assert_array_equal, jax.jit(function)(_X), jax.jit(written)(_X))

  def total(f):
    return lambda x: sum(jnp.sum(leaf * leaf) for leaf in jax.tree.leaves(f(x)))

  # In forward mode, which JAX has for while_loop, too.
  want, got = (jax.jvp(total(f), (_X,), (jnp.cos(_X),))[1] for f in (function, written))
  np.testing.assert_allclose(got, want, rtol=1e-5)


def test_a_policy_of_the_users_own_is_named_with_its_scope():
  def block(x):
    with jax.named_scope("tower"):
      return jax.checkpoint(jnp.sin, policy=lambda prim, *_, **__: prim.name == "sin")(x)

  with pytest.raises(SourceError, match=r"scope 'tower'.*policies that jax\.checkpoint_policies names"):
    to_source(block, _X)
