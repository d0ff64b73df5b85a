"""Chooses names: of functions, of parameters and of values."""

import ast
import builtins
import keyword
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from graftax.convert.errors import InputError
from graftax.convert.source_code.folding import Folded
from graftax.convert.source_code.grouping import Loop, WrittenFunction, without_number
from graftax.convert.source_code.idioms.helpers import WRITTEN
from graftax.convert.source_code.printing import Printed, marked
from graftax.convert.source_code.program import Rule, num_equations

__all__ = ["checked_name", "free_key", "function_names", "identifier", "keys_of", "named", "plural", "unique"]

_OWN = ("jax", "jnp", "lax", "np", "nnx", "primitives", "p", "params", "constants", "self", *WRITTEN)
_RESERVED = frozenset((*_OWN, *keyword.kwlist, *dir(builtins)))
# What a value that a function of jnp returns is called.
_STATISTICS = {"mean": "mean", "var": "variance"}
_LEAF, _SUB, _VALUE = (marked(kind, "") for kind in ("leaf", "sub", "value"))
_GENERIC = ("x", "y", "z", "u", "v", "w")


def identifier(text: str, default: str = "x") -> str:
  """Returns a name of Python that is like a text, in the form (NFKC) that Python reads names in."""
  known = unicodedata.normalize("NFKC", text)
  name = re.sub("\0+", "_", "".join(c if f"a{c}".isidentifier() else "\0" for c in known)).strip("_")
  if not name.isidentifier():
    name = f"{default}_{name}".rstrip("_")
  return name + "_" if name in _RESERVED else name


def checked_name(name: str) -> str:
  """Returns the name of a function as Python reads it.

  Raises:
    InputError: it is not an identifier, or the text uses it for something else.
  """
  normal = unicodedata.normalize("NFKC", name)
  if not normal.isidentifier() or normal in _RESERVED:
    raise InputError(
      f"name={name!r}: expected an identifier other than Python's keywords and builtins, and other than "
      f"{', '.join(_OWN)}, which the text uses itself."
    )
  return normal


def unique(name: str, taken: Iterable[str]) -> str:
  """Returns a name that is not taken: the given one, or one with a number."""
  taken = set(taken)
  if name not in taken and name not in _RESERVED:
    return name
  number = 2
  while f"{name}_{number}" in taken:
    number += 1
  return f"{name}_{number}"


# --- functions


def function_names(folded: Folded, main: str) -> list[str]:
  """Returns a name for each function except the outermost one, which is called `main`.

  Of functions that would have the same name, the one with the most calls has it without a number.
  """
  names: dict[int, str] = {}
  for i in sorted(range(len(folded.instances)), key=lambda i: -len(folded.instances[i])):
    name, taken = _function_name(folded.instances[i]), [*names.values(), main]
    repeated = _repeated(folded.instances[i][0])
    if name in taken and repeated is not None and (inner := names.get(folded.index(repeated))):
      name = f"{name}_{plural(inner)}"
    names[i] = unique(name, taken)
  return [names[i] for i in range(len(names))]


def _repeated(function: WrittenFunction | Rule) -> WrittenFunction | None:
  """Returns the function that a function calls in a loop, if it does nothing but call functions."""
  equations = function.block.equations if isinstance(function, WrittenFunction) else []
  loops = [loop for e in equations if isinstance(loop := e.settings.get("loop"), Loop)]
  return loops[0].functions[0] if loops and all(e.op in ("call", "loop") for e in equations) else None


