"""`match` of recurrent cells whose gates are in other orders and in other arrays, against the functions' outputs."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from graftax.savedmodel_io import match

_INPUTS, _UNITS = 3, 2
_RNG = np.random.default_rng(0)


def _random(*shape):
  return _RNG.normal(size=shape).astype(np.float32)


def _cell_params(num_gates, bias_shape):
  return {
    "rnn/cell/kernel": _random(_INPUTS, num_gates * _UNITS),
    "rnn/cell/recurrent_kernel": _random(_UNITS, num_gates * _UNITS),
    "rnn/cell/bias": _random(*bias_shape),
    "dense/kernel": _random(_UNITS, 5),
  }


_LSTM = _cell_params(4, (4 * _UNITS,))
_GRU = _cell_params(3, (2, 3 * _UNITS))


def _lstm_states(kernel, state_kernel, bias, order, x):
  """Returns the states of an LSTM whose input, forget, candidate and output gates ("ifgo") are in some order."""

  def step(carry, x):
    c, h = carry
    gates = dict(zip(order, jnp.split(x @ kernel + h @ state_kernel + bias, 4), strict=True))
    c = jax.nn.sigmoid(gates["f"]) * c + jax.nn.sigmoid(gates["i"]) * jnp.tanh(gates["g"])
    h = jax.nn.sigmoid(gates["o"]) * jnp.tanh(c)
    return (c, h), h

  return jax.lax.scan(step, (jnp.zeros(_UNITS), jnp.zeros(_UNITS)), x)[1]


def _keras_lstm_states(params, scope, x):
  return _lstm_states(*(params[f"{scope}/{name}"] for name in ("kernel", "recurrent_kernel", "bias")), "ifgo", x)


def _lstm(params, x):
  return _keras_lstm_states(params, "rnn/cell", x)[-1] @ params["dense/kernel"]


def _gru(params, x):
  return _gru_state(params, x) @ params["dense/kernel"]


def _gru_state(params, x):
  """The cell of Keras: update, reset and candidate gate, with a bias for the input and one for the state."""

  def step(h, x):
    z_x, r_x, n_x = jnp.split(x @ params["rnn/cell/kernel"] + params["rnn/cell/bias"][0], 3)
    z_h, r_h, n_h = jnp.split(h @ params["rnn/cell/recurrent_kernel"] + params["rnn/cell/bias"][1], 3)
    z, r = jax.nn.sigmoid(z_x + z_h), jax.nn.sigmoid(r_x + r_h)
    h = z * h + (1 - z) * jnp.tanh(n_x + r * n_h)
    return h, h

  return jax.lax.scan(step, jnp.zeros(_UNITS), x)[1][-1]


class _Equinox(eqx.Module):
  rnn: eqx.Module
  dense: eqx.nn.Linear

  def __init__(self, cell):
    self.rnn = cell(_INPUTS, _UNITS, key=jax.random.key(0))
    self.dense = eqx.nn.Linear(_UNITS, 5, use_bias=False, key=jax.random.key(1))

  def __call__(self, x):
    zeros = jnp.zeros(_UNITS)
    start = (zeros, zeros) if isinstance(self.rnn, eqx.nn.LSTMCell) else zeros
    end, _ = jax.lax.scan(lambda carry, x: (self.rnn(x, carry), None), start, x)
    return self.dense(end[0] if isinstance(end, tuple) else end)


class _Nnx(nnx.Module):
  def __init__(self, cell):
    rngs = nnx.Rngs(0)
    self.rnn = nnx.RNN(cell(_INPUTS, _UNITS, rngs=rngs))
    self.dense = nnx.Linear(_UNITS, 5, use_bias=False, rngs=rngs)

  def __call__(self, x):
    return self.dense(self.rnn(x)[-1])


@pytest.mark.parametrize(
  ("params", "fn", "target"),
  [
    pytest.param(_LSTM, _lstm, lambda: _Equinox(eqx.nn.LSTMCell), id="lstm-equinox"),
    pytest.param(_LSTM, _lstm, lambda: _Nnx(nnx.LSTMCell), id="lstm-nnx"),
    pytest.param(_LSTM, _lstm, lambda: _Nnx(nnx.OptimizedLSTMCell), id="lstm-nnx-optimized"),
    pytest.param(_GRU, _gru, lambda: _Equinox(eqx.nn.GRUCell), id="gru-equinox"),
  ],
)
def test_gates_are_brought_into_the_order_of_the_target_by_a_run_alone(params, fn, target):
  x = _random(4, _INPUTS)
  by_names = match(params, target())
  assert set(by_names.placed) <= {"dense/weight", "dense/kernel"}
  assert not by_names.missing
  matching = match(params, target(), fn=fn, target_fn=lambda target, x: target(x), args=(x,))
  assert matching.is_complete, str(matching)
  np.testing.assert_allclose(matching.apply()(x), fn(params, x), rtol=1e-5, atol=1e-6)
  assert matching.check(fn, lambda target, x: target(x), x).is_equal


def _other_lstm_states(cell, order, x):
  return _lstm_states(cell["w_ih"].T, cell["w_hh"].T, cell["b"], order, x)


def _other_lstm(tree, x):
  return _other_lstm_states(tree["cell"], "ofgi", x)[-1] @ tree["out"]["w"]


def test_a_cell_with_gates_in_another_order_has_no_rows_for_rename():
  cell = {"w_ih": jnp.zeros((4 * _UNITS, _INPUTS)), "w_hh": jnp.zeros((4 * _UNITS, _UNITS)), "b": jnp.zeros(4 * _UNITS)}
  target, x = {"cell": cell, "out": {"w": jnp.zeros((_UNITS, 5))}}, _random(4, _INPUTS)
  matching = match(_LSTM, target, fn=_lstm, target_fn=_other_lstm, args=(x,))
  assert matching.is_complete, str(matching)
  np.testing.assert_allclose(_other_lstm(matching.apply(), x), _lstm(_LSTM, x), rtol=1e-5, atol=1e-6)
  assert list(matching.table) == ["dense/kernel"]


def test_cells_of_one_model_may_have_different_orders():
  sizes = {"kernel": (_UNITS, 4 * _UNITS), "recurrent_kernel": (_UNITS, 4 * _UNITS), "bias": (4 * _UNITS,)}
  params = {f"{scope}/cell/{name}": _random(*size) for scope in ("a", "b") for name, size in sizes.items()}

  def fn(params, x):
    return _keras_lstm_states(params, "b/cell", _keras_lstm_states(params, "a/cell", x))[-1]

  def target_fn(tree, x):
    return _other_lstm_states(tree["two"], "gofi", _other_lstm_states(tree["one"], "ogfi", x))[-1]

  cell = {"w_ih": np.zeros((4 * _UNITS, _UNITS)), "w_hh": np.zeros((4 * _UNITS, _UNITS)), "b": np.zeros(4 * _UNITS)}
  target, x = {"one": cell, "two": dict(cell)}, _random(4, _UNITS)
  matching = match(params, target, fn=fn, target_fn=target_fn, args=(x,))
  assert matching.is_complete, str(matching)
  np.testing.assert_allclose(target_fn(matching.apply(), x), fn(params, x), rtol=1e-5, atol=1e-6)


def test_a_bias_without_a_row_for_the_state_is_one_of_two_biases():
  """The cell of the target adds both of its biases."""

  def target_fn(tree, x):
    return _other_lstm({**tree, "cell": {**tree["cell"], "b": tree["cell"]["b_ih"] + tree["cell"]["b_hh"]}}, x)

  cell = {"w_ih": jnp.zeros((4 * _UNITS, _INPUTS)), "w_hh": jnp.zeros((4 * _UNITS, _UNITS))}
  cell |= dict.fromkeys(("b_ih", "b_hh"), jnp.zeros(4 * _UNITS))
  target, x = {"cell": cell, "out": {"w": jnp.zeros((_UNITS, 5))}}, _random(4, _INPUTS)
  matching = match(_LSTM, target, fn=_lstm, target_fn=target_fn, args=(x,))
  assert matching.missing == ("cell/b_hh",)
  assert not matching.ambiguous
  np.testing.assert_allclose(target_fn(matching.apply(partial=True), x), _lstm(_LSTM, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
  ("kernel", "state", "bias", "places"),
  [
    pytest.param((3, 13), (4, 13), (13,), {"w_ih": (13, 3), "w_hh": (13, 4), "b": (13,)}, id="no-whole-gates"),
    pytest.param((3, 0), (0, 0), (0,), {"w_ih": (0, 3), "w_hh": (0, 0), "b": (0,)}, id="no-units"),
    pytest.param((3, 8), (2, 8), (1, 8), {"w_ih": (8, 3), "w_hh": (8, 2), "b": (8,)}, id="one-row-of-biases"),
    pytest.param((3, 8), (2, 8), (3, 8), {"w_ih": (8, 3), "w_hh": (8, 2), "b": (8,)}, id="three-rows-of-biases"),
    pytest.param((3, 8), (2, 8), (8,), {"w_ih": (8, 3), "w_hh": (8, 2), "b": (7,)}, id="other-bias-in-target"),
    pytest.param((3, 6), (2, 6), (2, 6), {"w_ih": (3, 6), "w_hh": (2, 6), "b": (2, 6)}, id="both-rows-in-target"),
  ],
)
def test_recipes_of_arrays_that_resemble_a_cell_have_the_shapes_of_the_target(kernel, state, bias, places):
  params = {"rnn/kernel": _random(*kernel), "rnn/recurrent_kernel": _random(*state), "rnn/bias": _random(*bias)}
  matching = match(params, {"rnn": {name: np.zeros(shape) for name, shape in places.items()}})
  options = {name: way.options for name, way in matching.ambiguous.items()}
  options |= {name: (placement.recipe,) for name, placement in matching.placed.items()}
  for name, recipes in options.items():
    assert {recipe.make(params).shape for recipe in recipes} == {matching.target_shape(name)}


def test_rows_of_the_table_decide_the_arrays_of_a_cell():
  places = {"w_ih": np.zeros((4 * _UNITS, _INPUTS)), "w_hh": np.zeros((4 * _UNITS, _UNITS)), "b": np.zeros(4 * _UNITS)}
  rows = {"rnn/cell/kernel": "cell/w_ih", "rnn/cell/recurrent_kernel": "cell/w_hh", "rnn/cell/bias": "cell/b"}
  matching = match(_LSTM, {"cell": places}, table=rows)
  assert {placement.evidence for placement in matching.placed.values()} == {("table",)}
  placed = matching.apply()["cell"]
  np.testing.assert_array_equal(placed["w_ih"], _LSTM["rnn/cell/kernel"].T)
  np.testing.assert_array_equal(placed["b"], _LSTM["rnn/cell/bias"])


def test_two_parallel_cells_are_tried_in_the_same_order():
  """One side returns all states and the other the last one, so only the layer after both cells can be compared."""
  sides = {"there": _GRU, "back": _cell_params(3, (2, 3 * _UNITS))}
  params = {f"{side}/{name}": value for side, part in sides.items() for name, value in part.items() if "rnn" in name}
  params["dense/kernel"] = _random(2 * _UNITS, 5)

  def fn(params, x):
    there, back = ({name: params[f"{side}/{name}"] for name in _GRU if "rnn" in name} for side in sides)
    return jnp.concatenate([_gru_state(there, x), _gru_state(back, x[::-1])]) @ params["dense/kernel"]

  def last_state(cell, x):
    return jax.lax.scan(lambda h, x: (cell(x, h), None), jnp.zeros(_UNITS), x)[0]

  def target_fn(tree, x):
    states = [last_state(tree["there"], x), last_state(tree["back"], x[::-1])]
    return jnp.concatenate(states) @ tree["dense"]["kernel"]

  target = {side: eqx.nn.GRUCell(_INPUTS, _UNITS, key=jax.random.key(0)) for side in sides}
  target["dense"] = {"kernel": jnp.zeros((2 * _UNITS, 5))}
  x = _random(4, _INPUTS)
  matching = match(params, target, fn=fn, target_fn=target_fn, args=(x,))
  assert matching.is_complete, str(matching)
  np.testing.assert_allclose(target_fn(matching.apply(), x), fn(params, x), rtol=1e-5, atol=1e-6)
