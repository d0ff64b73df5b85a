"""Recovers `lax.top_k`, which JAX exports for TensorFlow as a sort in descending order and a slice of it.

The sort alone would become a sort by the bits of floats, which few programs besides JAX can run, and of all elements.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jax import Array, lax

from graftax.xla_call_module import ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.registry import register
from graftax.xla_call_module.survey import Survey

__all__ = ["with_largest"]

_NAME = "graftax.top_k"
_SORT = "stablehlo.sort"
# The attribute or the position of the operand with the first indices and the steps of a slice.
_SLICES: Mapping[str, tuple[str | int, str | int]] = {
  "stablehlo.slice": ("start_indices", "strides"),
  "stablehlo.real_dynamic_slice": (1, 3),
}
_MOST_BYTES = 4


@register(_NAME, attributes=("k",))
def _top_k(context: Context, op: ir.Op, x: Array) -> Any:
  return lax.top_k(x, op.attrs.integer("k"))


def with_largest(module_ir: ir.ModuleIR, found: Survey) -> ir.ModuleIR:
  """Returns the module with a `graftax.top_k` for each sort that it is; the same object if there are none.

  The slices of its results stay: they are then of all elements.

  Args:
    module_ir: the module.
    found: its survey.
  """
  if _SORT not in found.names:
    return module_ir
  functions = {name: _with_largest(function) for name, function in module_ir.functions.items()}
  if all(functions[name] is function for name, function in module_ir.functions.items()):
    return module_ir
  return dataclasses.replace(module_ir, functions=functions)


def _with_largest(function: ir.Function) -> ir.Function:
  ops = list(ir.walk(function.body))
  sorts = [op for op in ops if op.name == _SORT and _is_descending(op)]
  if not sorts:
    return function
  defined = {number: op for op in ops for number in op.results}
  users: dict[int, list[ir.Op]] = {}
  for op in ops:
    for number in op.operands:
      users.setdefault(number, []).append(op)
  returned = {*function.body.returns, *(number for op in ops for region in op.regions for number in region.returns)}
  replaced = {}
  for op in sorts:
    index = defined.get(op.operands[1])
    k = 0 if returned & {*op.results} else _num_read(op, defined, users)
    if k and index is not None and _counts(index, op.types[0].rank - 1):
      replaced[op.results[0]] = _largest(op, k)
  return dataclasses.replace(function, body=_rewritten(function.body, replaced)) if replaced else function


def _is_descending(op: ir.Op) -> bool:
  """Returns whether an op sorts along the last axis as `top_k` does: stably, floats in their total order."""
  if len(op.operands) != 2 or len(op.regions[0].ops) != 1 or not op.attrs.boolean("is_stable", False):
    return False
  kind, (compare,) = op.types[0], op.regions[0].ops
  return (
    kind.dtype.itemsize <= _MOST_BYTES
    and (kind.dtype.kind in "iu" or (kind.dtype.kind in "fV" and compare.attrs.get("compare_type") == "TOTALORDER"))
    and kind.rank > 0
    and op.attrs.integer("dimension", -1) % kind.rank == kind.rank - 1
    and compare.name == "stablehlo.compare"
    and compare.attrs.get("comparison_direction") == "GT"
    and compare.operands == op.regions[0].args[:2]
    and op.regions[0].returns == compare.results
  )


def _counts(op: ir.Op, axis: int) -> bool:
  """Returns whether the result is the position along an axis, as int32."""
  is_iota = op.name in ("stablehlo.iota", "stablehlo.dynamic_iota")
  return is_iota and op.attrs.integer("iota_dimension") == axis and op.types[0].dtype == np.int32


def _num_read(op: ir.Op, defined: Mapping[int, ir.Op], users: Mapping[int, Sequence[ir.Op]]) -> int:
  """Returns the number of first elements that the users of a sort read; 0 if it is not known, or not the same."""
  sizes = {_first_elements(user, defined) for number in op.results for user in users.get(number, ())}
  size = op.types[0].shape[-1]
  (k,) = sizes if len(sizes) == 1 else (0,)
  return k if size is not None and k <= size else 0


def _first_elements(op: ir.Op, defined: Mapping[int, ir.Op]) -> int:
  """Returns the length of a slice of the first elements along the last axis; 0 if an op is not one."""
  if op.name not in _SLICES:
    return 0
  start, stride = (_last(op, place, defined) for place in _SLICES[op.name])
  return op.types[0].shape[-1] or 0 if (start, stride) == (0, 1) else 0


def _last(op: ir.Op, place: str | int, defined: Mapping[int, ir.Op]) -> int | None:
  """Returns the last number of an attribute, or of an operand that is a constant; None if it is not known."""
  if isinstance(place, str):
    return op.attrs.integers(place)[-1]
  constant = defined.get(op.operands[place])
  if constant is None or constant.name != "stablehlo.constant":
    return None
  return constant.attrs.integers("value")[-1]


def _largest(op: ir.Op, k: int) -> ir.Op:
  types = tuple(ir.TensorType((*kind.shape[:-1], k), kind.dtype) for kind in op.types)
  attrs = ir.Attributes(k=k)
  return dataclasses.replace(op, name=_NAME, operands=op.operands[:1], types=types, attrs=attrs, regions=())


def _rewritten(region: ir.Region, replaced: Mapping[int, ir.Op]) -> ir.Region:
  ops = []
  for op in region.ops:
    new = replaced.get(op.results[0], op) if op.results else op
    if new is op and op.regions:
      new = dataclasses.replace(op, regions=tuple(_rewritten(inner, replaced) for inner in op.regions))
    ops.append(new)
  return dataclasses.replace(region, ops=tuple(ops))
