"""Rules written as JAX functions, for consumers that lack an op."""

from collections.abc import Callable, Sequence

import jax

from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.interpreter import run_jaxpr
from graftax.convert.jax2tf.tf_ops.tensors import Tensor

__all__ = ["traced", "traced_arrays"]


def traced(b: Builder, function: Callable[..., jax.Array], operands: Sequence[Tensor]) -> Tensor:
  """Returns the array that a function of arrays returns, computed by the rules of its primitives."""
  return traced_arrays(b, lambda *arrays: [function(*arrays)], operands)[0]


def traced_arrays(b: Builder, function: Callable[..., Sequence[jax.Array]], operands: Sequence[Tensor]) -> list[Tensor]:
  """Returns the arrays that a function of arrays returns; see `traced`."""
  specs = [jax.ShapeDtypeStruct(operand.shape, operand.dtype) for operand in operands]
  return run_jaxpr(b, jax.make_jaxpr(function)(*specs), operands)
