"""Tables of results in Markdown."""

from collections.abc import Iterable, Sequence

__all__ = ["count", "table"]


def table(titles: Sequence[str], rows: Iterable[Sequence[object]], num_left: int | None = None) -> str:
  """Returns a table.

  Args:
    titles: the titles of the columns.
    rows: the cells of each row.
    num_left: how many columns are aligned to the left; the others, which hold numbers, to the right. None for all.
  """
  left = len(titles) if num_left is None else num_left
  rule = ["---"] * left + ["---:"] * (len(titles) - left)
  return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in [titles, rule, *rows])


def count(passed: Iterable[bool]) -> str:
  """Returns "3 of 4" for the number of true ones."""
  results = list(passed)
  return f"{sum(results)} of {len(results)}"
