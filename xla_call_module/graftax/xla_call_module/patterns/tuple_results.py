"""Gives a custom call whose one result is a tuple as many results as the tuple has elements.

TensorFlow's compiler writes calls of several results so: `Qr` returns `tuple<tensor<3x3xf32>, tensor<3xf32>>`, and
`get_tuple_element` reads it. JAX writes several results, which the lowerings and patterns expect.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from graftax.xla_call_module import ir
from graftax.xla_call_module.patterns.renaming import renamed

__all__ = ["with_several_results"]

_READ = "stablehlo.get_tuple_element"
# By the number of the tuple: the numbers of its elements.
_Elements = Mapping[int, tuple[int, ...]]


def with_several_results(module_ir: ir.ModuleIR) -> ir.ModuleIR:
  """Returns the module without tuples of custom calls; a tuple that another op than a `get_tuple_element` reads stays.

  Args:
    module_ir: the module.
  """
  ops = [op for function in module_ir.functions.values() for op in ir.walk(function.body)]
  tuples = {op.results[0]: _element_types(op) for op in ops if _element_types(op)}
  if not tuples:
    return module_ir
  for number in _read_otherwise(module_ir, ops, tuples):
    tuples.pop(number, None)
  fresh = itertools.count(1 + max(_numbers(module_ir)))
  elements = {number: tuple(next(fresh) for _ in kinds) for number, kinds in tuples.items()}
  functions = {
    name: dataclasses.replace(function, body=_expanded(function.body, elements))
    for name, function in module_ir.functions.items()
  }
  reads = {
    op.results[0]: elements[op.operands[0]][op.attrs.integer("index")]
    for op in ops
    if op.name == _READ and op.operands[0] in elements
  }
  return renamed(dataclasses.replace(module_ir, functions=functions), reads)


def _element_types(op: ir.Op) -> tuple[Any, ...]:
  """Returns the types in the tuple that a custom call returns, if these are tensors; else none."""
  kind: Any = op.types[0] if op.name == "stablehlo.custom_call" and len(op.types) == 1 else None
  is_flat = isinstance(kind, ir.TupleType) and all(isinstance(element, ir.TensorType) for element in kind.elements)
  return kind.elements if is_flat else ()


def _read_otherwise(module_ir: ir.ModuleIR, ops: list[ir.Op], tuples: Mapping[int, object]) -> Iterator[int]:
  """Yields the tuples that are returned or are an operand of an op that needs a tuple."""
  for op in ops:
    if op.name != _READ:
      yield from (number for number in op.operands if number in tuples)
  for region in _regions(module_ir):
    yield from (number for number in region.returns if number in tuples)


def _regions(module_ir: ir.ModuleIR) -> Iterator[ir.Region]:
  for function in module_ir.functions.values():
    yield function.body
    for op in ir.walk(function.body):
      yield from op.regions


def _numbers(module_ir: ir.ModuleIR) -> Iterator[int]:
  for region in _regions(module_ir):
    yield from region.args
    for op in region.ops:
      yield from op.results


def _expanded(region: ir.Region, elements: _Elements) -> ir.Region:
  captures = itertools.chain.from_iterable(elements.get(number, (number,)) for number in region.captures)
  return dataclasses.replace(
    region, ops=tuple(_expanded_op(op, elements) for op in region.ops), captures=tuple(captures)
  )


def _expanded_op(op: ir.Op, elements: _Elements) -> ir.Op:
  regions = tuple(_expanded(region, elements) for region in op.regions)
  found = elements.get(op.results[0]) if op.results else None
  if found is None:
    return dataclasses.replace(op, regions=regions)
  return dataclasses.replace(op, results=found, types=_element_types(op), regions=regions)