def _function_name(instances: Sequence[WrittenFunction | Rule]) -> str:
  first = instances[0]
  if isinstance(first, Rule):
    return identifier(re.sub(r"[^\w]+", "_", first.name).strip("_").lower(), "function")
  titles = {re.sub(r"_?\d+$", "", i.title) for i in instances if isinstance(i, WrittenFunction)}
  if len(titles) == 1 and any(titles):
    return identifier(titles.pop().lower(), "layer")
  paths = [_words(i.names) for i in instances if isinstance(i, WrittenFunction)]
  if all(path and path[-1].lower() in _OPERATIONS for path in paths):
    if isinstance(first, WrittenFunction) and _is_attention(first):
      return "dot_product_attention"
    paths = [path[:-1] if len(path) > 1 else path for path in paths]
  common = _common_ending(paths)
  if not all(i.names[-1].isdigit() for i in instances if isinstance(i, WrittenFunction)) and common:
    return identifier(common[-1].lower(), "layer")
  if any(titles) and common:
    return identifier(common[-1].lower(), "layer")
  parts = [w for w in dict.fromkeys(w for part in first.parts for w in _words((part,))) if w]
  if 1 < len(parts) <= 3 and not (common and isinstance(first, WrittenFunction) and _size(first) > _MOST_EQUATIONS):
    return identifier("_".join(parts).lower(), "layer")
  if common:
    return identifier(common[-1].lower(), "layer")
  words = Counter(path[-1] for path in paths if path)
  return identifier(words.most_common(1)[0][0].lower(), "layer") if words else "layer"


# A function of numbered scopes with more equations than this is named after the scopes, not after what is in them.
_MOST_EQUATIONS = 12


def _size(function: WrittenFunction) -> int:
  """Returns how many equations a function has, with those of the functions that it calls."""
  calls = [e.settings["function"] for e in function.block.equations if e.op == "call"]
  return num_equations(function.block) + sum(_size(f) for f in calls if isinstance(f, WrittenFunction))


# Scopes that are named after an operation say less than those around them.
_OPERATIONS = frozenset(("einsum", "matmul", "tensordot", "add", "mul", "sub", "moments", "batchnorm", "map", "while"))


def _is_attention(function: WrittenFunction) -> bool:
  """Returns whether a function is a softmax between two products."""
  ops = [str(e.settings.get("name", e.op)) for e in function.block.equations]
  return ops.count("dot_general") == 2 and "softmax" in ops


def _words(path: Sequence[str]) -> tuple[str, ...]:
  """Returns the words of a scope, without numbers: `block` for `block4` and `block4a`, but `conv2d` for itself."""
  words = (without_number(re.sub(r"\W+", "_", token)).strip("_") for token in path)
  return tuple(word for word in words if word)


