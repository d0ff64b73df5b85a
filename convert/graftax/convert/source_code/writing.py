"""Writes the module of Python: chooses names, defines functions or classes, and lays them out."""

import ast
from collections.abc import Mapping, Sequence

from graftax.convert.host_split.host_calls import HostParts
from graftax.convert.source_code.folding import Folded
from graftax.convert.source_code.grouping import Loop
from graftax.convert.source_code.idioms.helpers import WRITTEN
from graftax.convert.source_code.idioms.rewriting import helper_definition
from graftax.convert.source_code.layout import laid_out
from graftax.convert.source_code.naming import function_names, identifier, keys_of, named, unique
from graftax.convert.source_code.nnx.classes import as_class, class_name, members_of, module_keys, with_calls
from graftax.convert.source_code.printing import Printed, indexed, marked
from graftax.convert.source_code.shorthand import with_shorthand
from graftax.convert.source_code.split_source import with_host_calls
from graftax.convert.source_code.variants import SETTING

__all__ = ["ParameterTree", "write_module"]

ParameterTree = dict[str, "ParameterTree"] | list["ParameterTree"] | tuple[str, ...]
"""Parameters nested as the text reads them: the path of each in the original parameters."""


_Keys = tuple[list[tuple[str, ...]], list[tuple[str, ...]]]


def write_module(
  folded: Folded,
  main: Printed,
  constants: Sequence[str],
  name: str,
  kinds: Mapping[tuple[str, ...], str] | None,
  host: HostParts | None,
  num_keys: int,
) -> tuple[str, ParameterTree, str]:
  """Returns the text, how it nests parameters, and the name of the function that calls the host.

  Args:
    folded: the functions.
    main: the outermost one.
    constants: names of arrays that are not in the text.
    name: of the outermost function, or class.
    kinds: if functions with parameters are classes, the kind of each parameter.
    host: what runs on the host, of a split program.
    num_keys: how many arguments of a split program are random keys.
  """
  module = _Module(folded, main, constants, name, kinds)
  definitions = module.definitions()
  run = ""
  if host is not None:
    run, calls = with_host_calls(definitions, name, host, num_keys)
    definitions += calls
  definitions = with_shorthand(definitions)
  # Helpers stand after those that they call.
  for helper in reversed(WRITTEN):
    if any(n.id == helper for d in definitions for n in ast.walk(d) if isinstance(n, ast.Name)):
      definitions = [helper_definition(helper), *definitions]
  return laid_out(_imports(definitions), definitions, "Written by graftax."), module.tree(main, main), run


