"""`check_plain_ops`: a function as plain TensorFlow ops has the values that it has in JAX."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from graftax.convert import jax2tf
from graftax.testing.harness.compare import check_equal, is_inexact
from graftax.testing.pytrees import PyTree

__all__ = ["check_plain_ops"]


def check_plain_ops(
  function: Callable[..., Any],
  *args: PyTree,
  polymorphic_shapes: PyTree = None,
  rtol: float = 1e-5,
  atol: float = 1e-6,
) -> Sequence[np.ndarray]:
  """Runs a JAX function in TensorFlow as plain ops, compares it with JAX, and returns its flat results.

  Args:
    function: the function.
    args: its arguments, arrays or numbers.
    polymorphic_shapes: as `jax2tf.convert` takes them.
    rtol: relative tolerance for floats. Integers and bools must be equal.
    atol: absolute tolerance for floats.

  Raises:
    AssertionError: a dtype, a shape or a value differs. NaN and infinity must be at the same places.
  """
  expected = [np.asarray(x) for x in jax.tree.leaves(jax.jit(function)(*args))]
  converted = jax2tf.convert(function, polymorphic_shapes=polymorphic_shapes, with_gradient=False, lowering="tf_ops")
  found = [x.numpy() for x in jax.tree.leaves(converted(*args))]  # np.asarray refuses bfloat16 tensors
  for i, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
    check_equal(f"result {i}", ours, theirs, *((rtol, atol) if is_inexact(theirs.dtype) else (0.0, 0.0)))
  return found
