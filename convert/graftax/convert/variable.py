"""`Variable`, a parameter value with the name and trainability of the TensorFlow variable."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from graftax.convert.pytrees import Leaf
from graftax.graphdef_ir import Node

__all__ = ["PlacedVariable", "Variable", "VariableSpec", "split_trainable", "variable_name"]


class Variable(np.ndarray):
  """A NumPy array with the name and trainability of a variable.

  `jax.tree` functions treat it as a leaf, and NumPy and JAX treat it as an array. Creating one copies no data, so a
  memory-mapped array stays memory-mapped. Copies, casts, slices and pickles keep the name and the flag; results of
  arithmetic are plain arrays.

  Attributes:
    name: TensorFlow's variable name, with its ":0".
    trainable: whether TensorFlow trains the variable.
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
    # The sum of two variables is not a variable.
    plain = np.asarray(array)
    return plain[()] if return_scalar else plain

  def __reduce__(self) -> Any:
    # Zeros that only tell a shape share one element, which is all that is pickled.
    if self.size > 1 and not any(self.strides):
      return _unpickle, (np.array(self.flat[0]), self.name, self.trainable, self.shape)
    return _unpickle, (np.array(self), self.name, self.trainable)

  def __repr__(self) -> str:
    return f"Variable(name={self.name!r}, trainable={self.trainable}, shape={self.shape}, dtype={self.dtype})"


@dataclass(frozen=True, slots=True, eq=False)
class PlacedVariable:
  """The value of a variable that is placed on devices, with the variable's name and trainability.

  A `Program` may hold it in the place of a `Variable`. The parameters of its conversion hold the array itself.

  Attributes:
    value: the array.
    name: TensorFlow's variable name, with its ":0".
    trainable: whether TensorFlow trains the variable.
  """

  value: jax.Array
  name: str
  trainable: bool = True

  @property
  def shape(self) -> tuple[int, ...]:
    """The shape of the value."""
    return self.value.shape

  @property
  def dtype(self) -> np.dtype:
    """The element type of the value."""
    return self.value.dtype


@dataclass(frozen=True, slots=True)
class VariableSpec:
  """What a converted function knows about one of its variables. `jax.eval_shape` takes it in the place of an array.

  Attributes:
    name: TensorFlow's variable name, with its ":0".
    shape: shape of the value that was converted.
    dtype: its element type.
    trainable: whether TensorFlow trains the variable.
  """

  name: str
  shape: tuple[int, ...]
  dtype: np.dtype
  trainable: bool


def split_trainable(
  params: Mapping[str, Leaf], variables: Mapping[str, Leaf] | None = None
) -> tuple[dict[str, Leaf], dict[str, Leaf]]:
  """Splits parameters into `(trainable, rest)`.

  `rest` holds what TensorFlow does not train: statistics of batch normalization, counters, frozen layers.

  Args:
    params: name -> value.
    variables: name -> anything with the attribute `trainable`, such as `fn.variables` of the converted function. By
      default `params`, as a conversion returned them. Updated parameters and arrays on devices do not have the
      attribute and count as trainable.

  Example:
    >>> kernel, step = np.ones(2, np.float32), np.zeros((), np.int64)
    >>> params = {"kernel": Variable(kernel, "kernel:0"), "step": Variable(step, "step:0", trainable=False)}
    >>> trainable, rest = split_trainable(params)
    >>> list(trainable), list(rest)
    (['kernel'], ['step'])
  """
  flags = params if variables is None else variables
  trainable = {name: value for name, value in params.items() if getattr(flags.get(name), "trainable", True)}
  return trainable, {name: value for name, value in params.items() if name not in trainable}


def _unpickle(value: np.ndarray, name: str, trainable: bool, shape: tuple[int, ...] | None = None) -> Variable:
  return Variable(value if shape is None else np.broadcast_to(value, shape), name, trainable)


def variable_name(node: Node) -> str:
  """Returns the name of the variable that a node creates: its `shared_name`, or else the name of the node."""
  shared = node.attrs.get("shared_name")
  return shared.decode(errors="backslashreplace") if isinstance(shared, bytes) and shared else node.name
