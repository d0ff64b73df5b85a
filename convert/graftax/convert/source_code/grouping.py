"""Groups the equations of a block into functions, by their scopes."""

import dataclasses
import itertools
import os
import re
from collections import Counter
from collections.abc import Iterator

from graftax.convert.source_code.program import (
  ASSIGN,
  INSTANCE,
  Block,
  Equation,
  Literal,
  Operand,
  Value,
  free_values,
  uses,
)

__all__ = [
  "WrittenFunction",
  "Loop",
  "Scopes",
  "functions_of",
  "grouped",
  "scheduled",
  "tokens",
  "without_ending",
  "without_number",
]


# A letter after a number is a part of it, except in words for dimensions, such as `conv2d`.
_DIMENSIONAL = ("conv", "cropping", "dropout", "lstm", "norm", "padding", "pool", "pooling", "sampling", "transpose")
_DIGITS = "0123456789"


def without_number(name: str) -> str:
  """Returns a name without the number at its end, such as 4 in `dense4` and 4a in `block4a`."""
  stem = name.rstrip(_DIGITS)
  if stem == name and "a" <= name[-1:] <= "z":
    stem = name[:-1].rstrip(_DIGITS)
    if stem == name[:-1] or stem.endswith(_DIMENSIONAL):
      return name
  return stem


@dataclasses.dataclass(eq=False, slots=True)
class WrittenFunction:
  """A function of the text that is written.

  Attributes:
    names: the scope that it was made of, from outside to inside.
    block: what it computes. Its inputs are tensors first, and then the parameters that only it reads.
    num_tensors: how many inputs are tensors.
    parts: the scopes in it, without their paths.
    title: what it is called, or "" if its scope tells it.
  """

  names: tuple[str, ...]
  block: Block
  num_tensors: int
  parts: tuple[str, ...] = ()
  title: str = ""

  @property
  def parameters(self) -> list[Value]:
    """The parameters that only this function, and those it calls, read."""
    return self.block.inputs[self.num_tensors :]


@dataclasses.dataclass(eq=False, slots=True)
class Loop:
  """Calls of equal functions, each with results of the call before.

  Attributes:
    functions: the functions, one of each call.
    carried: `(input, output)`: which results of a call are tensors of the next.
  """

  functions: list[WrittenFunction]
  carried: tuple[tuple[int, int], ...]


# A scope with less than this is written where it is. In one with a single result, a call counts as more than one
# equation, and a convolution takes several lines.
_MIN_SIZE = 4
_SIZES = {"call": 1.5, "conv_general_dilated": 3}
_CONVOLUTIONS = ("conv2d_1x1", "conv2d_of_patches", "conv2d_as_product", "grouped_conv")


