"""The table of spellings: functions that propose texts for an operation."""

import dataclasses
from collections.abc import Callable, Iterator

from graftax.convert.source_code.program import Dim, DType, Equation, Settings
from graftax.convert.source_code.spelling.texts import settings_text

__all__ = ["Call", "proposals", "spelled"]


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
  """An operation whose operands have the names `_0`, `_1` and so on.

  Attributes:
    equation: the operation.
  """

  equation: Equation

  @property
  def args(self) -> str:
    """The operands, separated by commas."""
    return ", ".join(self.names)

  @property
  def names(self) -> list[str]:
    return [f"_{i}" for i in range(len(self.equation.inputs))]

  @property
  def settings(self) -> Settings:
    return self.equation.settings

  @property
  def shape(self) -> tuple[Dim, ...]:
    """The result's shape."""
    return self.equation.outputs[0].shape

  @property
  def dtype(self) -> DType:
    return self.equation.outputs[0].dtype

  def in_shape(self, index: int = 0) -> tuple[Dim, ...]:
    return self.equation.inputs[index].shape

  def ints(self, name: str) -> tuple[int, ...]:
    """Returns a setting that is a sequence of integers."""
    return tuple(int(i) for i in self.settings[name])


Spelling = Callable[[Call], Iterator[str]]
_SPELLINGS: dict[str, Spelling] = {}


def spelled(*ops: str) -> Callable[[Spelling], Spelling]:
  """Registers proposals for operations. The first one whose program is the operation is taken."""

  def register(function: Spelling) -> Spelling:
    for op in ops:
      _SPELLINGS[op] = function
    return function

  return register


def proposals(equation: Equation) -> Iterator[str]:
  """Yields expressions of an operation, the plainest first; the last ones bind the primitive."""
  call = Call(equation)
  if equation.op in _SPELLINGS:
    yield from _SPELLINGS[equation.op](call)
  try:
    settings = settings_text(equation.settings)
  except ValueError:
    return
  for function in (f"lax.{equation.op}", f"jnp.{equation.op}", f"lax.linalg.{equation.op}"):
    yield f"{function}({call.args}{settings})"
  for module in ("lax", "lax.linalg", "primitives"):
    yield f"{module}.{equation.op}_p.bind({call.args}{settings})"