def _common_ending(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
  count = 0
  while all(len(path) > count for path in paths) and len({path[-1 - count] for path in paths}) == 1:
    count += 1
  return paths[0][len(paths[0]) - count :]


# --- parameters


def keys_of(
  printed: Printed, folded: Folded, names: Sequence[str]
) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
  """Returns the keys of a function's own parameters, and those of the functions that it calls."""
  leaf_paths = [_tokens(leaf.parameter or ("constant",)) for leaf in printed.leaves]
  sub_paths: list[list[str]] = []
  for sub in printed.subs:
    function = sub.functions[0] if isinstance(sub, Loop) else sub
    sub_paths.append(_prefix([_tokens(v.parameter or ()) for v in function.parameters]))
  taken: set[tuple[str, ...]] = set()
  common = len(_prefix([*leaf_paths, *sub_paths]))
  leaves = [free_key(_components(path[min(common, len(path) - 1) :]), taken) for path in leaf_paths]
  subs: list[tuple[str, ...]] = []
  for sub, path in zip(printed.subs, sub_paths, strict=True):
    if isinstance(sub, Loop):
      subs.append(free_key((plural(names[folded.index(sub.functions[0])]),), taken))
    else:
      key = _components(path[common:]) or (names[folded.index(sub)],)
      subs.append(free_key(key, taken))
  return leaves, subs


def plural(name: str) -> str:
  """Returns the plural of a name."""
  return name if name.endswith("s") else name + "s"


def _tokens(path: Sequence[str]) -> list[str]:
  """Returns a path in pieces that end with the separators after them."""
  return re.findall(r"[^/_.]+[/_.]?|[/_.]", "/".join(path))


def _prefix(paths: Sequence[Sequence[str]]) -> list[str]:
  if not paths:
    return []
  first, last = min(map(list, paths)), max(map(list, paths))
  count = 0
  while count < min(len(first), len(last)) and first[count].rstrip("/_.") == last[count].rstrip("/_."):
    count += 1
  if len(paths) == 1:
    count = max(0, count - 1)
  return list(first[:count])


def _components(tokens: Sequence[str]) -> tuple[str, ...]:
  parts = re.split(r"[/.]", "".join(tokens))
  named = [part.strip("_") for part in parts]
  return tuple(part for part in named if part)


def free_key(key: tuple[str, ...], taken: set[tuple[str, ...]]) -> tuple[str, ...]:
  """Returns a key such that no key is another one's beginning, without brackets around parts of it.

  Files of parameters have positions in lists as `[0]`, so a part such as this would make a list of its folder.
  """
  number = 1
  key = tuple(part for part in (part.strip("[]") for part in key) if part) or ("w",)
  tried = key
  while same := [n for t in taken if tried[: (n := min(len(t), len(tried)))] == t[:n]]:
    number += 1
    last = min(same) - 1
    tried = (*key[:last], f"{key[last]}_{number}", *key[last + 1 :])
  taken.add(tried)
  return tried


# --- values


def named(
  tree: ast.FunctionDef | ast.stmt,
  hints: dict[str, str],
  expressions: dict[str, ast.expr],
  taken: Iterable[str],
) -> None:
  """Puts names in the place of marks, in place.

  Args:
    tree: a definition.
    hints: what values may be called.
    expressions: of other marks.
    taken: names that no value may have.
  """
  if isinstance(tree, ast.FunctionDef):
    _Names(hints, expressions, set(taken)).function(tree, {})
  else:
    _Placed(expressions).visit(tree)


class _Names:
  def __init__(self, hints: dict[str, str], expressions: dict[str, ast.expr], taken: set[str]) -> None:
    self._hints, self._expressions, self._taken = hints, expressions, taken

  def function(self, tree: ast.FunctionDef, outer: dict[str, str]) -> None:
    """Names the values of a function."""
    names = dict(outer)
    last = _last_uses(tree)
    self._hints = {**self._hints, **self._suggested(tree, last)}
    live = set(outer.values())
    own: set[str] = set()
    for argument in tree.args.args:
      if argument.arg.startswith("§"):
        if argument.arg in self._expressions:
          found = self._expressions[argument.arg]
          assert isinstance(found, ast.Name)
          argument.arg = found.id
          continue
        own.add(argument.arg)
        names[argument.arg] = self._choose(argument.arg, [], live)
        live.add(names[argument.arg])
        argument.arg = names[argument.arg]
      else:
        live.add(argument.arg)
    for i, statement in enumerate(tree.body):
      dying = [mark for mark in _marks(statement) if mark in own and last.get(mark, -1) <= i]
      free = [names[mark] for mark in dying]
      if isinstance(statement, ast.FunctionDef):
        names[statement.name] = self._choose(statement.name, [], live)
        live.add(names[statement.name])
        statement.name = names[statement.name]
        self.function(statement, names)
        continue
      targets = [mark for mark in _targets(statement) if mark not in self._expressions]
      for mark in targets:
        own.add(mark)
      new = [mark for mark in targets if mark not in names]
      live -= set(free)
      for mark in new:
        names[mark] = self._choose(mark, free, live)
        live.add(names[mark])
        free = [name for name in free if name not in live]
      unused = [mark for mark in new if last.get(mark, -1) <= i]
      live -= {names[mark] for mark in unused}
      _Placed({**self._expressions, **{mark: ast.Name(name) for mark, name in names.items()}}).visit(statement)
    tree.body = [statement for statement in tree.body if not _is_renaming(statement)]

  def _suggested(self, tree: ast.FunctionDef, last: Mapping[str, float]) -> dict[str, str]:
    """Returns names of statistics, and of values that are read together, such as query and key.

    The latter have the names of the parameters that they are made of. What is made of a value that nothing else reads
    is that value, changed, and keeps its name.
    """
    reads = Counter(mark for statement in tree.body for mark in _marks(statement) if mark.startswith(_VALUE))
    found: dict[str, str] = {}
    groups: dict[float, dict[str, str]] = {}
    for statement in tree.body:
      match statement:
        case ast.Assign([ast.Name(mark)], value) if mark in last and not self._hints.get(mark):
          if any(reads[read] == 1 for read in _marks(statement)):
            continue
          match value:
            case ast.Call(ast.Attribute(ast.Name("jnp"), function)) if function in _STATISTICS:
              found[mark] = _STATISTICS[function]
            case _ if (name := self._folder(value)) and name not in self._taken:
              groups.setdefault(last[mark], {})[mark] = name
    for group in groups.values():
      if 1 < len(group) == len(set(group.values())):
        found |= group
    return found

  def _folder(self, tree: ast.expr) -> str:
    """Returns the innermost folder of the parameters that an expression reads, or "" if there are several or none."""
    marks = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id.startswith((_LEAF, _SUB))}
    folders = {_folder(self._expressions[mark], mark) for mark in marks}
    return folders.pop() if len(folders) == 1 else ""

  def _choose(self, mark: str, free: Sequence[str], live: set[str]) -> str:
    hint = self._hints.get(mark, "")
    avoided = live | self._taken
    if hint:
      return unique(identifier(hint), avoided)
    for name in free:
      if name in _GENERIC and name not in avoided:
        return name
    for name in _GENERIC:
      if name not in avoided:
        return name
    return unique("x", avoided)


