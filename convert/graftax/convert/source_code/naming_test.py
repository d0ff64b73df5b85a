"""Functions, arguments and values of a written text have names that a reader knows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.convert.source_code import to_source
from graftax.convert.source_code.grouping import without_number

_RNG = np.random.default_rng(0)
_X = _RNG.normal(size=(2, 4, 8)).astype(np.float32)


def _arrays(shapes):
  return {name: _RNG.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def _text(fn, *args):
  """Returns the text of a function, which has the function's values."""
  source = to_source(fn, *args)
  got = jax.jit(source.function())(source.parameters(args[0]), *args[1:])
  jax.tree.map(np.testing.assert_array_equal, got, jax.jit(fn)(*args))
  return source.text


def test_what_is_read_together_has_the_names_of_its_parameters():
  names = ("query", "key", "value")

  def fn(p, x):
    q, k, v = (jnp.tanh(jnp.sin(x) @ p[f"{name}/kernel"] + jnp.cos(p[f"{name}/bias"])) for name in names)
    return lax.clamp(q, v, k) + x

  text = _text(fn, _arrays({f"{n}/{w}": s for n in names for w, s in (("kernel", (8, 8)), ("bias", (8,)))}), _X)
  for name in names:
    assert f"    {name} = jnp.tanh(" in text and f'params["{name}"]["kernel"]' in text
  assert "lax.clamp(query, value, key)" in text


def test_a_value_that_is_changed_step_by_step_keeps_its_name():
  def fn(p, x):
    y = jnp.tanh(jnp.sin(x) @ p["first/kernel"] + p["first/bias"])
    y = jnp.tanh(jnp.sin(y) @ p["second/kernel"] + p["second/bias"])
    return x * y

  shapes = {"kernel": (8, 8), "bias": (8,)}
  text = _text(fn, _arrays({f"{n}/{w}": s for n in ("first", "second") for w, s in shapes.items()}), _X)
  assert "first =" not in text and "second =" not in text


def test_a_mean_that_is_subtracted_is_called_mean():
  def fn(p, x):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    return (x - mean) * p["scale"] + mean

  assert "    mean = jnp.mean(x, axis=-1, keepdims=True)\n" in _text(fn, {"scale": np.float32(2)}, _X)


def _blocks(p, images, masks):
  x = images
  for i, mask in enumerate(masks):
    with jax.named_scope(f"block_{i}"):
      x = jnp.tanh(x @ p[f"block_{i}/kernel"] + p[f"block_{i}/bias"]) * jnp.where(mask, x, 0)
  return x


def test_arguments_have_the_name_that_all_calls_give_them():
  parameters = _arrays({f"block_{i}/{w}": s for i in range(3) for w, s in (("kernel", (8, 8)), ("bias", (8,)))})
  text = _text(lambda p, images, mask: _blocks(p, images, [mask] * 3), parameters, _X, _X > 0)
  # Only the first block is called with the images.
  assert "def block(p, x, mask):" in text
  assert "def model(params, images, mask):" in text
  text = _text(lambda p, x, first, last: _blocks(p, x, [first, first, last]), parameters, _X, _X > 0, _X < 0)
  assert "def block(p, x, y):" in text


def _convolution(p, name, x, strides=1):
  with jax.named_scope(name):
    numbers = ("NHWC", "HWIO", "NHWC")
    x = lax.conv_general_dilated(x, p[f"{name}/kernel"], (strides, strides), "SAME", dimension_numbers=numbers)
    return x + p[f"{name}/bias"]


def _convolutions(p, x):
  for i in range(1, 4):
    for j in range(1, 1 + i + (i > 1)):
      name = f"stage{i}_block{j}"
      y = jnp.tanh(_convolution(p, f"{name}_a_conv", x, 2 if j == 1 < i else 1))
      y = _convolution(p, f"{name}_b_conv", y)
      with jax.named_scope(f"{name}_out"):
        x = jnp.tanh(y + jnp.mean(x))
  return x


def test_convolutions_are_functions_and_stages_too_however_few_blocks_they_have():
  shapes = {
    f"stage{i}_block{j}_{k}_conv/{w}": s
    for i in range(1, 4)
    for j in range(1, 5)
    for k in "ab"
    for w, s in (("kernel", (3, 3, 2, 2)), ("bias", (2,)))
  }
  text = _text(_convolutions, _arrays(shapes), _RNG.normal(size=(1, 8, 8, 2)).astype(np.float32))
  assert text.count("lax.conv_general_dilated(") == text.count("strides=(2, 2)") == 1
  assert 'for stage_params in params["stages"]:' in text


def test_the_function_with_the_most_calls_has_no_number():
  def fn(p, x):
    for i, activation in enumerate((jnp.sin, jnp.sin, jnp.cos, jnp.cos, jnp.cos)):
      x = _convolution(p, f"conv_{i}", x)
      with jax.named_scope(f"conv_{i}"):
        x = activation(x)
      x = jnp.tanh(x)
    return x

  shapes = {f"conv_{i}/{w}": s for i in range(5) for w, s in (("kernel", (3, 3, 2, 2)), ("bias", (2,)))}
  text = _text(fn, _arrays(shapes), _RNG.normal(size=(1, 8, 8, 2)).astype(np.float32))
  assert "cos" in text.partition("def conv(p, x):")[2].partition("\n\n")[0]
  assert "sin" in text.partition("def conv_2(p, x):")[2].partition("\n\n")[0]


@pytest.mark.parametrize(
  ("name", "word"),
  [("dense4", "dense"), ("block4a", "block"), ("block4d", "block"), ("conv2d", "conv2d"), ("conv2d12", "conv2d")]
  + [("ab", "ab"), ("7", ""), ("1" * 100_000 + "-", "1" * 100_000 + "-")],
)
def test_a_number_at_the_end_is_no_part_of_a_word(name, word):
  assert without_number(name) == word


def test_a_block_whose_names_differ_in_number_and_letter_has_a_name_without_them():
  names = [f"block{i}{letter}" for i in (4, 5) for letter in "abcd"]

  def fn(p, x):
    for i, name in enumerate(names):
      y = jnp.tanh(_convolution(p, f"{name}_expand_conv", x))
      y = _convolution(p, f"{name}_project_conv", y)
      with jax.named_scope(f"{name}_out"):
        x = x + y if i % 4 else jnp.sin(y)
    return x

  shapes = {
    f"{name}_{part}_conv/{w}": s
    for name in names
    for part in ("expand", "project")
    for w, s in (("kernel", (3, 3, 2, 2)), ("bias", (2,)))
  }
  text = _text(fn, _arrays(shapes), _RNG.normal(size=(1, 8, 8, 2)).astype(np.float32))
  assert "def block(p, x):" in text and text.count(" in params[") == 2
  assert 'for block_params in params["blocks"]:' in text and 'for block_params in params["blocks_2"]:' in text


def test_layers_that_differ_in_their_number_alone_are_no_function():
  def fn(p, x):
    y = x
    for i in range(2):
      with jax.named_scope(f"dense_{i}"):
        y = x * (y @ p[f"dense_{i}/kernel"] + p[f"dense_{i}/bias"])
      y = y + x
    with jax.named_scope("dense_2"):
      z = jnp.tanh(x @ p["dense_2/kernel"] + p["dense_2/bias"])
    return jnp.concatenate([jnp.sin(y), jnp.cos(z)])

  shapes = {f"dense_{i}/{w}": s for i in range(3) for w, s in (("kernel", (8, 8)), ("bias", (8,)))}
  assert "def dense" not in _text(fn, _arrays(shapes), _X)
