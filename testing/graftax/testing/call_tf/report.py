"""Formats results as tables."""

from collections.abc import Mapping, Sequence

from graftax.testing.call_tf.check import Result
from graftax.testing.call_tf.functions import FUNCTIONS
from graftax.testing.harness.tables import count, table

__all__ = ["failures", "functions_table", "summary_table"]

# Results by converter.
Found = Mapping[str, Sequence[Result]]

_SIGNS = {"equal": "yes", "wrong": "WRONG", "raised": "fails"}


def summary_table(found: Found) -> str:
  """Returns a Markdown table of how many functions of each kind are right under each transformation."""
  kinds = list(dict.fromkeys(row.kind for row in FUNCTIONS.values()))
  columns = _columns(found)

  def cell(kind: str, name: str, results: Sequence[Result]) -> str:
    of_kind = [r for r in results if r.transformation == name and kind in (FUNCTIONS[r.function].kind, "all")]
    return count(r.outcome == "equal" for r in of_kind)

  return table(
    ["functions", *(f"{converter} {name}" for name in columns for converter in found)],
    [
      (kind, *(cell(kind, name, results) for name in columns for results in found.values())) for kind in [*kinds, "all"]
    ],
  )


def functions_table(found: Found) -> str:
  """Returns a Markdown table with a row for each function and a column for each transformation and converter."""
  columns = _columns(found)
  outcomes = {
    (converter, r.function, r.transformation): r.outcome for converter, results in found.items() for r in results
  }
  columns_found = [(converter, name) for name in columns for converter in found]
  rows = [
    (function, *(_SIGNS.get(outcomes.get((converter, function, name), ""), "") for converter, name in columns_found))
    for function in dict.fromkeys(r.function for results in found.values() for r in results)
  ]
  return table(["function", *(f"{converter} {name}" for converter, name in columns_found)], rows)


def failures(results: Sequence[Result]) -> str:
  """Returns a line for each result that is not equal."""
  return "\n".join(f"{r.function} {r.transformation}: {r.outcome}: {r.detail}" for r in results if r.outcome != "equal")


def _columns(found: Found) -> list[str]:
  return list(dict.fromkeys(r.transformation for results in found.values() for r in results))
