"""Checks that fail today, each with its cause. A check that passes again must leave this list; the suite says so."""

import dataclasses
from collections.abc import Mapping

__all__ = ["OPEN_FAILURES", "OpenFailure"]


@dataclasses.dataclass(frozen=True, slots=True)
class OpenFailure:
  """Checks of one program that fail.

  Attributes:
    checks: their names.
    cause: why, and what would help.
  """

  checks: frozenset[str]
  cause: str


OPEN_FAILURES: Mapping[str, OpenFailure] = {}
"""`kind/program` -> what fails."""
