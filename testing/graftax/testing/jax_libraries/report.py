"""The table of the outcomes of a folder of programs."""

import collections
import json
from pathlib import Path

from graftax.testing.harness import tables

__all__ = ["failures", "table"]


def _outcomes(folder: Path) -> dict[str, str]:
  """Returns all outcomes of a program by door."""
  found: dict[str, str] = json.loads((folder / "outcomes.json").read_text(encoding="utf-8"))
  for file in sorted(folder.glob("tensorflow-*.json")):
    found |= {f"{file.stem}: {door}": text for door, text in json.loads(file.read_text(encoding="utf-8")).items()}
  return found


def failures(work: Path) -> list[str]:
  """Returns what is neither right, nor refused while writing, nor missing in JAX."""
  fine = ("right", "refused: ", "not in JAX")
  return [
    f"{folder.name}: {door}: {text}"
    for folder in sorted(path.parent for path in work.glob("*/outcomes.json"))
    for door, text in _outcomes(folder).items()
    if not text.startswith(fine)
  ]


def table(work: Path) -> str:
  """Returns a Markdown table with a row for each library: how many programs are right through each door."""
  counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
  doors: dict[str, None] = {}
  for path in sorted(work.glob("*/outcomes.json")):
    library = path.parent.name.split("-", 1)[0]
    counts[library]["programs"] += 1
    for door, text in _outcomes(path.parent).items():
      doors.setdefault(door)
      counts[library][f"{door} {text.split(':', 1)[0]}"] += 1
  shown = [door for door in sorted(doors) if ": " in door]
  columns = ["programs", "write refused", *(f"{door} right" for door in shown)]
  rows = [(library, *(found[column] for column in columns)) for library, found in counts.items()]
  return tables.table(["library", "programs", "refused", *shown], rows, num_left=1)
