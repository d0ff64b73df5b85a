"""Functions that differ only in settings, and calls that are there often."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.convert.source_code import variants
from graftax.convert.source_code.api import to_source

_RNG = np.random.default_rng(0)
_X = _RNG.normal(size=(2, 9, 9, 3)).astype(np.float32)


def _model(settings, pad=False):
  """Returns layers of a convolution with these strides, paddings and dilations, and their parameters."""
  names = [f"block_{chr(ord('a') + i)}" for i in range(len(settings))]
  arrays = {"kernel": (3, 3, 3, 3), "bias": (3,), "scale": (3,)}

  def function(p, x):
    for name, (strides, padding, dilation) in zip(names, settings, strict=True):
      with jax.named_scope(name):
        x = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))) if pad and name[-1] in "bd" else x
        x = lax.conv_general_dilated(
          x, p[f"{name}/kernel"], strides, padding, rhs_dilation=dilation, dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jnp.tanh(x + p[f"{name}/bias"]) * p[f"{name}/scale"] + jnp.sin(x) * x.shape[0]
      x = jnp.cos(x)
    return x

  parameters = {f"{n}/{k}": _RNG.normal(size=s).astype(np.float32) for n in names for k, s in arrays.items()}
  return function, parameters


def _written(function, parameters, style, spec=_X):
  source = to_source(function, parameters, spec, style=style)
  made = source.function()
  values = source.parameters(parameters)
  if style == "nnx":
    np.testing.assert_array_equal(made(values)(_X), function(parameters, _X))
  else:
    np.testing.assert_array_equal(jax.jit(made)(values, _X), jax.jit(function)(parameters, _X))
  return source.text


@pytest.mark.parametrize("style", ["jax", "nnx"])
def test_settings_are_arguments_whose_default_is_what_most_calls_have(style):
  strided = [((1, 1), "SAME", None), ((2, 2), "SAME", None), ((1, 1), "SAME", None), ((2, 2), "VALID", None)]
  text = _written(*_model(strided), style)
  assert text.count("lax.conv_general_dilated(") == 1
  assert "x, strides=(1, 1), padding='SAME')".replace("'", '"') in text
  assert text.count("strides=(2, 2)") == 2 and text.count('padding="VALID"') == 1


def test_functions_that_differ_in_more_settings_stay_apart():
  text = _written(*_model([((1, 1), "SAME", (2, 2)), ((1, 2), "VALID", (1, 2))] * 2), "jax")
  assert text.count("lax.conv_general_dilated(") == 2 and "strides=" not in text


def test_functions_that_differ_in_operations_stay_apart():
  text = _written(*_model([((1, 1), "SAME", None), ((2, 2), "SAME", None)] * 2, pad=True), "jax")
  assert text.count("def ") == 3 and "strides=" not in text


def test_sizes_with_the_name_of_a_setting_are_no_settings():
  (strides,) = jax.export.symbolic_shape("strides")
  settings = [((1, 1), "SAME", None), ((2, 2), "SAME", None)] * 2
  text = _written(*_model(settings), "jax", jax.ShapeDtypeStruct((strides, *_X.shape[1:]), _X.dtype))
  assert "strides=(" not in text


@pytest.mark.parametrize("count", [2, 3])
def test_several_convolutions_are_calls_of_a_function(count):
  def function(p, x):
    for i in range(count):
      x = lax.conv_general_dilated(x, p[f"k{i}"], (1, i + 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return x

  parameters = {f"k{i}": _RNG.normal(size=(2, 1, 3, 3)).astype(np.float32) for i in range(count)}
  text = _written(function, parameters, "jax")
  assert text.count("lax.conv_general_dilated(") == (1 if count == 3 else 2)
  assert text.count("conv2d(") == (4 if count == 3 else 0)
  assert count == 2 or 'conv2d(x, params["k2"], strides=(1, 3), padding="VALID")' in text


def test_functions_are_compared_with_a_bounded_number_of_others(monkeypatch):
  function, parameters = _model([((1, 1), ((4, 4), (1, 1)), (i + 2, 1)) for i in range(3)])
  assert _written(function, parameters, "jax").count("lax.conv_general_dilated(") == 1
  monkeypatch.setattr(variants, "_MOST_COMPARED", 3)
  assert _written(function, parameters, "jax").count("lax.conv_general_dilated(") == 3
