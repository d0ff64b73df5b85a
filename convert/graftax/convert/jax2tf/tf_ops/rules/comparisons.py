"""Comparisons and selection."""

import functools
from typing import Any

import numpy as np

from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.registry import Unsupported, rule
from graftax.convert.jax2tf.tf_ops.rules._common import (
  binary,
  cast,
  compare,
  full,
  reshape,
  same_shape,
  select,
)
from graftax.convert.jax2tf.tf_ops.rules.integers import bitcast
from graftax.convert.jax2tf.tf_ops.tensors import Tensor
from graftax.xla_call_module.lax_extras import highest

__all__ = ["total_order"]

_OPS = {
  "eq": "Equal",
  "ge": "GreaterEqual",
  "gt": "Greater",
  "le": "LessEqual",
  "lt": "Less",
  "ne": "NotEqual",
}


def _comparison(b: Builder, x: Tensor, y: Tensor, *, op: str) -> Tensor:
  """Returns whether two values are in an order; NaN is not, and is unequal to itself."""
  if x.dtype == np.bool_ and op not in ("Equal", "NotEqual"):
    x, y = cast(b, x, np.int32), cast(b, y, np.int32)
  if b.library.consumer == "onnx" and op in _OPPOSITE and x.is_integer and not (_is_exact(x) or _is_exact(y)):
    # tf2onnx compares integers as float32 here, and those of the opposite op as they are.
    opposite = binary(b, _OPPOSITE[op], x, y)
    return b.op("LogicalNot", opposite, shape=opposite.shape)
  return binary(b, op, x, y)


_OPPOSITE = {"Greater": "LessEqual", "Less": "GreaterEqual"}


def _is_exact(x: Tensor) -> bool:
  """Returns whether rounding another number to float32 does not change which one of it and a constant is larger."""
  value = (x.narrow or x).value
  return value is not None and bool(np.all((value > -(1 << 24)) & (value < 1 << 24)))


def _register(primitive: str, op: str) -> None:
  @rule(primitive)
  def comparison(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    return _comparison(b, x, y, op=op)


for _primitive, _op in _OPS.items():
  _register(_primitive, _op)


@rule("select_n")
def select_n(b: Builder, which: Tensor, *cases: Tensor, out: Any) -> Tensor:
  """Selects each element from `cases[which]`; `which` is clamped to the valid range."""
  shape = out.shape
  if which.narrow is not None and all(case.narrow is None and same_shape(case.shape, shape) for case in cases):
    which = which.narrow
  if which.rank and which.rank < len(shape):  # random keys have one more axis, of their words
    which = reshape(b, which, (*which.shape, *(1 for _ in range(len(shape) - which.rank))))
  if which.dtype == np.bool_:
    if len(cases) == 1:
      return cases[0]
    return select(b, which, cases[1], cases[0], shape)
  if which.dtype not in (np.int32, np.int64):
    raise Unsupported(f"a selector of dtype {which.dtype}")
  return functools.reduce(
    lambda rest, i: select(b, compare(b, "LessEqual", which, i), cases[i], rest, shape),
    reversed(range(len(cases) - 1)),
    cases[-1],
  )


def _register_total(primitive: str, op: str) -> None:
  @rule(primitive)
  def comparison(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    if x.dtype.kind == "c":
      raise Unsupported("a total order of complex numbers")
    if x.is_float:
      x, y = total_order(b, x), total_order(b, y)
    return _comparison(b, x, y, op=op)


for _primitive in ("eq", "le", "lt"):
  _register_total(f"{_primitive}_to", _OPS[_primitive])


def total_order(b: Builder, x: Tensor) -> Tensor:
  """Returns integers in the order of floats, in which -0 is below 0, and NaN is at the end that its sign says."""
  bits = bitcast(b, x, np.dtype(f"i{x.dtype.itemsize}"))
  turned = b.op("BitwiseXor", bits, full(b, bits, highest(bits.dtype)), shape=x.shape)
  return select(b, compare(b, "Less", bits, 0), turned, bits, x.shape)
