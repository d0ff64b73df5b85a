"""Functions whose sizes depend on data: one conversion under `jit`, for arguments that give results of all sizes."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

import graftax.convert as gc
from graftax.ops_jax import BoundedArray
from graftax.testing._tensorflow import import_tensorflow
from graftax.testing.harness.compare import check_equal, is_inexact

__all__ = ["check_bounded_sizes"]


def check_bounded_sizes(
  function: Callable[..., Any], *calls: tuple[np.ndarray, ...], max_sizes: Mapping[str, int] | None = None
) -> int:
  """Compares a function under `jit`, compiled once, with TensorFlow, and returns how many calls were compared.

  Calls that TensorFlow refuses are left out, such as the largest element of no elements.

  Args:
    function: a TensorFlow function.
    calls: the arguments of each call; they have the same shapes in all of them.
    max_sizes: the option of that name.

  Raises:
    AssertionError: a result has another size, dtype or other values than TensorFlow's. Integers must be equal.
  """
  tf = import_tensorflow()
  with gc.override_config("max_sizes", None if max_sizes is None else dict(max_sizes)):
    fn, params = gc.convert(function, *calls[0])
    compiled = jax.jit(fn)
    compared = 0
    for args in calls:
      try:
        expected = [t.numpy() for t in tf.nest.flatten(function(*map(tf.constant, args)))]
      except tf.errors.InvalidArgumentError:
        continue
      results = jax.tree.leaves(compiled(params, *args)[0], is_leaf=lambda leaf: isinstance(leaf, BoundedArray))
      for i, (result, value) in enumerate(zip(results, expected, strict=True)):
        dtype = np.dtype(jax.dtypes.canonicalize_dtype(value.dtype))
        tolerance = (1e-5, 1e-6) if is_inexact(value.dtype) else (0.0, 0.0)
        check_equal(f"result {i} of {args[-1]}", np.asarray(result), value, *tolerance, dtype)
      compared += 1
  return compared
