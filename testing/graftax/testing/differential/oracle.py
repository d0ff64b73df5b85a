"""Computes values, derivatives and variables of a case with TensorFlow."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tree

from graftax.testing._tensorflow import TfTensor, import_tensorflow
from graftax.testing.harness.conversion_case import ConversionCase
from graftax.testing.pytrees import PyTree

__all__ = ["Oracle", "cotangent", "is_real"]


class Oracle:
  """Runs a case in TensorFlow and restores its variables after every call."""

  def __init__(self, case: ConversionCase):
    self._tf = tf = import_tensorflow()
    built = case.build()
    is_concrete = isinstance(built, tf.types.experimental.ConcreteFunction)
    self.function = built if is_concrete or hasattr(built, "get_concrete_function") else tf.function(built)
    self.concrete = built if is_concrete else self.function.get_concrete_function(*self.specs(case.inputs))
    self.variables = self._variables_in_order()

  def specs(self, inputs: Sequence[PyTree], batched: Sequence[int] = ()) -> tuple[PyTree, ...]:
    """Returns `tf.TensorSpec`s for arguments; those at `batched` positions have an unknown leading dimension."""

    def spec(leaf: np.ndarray, is_open: bool) -> Any:
      shape = [None, *leaf.shape[1:]] if is_open and leaf.ndim else leaf.shape
      return self._tf.TensorSpec(shape, leaf.dtype)

    return tuple(
      tree.map_structure(lambda leaf, position=position: spec(leaf, position in batched), value)
      for position, value in enumerate(inputs)
    )

  def value(self, inputs: Sequence[PyTree]) -> PyTree:
    """Returns the result as a nested structure of NumPy arrays."""
    return self._restoring(lambda: _numpy(self._call(self._constants(inputs))))

  def state(self, inputs: Sequence[PyTree]) -> list[np.ndarray]:
    """Returns the values of the variables after one call."""

    def run() -> list[np.ndarray]:
      self._call(self._constants(inputs))
      return [variable.numpy() for variable in self.variables]

    return self._restoring(run)

  def gradient(self, inputs: Sequence[PyTree]) -> list[np.ndarray]:
    """Returns derivatives of the weighted sum of the results with respect to all real inputs."""

    def run() -> list[np.ndarray]:
      constants = self._constants(inputs)
      points = self._points(constants)
      with self._tf.GradientTape() as tape:
        tape.watch(points)
        loss = self._loss(self._call(constants))
      return [_numpy(g) for g in self._dense(tape.gradient(loss, points), points)]

    return self._restoring(run)

  def parameter_gradient(self, inputs: Sequence[PyTree]) -> list[np.ndarray]:
    """Returns derivatives of the weighted sum of the results with respect to the trainable variables."""

    def run() -> list[np.ndarray]:
      with self._tf.GradientTape() as tape:
        loss = self._loss(self._call(self._constants(inputs)))
      trained = self.trainable_variables
      return [_numpy(g) for g in self._dense(tape.gradient(loss, trained), trained)]

    return self._restoring(run)

  def second_derivative(self, inputs: Sequence[PyTree]) -> list[np.ndarray]:
    """Returns derivatives, with respect to all real inputs, of the sum of all first derivatives."""

    def run() -> list[np.ndarray]:
      constants = self._constants(inputs)
      points = self._points(constants)
      with self._tf.GradientTape() as outer:
        outer.watch(points)
        with self._tf.GradientTape() as inner:
          inner.watch(points)
          loss = self._loss(self._call(constants))
        first = self._dense(inner.gradient(loss, points), points)
        total = self._tf.add_n([self._tf.cast(self._tf.reduce_sum(g), self._tf.float64) for g in first])
      return [_numpy(g) for g in self._dense(outer.gradient(total, points), points)]

    return self._restoring(run)

  @property
  def trainable_variables(self) -> list[TfTensor]:
    """The floating-point trainable variables, in the order of the parameters."""
    return [variable for variable in self.variables if variable.trainable and variable.dtype.is_floating]

  def _variables_in_order(self) -> list[TfTensor]:
    by_id = {id(variable.handle): variable for variable in self.concrete.graph.variables}
    found = [by_id[id(capture)] for capture in self.concrete.captured_inputs if id(capture) in by_id]
    return list({id(variable): variable for variable in found}.values())

  def _call(self, constants: Sequence[PyTree]) -> PyTree:
    return self.function(*constants)

  def _constants(self, inputs: Sequence[PyTree]) -> tuple[PyTree, ...]:
    return tuple(tree.map_structure(lambda leaf: self._tf.constant(leaf, leaf.dtype), value) for value in inputs)

  def _points(self, constants: Sequence[PyTree]) -> list[TfTensor]:
    return [leaf for leaf in tree.flatten(constants) if leaf.dtype.is_floating]

  def _loss(self, outputs: PyTree) -> TfTensor:
    tf = self._tf
    terms = []
    for leaf in tree.flatten(outputs):
      if not hasattr(leaf, "dtype") or not (leaf.dtype.is_floating or leaf.dtype.is_complex):
        continue
      parts = [tf.math.real(leaf), tf.math.imag(leaf)] if leaf.dtype.is_complex else [leaf]
      terms += [
        tf.reduce_sum(tf.cast(part, tf.float64) * cotangent(tuple(part.shape), seed)) for seed, part in enumerate(parts)
      ]
    return tf.add_n(terms)

  def _dense(self, gradients: Sequence[TfTensor], points: Sequence[TfTensor]) -> list[TfTensor]:
    return [
      self._tf.zeros_like(point) if g is None else self._tf.convert_to_tensor(g)
      for g, point in zip(gradients, points, strict=True)
    ]

  def _restoring(self, run: Callable[[], PyTree]) -> PyTree:
    before = [variable.numpy() for variable in self.variables]
    try:
      return run()
    finally:
      for variable, value in zip(self.variables, before, strict=True):
        variable.assign(value)


def cotangent(shape: Sequence[int], seed: int = 0) -> np.ndarray:
  """Returns the weights of the sum that reduces a result of this shape to a loss."""
  return np.random.default_rng([seed, *shape]).uniform(0.5, 1.5, tuple(shape))


def is_real(leaf: TfTensor) -> bool:
  """Returns whether an array is differentiated, that is, whether its dtype is real floating-point."""
  return np.dtype(leaf.dtype).kind == "f" or np.dtype(leaf.dtype).name == "bfloat16"


def _numpy(nested: PyTree) -> PyTree:
  return tree.map_structure(lambda leaf: leaf.numpy() if hasattr(leaf, "numpy") else leaf, nested)
