"""The two `call_tf`s whose results are compared with TensorFlow."""

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["CONVERTERS"]


def _graftax(function: Callable[..., Any]) -> Callable[..., Any]:
  from graftax.convert import jax2tf

  return jax2tf.call_tf(function)


def _jax2tf(function: Callable[..., Any]) -> Callable[..., Any]:
  from jax.experimental import jax2tf

  # With its default, has_side_effects=True, fewer transformations work.
  found: Callable[..., Any] = jax2tf.call_tf(function, has_side_effects=False)
  return found


CONVERTERS: Mapping[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {"graftax": _graftax, "jax2tf": _jax2tf}
"""Maps names to functions from TensorFlow functions to JAX functions."""
