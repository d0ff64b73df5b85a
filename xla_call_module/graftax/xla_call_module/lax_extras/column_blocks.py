"""Products of one row with large matrices, for blocks of the matrix's columns.

XLA leaves the product of a vector and a matrix to one thread on CPUs, or to threads that read the same rows. It divides
a batch of products among its threads, each of which then reads a part of the matrix that is contiguous in memory.
"""

import math
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

import jax
import numpy as np
from jax import Array, lax
from jax.extend.core import JaxprEqn

from graftax.xla_call_module.jaxprs import array_type, bound, evaluated
from graftax.xla_call_module.lax_extras.inlined_contractions import run_inlined

__all__ = ["with_column_blocks"]

_Axes = tuple[int, ...]
_DimensionNumbers = tuple[tuple[_Axes, _Axes], tuple[_Axes, _Axes]]
P = ParamSpec("P")
T = TypeVar("T")

# Measured with two threads, and as fast as 2, 8 or 16 or faster.
_NUM_BLOCKS = 4
# Smaller matrices take less time in one thread: one of 256 x 1024 takes 10 us, and 16 us in blocks.
_MANY_ELEMENTS = 1 << 19


def with_column_blocks(function: Callable[P, T]) -> Callable[P, T]:
  """Returns the function with products of one row and a large constant matrix computed for blocks of columns.

  It is for inference: functions with derivatives of their own lose them. The blocks are constants of the program,
  instead of the matrix. Products in loops and branches stay as they are.

  Args:
    function: a function of pytrees of arrays.

  Example:
    >>> import jax
    >>> import numpy as np
    >>> from graftax.xla_call_module.lax_extras import with_column_blocks
    >>> matrix = np.ones([1024, 512], "float32")
    >>> dense = with_column_blocks(lambda x: x @ matrix)
    >>> jaxpr = jax.make_jaxpr(dense)(np.ones([1, 1024], "float32")).jaxpr
    >>> [x.aval.shape for equation in jaxpr.eqns if equation.primitive.name == "dot_general" for x in equation.invars]
    [(4, 1024), (4, 1024, 128)]
  """

  return run_inlined(function, lambda closed, operands: evaluated(closed, operands, _results))


def _results(equation: JaxprEqn, operands: list[Array]) -> Sequence[Array]:
  if equation.primitive.name == "dot_general" and equation.params.get("out_sharding") is None:
    numbers: _DimensionNumbers = equation.params["dimension_numbers"]
    (left_axes, right_axes), batch = numbers
    left, right = operands
    for row, matrix, axes in ((left, right, right_axes), (right, left, left_axes)) if not any(batch) else ():
      if len(axes) == 1 and _is_divided(matrix, axes[0]) and row.size == matrix.shape[axes[0]]:
        return [_product(equation, row, np.moveaxis(np.asarray(matrix), axes[0], 0))]
  return bound(equation, operands)


def _is_divided(x: Array, axis: int) -> bool:
  """Returns whether an array is a large constant matrix, of which the other axis can be divided."""
  return (
    not isinstance(x, jax.core.Tracer)
    and x.ndim == 2
    and x.dtype == np.float32
    and math.prod(x.shape) >= _MANY_ELEMENTS
    and x.shape[1 - axis] % _NUM_BLOCKS == 0
  )


def _product(equation: JaxprEqn, row: Array, matrix: np.ndarray) -> Array:
  """Returns the product of a row and a matrix of shape [size of the row, columns]."""
  shape: tuple[int, ...] = matrix.shape
  size, num_columns = shape
  blocks = np.ascontiguousarray(matrix.reshape(size, _NUM_BLOCKS, num_columns // _NUM_BLOCKS).swapaxes(0, 1))
  rows = lax.broadcast_in_dim(lax.reshape(row, (size,)), (_NUM_BLOCKS, size), (1,))
  product = lax.dot_general(
    rows,
    blocks,
    (((1,), (1,)), ((0,), (0,))),
    precision=equation.params["precision"],
    preferred_element_type=equation.params["preferred_element_type"],
  )
  return lax.reshape(product, array_type(equation.outvars[0]).shape)
