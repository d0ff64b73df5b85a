"""Writes one function as statements."""

import ast
import copy
import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from graftax.convert.source_code.grouping import Loop, WrittenFunction
from graftax.convert.source_code.printing import syntax
from graftax.convert.source_code.printing.marks import MARK, MAX_INLINE, dims_marked, marked, width
from graftax.convert.source_code.printing.syntax import expression
from graftax.convert.source_code.program import Block, Equation, Literal, Operand, Value, uses
from graftax.convert.source_code.spelling.choosing import Speller
from graftax.convert.source_code.spelling.texts import array_text, dim_names, text

__all__ = ["FunctionWriter", "Printed", "Statements", "WritingRules"]


@dataclasses.dataclass(eq=False, slots=True)
class Printed:
  """A function of the text.

  Attributes:
    tree: its definition. `§value§i` are values, `§leaf§i` its parameters, `§sub§i` the parameters of its calls, and
      `§function§i` other functions.
    leaves: its own parameters, in the order of their numbers.
    subs: the functions it calls that have parameters; a list is a loop over calls.
    hints: what values may be called.
    callees: what it calls.
    dims: sizes that it is given.
    extras: further definitions that follow it, such as rules of its derivative.
    has_parameters: whether its first argument holds parameters.
  """

  tree: ast.FunctionDef
  leaves: list[Value]
  subs: list["WrittenFunction | Loop"]
  hints: dict[str, str]
  callees: list[object]
  dims: list[str]
  names: tuple[str, ...]
  extras: list[ast.stmt] = dataclasses.field(default_factory=list)
  has_parameters: bool = False


Statements = Callable[["FunctionWriter", Equation], list[ast.stmt]]
"""Returns the statements of an operation that is not one expression."""


@dataclasses.dataclass(frozen=True, slots=True)
class WritingRules:
  """What writers of a program's functions share.

  Attributes:
    speller: chooses expressions.
    statements: how operations are written that are not one expression, by their names.
    resolve: returns the function that is written for a `WrittenFunction` or a `Rule`.
    numbers: gives each writer a number.
  """

  speller: Speller
  statements: Mapping[str, Statements]
  resolve: Callable[[object], Printed]
  numbers: Iterator[int] = dataclasses.field(default_factory=itertools.count)


