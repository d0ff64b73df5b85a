"""Elementwise ops, which broadcast: arithmetic, comparisons, activations, Cast, SelectV2."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax._core.values import Value
from graftax.ops_jax.bounded.masks import (
  Axis,
  any_overflow,
  common_length,
  joined_axis,
  masked_derivative,
  poisoned,
  to_axis,
  valid_mask,
)
from graftax.ops_jax.bounded.rules import BoundedCall, carries
from graftax.ops_jax.bounded.values import BoundedArray, is_bounded

__all__ = ["broadcast_together", "elementwise", "with_axes"]

_UNARY = """
  Abs Neg Sign Square Reciprocal Inv Sqrt Rsqrt SqrtGrad RsqrtGrad ReciprocalGrad InvGrad Floor Ceil Rint Round Exp
  Expm1 Log Log1p Sigmoid Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Erf Erfc Erfinv Ndtri Lgamma
  Digamma Dawsn Expint FresnelCos FresnelSin Spence BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselY0
  BesselY1 BesselK0 BesselK0e BesselK1 BesselK1e Real Imag Conj Angle ComplexAbs IsNan IsInf IsFinite LogicalNot Invert
  PopulationCount Relu Relu6 LeakyRelu Elu Selu Softplus Softsign Cast ZerosLike OnesLike StopGradient PreventGradient
  ReluGrad Relu6Grad LeakyReluGrad EluGrad SeluGrad SoftplusGrad SoftsignGrad SigmoidGrad TanhGrad
"""
_BROADCASTING = """
  Add AddV2 Sub Mul AddN AccumulateNV2 RealDiv Div TruncateDiv FloorDiv FloorMod Mod TruncateMod DivNoNan MulNoNan Xdivy
  Xlogy Xlog1py Pow Maximum Minimum SquaredDifference Atan2 NextAfter Equal NotEqual Less LessEqual Greater GreaterEqual
  ApproximateEqual LogicalAnd LogicalOr BitwiseAnd BitwiseOr BitwiseXor LeftShift RightShift ClipByValue Polygamma Zeta
  Igamma Igammac Betainc Complex SelectV2
"""


@carries(*_UNARY.split(), *_BROADCASTING.split())
def elementwise(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Runs the op on padded arrays of one common form."""
  arrays, axes = broadcast_together(call, inputs)
  (result,) = call.run(call.context, arrays)
  if result.shape != tuple(axis.size for axis in axes):
    call.refuse(f"its result has shape {result.shape}, which is not that of its inputs broadcast together")
  return [with_axes(call, result, axes, inputs)]


@carries("Select")
def select(call: BoundedCall, inputs: Sequence[Value]) -> Sequence[Value]:
  """Runs `Select`, whose condition may be a vector of rows, as `SelectV2`."""
  condition, *rest = inputs
  rank = max(_rank(value) for value in rest)
  if _rank(condition) == 1 and rank > 1:
    if is_bounded(condition):
      padded = condition.padded.reshape(-1, *[1] * (rank - 1))
      condition = BoundedArray(padded, (*condition.lengths, *[None] * (rank - 1)), condition.may_overflow)
    else:
      condition = condition.reshape(-1, *[1] * (rank - 1))
  arrays, axes = broadcast_together(call, [condition, *rest])
  result = jnp.where(arrays[0], arrays[1], arrays[2])
  return [with_axes(call, result, axes, inputs)]


def broadcast_together(call: BoundedCall, inputs: Sequence[Value]) -> tuple[list[Value], list[Axis]]:
  """Returns padded arrays that broadcast against each other, and the axes of the result."""
  if not all(is_bounded(value) or hasattr(value, "shape") for value in inputs):
    call.refuse("an input is not an array")
  rank = max(map(_rank, inputs))
  axes: list[Axis] = []
  for axis in range(rank):
    parts = []
    for value in inputs:
      own = axis - rank + _rank(value)
      if own >= 0:
        parts.append((_padded(value).shape[own], value.lengths[own] if is_bounded(value) else None))
    axes.append(joined_axis(call.facts, parts))
  mask = valid_mask([axis.size for axis in axes], [axis.length for axis in axes])
  return [_aligned(value, axes, mask) for value in inputs], axes


def _aligned(value: Value, axes: Sequence[Axis], mask: jax.Array | None) -> Value:
  if not is_bounded(value):
    return value if isinstance(value, (np.ndarray, np.generic)) or mask is None else _entering(value, mask)
  x = value.padded
  offset = len(axes) - x.ndim
  for own in range(x.ndim):
    x = to_axis(x, own, value.lengths[own], axes[own + offset])
  own_lengths = (*[None] * offset, *value.lengths)
  is_whole = all(axis.length is None or axis.length is own for axis, own in zip(axes, own_lengths, strict=True))
  return x if mask is None or is_whole else _entering(x, mask)


def _entering(x: jax.Array, mask: jax.Array) -> jax.Array:
  if not jnp.issubdtype(x.dtype, jnp.inexact):
    return x
  return masked_derivative(jnp.broadcast_to(x, np.broadcast_shapes(x.shape, mask.shape)), mask)


def with_axes(call: BoundedCall, result: jax.Array, axes: Sequence[Axis], inputs: Sequence[Value]) -> Value:
  """Returns the padded result of a call with the lengths of its axes; invalid if the sizes do not fit each other."""
  may_overflow = any(is_bounded(value) and value.may_overflow for value in inputs)
  lengths = []
  for axis in axes:
    length, may_be_invalid = common_length(axis)
    may_overflow = may_overflow or may_be_invalid
    lengths.append(length)
    if length is None:
      result = poisoned(result, axis.is_bad)
  if all(length is None for length in lengths):
    return poisoned(result, any_overflow(*inputs))
  return call.made(result, lengths, may_overflow)


def _padded(value: Value) -> jax.Array:
  return value.padded if is_bounded(value) else value


def _rank(value: Value) -> int:
  return np.ndim(_padded(value)) if not hasattr(_padded(value), "ndim") else _padded(value).ndim
