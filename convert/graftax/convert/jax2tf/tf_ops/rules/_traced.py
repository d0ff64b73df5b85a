"""Rules written as JAX functions, for consumers that lack an op."""

from collections.abc import Callable, Sequence

import jax

from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.interpreter import run_jaxpr
from graftax.convert.jax2tf.tf_ops.tensors import Tensor

__all__ = ["traced"]


def traced(b: Builder, function: Callable[..., jax.Array], operands: Sequence[Tensor]) -> Tensor:
  """Returns the array that a function of arrays returns, computed by the rules of its primitives."""
  specs = [jax.ShapeDtypeStruct(operand.shape, operand.dtype) for operand in operands]
  return run_jaxpr(b, jax.make_jaxpr(function)(*specs), operands)[0]
