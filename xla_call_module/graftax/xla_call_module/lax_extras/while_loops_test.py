"""Loops of unknown length: derivatives of every order against the same iterations as a `fori_loop` of known length."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.xla_call_module.lax_extras.while_loops import NUM_SLOTS, while_loop

X = np.array([0.3, 0.5, 0.2], np.float32)
W = np.array([0.4, 0.2, 0.9], np.float32)


def _cond(state):
  return jnp.sum(state[1]) < 50


def _body(x, w, state):
  number, y, total = state
  return number + 1, y * (1 + 0.1 * jnp.sin(w)) + 0.01 * y**2 * jnp.cos(x), total + jnp.sin(y).sum()


def _init(x):
  return 0, x + 1, jnp.zeros(())


def _unbounded(x, w):
  _, y, total = while_loop(_cond, functools.partial(_body, x, w), _init(x))
  return y.sum() * total


def _known_length(x, w, n):
  _, y, total = lax.fori_loop(0, n, lambda _, state: _body(x, w, state), _init(x))
  return y.sum() * total


def _length(x, w):
  return int(lax.while_loop(_cond, functools.partial(_body, x, w), _init(x))[0])


TRANSFORMS = {
  "value": lambda f: f,
  "jvp": lambda f: lambda x, w: jax.jvp(f, (x, w), (w, x)),
  "grad": lambda f: jax.grad(f, (0, 1)),
  "grad of the closed-over": lambda f: jax.grad(f, 1),
  "linearize": lambda f: lambda x, w: jax.linearize(f, x, w)[1](w, x),
  "forward over reverse": lambda f: jax.jacfwd(jax.grad(f, (0, 1)), (0, 1)),
  "reverse over reverse": lambda f: jax.jacrev(jax.grad(f, (0, 1)), (0, 1)),
  "reverse over forward": lambda f: jax.jacrev(jax.jacfwd(f, (0, 1)), (0, 1)),
  "mixed": lambda f: jax.jacrev(jax.grad(f, 0), 1),
  "third": lambda f: jax.jacfwd(jax.jacrev(jax.grad(f, 1), 1), 1),
  "third, reverse": lambda f: jax.jacrev(jax.jacrev(jax.grad(f, 1), 1), 0),
  "checkpoint": lambda f: jax.grad(jax.checkpoint(f), (0, 1)),
}


_SLOW = {"reverse over forward", "mixed", "third", "third, reverse"}


@pytest.mark.parametrize(
  "name", [pytest.param(name, marks=pytest.mark.slow) if name in _SLOW else name for name in TRANSFORMS]
)
def test_derivatives_are_those_of_the_iterations_that_ran(name):
  transform = TRANSFORMS[name]
  n = _length(X, W)
  assert 20 < n < 32
  want = transform(functools.partial(_known_length, n=n))(X, W)
  got = jax.jit(transform(_unbounded))(X, W)
  for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.abs(b).max())


def test_a_batch_has_a_length_per_example():
  xs = np.stack([X, X * 3, -X])
  lengths = [_length(x, W) for x in xs]
  assert len(set(lengths)) == 3
  got = jax.vmap(jax.grad(_unbounded, (0, 1)), (0, None))(xs, W)
  for i, (x, n) in enumerate(zip(xs, lengths, strict=True)):
    want = jax.grad(functools.partial(_known_length, n=n), (0, 1))(x, W)
    for a, b in zip(got, want, strict=True):
      np.testing.assert_allclose(a[i], b, rtol=1e-4)
  total = jax.grad(lambda w: jax.vmap(_unbounded, (0, None))(xs, w).sum())(W)
  np.testing.assert_allclose(total, got[1].sum(0), rtol=1e-5)


@pytest.mark.parametrize("n", [0, 1, 2, NUM_SLOTS - 1, NUM_SLOTS, NUM_SLOTS + 1, 300, 5000])
def test_every_length_is_walked_back_exactly_once(n):
  def step(i, y):
    return y * (1 + 1e-3 * jnp.sin(X[0] + i))

  def unbounded(y, n):
    return while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, step(s[0], s[1])), (jnp.int32(0), y))[1]

  got = jax.jit(jax.grad(unbounded))(np.float32(1), n)
  np.testing.assert_allclose(got, lax.fori_loop(0, n, step, np.float32(1)), rtol=1e-4)


def test_reverse_derivatives_take_no_notice_of_how_jax_is_told_to_promote():
  want = jax.grad(_known_length)(X, W, _length(X, W))
  with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
    got = jax.grad(_unbounded)(X, W)
  np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("bound", [1, 3, 10])
def test_a_bound_saves_room_and_need_not_be_right(bound):
  def root(x):
    return while_loop(lambda y: abs(y * y - x) > 1e-4, lambda y: (y + x / y) / 2, x, max_iterations=bound)

  np.testing.assert_allclose(jax.grad(root)(np.float32(9)), 1 / 6, rtol=1e-4)


def test_side_effects_happen_once_per_iteration_or_reverse_mode_raises():
  runs = []

  def unbounded(y):
    def body(s):
      jax.debug.callback(lambda: runs.append(1))
      return s[0] + 1, jnp.sin(s[1])

    return while_loop(lambda s: s[0] < 5, body, (jnp.int32(0), y))[1]

  jax.jvp(unbounded, (1.0,), (1.0,))
  jax.effects_barrier()
  assert len(runs) == 5
  with pytest.raises(ValueError, match="Reverse-mode"):
    jax.grad(unbounded)(1.0)


@pytest.mark.parametrize("n, most", [(20, 3), (200, 4), (1000, 5)])
def test_the_loop_runs_a_few_times_for_a_reverse_pass(n, most):
  runs = []

  @jax.custom_jvp
  def counted(y):
    return jax.pure_callback(lambda y: (runs.append(1), y)[1], jax.ShapeDtypeStruct((), np.float32), y)

  counted.defjvp(lambda primals, tangents: (counted(*primals), tangents[0]))

  def unbounded(y, n):
    return while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, jnp.sin(counted(s[1]))), (jnp.int32(0), y))[1]

  jax.block_until_ready(jax.jit(jax.grad(unbounded))(np.float32(1), n))
  assert 2 * n - 1 <= len(runs) <= most * n


def _nested(loop):
  def f(x, w):
    def outer(state):
      i, y = state
      inner = loop(lambda s: (s[0].sum() < 4 + i) & (s[1] < 50), lambda s: (s[0] * (1.1 + w), s[1] + 1), (y, 0))
      return i + 1, 0.2 * inner[0] + 0.1 * jnp.sin(x)

    return jnp.sum(loop(lambda s: s[0] < 6 - x[0], outer, (jnp.float32(0), x + 1))[1] ** 2)

  return f


@pytest.mark.parametrize("name", ["grad", "reverse over reverse", "forward over reverse"])
def test_loops_nest(name):
  def bounded(cond, body, init):
    return lax.scan(lambda s, _: (lax.cond(cond(s), body, lambda s: s, s), None), init, None, length=50)[0]

  transform = TRANSFORMS[name]
  got = jax.jit(transform(_nested(lambda c, b, i: while_loop(c, b, i))))(X, W)
  for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(jax.jit(transform(_nested(bounded)))(X, W)), strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4 * np.abs(b).max())


def _num_equations(jaxpr):
  inner = [
    getattr(p, "jaxpr", p) for eqn in jaxpr.eqns for p in jax.tree.leaves(eqn.params, is_leaf=lambda p: p is None)
  ]
  return len(jaxpr.eqns) + sum(_num_equations(part) for part in inner if hasattr(part, "eqns"))


def test_a_reverse_pass_has_the_body_as_often_for_many_variables_as_for_one():
  def levels(depth, y):
    if not depth:
      return [jnp.sin(a) * y[0] for a in y]
    return while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, levels(depth - 1, s[1])), (0, y))[1]

  def size(depth, num):
    gradient = jax.grad(lambda y: sum(levels(depth, y)))
    return _num_equations(jax.make_jaxpr(gradient)([1.0] * num).jaxpr)

  # With a copy of the body for each variable, it was 77 times that of one variable.
  assert size(3, 8) < 8 * size(3, 1)


def test_keys_integers_and_complex_numbers_are_carried():
  def f(x, w):
    def body(state):
      key, z, count = state
      key, inner = jax.random.split(key)
      return key, z * jnp.exp(1j * w * jax.random.uniform(inner)) * 1.2, count + 1

    start = jax.random.key(0), x.astype(np.complex64), 0
    _, z, count = while_loop(lambda s: jnp.abs(s[1]).sum() < 5, body, start)
    return jnp.real(z).sum() + jnp.imag(z * z).sum(), count

  (value, count), gradient = (
    jax.value_and_grad(f, (0, 1), has_aux=True)(X, W)[0],
    jax.grad(f, (0, 1), has_aux=True)(X, W)[0],
  )
  assert count > 0 and np.isfinite(value)
  tangent = jax.jvp(lambda x, w: f(x, w)[0], (X, W), (W, X))[1]
  np.testing.assert_allclose(np.vdot(gradient[0], W) + np.vdot(gradient[1], X), tangent, rtol=1e-4)
  step = np.float32(1e-2)
  slope = (f(X + step * W, W + step * X)[0] - f(X - step * W, W - step * X)[0]) / (2 * step)
  np.testing.assert_allclose(tangent, slope, rtol=2e-2)


@pytest.mark.parametrize(
  "body, match", [(lambda s: (s[0], s[0]), "structure"), (lambda s: (s[0][None],), r"\[0\].*float32\[1\]")]
)
def test_a_body_that_changes_its_variables_is_an_error(body, match):
  with pytest.raises(TypeError, match=match):
    while_loop(lambda s: True, body, (np.float32(1),))
