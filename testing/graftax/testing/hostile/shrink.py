"""Leaves out decisions of a failing case as long as it fails in the same way."""

import dataclasses

from graftax.testing.hostile.run import WORKER, Answer, CaseLimits, run_cases

__all__ = ["shrink"]


def shrink(answer: Answer, *, limits: CaseLimits | None = None, module: str = WORKER) -> Answer:
  """Returns the answer to the plainest case found that has the outcome of `answer`.

  Each decision takes its plainest value in turn, all at first and then one by one, and keeps it if the outcome stays.
  """
  best = answer
  for tried in (tuple(range(len(answer.decisions))), *((i,) for i in range(len(answer.decisions)))):
    dropped = tuple(sorted({*best.id.dropped, *tried}))
    if dropped == best.id.dropped:
      continue
    (again,) = run_cases([dataclasses.replace(best.id, dropped=dropped)], limits=limits, module=module)
    if again.outcome == answer.outcome:
      best = again
  return best
