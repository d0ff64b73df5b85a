"""The table of functions by consumers, as text in Markdown."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Column", "broken_consumers", "errors_text", "outcome", "table_text", "wrong_results"]

_NOT_RUN = "-"
_MOST_CHARACTERS = 400
_FOLDERS = re.compile(r"(?:/[\w.+@\-]+)+/")


@dataclass(frozen=True, slots=True)
class Column:
  """What one consumer did.

  Attributes:
    consumer: its name.
    versions: of the libraries that ran.
    errors: name of a function or model -> None if it was right, otherwise what went wrong.
  """

  consumer: str
  versions: str
  errors: Mapping[str, str | None]


def outcome(error: str | None) -> str:
  """Returns "right", "refused" (by graftax, while it was written), "wrong" (another result) or "failed" (elsewhere)."""
  if error is None:
    return "right"
  return error.partition(":")[0] if error.startswith(("refused", "wrong")) else "failed"


def table_text(names: Sequence[str], columns: Sequence[Column]) -> str:
  """Returns the table, with a row of sums."""
  lines = [f"| | {' | '.join(column.consumer for column in columns)} |", f"| --- |{' --- |' * len(columns)}"]
  for name in names:
    cells = [outcome(column.errors[name]) if name in column.errors else _NOT_RUN for column in columns]
    lines.append(f"| {name} | {' | '.join(cells)} |")
  sums = [f"{sum(e is None for e in column.errors.values())} of {len(column.errors)}" for column in columns]
  lines.append(f"| **right** | {' | '.join(sums)} |")
  return "\n".join(lines)


def wrong_results(columns: Sequence[Column]) -> list[str]:
  """Returns what computed something else than JAX, with its consumer."""
  return [f"{name} in {c.consumer}" for c in columns for name, error in c.errors.items() if outcome(error) == "wrong"]


def broken_consumers(columns: Sequence[Column]) -> list[str]:
  """Returns the consumers that ran nothing: something failed there, and nothing is right."""
  outcomes = {column.consumer: {outcome(error) for error in column.errors.values()} for column in columns}
  return [name for name, found in outcomes.items() if "failed" in found and not found & {"right", "wrong"}]


def errors_text(columns: Sequence[Column]) -> str:
  """Returns a list of what went wrong, without folders of the machine."""
  lines = []
  for column in columns:
    for name, error in column.errors.items():
      if error is not None:
        text = " ".join(_FOLDERS.sub("", error).split())
        short = text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]} ..."
        lines.append(f"- {name}, {column.consumer}: {_literal(short)}")
  return "\n".join(lines)


def _literal(text: str) -> str:
  return f"`` {text.replace('``', '` `')} ``"
