"""Reads `mutations.toml`, the places that `mutation_check.py` breaks."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

__all__ = ["MUTATIONS", "Mutation"]


@dataclass(frozen=True, slots=True)
class Mutation:
  """One broken place.

  Attributes:
    name: what is wrong.
    path: the file, relative to the repository.
    right: text that occurs exactly once in the file.
    wrong: what replaces it.
    tests: test files that cover the place besides the one beside it, relative to the repository.
  """

  name: str
  path: str
  right: str
  wrong: str
  tests: tuple[str, ...] = ()

  def applied(self, text: str) -> str:
    """Returns `text` with the mistake in it.

    Raises:
      ValueError: `right` does not occur exactly once.
    """
    if text.count(self.right) != 1:
      raise ValueError(f"{self.name}: {self.right!r} occurs {text.count(self.right)} times in {self.path}; expected 1")
    return text.replace(self.right, self.wrong)


def _read(path: Path) -> tuple[Mutation, ...]:
  entries = tomllib.loads(path.read_text(encoding="utf-8"))["mutation"]
  return tuple(Mutation(**{**entry, "tests": tuple(entry.get("tests", ()))}) for entry in entries)


MUTATIONS = _read(Path(__file__).with_suffix(".toml"))