class Scopes:
  """The scopes of a program, and what is made of them.

  Attributes:
    paths: the scope of each equation, by its `id`. Names are cut at underscores, so that common prefixes
      are scopes too.
  """

  def __init__(self, block: Block) -> None:
    self.paths: dict[int, tuple[str, ...]] = {}
    children: dict[tuple[str, ...], dict[str, None]] = {}
    equations = list(_all_equations(block))
    for equation in equations:
      for depth, name in enumerate(equation.scope):
        children.setdefault(equation.scope[:depth], {}).setdefault(name)
    paths = self.cut(children)
    for equation in equations:
      self.paths[id(equation)] = paths[equation.scope]

  def cut(self, children: dict[tuple[str, ...], dict[str, None]]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Returns each scope with its names in parts.

    Args:
      children: the names in each scope; a scope stands after the one around it.
    """
    paths: dict[tuple[str, ...], tuple[str, ...]] = {(): ()}
    for scope, names in children.items():
      for name in names:
        parts = [name] if len(names) == 1 else tokens(without_ending(name, list(names)))
        paths[(*scope, name)] = (*paths[scope], *parts)
    return paths

  def ordered(self, block: Block) -> list[Equation]:
    """Returns the equations of a block in the order in which they are written."""
    return scheduled(block)

  def fill(self, equations: list[Equation], depth: int) -> None:
    """Takes the few equations between and after those of a scope at this depth into it, in place."""
    for length in (depth + 1, depth + 2):
      _fill_endings(equations, length, self.paths)
    _fill(equations, depth, self.paths)

  def is_module(self, path: tuple[str, ...]) -> bool:
    """Returns whether a scope is a function even if it is short."""
    return False

  def title(self, path: tuple[str, ...]) -> str:
    """Returns what a function is called, or "" if its scope tells it."""
    return ""

  def is_inside_module(self, path: tuple[str, ...]) -> bool:
    """Returns whether a scope is a part of a module, whose parameters are the module's."""
    return False


def grouped(
  block: Block, name: str, dissolved: frozenset[tuple[str, ...]] = frozenset(), scopes: Scopes | None = None
) -> WrittenFunction:
  """Returns a program as a function that calls functions.

  Args:
    block: the program. Values with a `parameter` are parameters.
    name: of the function.
    dissolved: scopes that do not become functions.
    scopes: its scopes.
  """
  totals = Counter(value for value in uses(block))
  _group_block(block, totals, Scopes(block) if scopes is None else scopes, dissolved)
  parameters = [value for value in block.inputs if value.parameter is not None]
  tensors = [value for value in block.inputs if value.parameter is None]
  block.inputs = tensors + parameters
  return WrittenFunction((name,), block, len(tensors))


def functions_of(function: WrittenFunction) -> list[WrittenFunction]:
  """Returns a function and all that it calls, callees first."""
  found: list[WrittenFunction] = []

  def visit(block: Block) -> None:
    for equation in block.equations:
      for body in equation.bodies.values():
        visit(body)
      callee = equation.settings.get("function")
      if isinstance(callee, WrittenFunction):
        visit(callee.block)
        found.append(callee)

  visit(function.block)
  return [*found, function]


def _group_block(
  block: Block,
  totals: Counter[Value],
  scopes: Scopes,
  dissolved: frozenset[tuple[str, ...]],
) -> None:
  for equation in block.equations:
    for body in equation.bodies.values():
      _group_block(body, totals, scopes, dissolved)
  ordered = scopes.ordered(block)
  read_outside = Counter(uses(block))
  block.equations = _group(ordered, 0, totals, read_outside, scopes, dissolved)


def _group(
  equations: list[Equation],
  depth: int,
  totals: Counter[Value],
  block_uses: Counter[Value],
  scopes: Scopes,
  dissolved: frozenset[tuple[str, ...]],
) -> list[Equation]:
  """Returns equations in which runs of a scope at this depth are calls."""
  scopes.fill(equations, depth)
  paths = scopes.paths
  out: list[Equation] = []
  start = 0
  while start < len(equations):
    path = paths[id(equations[start])]
    stop = start + 1
    if len(path) <= depth:
      out.append(equations[start])
      start = stop
      continue
    while stop < len(equations) and paths[id(equations[stop])][: depth + 1] == path[: depth + 1]:
      stop += 1
    inner = _group(equations[start:stop], depth + 1, totals, block_uses, scopes, dissolved)
    parts = dict.fromkeys(p[depth + 1] for e in equations[start:stop] if len(p := paths[id(e)]) > depth + 1)
    out.extend(_called(inner, path[: depth + 1], tuple(parts), totals, block_uses, scopes, dissolved))
    start = stop
  return out


# Between two runs of a scope, this many equations of others are taken into it, such as the sum after a layer.
_MAX_GAP = 4


def _fill_endings(equations: list[Equation], length: int, paths: dict[int, tuple[str, ...]]) -> None:
  """Gives the few equations that follow each of some numbered scopes, such as a last sum, that scope, in place."""
  heads = [p[:length] if len(p := paths[id(e)]) >= length and _is_number(p[length - 1]) else () for e in equations]
  ends: dict[tuple[str, ...], int] = {head: i for i, head in enumerate(heads) if head}
  families: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
  for head in ends:
    families.setdefault(head[:-1], []).append(head)
  for siblings in families.values():
    after = [list(itertools.takewhile(lambda e: not heads[e], range(ends[h] + 1, len(equations)))) for h in siblings]
    count = len(after[0])
    ops = [[equations[i].op for i in some[:count]] for some in after]
    if len(siblings) < 2 or not 0 < count <= _MAX_GAP or any(found != ops[0] for found in ops):
      continue
    if any(len(some) != count for some in after[:-1]):
      continue
    for head, some in zip(siblings, after, strict=True):
      for i in some[:count]:
        paths[id(equations[i])] = head


def _fill(equations: list[Equation], depth: int, paths: dict[int, tuple[str, ...]]) -> None:
  """Gives the few equations between two runs of a scope at this depth that scope, in place."""
  heads = [paths[id(equation)][: depth + 1] for equation in equations]
  longest: Counter[tuple[str, ...]] = Counter()
  for head, run in itertools.groupby(heads):
    longest[head] = max(longest[head], len(list(run)))
  last: dict[tuple[str, ...], int] = {}
  for i, head in enumerate(heads):
    if len(head) <= depth:
      continue
    gap = range(last.get(head, i) + 1, i)
    is_between = len(gap) and _is_layer_between(equations, paths, gap)
    if (
      not is_between
      and 0 < len(gap) <= _MAX_GAP
      and all(len(heads[k]) <= depth or longest[heads[k]] <= _MAX_GAP for k in gap)
    ):
      for k in gap:
        paths[id(equations[k])] = heads[k] = head
    last[head] = i


def _is_layer_between(equations: list[Equation], paths: dict[int, tuple[str, ...]], gap: range) -> bool:
  """Returns whether equations with parameters stand between two layers of a kind, such as `norm_1` and `norm_2`."""
  before, after = paths[id(equations[gap.start - 1])], paths[id(equations[gap.stop])]
  common = len(os.path.commonprefix([before, after]))
  differ = [path[common] for path in (before, after) if len(path) > common]
  numbered = len(differ) > 0 and all(map(_is_number, differ))
  return numbered and any(v.parameter is not None for i in gap for v in uses(Block([], [equations[i]], [])))


def _called(
  equations: list[Equation],
  path: tuple[str, ...],
  parts: tuple[str, ...],
  totals: Counter[Value],
  block_uses: Counter[Value],
  scopes: Scopes,
  dissolved: frozenset[tuple[str, ...]],
) -> list[Equation]:
  """Returns a call of a function that has the equations, or the equations if no function is made of them."""
  calls = [e for e in equations if e.op == "call"]
  numbered = 1 < len(calls) >= len(equations) - 1 and all(_is_number(e.scope[-1]) for e in calls)
  is_wrapper = _is_number(path[-1]) and len(calls) == 1 == len(equations)
  inside = Counter(value for value in uses(Block([], equations, [])))
  has_one_result = sum(block_uses[value] > inside[value] for e in equations for value in e.outputs) == 1
  size = sum(_size(e) if has_one_result else 1 for e in equations)
  # Names that differ in their numbers, as Keras gives all layers of a kind, are no sign that layers belong together.
  apart = len(parts) > 1 and all(map(_is_number, parts)) and not has_one_result
  is_short = size < _MIN_SIZE or numbered or is_wrapper or apart
  if path in dissolved or (is_short and not scopes.is_module(path)):
    return equations
  # Only the function that a parameter belongs to can assign it.
  assigned_outside = [e for e in equations if e.op == ASSIGN and totals[_read(e)] != inside[_read(e)]]
  whole, equations = equations, [e for e in equations if e not in assigned_outside]
  inside = Counter(value for value in uses(Block([], equations, [])))
  defined = [value for e in equations for value in e.outputs]
  results: list[Operand] = [value for value in defined if block_uses[value] > inside[value]]
  block = Block([], equations, results)
  free = free_values(block)
  own = [value for value in free if value.parameter is not None and totals[value] == inside[value]]
  tensors = [value for value in free if value not in own]
  if not results or (own and scopes.is_inside_module(path)):
    return whole
  block_uses.subtract(inside)
  block_uses.update(free)
  totals.subtract({value: count - 1 for value, count in inside.items() if value in set(free)})
  fresh: dict[Value, Operand] = {value: Value(value.shape, value.dtype, value.name, value.parameter) for value in free}
  for value in tensors:
    replacement = fresh[value]
    assert isinstance(replacement, Value)
    replacement.parameter = None
  _replace(block, fresh)
  block.inputs = [v for v in (fresh[value] for value in [*tensors, *own]) if isinstance(v, Value)]
  for value, given in zip(own, block.inputs[len(tensors) :], strict=True):
    totals[given] = totals[value]
  for value, given in zip(tensors, block.inputs[: len(tensors)], strict=True):
    totals[given] = inside[value]
  function = WrittenFunction(path, block, len(tensors), parts, scopes.title(path))
  return [
    Equation("call", [*tensors, *own], _split_results(block), {"function": function}, {}, path),
    *assigned_outside,
  ]


def _read(equation: Equation) -> Value:
  value = equation.inputs[0]
  assert isinstance(value, Value)
  return value


def _split_results(block: Block) -> list[Value]:
  """Gives a block results of its own, and returns the values that its caller has instead."""
  outer = [value for value in block.results if isinstance(value, Value)]
  inner: dict[Value, Operand] = {value: Value(value.shape, value.dtype, value.name) for value in outer}
  for equation in block.equations:
    equation.outputs = [v if not isinstance(v2 := inner.get(v, v), Value) else v2 for v in equation.outputs]
  _replace(block, inner)
  return outer


def _replace(block: Block, values: dict[Value, Operand]) -> None:
  """Replaces values in a block and in its bodies; functions that it calls have inputs of their own."""

  def new(operand: Operand) -> Operand:
    return operand if isinstance(operand, Literal) else values.get(operand, operand)

  for equation in block.equations:
    equation.inputs = [new(operand) for operand in equation.inputs]
    for body in equation.bodies.values():
      _replace(body, values)
  block.results = [new(operand) for operand in block.results]


def _is_number(name: str) -> bool:
  return name.isdigit()


def scheduled(block: Block) -> list[Equation]:
  """Returns the equations such that each stands as late as it can, and operands in the order in which they are read."""
  producers = {value: equation for equation in block.equations for value in equation.outputs}
  out: list[Equation] = []
  done: set[int] = set()
  stack: list[tuple[Equation, bool]] = []
  roots = [producers[v] for v in block.results if isinstance(v, Value) and v in producers]
  for root in [*roots, *block.equations]:
    stack.append((root, False))
    while stack:
      equation, ready = stack.pop()
      if id(equation) in done:
        continue
      if ready:
        done.add(id(equation))
        out.append(equation)
        continue
      stack.append((equation, True))
      before = dict.fromkeys(id(producers[v]) for v in uses(Block([], [equation], [])) if v in producers)
      found = {id(producers[v]): producers[v] for v in uses(Block([], [equation], [])) if v in producers}
      stack.extend((found[i], False) for i in reversed(before) if i not in done and found[i] is not equation)
  return out


def _all_equations(block: Block) -> Iterator[Equation]:
  """Yields the equations of a block, each before those of its bodies."""
  for equation in block.equations:
    yield equation
    for body in equation.bodies.values():
      yield from _all_equations(body)


def without_ending(name: str, siblings: list[str]) -> str:
  """Returns a name without a number that TensorFlow appended to nearly all siblings."""
  endings = Counter(match.group() for s in siblings if (match := re.search(r"_\d+$", s)))
  if endings:
    ending, count = endings.most_common(1)[0]
    if name.endswith(ending) and count > 0.8 * len(siblings):
      return name.removesuffix(ending)
  return name


def tokens(name: str) -> list[str]:
  """Returns a name in parts."""
  if INSTANCE in name:
    return [name]
  return [part for part in name.split("_") if part] or [name]


def _size(equation: Equation) -> float:
  """Returns as how many equations one counts."""
  is_convolution = equation.settings.get("name") in _CONVOLUTIONS
  return _SIZES["conv_general_dilated"] if is_convolution else _SIZES.get(equation.op, 1)
