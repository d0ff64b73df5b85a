"""Comparisons and selection."""

import functools
from typing import Any

import numpy as np

from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.registry import Unsupported, rule
from graftax.convert.jax2tf.tf_ops.rules._common import binary, cast, compare, same_shape, select
from graftax.convert.jax2tf.tf_ops.tensors import Tensor

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
  return binary(b, op, x, y)


def _register(primitive: str, op: str) -> None:
  @rule(primitive)
  def comparison(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    return _comparison(b, x, y, op=op)


for _primitive, _op in _OPS.items():
  _register(_primitive, _op)


@rule("select_n")
def select_n(b: Builder, which: Tensor, *cases: Tensor, out: Any) -> Tensor:
  """Returns, for each element, that of the case with the number `which`; the last one for larger numbers."""
  shape = out.shape
  if which.narrow is not None and all(case.narrow is None and same_shape(case.shape, shape) for case in cases):
    which = which.narrow
  if which.dtype == np.bool_:
    if len(cases) == 1:
      return cases[0]
    return select(b, which, cases[1], cases[0], shape)
  if which.dtype != np.int32:
    raise Unsupported(f"a selector of dtype {which.dtype}")
  return functools.reduce(
    lambda rest, i: select(b, compare(b, "Equal", which, i), cases[i], rest, shape),
    reversed(range(len(cases) - 1)),
    cases[-1],
  )
