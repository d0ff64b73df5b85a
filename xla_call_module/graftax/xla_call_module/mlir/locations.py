"""Source locations in a module: what is published names operations, but no files of the machine that wrote it."""

import re
from collections.abc import Iterable
from typing import Any, TypeAlias

from jax.extend.mlir import ir as mlir_ir

from graftax.xla_call_module.mlir.bindings import MlirValue

__all__ = ["put_back", "without_files"]

_Place: TypeAlias = mlir_ir.Operation | MlirValue

# `loc("jit(f)/sin"(...))` and `loc("x")`; `loc("/a/f.py":3:4)` is a place in a file.
_NAME = re.compile(r'loc\("((?:[^"\\]|\\.)*)"[()]')


def without_files(module: Any, operations: Iterable[mlir_ir.Operation]) -> list[tuple[_Place, mlir_ir.Location]]:
  """Takes the files, lines and frames out of the locations of a module. The names of operations stay.

  Args:
    module: the module, of the current context.
    operations: all operations in it.

  Returns:
    Operations and block arguments, each with the location that it had, for `put_back`.
  """
  named: dict[str, mlir_ir.Location] = {}
  before: list[tuple[_Place, mlir_ir.Location]] = []
  for op in operations:
    before.append((op, op.location))
    for region in op.regions:
      for block in region:
        before += ((argument, argument.location) for argument in block.arguments)
  for where, location in before:
    text = str(location)
    if text not in named:
      named[text] = _named(text)
    _put(where, named[text])
  return before


def put_back(locations: Iterable[tuple[_Place, mlir_ir.Location]]) -> None:
  """Restores the locations that `without_files` took out."""
  for where, location in locations:
    _put(where, location)


def _named(text: str) -> mlir_ir.Location:
  found = _NAME.match(text)
  return mlir_ir.Location.name(found[1]) if found else mlir_ir.Location.unknown()


def _put(where: Any, location: mlir_ir.Location) -> None:
  if isinstance(where, mlir_ir.BlockArgument):
    where.set_location(location)
  else:
    where.location = location
