"""Checks that fail at present, each with its cause. The suite fails if a check in this list passes."""

import dataclasses
from collections.abc import Mapping

__all__ = ["OPEN_FAILURES", "OpenFailure"]


@dataclasses.dataclass(frozen=True, slots=True)
class OpenFailure:
  """The failing checks of one program.

  Attributes:
    checks: names of the checks.
    cause: why they fail, and what would fix them.
  """

  checks: frozenset[str]
  cause: str


OPEN_FAILURES: Mapping[str, OpenFailure] = {}
"""Maps `kind/program` to its failing checks."""
