"""A JAX program as data that the stages of `to_source` rewrite: values, equations and blocks."""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

__all__ = [
  "ASSIGN",
  "INSTANCE",
  "Block",
  "DType",
  "Dim",
  "Equation",
  "Literal",
  "Operand",
  "Rule",
  "Settings",
  "Value",
  "free_values",
  "num_equations",
  "path_parts",
  "substituted",
  "uses",
]

INSTANCE = "§"
"""Stands in a scope before the number of a call, so that calls of one function are scopes of their own."""
ASSIGN = "assign"
"""The operation that gives a parameter, its first input, a new value, its second; it has no result."""
Dim: TypeAlias = int
"""A size: an int, or a symbolic dimension of `jax.export`, which JAX's types call an int as well."""
DType: TypeAlias = Any
"""A dtype of numpy, or an extended one of JAX, such as that of random keys."""
Settings: TypeAlias = dict[str, Any]
"""Static parameters of an operation."""


@dataclasses.dataclass(eq=False, slots=True)
class Value:
  """An array of a program. Two values are equal only if they are the same object.

  Attributes:
    shape: its sizes.
    dtype: its dtype.
    name: what it is called in the original program, such as an argument's name; or "".
    parameter: the path of a parameter, or None for other values.
    is_constant: whether an equation makes it in the place of a constant of the program.
  """

  shape: tuple[Dim, ...]
  dtype: DType
  name: str = ""
  parameter: tuple[str, ...] | None = None
  is_constant: bool = False

  def __repr__(self) -> str:
    return f"Value({self.name}{list(self.shape)})"


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class Literal:
  """A constant that the text has in it: a scalar or a small array."""

  array: np.ndarray

  @property
  def shape(self) -> tuple[Dim, ...]:
    return self.array.shape

  @property
  def dtype(self) -> DType:
    return self.array.dtype

  def same(self, other: object) -> bool:
    """Returns whether another operand is the same constant, to the bit."""
    return (
      isinstance(other, Literal)
      and self.array.dtype == other.array.dtype
      and self.array.shape == other.array.shape
      and self.array.tobytes() == other.array.tobytes()
    )


Operand = Value | Literal


@dataclasses.dataclass(eq=False, slots=True)
class Equation:
  """One operation.

  Attributes:
    op: a primitive's name, or the name of a recovered call.
    inputs: what it reads.
    outputs: what it defines.
    settings: static parameters, in normal form.
    bodies: the blocks of loops, branches and functions, by role. They may read values of the blocks around them.
    scope: names from outside to inside.
  """

  op: str
  inputs: list[Operand]
  outputs: list[Value]
  settings: Settings = dataclasses.field(default_factory=dict)
  bodies: dict[str, "Block"] = dataclasses.field(default_factory=dict)
  scope: tuple[str, ...] = ()


@dataclasses.dataclass(eq=False, slots=True)
class Block:
  """A sequence of equations with its own inputs and results."""

  inputs: list[Value]
  equations: list[Equation]
  results: list[Operand]


@dataclasses.dataclass(eq=False, slots=True)
class Rule:
  """A function with a derivative of its own; all blocks are closed.

  Attributes:
    kind: "jvp" or "vjp".
    name: what the function is called.
    primal: the function.
    blocks: "jvp": primals and tangents to results and their tangents; or "fwd": arguments to results and residuals, and
      "bwd": residuals and cotangents to cotangents.
    num_residuals: how many residuals there are.
    differentiable: which arguments have tangents.
    results_differentiable: which results have tangents.
    jvp: the rule of a "jvp" as a function of JAX, on primals and then tangents.
    constants: large arrays that the blocks read. They are the last arguments, and the last residuals of a "vjp".
    error: what the derivative raises in place of a result, or "".
  """

  kind: str
  name: str
  primal: Block
  blocks: dict[str, Block] = dataclasses.field(default_factory=dict)
  num_residuals: int = 0
  differentiable: tuple[bool, ...] = ()
  results_differentiable: tuple[bool, ...] = ()
  jvp: Callable[..., Any] | None = None
  constants: list[np.ndarray] = dataclasses.field(default_factory=list)
  error: str = ""


def uses(block: Block) -> Iterator[Value]:
  """Yields each value as often as a block reads it, also in the blocks of its equations."""
  for equation in block.equations:
    yield from (operand for operand in equation.inputs if isinstance(operand, Value))
    for body in equation.bodies.values():
      yield from uses(body)
  yield from (operand for operand in block.results if isinstance(operand, Value))


def num_equations(block: Block) -> int:
  """Returns how many equations a block has, with those in its bodies."""
  return sum(1 + sum(num_equations(body) for body in e.bodies.values()) for e in block.equations)


def path_parts(parameter: Sequence[str]) -> tuple[str, ...]:
  """Returns the parts of a parameter's path; one key can hold several, such as `encoder/kernel` or `encoder.weight`."""
  return tuple(part for part in re.split(r"[/.]", "/".join(parameter)) if part)


def free_values(block: Block) -> list[Value]:
  """Returns the values that a block reads and does not define, in the order of their first use."""
  own = set(block.inputs)
  found: dict[Value, None] = {}

  def visit(inner: Block) -> None:
    own.update(inner.inputs)
    for equation in inner.equations:
      for operand in equation.inputs:
        if isinstance(operand, Value) and operand not in own:
          found.setdefault(operand)
      for body in equation.bodies.values():
        visit(body)
      own.update(equation.outputs)
    for operand in inner.results:
      if isinstance(operand, Value) and operand not in own:
        found.setdefault(operand)

  visit(block)
  return list(found)


def substituted(block: Block, values: Mapping[Value, Operand]) -> None:
  """Replaces values that a block reads, in place."""

  def new(operand: Operand) -> Operand:
    return values.get(operand, operand) if isinstance(operand, Value) else operand

  for equation in block.equations:
    equation.inputs = [new(operand) for operand in equation.inputs]
    for body in equation.bodies.values():
      substituted(body, values)
  block.results = [new(operand) for operand in block.results]
