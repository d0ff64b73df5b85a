"""Symbolic dimensions: where a graph reads their sizes, expressions of them, and what sizes must fulfil."""

import ast
import collections
import dataclasses
import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax

from graftax.convert.jax2tf.tf_ops.tensors import Shape

__all__ = [
  "MAX_SIZE",
  "SizeCheck",
  "SizeSource",
  "constraints",
  "expression",
  "names_in",
  "size_checks",
  "size_sources",
]

MAX_SIZE = (1 << 31) - 1
"""The largest size, which nodes compute as int32."""


@dataclasses.dataclass(frozen=True, slots=True)
class SizeSource:
  """Where the size of a named dimension can be read: `(size of the axis - offset - others) // factor`.

  Attributes:
    position: the argument.
    axis: its axis.
    factor: the coefficient of the dimension in the size of this axis.
    offset: the constant in it.
    others: other names in it, which are read before, with their coefficients.
  """

  position: int
  axis: int
  factor: int = 1
  offset: int = 0
  others: Mapping[str, int] = dataclasses.field(default_factory=dict)

  @property
  def is_direct(self) -> bool:
    """Whether the size of the axis is that of the dimension."""
    return self.factor == 1 and not self.offset and not self.others


@dataclasses.dataclass(frozen=True, slots=True)
class SizeCheck:
  """A condition on sizes, `left op right`.

  Attributes:
    left: an expression of names; None is the size of `axis`.
    op: "Equal", "GreaterEqual" or "LessEqual".
    right: an expression of names.
    text: the condition, for a message. It names an axis by its place in the arguments.
    axis: the argument and its axis.
  """

  left: ast.expr | None
  op: str
  right: ast.expr
  text: str
  axis: tuple[int, int] | None = None


def size_sources(shapes: Sequence[Shape]) -> Mapping[str, SizeSource]:
  """Returns, for each named dimension, where its size can be read from arguments of these shapes.

  As `jax.export` does, it solves sizes such as `2*n + 1` and `a + b`, which have one name that is not known yet. Names
  that occur only in other expressions cannot be read and are left out.
  """
  forms = [(place, form) for place, dim in _symbolic(shapes) if (form := _linear(expression(dim))) is not None]
  # First those that say the most of one name: a size itself, and then its smallest multiple.
  forms.sort(key=lambda item: (len(item[1]), max(map(abs, item[1].values()), default=0)))
  found: dict[str, SizeSource] = {}
  num_found = -1
  while len(found) > num_found:
    num_found = len(found)
    for place, form in forms:
      unknown = [name for name in form if name and name not in found]
      if len(unknown) == 1 and max(map(abs, form.values())) <= MAX_SIZE:
        (name,) = unknown
        others = {other: count for other, count in form.items() if other not in ("", name)}
        found[name] = SizeSource(*place, form[name], form.get("", 0), others)
  return found


def size_checks(
  shapes: Sequence[Shape], names: Sequence[str], sources: Mapping[str, SizeSource]
) -> Iterator[SizeCheck]:
  """Yields what JAX assumes of the sizes of arguments, but for what follows from how they are read.

  Args:
    shapes: shapes of the arguments.
    names: their names, for messages.
    sources: where sizes are read, as `size_sources` returns.
  """
  for name in sources:
    yield SizeCheck(ast.Name(name), "GreaterEqual", ast.Constant(1), f"{name} >= 1")
  read = {(source.position, source.axis) for source in sources.values() if source.is_direct}
  for (position, axis), dim in _symbolic(shapes):
    if (position, axis) not in read:
      text = f"{names[position]}.shape[{axis}] == {dim}"
      yield SizeCheck(None, "Equal", expression(dim), text, (position, axis))
  scopes = [dim.scope for _, dim in _symbolic(shapes)]
  for text in constraints(scopes[0]) if scopes else ():
    match expression(text):
      case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
        yield SizeCheck(left, _COMPARISONS[type(op)], right, text)


def names_in(tree: ast.expr) -> set[str]:
  """Returns the names of dimensions in an expression."""
  called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
  return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called}


def constraints(scope: jax.export.SymbolicScope) -> list[str]:
  """Returns the constraints of a scope, such as "a >= 4", from its text: JAX has no function that returns them."""
  _, found, lines = str(scope).partition("with constraints:\n")
  return [line.strip() for line in lines.splitlines()] if found else []


def expression(dim: object) -> ast.expr:
  """Returns a symbolic dimension as a Python expression of names, integers, operators, `floordiv`, `mod` and so on.

  The text of a dimension is the language that `jax.export.symbolic_shape` reads, in which keywords of Python are names.
  """
  text = _WORD.sub(lambda word: _KEYWORD + word[0] if keyword.iskeyword(word[0]) else word[0], str(dim))
  tree = ast.parse(text.replace("^", "**"), mode="eval").body
  for node in ast.walk(tree):
    if isinstance(node, ast.Name):
      node.id = node.id.removeprefix(_KEYWORD)
  return tree


_WORD, _KEYWORD = re.compile(r"[^\W\d]\w*"), "_keyword_"
_COMPARISONS: dict[type[ast.cmpop], str] = {ast.Eq: "Equal", ast.GtE: "GreaterEqual", ast.LtE: "LessEqual"}


def _symbolic(shapes: Sequence[Shape]) -> Iterator[tuple[tuple[int, int], Any]]:
  for position, shape in enumerate(shapes):
    for axis, dim in enumerate(shape):
      if jax.export.is_symbolic_dim(dim):
        yield (position, axis), dim


def _linear(tree: ast.expr) -> dict[str, int] | None:
  """Returns how many times an expression adds each name, and, under "", the number; None if it does something else."""
  match tree:
    case ast.Constant(value=int(value)):
      return {"": value}
    case ast.Name(id=name):
      return {name: 1}
    case ast.UnaryOp(op=ast.USub(), operand=operand):
      return _sum(_linear(operand), -1, {})
    case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
      return _sum(_linear(right), 1 if isinstance(op, ast.Add) else -1, _linear(left))
    case ast.BinOp(left=left, op=ast.Mult(), right=right):
      factor = _linear(left)
      if factor is not None and factor.keys() <= {""}:
        return _sum(_linear(right), factor.get("", 0), {})
  return None


def _sum(form: dict[str, int] | None, factor: int, other: dict[str, int] | None) -> dict[str, int] | None:
  if form is None or other is None:
    return None
  total = collections.Counter(other)
  for name, count in form.items():
    total[name] += factor * count
  return {name: count for name, count in total.items() if count}
