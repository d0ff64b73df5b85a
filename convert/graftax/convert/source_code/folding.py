"""Prints functions and makes one of equal ones; calls that follow each other become loops."""

import ast
import copy
from collections import Counter
from collections.abc import Mapping, Sequence

from graftax.convert.source_code.grouping import Loop, WrittenFunction
from graftax.convert.source_code.printing import Printed, Printer, marked
from graftax.convert.source_code.program import Block, Equation, Rule, Value, uses
from graftax.convert.source_code.spelling.choosing import Speller

__all__ = ["Folded", "key_of"]


class Folded:
  """The functions of a text.

  Attributes:
    functions: each once, callees first.
    instances: the functions and rules that each of them is.
    by_instance: what was printed for each `WrittenFunction`, by its `id`.
  """

  def __init__(self, speller: Speller, kinds: Mapping[tuple[str, ...], str] | None = None) -> None:
    """Args: `kinds` are kinds of parameters by their paths; functions are equal only if these are."""
    self._kinds = {} if kinds is None else kinds
    self.functions: list[Printed] = []
    self.instances: list[list[WrittenFunction | Rule]] = []
    self._printer = Printer(speller, self.resolve)
    self._index: dict[int, int] = {}
    self._by_key: dict[str, int] = {}
    self._marks: list[list[str]] = []
    self.by_instance: dict[int, Printed] = {}

  def index(self, source: object) -> int:
    """Returns the number of the function that is written for a `WrittenFunction` or a `Rule`."""
    self.resolve(source)
    return self._index[id(source)]

  def resolve(self, source: object) -> Printed:
    """Returns the function that is written for a `WrittenFunction` or a `Rule`."""
    if id(source) not in self._index:
      assert isinstance(source, WrittenFunction | Rule)
      self._add(source, self._print(source))
    return self.functions[self._index[id(source)]]

  def kinds_of(self, printed: Printed) -> list[str | None]:
    """Returns the kinds of a function's own parameters."""
    return [self._kinds.get(leaf.parameter or ()) for leaf in printed.leaves]

  def join(self, joined: Sequence[tuple[Sequence[int], Printed]]) -> None:
    """Replaces functions by joined ones, each given by the numbers of its members and by what is written for them.

    No function can be added after this.
    """
    numbers = {i: number for number, (members, _) in enumerate(joined) for i in members}
    self.instances = [[f for i in members for f in self.instances[i]] for members, _ in joined]
    self.functions = [printed for _, printed in joined]
    self._index = {source: numbers[i] for source, i in self._index.items()}

  def main(self, function: WrittenFunction, prelude: dict[Value, ast.expr], arguments: list[str]) -> Printed:
    """Returns the outermost function, which is never joined with an equal one."""
    self._loops(function.block)
    printed = self._printer.function(function, prelude, arguments)
    self._number(printed, function)
    return printed

  def _print(self, source: WrittenFunction | Rule) -> Printed:
    if isinstance(source, Rule):
      printed = self._printer.rule(source)
    else:
      self._loops(source.block)
      printed = self._printer.function(source)
    self._number(printed, source)
    return printed

  def _number(self, printed: Printed, source: object) -> None:
    """Gives the functions that a function calls their numbers."""
    numbers = {
      marked("function", id(callee)): marked("self") if callee is source else marked("function", self.index(callee))
      for callee in printed.callees
    }
    for tree in [printed.tree, *printed.extras]:
      for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in numbers:
          node.id = numbers[node.id]

  def _add(self, source: WrittenFunction | Rule, printed: Printed) -> None:
    text, marks = key_of(printed)
    key = text + repr(self.kinds_of(printed))
    if key not in self._by_key:
      self._by_key[key] = len(self.functions)
      self.functions.append(printed)
      self.instances.append([])
      self._marks.append(marks)
    index = self._by_key[key]
    hints = self.functions[index].hints
    for mark, other in zip(self._marks[index], marks, strict=True):
      if mark in hints and hints[mark] != printed.hints.get(other):
        hints[mark] = ""  # what one caller calls it does not fit the others
    self._index[id(source)] = self._by_key[key]
    self.instances[self._by_key[key]].append(source)
    # Each instance has parameters of its own.
    if isinstance(source, WrittenFunction):
      self.by_instance[id(source)] = printed

  def _loops(self, block: Block) -> None:
    """Makes loops of calls in a block."""
    for equation in block.equations:
      for body in equation.bodies.values():
        self._loops(body)
    counts = Counter(uses(block))
    out: list[Equation] = []
    for equation in block.equations:
      previous = out[-1] if out else None
      joined = self._joined(previous, equation, counts) if previous is not None else None
      if joined is not None:
        out[-1] = joined
      else:
        out.append(equation)
    block.equations = out

  def _joined(self, first: Equation, second: Equation, counts: Counter[Value]) -> Equation | None:
    """Returns the loop that is a call, or a loop, and the call after it."""
    if second.op != "call" or first.op not in ("call", "loop"):
      return None
    loop = first.settings["loop"] if first.op == "loop" else Loop([_callee(first)], ())
    assert isinstance(loop, Loop)
    callee = _callee(second)
    if self.index(callee) != self.index(loop.functions[0]):
      return None
    carried: list[tuple[int, int]] = []
    for i in range(callee.num_tensors):
      operand, before = second.inputs[i], first.inputs[i]
      if isinstance(operand, Value) and operand in first.outputs:
        carried.append((i, first.outputs.index(operand)))
      elif operand is not before:
        return None
    used = Counter(o for o in second.inputs if isinstance(o, Value))
    outside = [v for v in first.outputs if counts[v] > used[v]]
    if outside or not carried or len({o for _, o in carried}) != len(carried):
      return None
    if first.op == "loop" and tuple(carried) != loop.carried:
      return None
    joined = Loop([*loop.functions, callee], tuple(carried))
    # Parameters of the calls are read where the loop is.
    inputs = [*first.inputs, *second.inputs[callee.num_tensors :]]
    return Equation("loop", inputs, second.outputs, {"loop": joined}, {}, first.scope)


def _callee(equation: Equation) -> WrittenFunction:
  callee = equation.settings["function"]
  assert isinstance(callee, WrittenFunction)
  return callee


def key_of(printed: Printed) -> tuple[str, list[str]]:
  """Returns a text that equal functions share, in which names of values are numbers, and the marks of these numbers."""
  trees = copy.deepcopy([printed.tree, *printed.extras])
  numbers: dict[str, str] = {}

  def numbered(name: str) -> str:
    if name.startswith((marked("value", ""), marked("local", ""))):
      return numbers.setdefault(name, f"n{len(numbers)}")
    return name

  for tree in trees:
    for node in ast.walk(tree):
      if isinstance(node, ast.Name):
        node.id = numbered(node.id)
      elif isinstance(node, ast.arg):
        node.arg = numbered(node.arg)
      elif isinstance(node, ast.FunctionDef):
        node.name = numbered(node.name)
  return "\n".join(ast.dump(tree) for tree in trees), list(numbers)