def _folder(tree: ast.expr, mark: str) -> str:
  """Returns the folder of a parameter, or the name of the parameters of a call, if it is a name of Python."""
  if mark.startswith(_LEAF) and isinstance(tree, ast.Subscript):
    tree = tree.value
  match tree:
    case ast.Subscript(_, ast.Constant(str(name))) | ast.Attribute(ast.Name("self"), str(name)) if name.isidentifier():
      # The variable of a module is an attribute itself.
      return "" if mark.startswith(_LEAF) and isinstance(tree, ast.Attribute) else name
  return ""


def _is_renaming(statement: ast.stmt) -> bool:
  """Returns whether a statement gives a value the name that it has."""
  match statement:
    case ast.Assign([ast.Name(target)], ast.Name(value)):
      return target == value
  return False


def _marks(node: ast.AST) -> list[str]:
  """Returns the marks that a statement reads, in order."""
  found: list[str] = []

  class Visitor(ast.NodeVisitor):
    def visit_Name(self, name: ast.Name) -> None:
      if name.id.startswith("§"):
        found.append(name.id)

  if isinstance(node, ast.Assign):
    Visitor().visit(node.value)
  else:
    Visitor().visit(node)
  return list(dict.fromkeys(found))


def _targets(statement: ast.stmt) -> list[str]:
  nodes: list[ast.AST] = []
  if isinstance(statement, ast.Assign):
    nodes = [n for target in statement.targets for n in ast.walk(target)]
  elif isinstance(statement, ast.For):
    nodes = list(ast.walk(statement.target))
    nodes += [
      n for inner in statement.body if isinstance(inner, ast.Assign) for t in inner.targets for n in ast.walk(t)
    ]
  return list(dict.fromkeys(n.id for n in nodes if isinstance(n, ast.Name) and n.id.startswith("§")))


def _last_uses(tree: ast.FunctionDef) -> dict[str, float]:
  """Returns the last statement that reads each value. What nested functions read lives on, as they run later."""
  last: dict[str, float] = {}
  for i, statement in enumerate(tree.body):
    for node in ast.walk(statement):
      if isinstance(node, ast.FunctionDef | ast.Lambda):
        for inner in ast.walk(node):
          if isinstance(inner, ast.Name):
            last[inner.id] = math.inf
    for mark in _marks(statement):
      last[mark] = max(last.get(mark, -1), i)
  return last


class _Placed(ast.NodeTransformer):
  def __init__(self, expressions: dict[str, ast.expr]) -> None:
    self._expressions = expressions

  def visit_Name(self, node: ast.Name) -> ast.expr:
    return self._expressions.get(node.id, node)
