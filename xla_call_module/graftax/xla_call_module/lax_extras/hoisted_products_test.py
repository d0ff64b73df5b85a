"""Scans with products before the loop, against `jax.lax.scan`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.xla_call_module.lax_extras import scan_with_products_before

_RNG = np.random.default_rng(0)
_STEPS = 6


def _normal(*shape):
  return _RNG.normal(size=shape).astype(np.float32)


_SEQUENCE, _W, _U = _normal(_STEPS, 2, 3), _normal(3, 4), _normal(4, 4)
_START = _normal(2, 4)


def _row(sequence, i, axis=0):
  return lax.dynamic_index_in_dim(sequence, i, axis, keepdims=False)


def _layer(read):
  """Returns a recurrent layer as a function of the sequence and the matrices, and of what runs its loop."""

  def layer(sequence, w, u, scan=scan_with_products_before, counters=None):
    def step(state, i):
      return jnp.tanh(read(sequence, i) @ w + state @ u)

    return scan(step, jnp.asarray(_START), np.arange(_STEPS, dtype=np.int32) if counters is None else counters)

  return layer


def _plain(step, init, counters):
  return lax.scan(lambda carry, i: (step(carry, i), None), init, counters)[0]


def _products_in_loop(function, *args):
  (loop,) = [e for e in jax.make_jaxpr(function)(*args).eqns if e.primitive.name == "scan"]
  return [e.primitive.name for e in loop.params["jaxpr"].eqns].count("dot_general")


_READS = {
  "rows": (_row, _SEQUENCE),
  "along another axis": (lambda x, i: _row(x, i, 1), _SEQUENCE.transpose(1, 0, 2)),
  "backwards": (lambda x, i: _row(x, _STEPS - 1 - i), _SEQUENCE),
  "out of range": (lambda x, i: _row(x, i + 3), _SEQUENCE),
  "two rows": (lambda x, i: lax.dynamic_slice_in_dim(x, i, 2, 1).reshape(2, -1)[:, :3], _SEQUENCE.transpose(1, 0, 2)),
  "in another form": (lambda x, i: _row(x, i).T.astype(np.float32), _SEQUENCE.transpose(0, 2, 1).astype(np.float16)),
}


@pytest.mark.parametrize("name", _READS)
def test_values_and_derivatives_are_those_of_scan(name):
  read, sequence = _READS[name]
  layer, args = _layer(read), (sequence, _W, _U)

  def loss(scan):
    return jax.value_and_grad(lambda *args: layer(*args, scan=scan).sum(), argnums=(1, 2))

  np.testing.assert_allclose(layer(*args), layer(*args, scan=_plain), rtol=1e-5, atol=1e-6)
  jax.tree.map(
    lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5),
    loss(scan_with_products_before)(*args),
    loss(_plain)(*args),
  )
  rows = jax.vmap(layer, in_axes=(None, 0, None))(sequence, np.stack([_W, 2 * _W]), _U)
  np.testing.assert_allclose(rows[1], layer(sequence, 2 * _W, _U, scan=_plain), rtol=1e-5, atol=1e-6)
  tangents = jax.jvp(lambda w: layer(sequence, w, _U), (_W,), (_W,))[1]
  expected = jax.jvp(lambda w: layer(sequence, w, _U, scan=_plain), (_W,), (_W,))[1]
  np.testing.assert_allclose(tangents, expected, rtol=1e-4, atol=1e-5)


def test_products_are_computed_before_the_loop():
  for name, (read, sequence) in _READS.items():
    # `slice` is not among what may be done with a row.
    assert _products_in_loop(_layer(read), sequence, _W, _U) == 1 + (name == "two rows"), name
  reads_all = jax.make_jaxpr(_layer(_row))(_SEQUENCE, _W, _U)
  assert "gather" not in str(reads_all)
  text = jax.jit(_layer(_row)).lower(_SEQUENCE, _W, _U).as_text()
  assert "dot_general" in text.partition("stablehlo.while")[0]


def test_what_depends_on_the_state_stays_in_the_loop():
  def layer(w):
    return scan_with_products_before(lambda x, i: jnp.tanh((x + i) @ w), jnp.asarray(_START), np.arange(3))

  assert _products_in_loop(layer, _U) == 1
  np.testing.assert_allclose(layer(_U), _plain(lambda x, i: jnp.tanh((x + i) @ _U), _START, np.arange(3)), rtol=1e-6)


def test_many_bytes_are_computed_in_the_loop(monkeypatch):
  # For each step a row with its axis and without it, and a product, and some numbers of rows.
  rows_and_product = 4 * _STEPS * (2 * 2 * 3 + 2 * 4)
  for limit, in_loop in ((rows_and_product + 4 * _STEPS * 6, 1), (rows_and_product - 1, 2)):
    monkeypatch.setattr("graftax.xla_call_module.lax_extras.hoisted_products._MOST_BYTES", limit)
    assert _products_in_loop(_layer(_flat), _SEQUENCE, _W, _U) == in_loop


def _flat(sequence, i):
  return lax.squeeze(lax.dynamic_slice(sequence, (i, 0, 0), (1, 2, 3)), (0,))


def test_bytes_within_calls_count(monkeypatch):
  # A call that makes much of a row and returns little of it.
  @jax.jit
  def corner(sequence, i):
    return lax.dynamic_slice(jnp.broadcast_to(_flat(sequence, i), (100, 2, 3)), (0, 0, 0), (1, 2, 3))[0]

  monkeypatch.setattr("graftax.xla_call_module.lax_extras.hoisted_products._MOST_BYTES", 4 * _STEPS * 600)
  assert _products_in_loop(_layer(corner), _SEQUENCE, _W, _U) == 2
  assert _products_in_loop(_layer(_flat), _SEQUENCE, _W, _U) == 1


def test_windows_are_not_stored_for_all_steps():
  x, w = _normal(5000, 32), _normal(256 * 32, 8)
  counters = np.arange(4000, dtype=np.int32)

  def windows(x, w, scan=scan_with_products_before):
    def step(state, i):
      return jnp.tanh(state + lax.dynamic_slice(x, (i, 0), (256, 32)).reshape(-1) @ w)

    return scan(step, jnp.zeros(8), counters)

  assert _products_in_loop(windows, x, w) == 1

  def shifted():
    def step(state, i):
      return jnp.tanh(state + (jnp.asarray(w[:4096, 0]) + i.astype(np.float32)) @ w[:4096])

    return scan_with_products_before(step, jnp.zeros(8), counters)

  assert sum(map(np.size, jax.make_jaxpr(shifted)().consts)) < 2 * w.size


_MIXED = {
  "weak integer": (lambda c, i: jnp.floor(c) + _row(_SEQUENCE, i)[0] @ _W, 0),
  "doubled": (lambda c, i: c * 2 + _row(_SEQUENCE, i)[0] @ _W, 0),
  "bfloat16": (lambda c, i: c * 2.0 + (_row(_SEQUENCE, i)[0] @ _W).astype(jnp.bfloat16), np.zeros(4, jnp.bfloat16)),
}


@pytest.mark.parametrize("name", _MIXED)
def test_types_of_a_carry_are_those_of_scan(name):
  step, init = _MIXED[name]
  try:
    expected = _plain(step, init, np.arange(_STEPS))
  except TypeError:
    with pytest.raises(TypeError, match="carry"):
      scan_with_products_before(step, init, np.arange(_STEPS))
    return
  found = scan_with_products_before(step, init, np.arange(_STEPS))
  assert found.dtype == expected.dtype
  np.testing.assert_allclose(np.float32(found), np.float32(expected), rtol=1e-5)


def test_other_structures_raise():
  with pytest.raises(TypeError, match="carry"):
    scan_with_products_before(lambda c, i: {"b": c["a"]}, {"a": jnp.zeros(2)}, np.arange(3))


def test_a_step_is_traced_once():
  traces = []

  def nested(depth, state):
    def step(state, i):
      traces.append(depth)
      return nested(depth - 1, state) if depth else state + 1

    return scan_with_products_before(step, state, np.arange(2))

  assert nested(3, jnp.zeros(())) == 16
  assert traces == [3, 2, 1, 0]


def test_no_steps():
  assert scan_with_products_before(lambda c, i: c + 1, jnp.ones(()), np.arange(0)) == 1


def test_traced_counters_are_those_of_scan():
  layer = jax.jit(lambda counters: _layer(_row)(_SEQUENCE, _W, _U, counters=counters))
  expected = _layer(_row)(_SEQUENCE, _W, _U, scan=_plain)
  np.testing.assert_allclose(layer(np.arange(_STEPS)), expected, rtol=1e-5, atol=1e-6)


def test_prints_stay_in_their_order(capsys):
  def printing(w):
    def step(x, i):
      jax.debug.print("step {}", i, ordered=True)
      return x + _row(_SEQUENCE, i) @ w

    return scan_with_products_before(step, jnp.asarray(_START), np.arange(2))

  printing(_W)
  jax.effects_barrier()
  assert capsys.readouterr().out == "step 0\nstep 1\n"
  assert _products_in_loop(printing, _W) == 1
