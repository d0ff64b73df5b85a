"""Makes one function of those that differ only in settings, such as strides, which become arguments with defaults."""

import ast
import copy
import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence

from graftax.convert.source_code.folding import Folded, key_of
from graftax.convert.source_code.grouping import WrittenFunction
from graftax.convert.source_code.printing import Printed, marked

__all__ = ["SETTING", "join_variants"]

SETTING = marked("setting", "")
"""Begins the names of arguments that are settings."""

# The arguments of calls that are settings, by their positions and names.
_SETTINGS: dict[str, dict[int | str, str]] = {
  "lax.conv_general_dilated": {2: "strides", 3: "padding", "rhs_dilation": "dilation"},
  "lax.reduce_window": {3: "window", 4: "strides", 5: "padding"},
  "conv2d_1x1": {2: "strides"},
  "conv2d_as_product": {2: "strides", 3: "padding"},
  "grouped_conv": {2: "groups", 3: "strides", 4: "padding"},
  "depthwise_conv": {2: "strides", 3: "padding"},
  "sum_pool": {1: "window", 2: "strides", 3: "padding"},
  "avg_pool": {1: "window", 2: "strides", 3: "padding"},
  "jnp.pad": {1: "widths"},
}
_NAMES = tuple({name for names in _SETTINGS.values() for name in names.values()})
# A function with more arguments of this kind reads worse than two functions.
_MOST_SETTINGS = 2
# How many settings are compared. Functions that are left then are not joined.
_MOST_COMPARED = 1_000_000
_FUNCTION, _SIZE = marked("function", ""), marked("dim", "")


@dataclasses.dataclass(eq=False, slots=True)
class _Variant:
  """A function, or several that differ only in settings.

  Attributes:
    members: their numbers.
    printed: the one that is written.
    settings: of each member, the texts of all settings.
    marks: of each member, the marks of its values.
    names: of each setting.
    arguments: the settings that are arguments: a name, and which settings it is.
  """

  members: list[int]
  printed: Printed
  settings: list[list[str]]
  marks: list[list[str]]
  names: list[str]
  arguments: list[tuple[str, list[int]]] = dataclasses.field(default_factory=list)

  def given(self, member: int) -> dict[str, str]:
    """Returns the arguments that calls of a member have."""
    texts = self.settings[self.members.index(member)]
    return {name: texts[positions[0]] for name, positions in self.arguments}


def join_variants(folded: Folded, main: Printed) -> None:
  """Makes one function of those that differ in few settings, in place.

  Args:
    folded: the functions; those that are joined are one of them then.
    main: the outermost function, which calls them.
  """
  functions = folded.functions
  if any(n.id.startswith(_SIZE) and n.id.removeprefix(_SIZE).startswith(_NAMES) for p in functions for n in _names(p)):
    return  # A symbolic size has the name of a setting, and would be an argument beside it.
  fixed = {i for printed in [*functions, main] for i in _other_reads(printed)}
  fixed |= {i for i, some in enumerate(folded.instances) if not all(isinstance(f, WrittenFunction) for f in some)}
  heights = _heights(functions)
  of: dict[int, _Variant] = {}
  compared = 0
  for height in range(max(heights, default=-1) + 1):
    level = [i for i, h in enumerate(heights) if h == height]
    found: dict[str, list[_Variant]] = {}
    # The one that is called most often is written.
    for i in sorted(level, key=lambda i: (-len(folded.instances[i]), i)):
      _call_variants(functions[i], of)
      skeleton, marks, names, texts = _skeleton(functions[i], folded)
      one = _Variant([i], functions[i], [texts], [marks], names)
      siblings = found.setdefault(skeleton if i not in fixed else f"{i}", [])
      joined = None
      for sibling in siblings:
        compared += (1 + len(sibling.settings)) * len(names)
        if compared > _MOST_COMPARED:
          break
        if _arguments([*sibling.settings, texts], names) is not None:
          joined = sibling
          break
      if joined is None:
        siblings.append(one)
        of[i] = one
      else:
        joined.members.append(i)
        joined.settings.append(texts)
        joined.marks.append(marks)
        of[i] = joined
    for variant in (v for some in found.values() for v in some):
      variant.arguments = _arguments(variant.settings, variant.names) or []
  _call_variants(main, of)
  variants = sorted({id(v): v for v in of.values()}.values(), key=lambda v: min(v.members))
  for variant in variants:
    _with_arguments(variant, folded)
  numbers = {i: n for n, variant in enumerate(variants) for i in variant.members}
  defaults = {n: _defaults(variant, folded) for n, variant in enumerate(variants)}
  for printed in [*(v.printed for v in variants), main]:
    _renumber(printed, numbers, defaults)
  folded.join([(v.members, v.printed) for v in variants])


def _heights(functions: Sequence[Printed]) -> list[int]:
  """Returns how many functions call each other below each one; callees stand first."""
  heights: list[int] = []
  for i, printed in enumerate(functions):
    below = {number for node in _names(printed) if (number := _number(node.id)) is not None and number < i}
    heights.append(1 + max((heights[j] for j in below), default=-1))
  return heights


def _trees(printed: Printed) -> list[ast.stmt]:
  return [printed.tree, *printed.extras]


def _names(printed: Printed) -> Iterator[ast.Name]:
  for tree in _trees(printed):
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.Name))


def _calls(printed: Printed) -> Iterator[ast.Call]:
  """Yields each call once; a node can be in several places of a tree."""
  seen: set[int] = set()
  for tree in _trees(printed):
    for node in ast.walk(tree):
      if isinstance(node, ast.Call) and id(node) not in seen:
        seen.add(id(node))
        yield node


def _number(name: str) -> int | None:
  return int(name.removeprefix(_FUNCTION)) if name.startswith(_FUNCTION) else None


