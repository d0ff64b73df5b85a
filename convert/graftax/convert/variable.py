"""A parameter value that remembers the TensorFlow variable it came from."""

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["Variable", "split_trainable"]


class Variable(np.ndarray):
  """A numpy array with a variable's name and trainability.

  It is an ordinary leaf for `jax.tree` functions and an ordinary array for numpy and JAX; no data is copied, so a
  memory-mapped array stays memory-mapped. Pickling keeps the name and the flag, and so does a copy, a cast or a
  slice; the result of arithmetic is a plain array.

  Attributes:
    name: TensorFlow's variable name, with its ":0".
    trainable: whether TensorFlow would train it.
  """

  name: str
  trainable: bool

  def __new__(cls, value: np.ndarray, name: str, trainable: bool = True) -> "Variable":
    variable = np.asarray(value).view(cls)
    variable.name = name
    variable.trainable = trainable
    return variable

  def __array_finalize__(self, source: Any) -> None:
    self.name = getattr(source, "name", "")
    self.trainable = getattr(source, "trainable", True)

  def __array_wrap__(self, array: np.ndarray, context: Any = None, return_scalar: bool = False) -> Any:
    # The sum of two variables is no variable.
    plain = np.asarray(array)
    return plain[()] if return_scalar else plain

  def __reduce__(self) -> Any:
    return _unpickle, (np.array(self), self.name, self.trainable)

  def __repr__(self) -> str:
    return f"Variable(name={self.name!r}, trainable={self.trainable}, shape={self.shape}, dtype={self.dtype})"


def split_trainable(params: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
  """`(trainable, rest)` of the parameters of a conversion: what to differentiate and train, and what to leave.

  The rest is what TensorFlow does not train: statistics of batch normalization, counters, frozen layers. Call it once,
  on the parameters that a conversion returned: what an optimizer makes of them are plain arrays, which count as
  trainable.

  Args:
    params: name -> value.

  Example:
    >>> kernel, step = np.ones(2, np.float32), np.zeros((), np.int64)
    >>> params = {"kernel": Variable(kernel, "kernel:0"), "step": Variable(step, "step:0", trainable=False)}
    >>> trainable, rest = split_trainable(params)
    >>> list(trainable), list(rest)
    (['kernel'], ['step'])
  """
  trainable = {name: value for name, value in params.items() if getattr(value, "trainable", True)}
  return trainable, {name: value for name, value in params.items() if name not in trainable}


def _unpickle(value: np.ndarray, name: str, trainable: bool) -> Variable:
  return Variable(value, name, trainable)
