"""Converts JAX functions to TensorFlow: a drop-in for `jax.experimental.jax2tf`.

Importing it does not import TensorFlow; the first call of a converted function does.
"""

from graftax.convert.jax2tf.live.conversion import DisabledSafetyCheck, convert
from graftax.convert.jax2tf.live.dtypes import dtype_of_val
from graftax.convert.jax2tf.live.logical_devices import split_to_logical_devices
from graftax.convert.jax2tf.polymorphic_shapes import PolyShape, eval_polymorphic_shape

__all__ = [
  "DisabledSafetyCheck",
  "PolyShape",
  "convert",
  "dtype_of_val",
  "eval_polymorphic_shape",
  "split_to_logical_devices",
]