def _callee(call: ast.Call) -> int | None:
  return _number(call.func.id) if isinstance(call.func, ast.Name) else None


def _other_reads(printed: Printed) -> set[int]:
  """Returns the functions that are used in another way than by calls."""
  reads = Counter(number for node in _names(printed) if (number := _number(node.id)) is not None)
  reads.subtract(number for call in _calls(printed) if (number := _callee(call)) is not None)
  return {number for number, count in reads.items() if count > 0}


def _call_variants(printed: Printed, of: dict[int, _Variant]) -> None:
  """Gives the calls of a function the settings of what they call, in place; the callee's number stays."""
  for call in _calls(printed):
    callee = _callee(call)
    if callee is not None and callee in of:
      given = of[callee].given(callee)
      call.keywords += [ast.keyword(SETTING + name, _parsed(text)) for name, text in given.items()]
      call.func = ast.Name(f"{_FUNCTION}{of[callee].members[0]}")


def _parsed(text: str) -> ast.expr:
  return ast.parse(text, mode="eval").body


def _slots(printed: Printed) -> Iterator[tuple[ast.Call, int | str, str]]:
  """Yields the settings in a function: the call, the position or the keyword, and what the setting is called."""
  for call in _calls(printed):
    known = _SETTINGS.get(ast.unparse(call.func), {})
    for i, argument in enumerate(call.args):
      if i in known and _is_static(argument):
        yield call, i, known[i]
    for keyword in call.keywords:
      name = keyword.arg or ""
      if _is_static(keyword.value) and (name in known or name.startswith(SETTING)):
        yield call, name, known.get(name, name.removeprefix(SETTING))


def _is_static(tree: ast.expr) -> bool:
  """Returns whether an expression is a constant, or a tuple of these."""
  if isinstance(tree, ast.Tuple):
    return all(map(_is_static, tree.elts))
  return isinstance(tree, ast.Constant)


def _slot(call: ast.Call, where: int | str) -> ast.expr:
  return call.args[where] if isinstance(where, int) else next(k.value for k in call.keywords if k.arg == where)


def _put(call: ast.Call, where: int | str, tree: ast.expr) -> None:
  if isinstance(where, int):
    call.args[where] = tree
  else:
    next(k for k in call.keywords if k.arg == where).value = tree


def _skeleton(printed: Printed, folded: Folded) -> tuple[str, list[str], list[str], list[str]]:
  """Returns a text without settings, the marks of values, and the names and texts of settings."""
  # One copy of all trees, in which a node that is in several places still is one.
  tree, extras = copy.deepcopy((printed.tree, printed.extras))
  copied = dataclasses.replace(printed, tree=tree, extras=extras)
  slots = list(_slots(copied))
  texts = [ast.unparse(_slot(call, where)) for call, where, _ in slots]
  for call, where, _ in slots:
    _put(call, where, ast.Name(SETTING))
  text, marks = key_of(copied)
  return text + repr((printed.dims, folded.kinds_of(printed))), marks, [name for _, _, name in slots], texts


def _arguments(settings: Sequence[Sequence[str]], names: Sequence[str]) -> list[tuple[str, list[int]]] | None:
  """Returns the settings that are arguments, those that are always equal as one; None if these are too many."""
  columns: dict[tuple[str, tuple[str, ...]], list[int]] = {}
  for i, name in enumerate(names):
    column = tuple(texts[i] for texts in settings)
    if len(set(column)) > 1:
      columns.setdefault((name, column), []).append(i)
  if len(columns) > _MOST_SETTINGS:
    return None
  used: Counter[str] = Counter()
  out: list[tuple[str, list[int]]] = []
  for (name, _), positions in columns.items():
    used[name] += 1
    out.append((name if used[name] == 1 else f"{name}_{used[name]}", positions))
  return out


def _defaults(variant: _Variant, folded: Folded) -> dict[str, str]:
  """Returns the setting that most calls have, of each argument."""
  out: dict[str, str] = {}
  for name, positions in variant.arguments:
    counts: Counter[str] = Counter()
    for member, texts in zip(variant.members, variant.settings, strict=True):
      counts[texts[positions[0]]] += len(folded.instances[member])
    out[name] = counts.most_common(1)[0][0]
  return out


def _with_arguments(variant: _Variant, folded: Folded) -> None:
  """Gives the function that is written its arguments, and only hints that fit all members."""
  printed, defaults = variant.printed, _defaults(variant, folded)
  slots = list(_slots(printed))
  for name, positions in variant.arguments:
    for i in positions:
      call, where, _ = slots[i]
      _put(call, where, ast.Name(SETTING + name))
    printed.tree.args.args.append(ast.arg(SETTING + name))
    printed.tree.args.defaults.append(_parsed(defaults[name]))
  for member, marks in zip(variant.members[1:], variant.marks[1:], strict=True):
    for mark, other in zip(variant.marks[0], marks, strict=True):
      if mark in printed.hints and printed.hints[mark] != folded.functions[member].hints.get(other):
        printed.hints[mark] = ""


def _renumber(printed: Printed, numbers: dict[int, int], defaults: dict[int, dict[str, str]]) -> None:
  """Gives functions new numbers, and leaves settings out that are defaults."""
  for call in _calls(printed):
    callee = _callee(call)
    if callee is not None:
      known = defaults[numbers[callee]]
      call.keywords = [
        k for k in call.keywords if k.arg is None or known.get(k.arg.removeprefix(SETTING)) != ast.unparse(k.value)
      ]
  for node in {id(node): node for node in _names(printed)}.values():
    number = _number(node.id)
    if number is not None:
      node.id = f"{_FUNCTION}{numbers[number]}"
