"""All cases of this suite by kind; each kind is a module of `cases`."""

from collections.abc import Sequence

from graftax.testing.differential import cases
from graftax.testing.differential.case import ConversionCase
from graftax.testing.harness.catalogue import cases_of, kinds_of

__all__ = ["KINDS", "all_cases"]

KINDS: tuple[str, ...] = kinds_of(cases)
"""The kinds of cases: the names of the modules of `graftax.testing.differential.cases`."""


def all_cases(kinds: Sequence[str] = KINDS) -> tuple[ConversionCase, ...]:
  """Returns the cases of the given kinds, without importing TensorFlow.

  Raises:
    ValueError: a kind does not exist.
  """
  return tuple(case for _, case in cases_of(cases, kinds, ConversionCase))
