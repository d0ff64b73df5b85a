"""Converted programs and the primitives in them."""

import jax
import jax.numpy as jnp
import pytest
import tensorflow as tf

from graftax.convert import convert, jax2tf
from graftax.testing.jax_consumers.primitives import own_primitives
from graftax.xla_call_module import with_jax_primitives

_SPEC = jax.ShapeDtypeStruct((3,), jnp.float32)


def _with_custom_gradient(x):
  return tf.nn.silu(x) * 2


def _loop_of_unknown_length(x):
  return tf.while_loop(lambda y: tf.reduce_any(abs(y * y - x) > 1e-4), lambda y: (y + x / y) / 2, [x])


def _with_a_module(x):
  return jax2tf.convert(jnp.sin)(x) + 1


@pytest.mark.parametrize("function", [_with_custom_gradient, _loop_of_unknown_length, _with_a_module])
def test_converted_programs_can_do_without_primitives_of_graftax(function):
  converted, params = convert(tf.function(function), tf.TensorSpec((3,)))
  counts = own_primitives(converted, params, _SPEC)
  assert bool(counts["stablehlo_platform_check"]) == (function is _with_a_module)
  assert not own_primitives(with_jax_primitives(converted), params, _SPEC)
