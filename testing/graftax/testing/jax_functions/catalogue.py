"""All functions of the table by kind; each kind is a module of `functions`."""

import dataclasses
from collections.abc import Mapping, Sequence

from graftax.testing.harness.catalogue import cases_of, kinds_of
from graftax.testing.jax_functions import functions
from graftax.testing.jax_functions.case import Case

__all__ = ["KINDS", "all_cases"]

KINDS: tuple[str, ...] = kinds_of(functions)
"""The kinds of functions: the names of the modules of `graftax.testing.jax_functions.functions`."""


def all_cases(kinds: Sequence[str] = KINDS) -> Mapping[str, Case]:
  """Returns the cases of the given kinds by `kind/name`, without importing TensorFlow.

  Raises:
    ValueError: a kind does not exist.
  """
  found = ((kind, dataclasses.replace(case, kind=kind)) for kind, case in cases_of(functions, kinds, Case))
  return {f"{kind}/{case.name}": case for kind, case in found}
