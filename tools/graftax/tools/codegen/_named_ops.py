"""Finds which files name TensorFlow ops."""

import ast
import pathlib
from collections import defaultdict
from collections.abc import Iterable, Iterator

__all__ = ["files_naming"]


def files_naming(ops: Iterable[str], paths: Iterable[pathlib.Path]) -> dict[str, list[pathlib.Path]]:
  """Returns the files in which each op is a name or a word of a text."""
  known, found = frozenset(ops), defaultdict(list)
  for path in dict.fromkeys(paths):
    for op in known.intersection(_words(path)):
      found[op].append(path)
  return found


def _words(path: pathlib.Path) -> Iterator[str]:
  """Yields the names of attributes and the words of short texts in a file. A docstring is not a short text."""
  for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
    if isinstance(node, ast.Attribute):
      yield node.attr
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and '"' not in node.value:
      yield from node.value.split()
