"""Symbolic dimensions: where a graph reads their sizes, and expressions of them as nodes."""

import ast
import dataclasses
from collections.abc import Mapping, Sequence

import jax

from graftax.convert.jax2tf.tf_ops.tensors import Shape

__all__ = ["SizeSource", "expression", "size_sources"]


@dataclasses.dataclass(frozen=True, slots=True)
class SizeSource:
  """Where the size of a named dimension can be read.

  Attributes:
    position: the argument.
    axis: its axis.
    factor: how many times the size of the dimension the size of this axis is.
  """

  position: int
  axis: int
  factor: int


def size_sources(shapes: Sequence[Shape]) -> Mapping[str, SizeSource]:
  """Returns, for each named dimension, where its size can be read from arguments of these shapes.

  A name that occurs only in expressions such as `a + b` cannot be read and is left out.
  """
  found: dict[str, SizeSource] = {}
  for position, shape in enumerate(shapes):
    for axis, dim in enumerate(shape):
      match expression(dim) if jax.export.is_symbolic_dim(dim) else None:
        case ast.Name(id=name):
          if name not in found or found[name].factor != 1:
            found[name] = SizeSource(position, axis, 1)
        case ast.BinOp(left=ast.Constant(value=int(factor)), op=ast.Mult(), right=ast.Name(id=name)) if factor > 0:
          found.setdefault(name, SizeSource(position, axis, factor))
  return found


def expression(dim: object) -> ast.expr:
  """Returns a symbolic dimension as a Python expression of names, integers, operators, `floordiv`, `mod` and so on.

  The text of a dimension is the language that `jax.export.symbolic_shape` reads.
  """
  return ast.parse(str(dim).replace("^", "**"), mode="eval").body
