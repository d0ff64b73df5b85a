"""One pair matched and checked, and the table of all."""

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import dataclass

from graftax.savedmodel_io import Matching, match
from graftax.testing.harness import tables
from graftax.testing.matched_models.pair import Pair

__all__ = ["Outcome", "is_right", "match_pair", "table"]

_NUM_EXCHANGES = 20


@dataclass(frozen=True)
class Outcome:
  """How a pair went.

  Attributes:
    name, library: of the pair.
    parameters: how many parameters the target has.
    by_names: how many of them are placed without the functions.
    wrong_names: how many of these placements differ from those with the functions.
    placed: how many are placed with both functions.
    ambiguous, missing: how many are not.
    difference: the largest difference of an output after all, with noise in all parameters.
    tolerance: the largest one that counts as none.
    is_equal: whether the outputs and what comes out after each layer are the same.
    exchanged, noticed: placements that were made wrong on purpose, and how many of them the check noticed.
  """

  name: str
  library: str
  parameters: int
  by_names: int
  wrong_names: int
  placed: int
  ambiguous: int
  missing: int
  difference: float
  tolerance: float
  is_equal: bool
  exchanged: int
  noticed: int


def match_pair(name: str, library: str, pair: Pair) -> Outcome:
  """Matches a pair, by names alone and with both functions, checks it, and checks it with wrong placements."""
  by_names = match(pair.params, pair.target)
  matching = match(
    pair.params, pair.target, fn=pair.fn, target_fn=pair.target_fn, args=pair.args, tolerance=pair.tolerance
  )
  check = matching.checker(pair.fn, pair.target_fn, *pair.args, tolerance=pair.tolerance)
  comparison = check(matching)
  wrong = [check(other) for other in _wrong_matchings(matching)]
  return Outcome(
    name=name,
    library=library,
    parameters=len(matching.placed) + len(matching.ambiguous) + len(matching.missing),
    by_names=len(by_names.placed),
    wrong_names=sum(
      name in matching.placed and matching.placed[name].recipe != placement.recipe
      for name, placement in by_names.placed.items()
    ),
    placed=len(matching.placed),
    ambiguous=len(matching.ambiguous),
    missing=len(matching.missing),
    difference=max((gap if gap is not None else float("inf")) for gap in comparison.outputs),
    tolerance=pair.tolerance,
    is_equal=comparison.is_equal,
    exchanged=len(wrong),
    noticed=sum(not other.is_equal or other.alone != comparison.alone for other in wrong),
  )


def _wrong_matchings(matching: Matching) -> list[Matching]:
  """Returns matchings in which two parameters of the same shape and layout have each other's place."""
  rng = random.Random(0)
  shapes: dict[tuple[object, ...], list[str]] = {}
  for name, placement in matching.placed.items():
    recipe, leaf = placement.recipe, name.rpartition("/")[2]
    shape = matching.target_shape(name)
    shapes.setdefault((shape, recipe.before, recipe.axis, recipe.after, leaf), []).append(name)
  groups = [names for names in shapes.values() if len(names) > 1]
  found = []
  for _ in range(_NUM_EXCHANGES if groups else 0):
    one, other = rng.sample(rng.choice(groups), 2)
    placed = {**matching.placed, one: matching.placed[other], other: matching.placed[one]}
    found.append(dataclasses.replace(matching, placed=placed))
  return found


def is_right(outcome: Outcome) -> bool:
  """Returns whether 90 % are placed, all that is placed is right, and every exchange was noticed."""
  return outcome.placed >= 0.9 * outcome.parameters and outcome.is_equal and outcome.noticed == outcome.exchanged


def table(outcomes: Sequence[Outcome]) -> str:
  """Returns the table in Markdown."""
  titles = "target, parameters, placed, by names alone, of these wrong, difference, exchanges noticed".split(", ")
  rows = []
  for o in outcomes:
    bound = "" if o.tolerance == 2e-5 else f" (tolerance {o.tolerance:g})"
    figures = o.parameters, o.placed, o.by_names, o.wrong_names, f"{o.difference:.1e}{bound}"
    rows.append((o.name, o.library, *figures, f"{o.noticed} of {o.exchanged}"))
  return tables.table(["Keras", *titles], rows, num_left=2)
