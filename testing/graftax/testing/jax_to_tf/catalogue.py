"""All functions of the table by kind; each kind is a module of `functions`."""

import importlib
import pkgutil
from collections.abc import Mapping, Sequence

from graftax.testing.jax_to_tf import functions
from graftax.testing.jax_to_tf.case import Case

__all__ = ["KINDS", "all_cases"]

KINDS: tuple[str, ...] = tuple(sorted(module.name for module in pkgutil.iter_modules(functions.__path__)))
"""The kinds of functions: the names of the modules of `graftax.testing.jax_to_tf.functions`."""


def all_cases(kinds: Sequence[str] = KINDS) -> Mapping[str, Case]:
  """Returns the cases of the given kinds by `kind/name`, without importing TensorFlow.

  Raises:
    ValueError: a kind does not exist.
  """
  unknown = [kind for kind in kinds if kind not in KINDS]
  if unknown:
    raise ValueError(f"unknown kinds of functions {unknown!r}; expected some of {list(KINDS)}.")
  found: dict[str, Case] = {}
  for kind in kinds:
    for case in importlib.import_module(f"{functions.__name__}.{kind}").CASES:
      found[f"{kind}/{case.name}"] = case
  return found
