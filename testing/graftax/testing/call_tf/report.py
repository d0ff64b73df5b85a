"""Formats results as tables."""

from collections.abc import Mapping, Sequence

from graftax.testing.call_tf.check import Result
from graftax.testing.call_tf.functions import FUNCTIONS

__all__ = ["failures", "functions_table", "summary_table"]

# Results by converter.
Found = Mapping[str, Sequence[Result]]

_SIGNS = {"equal": "yes", "wrong": "WRONG", "raised": "fails"}


def summary_table(found: Found) -> str:
  """Returns a Markdown table of how many functions of each kind are right under each transformation."""
  kinds = list(dict.fromkeys(row.kind for row in FUNCTIONS.values()))
  columns = _columns(found)
  lines = _head(["functions", *(f"{converter} {name}" for name in columns for converter in found)])
  for kind in [*kinds, "all"]:
    cells = []
    for name in columns:
      for results in found.values():
        of_kind = [r for r in results if r.transformation == name and kind in (FUNCTIONS[r.function].kind, "all")]
        cells.append(f"{sum(r.outcome == 'equal' for r in of_kind)} of {len(of_kind)}")
    lines.append(_row([kind, *cells]))
  return "\n".join(lines)


def functions_table(found: Found) -> str:
  """Returns a Markdown table with a row for each function and a column for each transformation and converter."""
  columns = _columns(found)
  lines = _head(["function", *(f"{converter} {name}" for name in columns for converter in found)])
  outcomes = {
    (converter, r.function, r.transformation): r.outcome for converter, results in found.items() for r in results
  }
  for function in dict.fromkeys(r.function for results in found.values() for r in results):
    signs = [outcomes.get((converter, function, name), "") for name in columns for converter in found]
    lines.append(_row([function, *(_SIGNS.get(sign, "") for sign in signs)]))
  return "\n".join(lines)


def failures(results: Sequence[Result]) -> str:
  """Returns a line for each result that is not equal."""
  return "\n".join(f"{r.function} {r.transformation}: {r.outcome}: {r.detail}" for r in results if r.outcome != "equal")


def _columns(found: Found) -> list[str]:
  return list(dict.fromkeys(r.transformation for results in found.values() for r in results))


def _head(titles: Sequence[str]) -> list[str]:
  return [_row(titles), "|" + " --- |" * len(titles)]


def _row(cells: Sequence[str]) -> str:
  return f"| {' | '.join(cells)} |"
