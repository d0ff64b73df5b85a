"""Compares sizes of results with the limits of the call, before anything is allocated if possible.

Three checks share the work, because a size may be a number in the file or follow from the shapes of the inputs:

- `check_sizes`: before a lowering whose inputs are declared as `StaticSize` or `StaticSizes`, the product of these;
- `check_before_running`: before a lowering that runs at once, on arrays, the shapes of its results, if the sizes of its
  inputs allow large ones;
- `check_results`: the shapes of results; enough if they are traced.
"""

import math
from collections.abc import Callable, Iterable, Sequence

import jax
import numpy as np

from graftax.graphdef_ir import Budget
from graftax.ops_jax._core.known import InconclusiveError
from graftax.ops_jax._core.values import Value

__all__ = ["argument_bytes", "check_before_running", "check_results", "check_sizes"]

# Sizes, and lists of positions that lowerings compute from them in NumPy, are 64-bit integers.
_ITEMSIZE_BYTES = 8

# An array with at most so many elements is not compared with the limits.
_SMALL = 1 << 20


def argument_bytes(leaves: Iterable[Value]) -> int:
  """Returns the size of arrays, without those that have symbolic dimensions, for `Budget`."""
  total = 0
  for leaf in leaves:
    if isinstance(leaf, np.ndarray) and 0 in leaf.strides:
      continue  # one element, repeated
    size = getattr(leaf, "size", 1)
    if isinstance(size, int):
      total += size * getattr(getattr(leaf, "dtype", None), "itemsize", 1)
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "O":
      total += sum(len(item) for item in leaf.flat if isinstance(item, bytes))
  return total


def check_sizes(sizes: Iterable[int], budget: Budget, where: str) -> int:
  """Returns the product of sizes that are numbers in the program; those that are symbolic or not positive are 1.

  Raises:
    LimitExceededError: so many elements need too much memory.
  """
  known = [size for size in sizes if isinstance(size, int) and size > 1]
  product = math.prod(known)
  if product > _SMALL:
    budget.check_array(known, _ITEMSIZE_BYTES, where)
  return product


def check_before_running(
  run: Callable[[], Sequence[Value]], inputs: Sequence[Value], product: int, budget: Budget, where: str
) -> None:
  """Checks the results of a lowering that allocates them when it runs.

  Args:
    run: runs the lowering.
    inputs: its inputs. If one is traced, nothing is checked, because tracing allocates nothing.
    product: the product of its static sizes.
    budget: what is left of the limits.
    where: the node, for messages.

  Raises:
    LimitExceededError: a result is too large.
  """
  for value in jax.tree.leaves(inputs):
    if isinstance(value, jax.core.Tracer):
      return
    product *= max(int(np.size(value)), 1)
  if not budget.may_exceed_array_bytes(product):
    return
  try:
    shapes = jax.eval_shape(lambda: [value for value in run() if isinstance(value, (jax.Array, np.ndarray))])
  except jax.errors.JAXTypeError:
    return  # the lowering needs values, of arrays that exist
  check_results(shapes, budget, where)


def check_results(results: Iterable[Value], budget: Budget, where: str) -> None:
  """Checks the sizes of arrays among results; anything else, such as a list, is made of arrays that were checked.

  Raises:
    LimitExceededError: an array is too large.
  """
  for result in results:
    try:
      is_small = math.prod(result.shape) <= _SMALL
    except (AttributeError, TypeError, InconclusiveError):
      continue  # not an array, or one with symbolic dimensions
    if not is_small:
      itemsize_bytes = getattr(result.dtype, "itemsize", 1)
      budget.check_array(result.shape, itemsize_bytes, where)
      if isinstance(result, (jax.Array, np.ndarray)) and not isinstance(result, jax.core.Tracer):
        budget.spend_known_bytes(math.prod(result.shape) * itemsize_bytes, where)
