"""Values have the names of what they do in the program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.convert.source_code import to_source

_RNG = np.random.default_rng(0)
_X = _RNG.normal(size=(2, 5, 3)).astype(np.float32)
_P = {"w": _RNG.normal(size=(3, 16)).astype(np.float32), "u": _RNG.normal(size=(4, 16)).astype(np.float32)}
_GATES = {"i": "input_gate", "f": "forget_gate", "g": "candidate", "o": "output_gate"}


def _lstm(order):
  def fn(p, x):
    def step(carry, row):
      hidden, cell = carry
      gate = dict(zip(order, jnp.split(row @ p["w"] + hidden @ p["u"], 4, -1), strict=True))
      cell = jnp.tanh(gate["g"]) * jax.nn.sigmoid(gate["i"]) + cell * jax.nn.sigmoid(gate["f"])
      hidden = jnp.tanh(cell) * jax.nn.sigmoid(gate["o"])
      return (hidden, cell), hidden

    return lax.scan(step, (jnp.zeros((2, 4)), jnp.ones((2, 4))), jnp.swapaxes(x, 0, 1))

  return fn


@pytest.mark.parametrize("order", ["ifgo", "fiog"])
def test_gates_of_an_lstm_have_their_names_in_any_order(order):
  source = to_source(_lstm(order), _P, _X)
  assert f"{', '.join(_GATES[gate] for gate in order)} = jnp.split(" in source.text
  assert "        hidden, cell = carry\n" in source.text
  assert "(hidden, cell), " in source.text
  assert "cell * jax.nn.sigmoid(forget_gate)" in source.text
  got = jax.jit(source.function())(source.parameters(_P), _X)
  jax.tree.map(np.testing.assert_array_equal, got, jax.jit(_lstm(order))(_P, _X))


def test_other_cells_have_no_gates():
  def fn(p, x):
    def step(hidden, row):
      update, candidate = jnp.split(row @ p["w"] + hidden @ p["u"], 2, -1)
      update = jax.nn.sigmoid(update)
      return update * hidden + (1 - update) * jnp.tanh(candidate), None

    return lax.scan(step, jnp.zeros((2, 8)), jnp.swapaxes(x, 0, 1))[0]

  parameters = {"w": _P["w"], "u": np.tile(_P["u"], (2, 1))}
  assert "gate" not in to_source(fn, parameters, _X).text


def test_what_attention_is_made_of_has_its_names():
  def fn(p, x, y):
    a, b, c = (jnp.sin(x) @ p[name] + jnp.cos(x) for name in "abc")
    weights = jax.nn.softmax(jnp.where(y, jnp.einsum("bsd,btd->bst", a, b) / 2, -1e9))
    return weights @ c + x

  parameters = {name: _RNG.normal(size=(3, 3)).astype(np.float32) for name in "abc"}
  text = to_source(fn, parameters, _X, np.ones((2, 5, 5), bool)).text
  for letter, name in zip("abc", ("query", "key", "value"), strict=True):
    assert f'    {name} = jnp.sin(x) @ params["{letter}"] + jnp.cos(x)\n' in text
