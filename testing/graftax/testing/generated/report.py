"""Counts over a run."""

import collections

from graftax.testing.generated.worker import Answer

__all__ = ["ENOUGH_CASES", "Summary"]

# An op counts as covered from this many valid cases on.
ENOUGH_CASES = 5


class Summary:
  """What a run found.

  Attributes:
    num_cases: cases drawn.
    num_gradients: valid cases whose gradients were compared.
    num_new: valid cases that differ in a way that is not in the table of deviations.
    valid: number of valid cases by op.
    known: number of known differences by reason.
  """

  def __init__(self) -> None:
    self.num_cases = self.num_gradients = self.num_new = 0
    self.valid: collections.Counter[str] = collections.Counter()
    self.known: collections.Counter[str] = collections.Counter()

  def add(self, answer: Answer) -> None:
    """Counts one case."""
    self.num_cases += 1
    self.valid[answer.id.op] += not answer.rejected
    self.num_gradients += answer.has_gradient
    self.num_new += bool(answer.differences)
    self.known.update(answer.known)

  def text(self) -> str:
    """Returns the counts, ops with few valid cases by name."""
    few = [f"{op} ({count})" for op, count in sorted(self.valid.items()) if count < ENOUGH_CASES]
    lines = [
      f"{self.num_cases} cases, {sum(self.valid.values())} valid, {self.num_gradients} with gradients; "
      f"{len(self.valid)} ops, {len(self.valid) - len(few)} with at least {ENOUGH_CASES} valid cases",
      f"new differences: {self.num_new} cases; known: {sum(self.known.values())}",
      *(f"  {count:5d} {reason}" for reason, count in self.known.most_common()),
    ]
    return "\n".join(lines + ([f"few valid cases: {', '.join(few)}"] if few else []))
