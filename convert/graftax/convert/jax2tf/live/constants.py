"""`LiveConstant`: a large constant of converted functions as a tensor, so that a saved model has it once."""

import dataclasses
import threading

import numpy as np

from graftax.convert._tensorflow import TensorFlow, TfTensor

__all__ = ["LiveConstant"]


@dataclasses.dataclass(frozen=True, eq=False)
class LiveConstant:
  """A value that functions take as an argument.

  Attributes:
    value: the value.
  """

  value: np.ndarray
  _made: list[TfTensor] = dataclasses.field(default_factory=list, init=False, repr=False)
  _lock: threading.RLock = dataclasses.field(default_factory=threading.RLock, init=False, repr=False)

  def tensor(self, tf: TensorFlow) -> TfTensor:
    """Returns the value as an eager tensor, which graphs of functions capture, or as a node of a TensorFlow 1 graph."""
    if tf.executing_eagerly() or isinstance(tf.compat.v1.get_default_graph(), tf.__internal__.FuncGraph):
      with self._lock, tf.init_scope():
        if tf.executing_eagerly():
          if not self._made:
            self._made.append(tf.constant(self.value))
          return self._made[0]
    return tf.constant(self.value)
