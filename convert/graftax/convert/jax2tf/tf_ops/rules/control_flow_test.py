"""Branches, loops, random bits and linear algebra as plain TensorFlow ops."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.convert import jax2tf, jax_program
from graftax.testing.plain_ops import check_plain_ops

pytestmark = pytest.mark.tensorflow

_X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize("index", [-3, 0, 1, 2, 9])
def test_branches_have_the_nearest_number(index):
  branches = [jnp.sin, jnp.cos, lambda x: x * 2, lambda x: x.at[0].set(9.0)]
  check_plain_ops(lambda i, x: (lax.switch(i, branches, x), lax.cond(i > 0, jnp.exp, jnp.tanh, x)), np.int32(index), _X)


@pytest.mark.parametrize("size", [1, 7])
def test_loops_with_a_symbolic_batch(size):
  def function(x):
    def step(carry, row):
      return carry * 0.5 + row, (carry.sum(), carry)

    scanned = lax.scan(step, x[:, 0], jnp.swapaxes(x, 0, 1))
    backwards = lax.scan(step, x[:, 0], jnp.swapaxes(x, 0, 1), reverse=True)
    over_batch = lax.scan(lambda c, row: (c + row, c * row), x[0], x)
    grown = lax.while_loop(lambda c: c[0] < x.shape[0] + 2, lambda c: (c[0] + 1, jnp.sin(c[1]) + x), (0, x))
    each = jax.vmap(lambda row: lax.while_loop(lambda c: c.sum() < 30, lambda c: c + jnp.abs(c) + 0.5, row))(x)
    return scanned, backwards, over_batch, grown, each, lax.fori_loop(0, x.shape[0], lambda i, c: c * 0.9 + x[i], x[0])

  check_plain_ops(function, np.resize(_X, (size, 4)), polymorphic_shapes=["b, _"])


def test_gradients_of_branches():
  def function(x):
    return jax.grad(lambda x: lax.cond(x.sum() > 0, jnp.sin, lambda x: x**3, x).sum())(x)

  check_plain_ops(function, _X + 1)
  check_plain_ops(function, -_X - 1)


def test_loops_without_steps():
  def function(x):
    return lax.scan(lambda c, row: (c + row.sum(), row), 0.0, x[:0]), lax.fori_loop(5, 2, lambda i, c: c + 1, x)

  check_plain_ops(function, _X)


def test_gradients_of_loops_of_unknown_length_compile():
  def function(x):
    return lax.while_loop(lambda c: c[0] < 3 * x.sum(), lambda c: (c[0] + 1, jnp.sin(c[1]) + x), (0.0, x))[1]

  import tensorflow as tf

  converted = jax2tf.convert(function, lowering="tf_ops")

  @tf.function(jit_compile=True, autograph=False)
  def gradient(x):
    with tf.GradientTape() as tape:
      tape.watch(x)
      result = converted(x)
    return tape.gradient(result, x)

  x = _X + 0.5
  expected = jax.jacfwd(lambda x: function(x).sum())(x)  # JAX has no reverse mode of such loops
  np.testing.assert_allclose(gradient(tf.constant(x)), expected, rtol=1e-5, atol=1e-6)


def test_gradients_of_loops():
  def function(x):
    def loss(x):
      return lax.scan(lambda c, row: (jnp.tanh(c + row), c.sum()), x[0], x)[1].sum()

    return jax.grad(loss)(x), jax.checkpoint(loss)(x)

  check_plain_ops(function, _X)


@pytest.mark.parametrize("partitionable", [True, False])
def test_random_numbers_are_those_of_jax(partitionable):
  def function(seed, key_data):
    key = jax.random.key(seed)
    keys = jax.random.split(jax.random.wrap_key_data(key_data), 3)
    folded = jax.random.fold_in(key, seed + 5)
    # As many keys as a key has words: a selection must not take one axis for the other.
    chosen = jnp.where(jnp.arange(2) > seed + 7, keys[:2], keys[1:])
    mapped = functools.partial(jax.vmap, jax.random.fold_in)
    more = [mapped((0, None))(keys, 7), mapped((None, 0))(key, jnp.arange(3)), mapped((0, 0))(keys, jnp.arange(3))]
    return (
      [jax.random.bits(key, (5,)), jax.random.bits(key, (3, 3), np.uint8), jax.random.uniform(folded, (4,))],
      [jax.random.normal(keys[1], (2, 3)), jax.vmap(lambda k: jax.random.randint(k, (4,), 0, 100))(keys)],
      [jax.random.permutation(keys[0], 7), jax.random.bernoulli(keys[2], 0.3, (6,)), jax.random.key_data(keys)],
      [jax.random.key_data(x) for x in (chosen, *more, keys.at[1].set(key))],
      [jax.random.categorical(key, jnp.arange(4.0)), jax.random.truncated_normal(key, -1, 1, (3,))],
    )

  with jax.threefry_partitionable(partitionable):
    check_plain_ops(function, np.int32(-7), np.array([3, 4], np.uint32))


def test_linear_algebra():
  rng = np.random.default_rng(0)
  x = rng.normal(size=(2, 4, 4)).astype(np.float32)
  y = rng.normal(size=(2, 4, 3)).astype(np.float32)

  def function(x, y):
    positive = x @ x.swapaxes(1, 2) + 4 * jnp.eye(4)
    lower = jnp.linalg.cholesky(positive)
    solved = [
      lax.linalg.triangular_solve(lower, y, left_side=True, lower=True, transpose_a=transpose, unit_diagonal=unit)
      for transpose in (False, True)
      for unit in (False, True)
    ]
    right = lax.linalg.triangular_solve(lower, y.swapaxes(1, 2), lower=True, transpose_a=True)
    pivots = lax.linalg.lu(x)
    q, r = jnp.linalg.qr(x)
    u, s, v = jnp.linalg.svd(y, full_matrices=False)
    values, vectors = jnp.linalg.eigh(positive)
    return (
      [lower, *solved, right, *pivots, jnp.linalg.det(x), jnp.linalg.solve(x, y), jnp.linalg.inv(positive)],
      [jnp.abs(q), jnp.abs(r), q @ r, s, (u * s[:, None]) @ v, values, jnp.abs(vectors)],
      [lax.linalg.lu_pivots_to_permutation(pivots[1], 4)],
    )

  check_plain_ops(function, x, y, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("conjugate", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_triangular_systems_of_complex_numbers(left, transpose, conjugate):
  rng = np.random.default_rng(0)
  a = (rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3)) + 3 * np.eye(3)).astype(np.complex64)
  options = {"left_side": left, "lower": True, "transpose_a": transpose, "conjugate_a": conjugate}
  check_plain_ops(lambda a: lax.linalg.triangular_solve(a, a[::-1], **options), a, rtol=1e-4, atol=1e-5)


def test_64_bit_types():
  with jax.enable_x64(True):
    x = np.array([2**40 + 3, -(2**40), 5, -1], np.int64)

    def function(x, y):
      return (
        x // 7,
        x % 1000,
        x * x,
        y @ y,
        jnp.sort(x),
        lax.clz(x),
        (y * 1e20).astype(np.int64),
        jnp.argmax(y),
        x[x[2:]],
      )

    check_plain_ops(function, x, np.array([0.1, np.nan, 3, -5]), rtol=1e-12)


def test_custom_rules_and_calls():
  @jax.custom_jvp
  def f(x):
    return jnp.sin(x)

  f.defjvp(lambda p, t: (f(*p), 2 * t[0]))

  def function(x):
    return f(x), jax.grad(lambda x: f(x).sum())(x), jax.jit(f)(x), jax.checkpoint(f)(x), lax.stop_gradient(x)

  check_plain_ops(function, _X)


def test_loops_have_the_variables_that_converters_read():
  def function(x):
    rows = lax.scan(lambda c, row: (c + row, c), jnp.zeros(4), x, reverse=True)[1]
    return lax.while_loop(lambda c: c.sum() < 30, lambda c: c + 1, rows)

  program = jax_program(function, [jax.ShapeDtypeStruct((3, 4), np.float32)], lowering="tf_ops", gradient_order=0)
  nodes = {node.name: node for node in program.function.nodes}
  first = [
    [int(nodes[ref.node].attrs["value"].numpy()) for ref in node.inputs[:2]]
    for node in nodes.values()
    if node.op == "StatelessWhile"
  ]
  assert first == [[0, 3], [0, -1]]
  bodies = [f for f in program.library.values() if any(node.op == "TensorListSetItem" for node in f.nodes)]
  for body in bodies:  # the count is that of the rows, also backwards
    items = [node for node in body.nodes if node.op == "TensorListSetItem"]
    assert [item.inputs[1].node for item in items] == [body.parameters[2].name]
    # The first variable is only counted, and the second returned as it is.
    assert [sum(ref.node == p.name for node in body.nodes for ref in node.inputs) for p in body.parameters[:2]] == [
      1,
      1,
    ]


@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
def test_keys_of_other_generators(impl):
  def function(words):
    key = jax.random.wrap_key_data(words, impl=impl)
    keys = jax.random.split(key, (2, 3))
    drawn = jax.vmap(lambda key: jax.random.normal(key, (3,)))(keys[0])
    folded = jax.vmap(jax.random.fold_in, (0, None))(keys[1], 7), jax.random.fold_in(key, np.int32(3))
    bits = [jax.random.bits(key, (5,), dtype) for dtype in (np.uint8, np.uint16, np.uint32)]
    data = [jax.random.key_data(found) for found in (keys, *folded, jax.random.key(5, impl=impl))]
    return drawn, data, bits, jax.random.randint(key, (4,), -5, 100)

  check_plain_ops(function, np.array([1, 2**31, 3, 2**32 - 1], np.uint32))


def test_bits_of_generators():
  state = np.array([7, 1, 2**32 - 2, 2**32 - 1], np.uint32)
  check_plain_ops(lambda state: [lax.rng_bit_generator(state, shape) for shape in ((), (3, 5), (0,))], state)
  check_plain_ops(
    lambda state, x: lax.rng_bit_generator(state, x.shape)[1], state, _X, polymorphic_shapes=[None, "n, 4"]
  )
  with jax.enable_x64(True):
    check_plain_ops(lambda state: lax.rng_bit_generator(state, (3, 2), np.uint64), state)
