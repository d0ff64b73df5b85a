"""Large constants of a traced function as inputs, so that its gradient functions share them."""

import dataclasses
import hashlib

import jax
import jax.numpy as jnp
import numpy as np

from graftax.convert.jax2tf.traced_function import TracedFunction, trace_flat
from graftax.convert.pytrees import Leaf
from graftax.ops_jax import Array

__all__ = ["digests", "large_constants", "with_constants_as_inputs"]

_LARGE_BYTES = 1 << 20
"""Smaller constants stay in the function, where XLA can compute with them while compiling."""


def large_constants(traced: TracedFunction) -> tuple[int, ...]:
  """Returns the positions of the large constants that TensorFlow can store."""
  return tuple(i for i, const in enumerate(traced.jaxpr.consts) if _is_large(const))


def _is_large(const: Leaf) -> bool:
  dtype = getattr(const, "dtype", None)
  if dtype is None or jnp.issubdtype(dtype, jax.dtypes.extended) or isinstance(const, jax.core.Tracer):
    return False
  is_stored = np.dtype(dtype).kind in "fiuc" or dtype == jnp.bfloat16
  return bool(is_stored and const.size * np.dtype(dtype).itemsize >= _LARGE_BYTES)


def with_constants_as_inputs(traced: TracedFunction) -> tuple[TracedFunction, tuple[np.ndarray, ...]]:
  """Returns the function with its large constants as last inputs, which have no derivatives, and their values.

  A function without large constants is returned as it is.
  """
  from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

  positions = large_constants(traced)
  if not positions:
    return traced, ()
  consts, num_inputs = list(traced.jaxpr.consts), len(traced.inputs)
  values = tuple(np.asarray(consts[i]) for i in positions)

  def function(*operands: Array) -> list[Array]:
    given = dict(zip(positions, operands[num_inputs:], strict=True))
    closed = ClosedJaxpr(traced.jaxpr.jaxpr, [given.get(i, const) for i, const in enumerate(consts)])
    return list(jaxpr_as_fun(closed)(*operands[:num_inputs]))

  found = trace_flat(
    function,
    (*traced.inputs, *(jax.ShapeDtypeStruct(value.shape, value.dtype) for value in values)),
    name=traced.name,
    input_names=(*traced.input_names, *(f"constant_{i}" for i in range(len(values)))),
    output_names=traced.output_names,
    enable_x64=traced.enable_x64,
  )
  fixed = frozenset(range(num_inputs, num_inputs + len(values)))
  found = dataclasses.replace(
    found, in_tree=traced.in_tree, out_tree=traced.out_tree, captured=traced.captured, fixed=fixed
  )
  return found, values


def digests(values: tuple[np.ndarray, ...]) -> tuple[str, ...]:
  """Returns text that differs for different constants."""
  return tuple(hashlib.sha256(np.ascontiguousarray(value).view(np.uint8).data).hexdigest() for value in values)
