"""Formats results as tables."""

import collections
from collections.abc import Mapping, Sequence

from graftax.testing.harness.tables import count, table
from graftax.testing.jax_to_tf.check import Result

__all__ = ["failures", "functions_table", "kinds_table", "routes_table"]

# `Found` maps the name of a converter to its results by function.
Found = Mapping[str, Mapping[str, Sequence[Result]]]

_SIGNS = {"equal": "yes", "refused": "refuses", "wrong": "WRONG", "accepted": "ACCEPTS", "raised": "fails"}


def kinds_table(found: Found) -> str:
  """Returns a Markdown table of how many functions of each kind, and how many of their checks, are right."""
  names = list(next(iter(found.values()), {}))
  kinds = sorted({name.partition("/")[0] for name in names})
  rows = [("all", names)] if len(kinds) > 1 else []
  rows = [(kind, [name for name in names if name.startswith(f"{kind}/")]) for kind in kinds] + rows
  return table(
    ["kind", "functions", *found],
    [
      (kind, len(names), *(f"{_num_right(own, names)} ({_checks(own, names)})" for own in found.values()))
      for kind, names in rows
    ],
  )


def routes_table(found: Found) -> str:
  """Returns a Markdown table of how many checks along each route are right."""
  counts: dict[tuple[str, str, str], dict[str, list[int]]] = collections.defaultdict(
    lambda: {name: [0, 0] for name in found}
  )
  for converter, by_case in found.items():
    for result in (result for results in by_case.values() for result in results):
      of_route = counts[result.form, result.route, result.check][converter]
      of_route[0] += result.passed
      of_route[1] += 1
  rows = [(*names, *(f"{passed} of {total}" for passed, total in by.values())) for names, by in counts.items()]
  return table(["shapes", "route", "check", *found], rows)


def functions_table(found: Found) -> str:
  """Returns a Markdown table with a row for each function and a column for each route and converter.

  A cell says how the value and the gradient came out; a dash means that there is nothing to check.
  """
  columns: dict[tuple[str, str], None] = {}
  for by_case in found.values():
    for results in by_case.values():
      columns.update({(result.form, result.route): None for result in results})
  titles = ["function", *(f"{converter} {form} {route}" for form, route in columns for converter in found)]
  rows = [
    (name, *(_cell(by_case.get(name, ()), column) for column in columns for by_case in found.values()))
    for name in next(iter(found.values()), {})
  ]
  return table(titles, rows)


def failures(results: Mapping[str, Sequence[Result]]) -> str:
  """Returns a line for each check that is not right; for a gradient only if the value is right."""
  return "\n".join(
    f"{name} {r.form} {r.route} {r.check}: {r.outcome}: {r.detail}"
    for name, of_case in results.items()
    for r in of_case
    if not r.passed and r.detail
  )


def _num_right(results: Mapping[str, Sequence[Result]], names: Sequence[str]) -> int:
  return sum(all(r.passed for r in results.get(name, ())) for name in names)


def _checks(results: Mapping[str, Sequence[Result]], names: Sequence[str]) -> str:
  return f"{count(r.passed for name in names for r in results.get(name, ()))} checks"


def _cell(results: Sequence[Result], column: tuple[str, str]) -> str:
  signs = [_SIGNS[r.outcome] for r in results if (r.form, r.route) == column]
  return ", ".join(signs) or "-"
