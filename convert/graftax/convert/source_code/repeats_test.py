"""Layers that repeat without scopes that say so."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.convert.source_code.api import to_source

_RNG = np.random.default_rng(0)
_X = _RNG.normal(size=(2, 4)).astype(np.float32)


def _dense(p, name, x):
  with jax.named_scope(name):
    return x @ p[f"{name}/kernel"] + p[f"{name}/bias"]


def _norm(p, name, x):
  with jax.named_scope(name):
    return (x - jnp.mean(x, axis=-1, keepdims=True)) * p[f"{name}/scale"]


def _blocks(p, x, activations):
  """Residual blocks whose layers are numbered as in a flat Keras model."""
  for i, activation in enumerate(activations):
    y = _norm(p, f"norm_{i}", x)
    y = activation(_dense(p, f"dense_{2 * i}", y))
    x = x + jnp.sin(_dense(p, f"dense_{2 * i + 1}", y))
  return _dense(p, f"dense_{2 * len(activations)}", x)


def _parameters(count):
  arrays = {f"dense_{i}/kernel": (4, 4) for i in range(2 * count + 1)} | {
    f"dense_{i}/bias": (4,) for i in range(2 * count + 1)
  }
  arrays |= {f"norm_{i}/scale": (4,) for i in range(count)}
  return {name: _RNG.normal(size=shape).astype(np.float32) for name, shape in arrays.items()}


def _written(function, parameters, *args):
  source = to_source(function, parameters, *args)
  found = jax.jit(source.function())(source.parameters(parameters), *args)
  np.testing.assert_array_equal(found, jax.jit(function)(parameters, *args))
  return source


@pytest.mark.parametrize("count", [3, 5])
def test_equal_blocks_are_a_loop_over_a_list(count):
  source = _written(lambda p, x: _blocks(p, x, [jnp.tanh] * count), _parameters(count), _X)
  (blocks,) = [inner for inner in source.tree.values() if isinstance(inner, list)]
  assert len(blocks) == count
  assert source.text.count("for ") == source.text.count(".mean(") == 1


def test_blocks_that_differ_are_no_loop():
  source = _written(lambda p, x: _blocks(p, x, [jnp.tanh, jnp.cos, jnp.exp]), _parameters(3), _X)
  assert "for " not in source.text


def test_scopes_that_say_what_repeats_stay():
  def function(p, x):
    for i in range(4):
      with jax.named_scope(f"stage{i // 2}_layer{i % 2}"):
        x = x + jnp.sin(
          _dense(p, f"dense_{2 * i}", jnp.tanh(_dense(p, f"dense_{2 * i + 1}", _norm(p, f"norm_{i}", x))))
        )
    return x

  source = _written(function, _parameters(4), _X)
  assert 'for layer_params in params["layers"]:' in source.text and "block" not in source.text
