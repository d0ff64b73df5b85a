"""Converts JAX functions to TensorFlow, and calls TensorFlow from JAX: a drop-in for `jax.experimental.jax2tf`.

Importing it does not import TensorFlow; the first call of a function that it returned does.
"""

from graftax.convert.jax2tf.live.conversion import DisabledSafetyCheck, convert
from graftax.convert.jax2tf.live.dtypes import dtype_of_val
from graftax.convert.jax2tf.live.logical_devices import split_to_logical_devices
from graftax.convert.jax2tf.polymorphic_shapes import PolyShape, eval_polymorphic_shape, symbolic_args_specs
from graftax.convert.jax2tf.tf_calls.call_tf import FunctionOfVariables, call_tf
from graftax.convert.jax2tf.tf_calls.declared_results import UnspecifiedOutputShapeDtype
from graftax.convert.jax2tf.tf_ops.registry import plain_op_primitives

__all__ = [
  "DisabledSafetyCheck",
  "FunctionOfVariables",
  "PolyShape",
  "UnspecifiedOutputShapeDtype",
  "call_tf",
  "convert",
  "dtype_of_val",
  "eval_polymorphic_shape",
  "plain_op_primitives",
  "split_to_logical_devices",
  "symbolic_args_specs",
]
