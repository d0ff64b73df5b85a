"""Collects the variables of a live program: a handle for each resource, and values by variable name."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from graftax.convert._tensorflow import TensorFlow, TfDType, TfTensor
from graftax.convert.program import UnavailableCapture
from graftax.convert.variable import Variable
from graftax.graphdef_ir import DType, Node
from graftax.ops_jax import ResourceHandle

__all__ = ["LiveVariable", "LiveVariables", "unique_name"]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class LiveVariable:
  """A variable of TensorFlow, whose current value can be read.

  Attributes:
    name: its name in a `Program`.
    handle: its resource, an eager tensor.
    dtype: its TensorFlow dtype.
    variable: the `tf.Variable`, or None if only the handle is known.
  """

  name: str
  handle: TfTensor
  dtype: TfDType
  variable: TfTensor

  def tensor(self, tf: TensorFlow) -> TfTensor:
    """Returns the current value; a gradient tape records the read if there is a `tf.Variable`."""
    if self.variable is not None:
      return tf.convert_to_tensor(self.variable)
    return tf.raw_ops.ReadVariableOp(resource=self.handle, dtype=self.dtype)


class LiveVariables:
  """Collects variables while the captures of a program are read; handles of one resource are one variable.

  Attributes:
    values: variable name without ":0" -> value.
    skips_values: whether variables are left unread; their values are then zeros.
    live: variable name -> the variable, for those that are resources of their own.
  """

  def __init__(self, tf: TensorFlow, *, skip_values: bool):
    """Starts without variables.

    Args:
      tf: TensorFlow.
      skip_values: leave variables unread if TensorFlow is tracing; their values are then zeros.
    """
    self._tf = tf
    self.skips_values = skip_values and tf.inside_function()
    self._watched: dict[int, TfTensor] = {}
    # By the id of TensorFlow's handle tensor. Each tensor is kept, so that no other one gets its id.
    self._handles: dict[int, tuple[TfTensor, ResourceHandle | UnavailableCapture]] = {}
    self.values: dict[str, Variable] = {}
    self.live: dict[str, LiveVariable] = {}

  def watch(self, variables: Iterable[TfTensor]) -> None:
    """Adds `tf.Variable` objects, which provide the name and `trainable` of the variables found later."""
    self._watched.update((id(variable.handle), variable) for variable in variables)

  def find(self, tensor: TfTensor) -> ResourceHandle | UnavailableCapture | None:
    """Returns the handle for the handle tensor of a watched or known variable; None for other tensors."""
    if id(tensor) in self._handles:
      return self._handles[id(tensor)][1]
    variable = self._watched.get(id(tensor))
    return None if variable is None else self._add(tensor, variable.name, variable.dtype, variable)

  def find_raw(
    self, tensor: TfTensor, readers: Iterable[Node], name: str
  ) -> ResourceHandle | UnavailableCapture | None:
    """Returns the handle for a handle tensor without a known `tf.Variable`; None if it is not a variable.

    Args:
      tensor: an eager tensor of dtype resource.
      readers: the nodes that read the variable; its dtype is one of their attributes.
      name: the variable's name if the tensor does not have one.
    """
    found = self.find(tensor)
    if found is not None:
      return found
    text = str(tensor)  # names the resource
    for other, handle in self._handles.values():
      if str(other) == text:
        return handle
    for watched in self._watched.values():
      if str(watched.handle) == text:
        return self.find(watched.handle)
    dtype = next((dtype for dtype in map(_variable_dtype, readers) if dtype is not None), None)
    with self._tf.init_scope():
      if dtype is None or not self._tf.raw_ops.VarIsInitializedOp(resource=tensor):
        return None
    return self._add(tensor, getattr(tensor, "_name", None) or f"{name}:0", self._tf.as_dtype(int(dtype)), None)

  def add(self, name: str, value: np.ndarray) -> str:
    """Adds a variable that is not a `tf.Variable`; returns its key in `values`."""
    unique = unique_name(name, self.values)
    self.values[unique] = Variable(value, f"{name}:0")
    return unique

  def _add(
    self, tensor: TfTensor, name: str, dtype: TfDType, variable: TfTensor
  ) -> ResourceHandle | UnavailableCapture:
    handle: ResourceHandle | UnavailableCapture
    if dtype == self._tf.string:
      handle = UnavailableCapture(f"variable {name!r} holds strings")
    else:
      handle = ResourceHandle(unique_name(name.removesuffix(":0"), self.values))
      trainable = True if variable is None else variable.trainable
      self.values[handle.name] = Variable(self._value(tensor, dtype, variable), name, trainable)
      self.live[handle.name] = LiveVariable(handle.name, tensor, dtype, variable)
    self._handles[id(tensor)] = tensor, handle
    return handle

  def _value(self, tensor: TfTensor, dtype: TfDType, variable: TfTensor) -> np.ndarray:
    if self.skips_values and variable is not None:
      return np.broadcast_to(np.zeros((), dtype.as_numpy_dtype), variable.shape.as_list())
    with self._tf.init_scope():
      if variable is not None:
        return np.asarray(variable.numpy())
      return np.asarray(self._tf.raw_ops.ReadVariableOp(resource=tensor, dtype=dtype).numpy())


def unique_name(name: str, taken: Mapping[str, Any]) -> str:
  """Returns `name`, or the first of `name_1`, `name_2`, ... that is free, as in TF2JAX."""
  if name not in taken:
    return name
  number = 1
  while f"{name}_{number}" in taken:
    number += 1
  return f"{name}_{number}"


def _variable_dtype(reader: Node) -> DType | None:
  """Returns the dtype attribute of an op on a variable; None if the op has none (`VariableShape`)."""
  dtype = reader.attrs.get("dtype", reader.attrs.get("T"))
  return dtype if isinstance(dtype, DType) else None
