"""Tells which scopes are modules: those that hold the parameters of one layer."""

import re
from collections.abc import Iterator, Sequence

from graftax.convert.source_code.grouping import Scopes, tokens, without_ending
from graftax.convert.source_code.nnx.ordering import together
from graftax.convert.source_code.program import INSTANCE, Block, Equation, Value, path_parts

__all__ = ["ModuleScopes"]

_Path = tuple[str, ...]


class ModuleScopes(Scopes):
  """Scopes of a program whose functions with parameters are modules.

  The parameters of one folder, such as `encoder/dense` of `encoder/dense/kernel`, belong to one module. It is the scope
  that has the folder's name, or else the largest scope that reads no other parameters.
  """

  def __init__(self, block: Block) -> None:
    found = _modules(block)
    self._names = {scope: name for scope, name in found.items() if name}
    self._titles: dict[_Path, str] = {}
    super().__init__(block)
    self._modules = {self._cut[scope] for scope in found}
    self._around = {path[:i] for path in self._modules for i in range(len(path) + 1)}

  def ordered(self, block: Block) -> list[Equation]:
    return together(block, self._cut)

  def fill(self, equations: list[Equation], depth: int) -> None:
    """Does nothing: the parameters that are read tell where a module begins and ends."""

  def is_module(self, path: _Path) -> bool:
    return path in self._modules

  def is_inside_module(self, path: _Path) -> bool:
    return path not in self._around and any(path[:i] in self._modules for i in range(len(path)))

  def title(self, path: _Path) -> str:
    return self._titles.get(path, "").split(INSTANCE)[0]

  def cut(self, children: dict[_Path, dict[str, None]]) -> dict[_Path, _Path]:
    self._cut: dict[_Path, _Path] = {(): ()}
    for scope, names in children.items():
      known = {name: self._names.get((*scope, name), "") or without_ending(name, list(names)) for name in names}
      for name, new in known.items():
        path = (*self._cut[scope], *_tokens(new, list(known.values())))
        self._cut[(*scope, name)] = path
        self._titles[path] = new
    return self._cut


def _modules(block: Block) -> dict[_Path, str]:
  """Returns the scopes that are modules, and their names in the names of parameters, or "" if they have none."""
  common: dict[_Path, _Path] = {}
  under: dict[_Path, set[_Path]] = {}
  for equation, folder in _reads(block):
    common[folder] = _prefix(common.get(folder, equation.scope), equation.scope)
    for i in range(len(equation.scope) + 1):
      under.setdefault(equation.scope[:i], set()).add(folder)
  out: dict[_Path, str] = {}
  for folder, scope in common.items():
    if not folder or not scope:
      continue
    known = [scope[:i] for i in range(len(scope), 0, -1) if i == len(scope) or under[scope[:i]] == {folder}]
    # TensorFlow appends a number to a scope that it opens again.
    named = [s for s in known if re.fullmatch(re.escape(folder[-1]) + r"(_\d+)?", s[-1])]
    if named:
      out[named[0]] = folder[-1]
    else:
      out.setdefault(known[-1], "")
  return out


def _tokens(name: str, siblings: list[str]) -> list[str]:
  """Returns a name in parts; a number that distinguishes it from a sibling stays with the part before it."""
  match = re.fullmatch(r"(.+)_(\d+)", name)
  if match is not None and match[1] in siblings:
    *first, last = tokens(match[1])
    return [*first, f"{last}_{match[2]}"]
  return [name] if len(siblings) == 1 else tokens(name)


def _reads(block: Block) -> Iterator[tuple[Equation, _Path]]:
  """Yields each equation that reads a parameter, with the folder of the parameter."""
  for equation in block.equations:
    for operand in equation.inputs:
      if isinstance(operand, Value) and operand.parameter is not None:
        yield equation, path_parts(operand.parameter)[:-1]
    for body in equation.bodies.values():
      yield from _reads(body)
      for result in body.results:
        if isinstance(result, Value) and result.parameter is not None:
          yield equation, path_parts(result.parameter)[:-1]


def _prefix(a: Sequence[str], b: Sequence[str]) -> _Path:
  count = 0
  while count < min(len(a), len(b)) and a[count] == b[count]:
    count += 1
  return tuple(a[:count])