class _Module:
  """The names and definitions of a text."""

  def __init__(
    self,
    folded: Folded,
    main: Printed,
    constants: Sequence[str],
    name: str,
    kinds: Mapping[tuple[str, ...], str] | None,
  ) -> None:
    self._folded, self._main, self._constants, self._name, self._kinds = folded, main, constants, name, kinds
    self._names = function_names(folded, name)
    find_keys = keys_of if kinds is None else module_keys
    self._keys: list[_Keys] = [find_keys(printed, folded, self._names) for printed in folded.functions]
    # Names of classes instead of those of functions.
    self._written = list(self._names)
    if kinds is not None:
      for i, printed in enumerate(folded.functions):
        if printed.has_parameters:
          taken = [*self._names, *self._written[:i], name]
          self._written[i] = unique(class_name(self._names[i]), taken)
    self._functions: dict[str, ast.expr] = {marked("function", i): ast.Name(n) for i, n in enumerate(self._written)}
    self._main_keys: _Keys = ([], [])

  def definitions(self) -> list[ast.stmt]:
    """Returns the definitions, called ones first."""
    found: list[ast.stmt] = []
    for i, printed in enumerate(self._folded.functions):
      found += self._define(printed, self._written[i], "p", self._keys[i])
    find_keys = keys_of if self._kinds is None else module_keys
    self._main_keys = find_keys(self._main, self._folded, self._names)
    return found + self._define(self._main, self._name, "params", self._main_keys)

  def _define(self, printed: Printed, name: str, parameters: str, keys: _Keys) -> list[ast.stmt]:
    """Returns the definition of a function, or of a class, after those of rules of its own."""
    is_main = printed is self._main
    if self._kinds is None or not (printed.has_parameters or is_main):
      if printed.has_parameters:
        printed.tree.args.args.insert(0, ast.arg(parameters))
      return self._named(printed, name, {**self._functions, **_parameters(parameters, keys)})
    leaf_kinds = [self._kinds[leaf.parameter or ()] for leaf in printed.leaves]
    own_constants = self._constants if is_main else ()
    members = members_of(printed, keys, leaf_kinds, lambda sub: self._written[self._folded.index(sub)], own_constants)
    printed.tree = with_calls(printed.tree)
    tree, *rest = self._named(printed, name, {**self._functions, **members.expressions()})
    assert isinstance(tree, ast.FunctionDef) and not rest
    return [as_class(tree, name, members, is_main)]

  def _named(self, printed: Printed, name: str, expressions: dict[str, ast.expr]) -> list[ast.stmt]:
    """Returns the definitions of a function with its names.

    Args:
      printed: the function.
      name: its name.
      expressions: of marks.
    """
    taken = [*self._written]
    for i, sub in enumerate(printed.subs):
      if isinstance(sub, Loop):
        item = self._names[self._folded.index(sub.functions[0])]
        item = item if item not in self._written else f"{item}_params"
        expressions[marked("item", i)] = ast.Name(item)
        taken.append(item)
    for mark, role in (("self", ""), ("self§jvp", "_jvp"), ("self§fwd", "_fwd"), ("self§bwd", "_bwd")):
      expressions[marked(mark)] = ast.Name(name + role)
    for node in (n for tree in [printed.tree, *printed.extras] for n in ast.walk(tree)):
      if isinstance(node, ast.keyword) and (node.arg or "").startswith(SETTING):
        node.arg = self._setting_name(node.arg or "")
      found = node.id if isinstance(node, ast.Name) else node.arg if isinstance(node, ast.arg) else ""
      if found.startswith(marked("dim", "")):
        size = identifier(found.removeprefix(marked("dim", "")))
        expressions[found] = ast.Name(size)
        taken.append(size)
      elif found.startswith(SETTING):
        setting = self._setting_name(found)
        expressions[found] = ast.Name(setting)
        taken.append(setting)
    trees: list[ast.stmt] = [printed.tree, *printed.extras]
    printed.tree.name = name
    for tree in trees:
      if isinstance(tree, ast.FunctionDef):
        for decorator in tree.decorator_list:
          named(ast.Expr(decorator), {}, expressions, [])
        if tree.name in expressions:
          found_name = expressions[tree.name]
          assert isinstance(found_name, ast.Name)
          tree.name = found_name.id
      named(tree, printed.hints, expressions, taken)
    return trees

  def _setting_name(self, mark: str) -> str:
    """Returns the name of an argument that is a setting: the same in all functions, and that of none."""
    return unique(mark.removeprefix(SETTING), [*self._names, *self._written])

  def tree(self, printed: Printed, instance: Printed) -> ParameterTree:
    """Returns the parameters of one function: keys are those of the text, and values those of this instance."""
    folded = self._folded
    leaves, subs = self._keys[folded.functions.index(printed)] if printed is not self._main else self._main_keys
    out: dict[str, ParameterTree] = {}
    for key, leaf in zip(leaves, instance.leaves, strict=True):
      _put(out, key, leaf.parameter or (leaf.name,))
    for key, sub in zip(subs, instance.subs, strict=True):
      if isinstance(sub, Loop):
        _put(out, key, [self.tree(folded.resolve(f), folded.by_instance[id(f)]) for f in sub.functions])
      else:
        _put(out, key, self.tree(folded.resolve(sub), folded.by_instance[id(sub)]))
    return out


def _parameters(name: str, keys: tuple[list[tuple[str, ...]], list[tuple[str, ...]]]) -> dict[str, ast.expr]:
  """Returns expressions of a function's parameters, and of those of its calls."""
  return {
    marked(kind, i): indexed(name, key)
    for kind, some in zip(("leaf", "sub"), keys, strict=True)
    for i, key in enumerate(some)
  }


def _put(tree: dict[str, ParameterTree], key: Sequence[str], value: ParameterTree) -> None:
  for part in key[:-1]:
    inner = tree.setdefault(part, {})
    assert isinstance(inner, dict)
    tree = inner
  tree[key[-1]] = value


_IMPORTS = {
  "jax": "import jax",
  "jnp": "import jax.numpy as jnp",
  "np": "import numpy as np",
  "nnx": "from flax import nnx",
  "lax": "from jax import lax",
  "primitives": "from jax.extend.core import primitives",
}


def _imports(definitions: Sequence[ast.stmt]) -> str:
  read = {n.id for d in definitions for n in ast.walk(d) if isinstance(n, ast.Name)}
  return "\n".join(line for name, line in _IMPORTS.items() if name in read)
