"""Recognizes small regions: reducers of a single op, and regions that equal the ones that JAX exports."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from graftax.xla_call_module import ir, mlir
from graftax.xla_call_module.lax_extras.monoids import BOOL_FORMS
from graftax.xla_call_module.patterns.templates import recover

__all__ = ["Reducer", "canonical", "exported_region", "reducer"]

_BINARY = {
    "stablehlo.add": "add", "stablehlo.multiply": "multiply", "stablehlo.maximum": "maximum",
    "stablehlo.minimum": "minimum", "stablehlo.and": "and", "stablehlo.or": "or", "stablehlo.xor": "xor",
}  # fmt: skip

Reducer = str


def reducer(region: ir.Region) -> Reducer | None:
  """Returns "add", "multiply", ... if the region applies only that op to its two arguments, else None.

  On booleans, the name is "and", "or" or "xor".
  """
  if len(region.ops) != 1 or len(region.args) != 2 or region.returns != region.ops[0].results:
    return None
  op = region.ops[0]
  if sorted(op.operands) != sorted(region.args) or op.type.dtype != region.types[0].dtype:
    return None
  name = _BINARY.get(op.name)
  return BOOL_FORMS.get(name, name) if name and op.type.dtype == np.bool_ else name


def canonical(region: ir.Region, outer: Mapping[int, Any] | None = None) -> tuple[Any, ...] | None:
  """Returns a hashable form that is equal for two regions if they apply the same ops to the same arguments.

  Ops are listed in the order in which the results reach them, so names, dead code and the order of independent ops do
  not matter. Returns None if a captured value is not known.
  """
  position = {number: ("argument", index, region.types[index]) for index, number in enumerate(region.args)}
  defined = {op.results[0]: op for op in region.ops if len(op.results) == 1}
  listing: list[Any] = []
  seen: dict[int, Any] = {}

  def visit(number: int) -> Any:
    if number in position:
      return position[number]
    if number in seen:
      return seen[number]
    op = defined.get(number)
    if op is None or op.name == "stablehlo.constant":
      entry = _constant(op.attrs["value"] if op else (outer or {}).get(number))
    elif op.regions:
      entry = None
    else:
      operands = tuple(visit(operand) for operand in op.operands)
      listing.append((op.name, _attributes(op), op.types, operands))
      entry = ("op", len(listing) - 1)
    seen[number] = entry
    if entry is None:
      raise LookupError
    return entry

  try:
    returns = tuple(visit(number) for number in region.returns)
  except LookupError:
    return None
  return (tuple(listing), returns)


def _constant(value: object) -> Any:
  return ("constant", value.dtype.str, value.shape, value.tobytes()) if isinstance(value, np.ndarray) else None


def _attributes(op: ir.Op) -> tuple[Any, ...]:
  items = ((name, value) for name, value in op.attrs.items() if not name.startswith("mhlo.") and name != "compare_type")
  compare = op.attrs.get("compare_type")
  kept = ("TOTALORDER",) if compare == "TOTALORDER" else ()
  return (*sorted((name, str(value)) for name, value in items), *kept)


def exported_region(function: Callable[..., Any], op_name: str, *specs: jax.ShapeDtypeStruct) -> Any:
  """Returns the canonical form of the region of the first `op_name` that JAX exports for a function, or None."""
  return _exported_region(function, op_name, tuple((spec.shape, spec.dtype) for spec in specs))


@functools.lru_cache(maxsize=256)
def _exported_region(function: Callable[..., Any], op_name: str, specs: tuple[Any, ...]) -> Any:
  arguments = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in specs]
  text = jax.jit(function).lower(*arguments).as_text()
  module_ir = recover(mlir.decode_text(text))  # `canonical` is also called on modules after `recover`
  for candidate in module_ir.functions.values():
    constants = {op.results[0]: op.attrs["value"] for op in ir.walk(candidate.body) if op.name == "stablehlo.constant"}
    for op in ir.walk(candidate.body):
      if op.name == op_name:
        return canonical(op.regions[0], constants)
  return None
