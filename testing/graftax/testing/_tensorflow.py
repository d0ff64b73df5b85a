"""Imports TensorFlow when a check runs; everything else in this package works without it."""

from typing import Any, TypeAlias

from graftax import convert

__all__ = ["TensorFlow", "TfFunction", "TfTensor", "import_tensorflow"]

# TensorFlow ships no type information, so a type checker takes each of these for `Any`.
TensorFlow: TypeAlias = Any
"""The `tensorflow` module."""
TfTensor: TypeAlias = Any
"""A tensor, eager or of a graph, or what TensorFlow reads as one, such as a variable."""
TfFunction: TypeAlias = Any
"""A `tf.function`, a Keras model, or a Python function of tensors."""


def import_tensorflow() -> TensorFlow:
  """Returns the `tensorflow` module.

  Raises:
    LibraryNotFoundError: TensorFlow cannot be imported.
  """
  return convert.import_tensorflow("graftax.testing")
