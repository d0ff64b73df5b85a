"""Names for objects of TensorFlow and Keras, which ship no type information; a type checker takes each for `Any`."""

from typing import Any, TypeAlias

__all__ = ["Keras", "KerasModel", "TensorFlow", "TfTensor"]

TensorFlow: TypeAlias = Any
"""The `tensorflow` module, or its `compat.v1`."""
TfTensor: TypeAlias = Any
"""A tensor, eager or of a graph, or what TensorFlow reads as one, such as a variable."""
Keras: TypeAlias = Any
"""The `keras` module."""
KerasModel: TypeAlias = Any
"""A model of Keras, or a layer."""
