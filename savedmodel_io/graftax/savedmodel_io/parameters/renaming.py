"""Parameters under other names: `rename`, for porting a model's parameters into a program written by hand."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from graftax.savedmodel_io.errors import ParameterNameError
from graftax.savedmodel_io.pytrees import Leaf
from graftax.savedmodel_io.variables.nesting import flat

__all__ = ["Renaming", "rename"]


@dataclass(frozen=True, slots=True)
class Renaming:
  """What `rename` did with each name.

  Attributes:
    matched: old name -> new name, for the parameters that a row gives a name.
    dropped: old names that the table maps to None.
    unmatched: old names that no row of the table fits.
    unused: rows of the table that fit no parameter.
    missing: names of `like` that no parameter got.
    unexpected: new names that `like` does not have, with the old names.
    mismatched: new name -> (shape of the parameter, shape in `like`); these parameters are left out.
  """

  matched: Mapping[str, str]
  dropped: tuple[str, ...]
  unmatched: tuple[str, ...]
  unused: tuple[str, ...]
  missing: tuple[str, ...]
  unexpected: Mapping[str, str]
  mismatched: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]

  @property
  def is_complete(self) -> bool:
    """Whether every parameter and every row was used, and the result has the names and shapes of `like`."""
    return not (self.unmatched or self.unused or self.missing or self.unexpected or self.mismatched)

  def __str__(self) -> str:
    lines = [f"{len(self.matched)} renamed, {len(self.dropped)} dropped"]
    shapes = [f"{name}: {have}, expected {want}" for name, (have, want) in self.mismatched.items()]
    for title, names in (
      ("not in the table", self.unmatched),
      ("rows that fit nothing", self.unused),
      ("expected, but missing", self.missing),
      ("not expected", [f"{new} (of {old})" for new, old in self.unexpected.items()]),
      ("of another shape", shapes),
    ):
      if names:
        lines.append(f"{title}: {', '.join(names)}")
    return "\n".join(lines)


def rename(
  params: Mapping[str, Leaf], table: Mapping[str, str | None], like: Mapping[str, Leaf] | None = None
) -> tuple[dict[str, Leaf], Renaming]:
  """Returns parameters under other names, and a report.

  Args:
    params: name -> array.
    table: old name -> new name, or None to drop the parameter. A key that is not the name of a parameter is a regular
      expression for whole names, and its new name may refer to its groups, as in `r"block_(\\d+)/w": r"blocks/\\1/w"`.
      Of several that fit, the first counts.
    like: what the result should be: name -> array, or nested dicts as `nest` returns them, of anything with a shape.

  Returns:
    `(renamed, report)`. `renamed` holds the very values, without those that no row fits and those whose shape differs
    from `like`.

  Raises:
    ParameterNameError: two parameters get the same name, or a row is not a regular expression.

  Example:
      >>> params = {"block_0/w": np.zeros((2, 3)), "block_1/w": np.zeros((3, 3)), "step": np.zeros(())}
      >>> like = {"blocks": {"0": {"w": np.ones((2, 3))}, "1": {"w": np.ones((3, 4))}}}
      >>> renamed, report = rename(params, {r"block_(\\d+)/w": r"blocks/\\1/w", "step": None}, like)
      >>> list(renamed)
      ['blocks/0/w']
      >>> print(report)
      2 renamed, 1 dropped
      of another shape: blocks/1/w: (3, 3), expected (3, 4)
  """
  matches = {name: _new_name(name, params, table) for name in params}
  rows = {row for row, _ in filter(None, matches.values())}
  matched = {name: match[1] for name, match in matches.items() if match is not None and match[1] is not None}
  old_names = _old_names(matched)
  expected = None if like is None else {name: tuple(np.shape(leaf)) for name, leaf in flat(like).items()}
  values = {new: params[old] for new, old in old_names.items()}
  have = {new: tuple(np.shape(value)) for new, value in values.items()}
  mismatched = {
    name: (shape, expected[name])
    for name, shape in have.items()
    if expected is not None and shape != expected.get(name, shape)
  }
  report = Renaming(
    matched=matched,
    dropped=tuple(name for name, match in matches.items() if match is not None and match[1] is None),
    unmatched=tuple(name for name, match in matches.items() if match is None),
    unused=tuple(row for row in table if row not in rows),
    missing=tuple(name for name in expected or () if name not in have),
    unexpected={new: old for new, old in old_names.items() if expected is not None and new not in expected},
    mismatched=mismatched,
  )
  return {new: value for new, value in values.items() if new not in mismatched}, report


def _new_name(name: str, params: Mapping[str, Leaf], table: Mapping[str, str | None]) -> tuple[str, str | None] | None:
  """Returns the row that fits a name and the new name, or None if no row does."""
  if name in table:
    return name, table[name]
  for row, new in table.items():
    if row in params:
      continue
    try:
      match = re.fullmatch(row, name)
      if match is not None:
        return row, None if new is None else match.expand(new)
    except (re.error, IndexError) as e:
      raise ParameterNameError(f"row {row!r}: {new!r} of the table is not a regular expression: {e}.") from e
  return None


def _old_names(matched: Mapping[str, str]) -> dict[str, str]:
  old_names: dict[str, str] = {}
  for old, new in matched.items():
    if new in old_names:
      raise ParameterNameError(f"parameters {old_names[new]!r} and {old!r} both get the name {new!r}.")
    old_names[new] = old
  return old_names
