"""Reductions along axes, and positions of extremes."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.interpreter import run_jaxpr
from graftax.convert.jax2tf.tf_ops.registry import Unsupported, rule
from graftax.convert.jax2tf.tf_ops.rules._common import at_least_float32, broadcast, cast, full, is_nan, reshape, select
from graftax.convert.jax2tf.tf_ops.rules._traced import traced
from graftax.convert.jax2tf.tf_ops.rules.elementwise import complex_extreme
from graftax.convert.jax2tf.tf_ops.rules.integers import bitcast
from graftax.convert.jax2tf.tf_ops.tensors import Tensor
from graftax.graphdef_ir import DType
from graftax.xla_call_module.lax_extras import only_primitive

__all__ = ["combined", "reduced"]

# primitive of two operands -> the op that reduces with it; for bools the second.
_REDUCTIONS = {
  "add": ("Sum", "Any"),
  "and": ("All", "All"),
  "max": ("Max", "Any"),
  "min": ("Min", "All"),
  "mul": ("Prod", "All"),
  "or": ("Any", "Any"),
}

_OF_TWO = {"add": "AddV2", "and": "BitwiseAnd", "max": "Maximum", "min": "Minimum", "mul": "Mul", "or": "BitwiseOr"}


def reduced(b: Builder, x: Tensor, axes: Sequence[int], primitive: str) -> Tensor:
  """Returns the reduction of a tensor along axes with a primitive of two operands."""
  if x.dtype.kind == "c" and primitive in ("max", "min") and axes:
    return _complex_extreme(b, x, axes, primitive)
  of_numbers, of_bools = _REDUCTIONS[primitive]
  op = of_bools if x.dtype == np.bool_ else of_numbers
  if op in ("All", "Any") and x.dtype != np.bool_:
    return _of_bits(b, x, axes, functools.partial(reduced, primitive=primitive))
  axes = sorted(axis % x.rank for axis in axes)
  if not axes:
    return x
  shape = tuple(size for axis, size in enumerate(x.shape) if axis not in axes)
  wide = at_least_float32(b, x) if op in ("Sum", "Prod") else x
  return cast(b, b.op(op, wide, np.array(axes, np.int32), shape=shape), x.dtype)


def _complex_extreme(b: Builder, x: Tensor, axes: Sequence[int], primitive: str) -> Tensor:
  """Returns the extremes of complex numbers in the order of their real parts, then of their imaginary parts."""
  extreme, last = (jnp.max, -jnp.inf) if primitive == "max" else (jnp.min, jnp.inf)
  if any(isinstance(x.shape[axis], int) and x.shape[axis] == 0 for axis in axes):
    shape = tuple(size for axis, size in enumerate(x.shape) if axis not in axes)
    return broadcast(b, full(b, x, last), shape)

  def reduction(x: jax.Array) -> jax.Array:
    real = extreme(x.real, axes, keepdims=True)
    imag = extreme(jnp.where(x.real == real, x.imag, last), axes)
    return lax.complex(lax.squeeze(real, axes), imag)

  return traced(b, reduction, [x])


def _of_bits(b: Builder, x: Tensor, axes: Sequence[int], reduce_bools: Callable[..., Tensor]) -> Tensor:
  """Returns the reduction of integers bit by bit; `reduce_bools` takes a builder, bools and axes."""
  bits = np.dtype(f"u{x.dtype.itemsize}")
  words = bitcast(b, x, bits)
  masks = np.asarray([1 << i for i in range(8 * bits.itemsize)], bits)
  apart = b.op("BitwiseAnd", _with_new_axis(b, words), masks, shape=(*x.shape, len(masks)))
  flags = b.op("NotEqual", apart, np.zeros((), bits), shape=apart.shape)
  found = reduce_bools(b, flags, axes)
  chosen = select(b, found, masks, np.zeros((), bits), found.shape)
  return bitcast(b, b.op("Sum", chosen, np.array([found.rank - 1], np.int32), shape=found.shape[:-1]), x.dtype)


def _with_new_axis(b: Builder, x: Tensor) -> Tensor:
  return reshape(b, x, (*x.shape, 1))


def _reduction(primitive: str, by: str) -> None:
  @rule(primitive)
  def reduction(b: Builder, x: Tensor, *, axes: Sequence[int]) -> Tensor:
    return reduced(b, x, axes, by)


for _by in ("and", "max", "min", "or"):
  _reduction(f"reduce_{_by}", _by)
_reduction("reduce_prod", "mul")
_reduction("reduce_sum", "add")


def _over_vmapped_axes(primitive: str, by: str) -> None:
  @rule(primitive, folds=False)
  def reduction(b: Builder, *operands: Tensor, axes: Sequence[Any], axis_index_groups: Any = None) -> list[Tensor]:
    """Returns reductions over axes of `jax.vmap`, which are axes of the operands after batching.

    Other axes have names, and one device: `shard_map` over several has no form.
    """
    numbers = [axis for axis in axes if isinstance(axis, int)]
    if numbers and axis_index_groups is not None:
      raise Unsupported("a reduction in groups of an axis")
    return [reduced(b, x, numbers, by) if numbers else x for x in operands]


_over_vmapped_axes("psum", "add")
_over_vmapped_axes("psum_invariant", "add")
_over_vmapped_axes("pmax", "max")
_over_vmapped_axes("pmin", "min")


@rule("reduce_xor")
def reduce_xor(b: Builder, x: Tensor, *, axes: Sequence[int]) -> Tensor:
  """Returns the exclusive or of bools or integers along axes."""
  return _parity(b, x, axes) if x.dtype == np.bool_ else _of_bits(b, x, axes, _parity)


def _parity(b: Builder, x: Tensor, axes: Sequence[int]) -> Tensor:
  number = reduced(b, cast(b, x, np.int32), axes, "add")
  odd = b.op("FloorMod", number, np.int32(2), shape=number.shape)
  return b.op("Equal", odd, np.int32(1), shape=number.shape)


@rule("reduce", ignores=("computation",), folds=False)
def reduce(b: Builder, *operands: Tensor, jaxpr: Any, dimensions: Sequence[int], consts: Any = ()) -> list[Tensor]:
  """Returns the reduction with a function: at once if that is one of the primitives above, else row by row."""
  primitive = only_primitive(jaxpr)
  if len(operands) != 2 or primitive not in _REDUCTIONS:
    return _row_by_row(b, operands, jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, consts), dimensions)
  x, initial = operands
  return [combined(b, primitive, reduced(b, x, dimensions, primitive), initial)]


def _row_by_row(b: Builder, operands: Sequence[Tensor], function: ClosedJaxpr, axes: Sequence[int]) -> list[Tensor]:
  """Returns the reduction of several tensors with a function of scalars, as a loop over the elements along the axes."""
  number = len(operands) // 2
  kept = [axis for axis in range(operands[0].rank) if axis not in axes]

  def reduction(*values: Any) -> Any:
    shape = tuple(values[0].shape[axis] for axis in kept)
    count = math.prod(values[0].shape[axis] for axis in axes)
    rows = [lax.transpose(x, [*axes, *kept]).reshape(count, math.prod(shape)) for x in values[:number]]
    initial = [lax.broadcast_in_dim(value, rows[0].shape[1:], ()) for value in values[number:]]
    step = jax.vmap(jaxpr_as_fun(function))
    found, _ = lax.scan(lambda carry, row: (step(*carry, *row), None), initial, rows)
    return [x.reshape(shape) for x in found]

  specs = [jax.ShapeDtypeStruct(operand.shape, operand.dtype) for operand in operands]
  return run_jaxpr(b, jax.make_jaxpr(reduction)(*specs), operands)


def combined(b: Builder, primitive: str, x: Tensor, y: Tensor) -> Tensor:
  """Returns a primitive of two operands, one of which may be a scalar."""
  bools = {"add": "LogicalOr", "max": "LogicalOr", "or": "LogicalOr"}
  if x.dtype == np.bool_:
    return b.op(bools.get(primitive, "LogicalAnd"), x, y, shape=x.shape)
  if x.dtype.kind == "c" and primitive in ("max", "min"):
    return complex_extreme(b, _OF_TWO[primitive], x, y)
  return b.op(_OF_TWO[primitive], x, y, shape=x.shape)


@rule("argmax")
def argmax(b: Builder, x: Tensor, *, axes: Sequence[int], index_dtype: Any) -> Tensor:
  """Returns the position of the first largest element, or of the first NaN."""
  return _position(b, "ArgMax", x, axes[0], index_dtype)


@rule("argmin")
def argmin(b: Builder, x: Tensor, *, axes: Sequence[int], index_dtype: Any) -> Tensor:
  """Returns the position of the first smallest element, or of the first NaN."""
  return _position(b, "ArgMin", x, axes[0], index_dtype)


def _position(b: Builder, op: str, x: Tensor, axis: int, index_dtype: Any) -> Tensor:
  if x.dtype == np.bool_:
    x = cast(b, x, np.int32)
  shape = (*x.shape[:axis], *x.shape[axis + 1 :])
  wide = DType.INT64 if np.dtype(index_dtype).itemsize == 8 else DType.INT32
  found = b.op(op, x, np.int32(axis), shape=shape, output_type=wide)
  if x.is_float:
    nans = is_nan(b, x)
    first = b.op("ArgMax", cast(b, nans, np.int32), np.int32(axis), shape=shape, output_type=wide)
    some = b.op("Any", nans, np.array([axis], np.int32), shape=shape)
    found = select(b, some, first, found, shape)
  return cast(b, found, index_dtype)