class FunctionWriter:
  """Writes one function, with the bodies in it.

  Attributes:
    env: expressions of values; names, but for those that are written where they are read.
    leaves: parameters of the function, in the order of their marks.
    subs: the functions it calls that have parameters.
    callees: what it calls.
    counts: how often values are read.
    here: values of the block that is being written.
    pending: expressions that are not in a statement yet.
    results: what the function returns.
  """

  def __init__(self, rules: WritingRules, block: Block) -> None:
    self._rules = rules
    # Not its `id`, which a later writer of the same function may have again.
    self._id = next(rules.numbers)
    self.env: dict[Value, ast.expr] = {}
    self.leaves: list[Value] = []
    self.subs: list[WrittenFunction | Loop] = []
    self._hints: dict[str, str] = {}
    self.callees: list[object] = []
    self.counts = Counter(uses(block))
    self._numbers = 0
    self.here: set[Operand] = set()
    self.pending: dict[Value, ast.expr] = {}
    self.results = block.results

  # --- the finished function

  def printed(
    self, arguments: list[str], body: list[ast.stmt], inputs: Sequence[Value], names: tuple[str, ...], unpacked: int = 0
  ) -> Printed:
    """Returns the function; sizes that its body names are read from its inputs, or become arguments.

    Args:
      arguments: names.
      body: statements.
      inputs: values that the arguments hold.
      names: the scope.
      unpacked: how many statements take arguments apart.
    """
    tree = syntax.definition("", arguments, body)
    dims: dict[str, None] = {}
    missing: list[str] = []
    prelude: list[ast.stmt] = []
    for node in ast.walk(tree):
      if isinstance(node, ast.Name) and node.id.startswith(marked("dim", "")):
        dims.setdefault(node.id)
    for mark in dims:
      name = mark.removeprefix(marked("dim", ""))
      where = self._where(name, inputs)
      if where is None:
        missing.append(name)
      else:
        prelude.append(syntax.assign([ast.Name(mark)], where))
    tree.body = [*tree.body[:unpacked], *prelude, *tree.body[unpacked:]]
    tree.args.args += [ast.arg(marked("dim", name)) for name in missing]
    leaves = _numbered_leaves(tree, self.leaves)
    printed = Printed(tree, leaves, self.subs, self._hints, self.callees, missing, names)
    printed.has_parameters = bool(leaves or self.subs)
    return printed

  def resolve(self, source: object) -> Printed:
    """Returns the function that is written for a `WrittenFunction` or a `Rule`."""
    return self._rules.resolve(source)

  def finish(self, into: Printed) -> None:
    """Adds what this writer found to another function."""
    into.callees += self.callees
    into.hints.update(self._hints)

  def _where(self, name: str, inputs: Sequence[Value]) -> ast.expr | None:
    """Returns where a size can be read."""
    for value in inputs:
      for d, size in enumerate(value.shape):
        if dim_names(size) == {name} and str(size) == name and value in self.env:
          return ast.Subscript(ast.Attribute(self.env[value], "shape"), ast.Constant(d))
    return None

  # --- values

  def define(self, value: Value, hint: str = "") -> str:
    """Returns a new name of a value."""
    name = marked("value", self._id, self._numbers)
    self._numbers += 1
    self.pending.pop(value, None)
    self.env[value] = ast.Name(name)
    self._hints[name] = value.name or hint
    return name

  def operands(self, operands: Sequence[Operand]) -> list[ast.expr]:
    """Returns expressions of operands."""
    return [self.operand(operand) for operand in operands]

  def operand(self, operand: Operand) -> ast.expr:
    """Returns an expression of an operand."""
    if isinstance(operand, Literal):
      return dims_marked(expression(array_text(operand)), set())
    found = self.env.get(operand)
    self.pending.pop(operand, None)
    if found is None:
      raise AssertionError(f"internal: {operand} is read before it is defined")
    return copy.deepcopy(found)

  # --- statements

  def body(self, block: Block) -> list[ast.stmt]:
    """Returns the statements of a block, with the one that returns its results."""
    statements = self.statements(block)
    return syntax.returned(statements, syntax.packed(self.operands(block.results)))

  def statements(self, block: Block) -> list[ast.stmt]:
    """Returns the statements of a block."""
    out: list[ast.stmt] = []
    around, self.here = self.here, set(block.inputs)
    for equation in block.equations:
      self.here.update(equation.outputs)
    here = Counter(o for e in block.equations for o in e.inputs if isinstance(o, Value))
    here.update(o for o in block.results if isinstance(o, Value))
    rows = Counter(o for e in block.equations if e.op == "scan" for o in e.inputs[int(e.settings["num_carry"]) :])
    for equation in block.equations:
      if equation.op in self._rules.statements:
        out.extend(self._rules.statements[equation.op](self, equation))
        continue
      if equation.op == "iota" and (value := equation.outputs[0]).is_constant and rows[value] == self.counts[value]:
        # XLA computes fewer instructions in the loop if the numbers are a constant of the program.
        self.env[value] = expression(f"np.arange({text(value.shape[0])}, dtype=np.{value.dtype})")
        continue
      tree = self._spelled(equation, out)
      if len(equation.outputs) == 1:
        value = equation.outputs[0]
        if self.counts[value] == 1 and here[value] == 1 and width(tree) <= MAX_INLINE:
          self.env[value] = self.pending[value] = tree
          continue
        out.append(syntax.assign([ast.Name(self.define(value, _hint(equation)))], tree))
      else:
        out.append(syntax.assign([self.targets(equation.outputs, _hint(equation))], tree))
    self.here = around
    return out

  def _spelled(self, equation: Equation, before: list[ast.stmt]) -> ast.expr:
    tree = dims_marked(self._rules.speller.spell(equation), _names_of(equation))
    placeholders = Counter(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id.startswith("_"))
    for i, operand in enumerate(equation.inputs):
      if isinstance(operand, Value) and placeholders[f"_{i}"] > 1 and not syntax.is_name(self.env[operand]):
        value = self.env[operand]
        before.append(syntax.assign([ast.Name(self.define(operand))], value))
    given = {
      f"_{i}": self.operand(o) for i, o in enumerate(equation.inputs) if isinstance(o, Value) and placeholders[f"_{i}"]
    }
    return syntax.Replaced(given).visit(tree)

  def targets(self, outputs: Sequence[Value], hint: str = "") -> ast.expr:
    """Returns what results are assigned to, with new names for those that are read."""
    names = [self.define(v, hint) if self.counts[v] else "_" for v in outputs]
    if not any(name != "_" for name in names):
      return ast.Name("_")
    return syntax.target(names)

  def nested(self, name: str, block: Block, arguments: list[ast.stmt], parameters: list[str]) -> ast.FunctionDef:
    """Returns the definition of a body."""
    return syntax.definition(name, parameters, [*arguments, *self.statements(block)])

  def argument(self, values: Sequence[Value], name: str, unpack: list[ast.stmt]) -> str:
    """Returns the argument that holds values, and adds the statement that takes it apart."""
    if not values:
      return "_"
    names = [self.define(value) if self.counts[value] else "_" for value in values]
    if len(values) == 1:
      return names[0]
    argument = marked("value", self._id, self._numbers)
    self._numbers += 1
    self._hints[argument] = name
    unpack.append(syntax.assign([syntax.target(names)], ast.Name(argument)))
    return argument

  def local(self, name: str) -> str:
    """Returns a name of a function within this one."""
    mark = marked("local", self._id, self._numbers)
    self._numbers += 1
    self._hints[mark] = name
    return mark

  def size(self, size: object) -> ast.expr:
    """Returns an expression of a size."""
    return dims_marked(expression(text(size)), dim_names(size))


_HINTS = {
  "reduce_max": "maximum",
  "reduce_min": "minimum",
  "reduce_sum": "total",
  "iota": "positions",
  "lt": "mask",
  "le": "mask",
  "gt": "mask",
  "ge": "mask",
  "eq": "mask",
  "ne": "mask",
  "argmax": "best",
  "argmin": "best",
  "random_split": "keys",
}


def _hint(equation: Equation) -> str:
  return _HINTS.get(equation.op, "")


def _names_of(equation: Equation) -> set[str]:
  shapes = [o.shape for o in [*equation.inputs, *equation.outputs]]
  sizes = [size for shape in shapes for size in shape] + [equation.settings.get("dim")]
  return {name for size in sizes for name in dim_names(size)}


def _numbered_leaves(tree: ast.AST, leaves: list[Value]) -> list[Value]:
  """Returns the parameters that a function reads itself, and gives them numbers in this order."""
  names = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id.startswith(marked("leaf", ""))]
  nodes = {id(node): node for node in names}.values()  # a node can be in several places of the tree
  read = sorted({int(node.id.split(MARK)[-1]) for node in nodes})
  for node in nodes:
    node.id = marked("leaf", read.index(int(node.id.split(MARK)[-1])))
  return [leaves[i] for i in read]
