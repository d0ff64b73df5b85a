"""A table of outcomes by kind, and the failing cases grouped by what they share."""

import collections
import re
from collections.abc import Sequence

from graftax.testing.harness.tables import table
from graftax.testing.hostile.registry import KINDS
from graftax.testing.hostile.run import OUTCOMES, Answer

__all__ = ["Report"]


class Report:
  """Collects answers."""

  def __init__(self) -> None:
    self.answers: list[Answer] = []

  def add(self, answer: Answer) -> None:
    """Adds the answer to one case."""
    self.answers.append(answer)

  @property
  def faults(self) -> list[Answer]:
    """The answers that show faults."""
    return [answer for answer in self.answers if answer.is_fault]

  def table(self) -> str:
    """Returns a table in Markdown: a row for each kind, a column for each outcome."""
    by_kind = collections.defaultdict(list)
    for answer in self.answers:
      by_kind[answer.id.kind].append(answer)
    columns = ["kind", "templates", "cases", *OUTCOMES, "seconds", "most s", "most MiB"]
    rows = [self._row(kind, by_kind[kind]) for kind in KINDS if kind in by_kind]
    rows.append(self._row("all", self.answers))
    return table(columns, rows, num_left=1)

  def _row(self, kind: str, answers: Sequence[Answer]) -> list[str]:
    counts = collections.Counter(answer.outcome for answer in answers)
    seconds = [answer.seconds for answer in answers] or [0.0]
    memory = max((answer.memory_mib for answer in answers), default=0.0)
    templates = len({(answer.id.kind, answer.id.template) for answer in answers})
    figures = [f"{sum(seconds):.0f}", f"{max(seconds):.1f}", f"{memory:.0f}"]
    return [kind, str(templates), str(len(answers)), *(str(counts[name] or "") for name in OUTCOMES), *figures]

  def groups(self) -> str:
    """Returns the faults, one paragraph for each cause, with a command that reproduces its first case."""
    causes = collections.defaultdict(list)
    for answer in self.faults:
      causes[answer.outcome, _cause(answer)].append(answer)
    paragraphs = []
    for (outcome, _), answers in sorted(causes.items(), key=lambda item: -len(item[1])):
      names = sorted({f"{answer.id.kind}/{answer.id.template}" for answer in answers})
      shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
      first = min(answers, key=lambda answer: (len(answer.decisions) - len(answer.id.dropped), answer.id))
      paragraphs.append(
        f"{outcome}, {len(answers)} cases of {shown}\n  {first.detail}\n  drawn: {'; '.join(first.decisions)}\n"
        f"  python -m graftax.testing.hostile --replay '{first.id}'"
      )
    return "\n\n".join(paragraphs)


def _cause(answer: Answer) -> str:
  """Returns the place of an error, or its text without numbers and names; for others the template."""
  place = re.search(r" at (\S+\.py:\d+)$", answer.detail)
  if answer.outcome == "untyped":
    return f"{answer.detail.partition(':')[0]} {place[1] if place else ''}"
  return answer.id.kind + "/" + answer.id.template
