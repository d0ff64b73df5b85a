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


OPEN_FAILURES: Mapping[str, OpenFailure] = {
  "gradients/gradient_through_a_condition_in_a_loop": OpenFailure(
    frozenset(["value", "jit", "grad", "vmap"]),
    "TensorFlow's gradient of a loop keeps the optionals of the conditional inside in tensor lists of variants; a "
    "TensorList holds arrays of one shape only.",
  ),
}
"""`kind/program` -> what fails."""
