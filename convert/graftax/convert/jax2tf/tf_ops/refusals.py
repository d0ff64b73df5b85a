"""`Refusals`: collects the equations that have no form in TensorFlow ops, for one error."""

import collections
import dataclasses

from jax.extend.core import JaxprEqn

from graftax.convert.errors import UnsupportedPrimitiveError
from graftax.convert.source_lines import source_line

__all__ = ["Refusals"]


@dataclasses.dataclass(slots=True)
class Refusals:
  """Collects the equations that have no form.

  Attributes:
    found: `(primitive, reason)` -> the source line of each equation.
  """

  found: dict[tuple[str, str], list[str]] = dataclasses.field(default_factory=lambda: collections.defaultdict(list))

  def add(self, eqn: JaxprEqn, reason: str) -> None:
    """Notes an equation, and why it has no form."""
    self.found[eqn.primitive.name, reason].append(source_line(eqn))

  def error(self, name: str) -> UnsupportedPrimitiveError:
    """Returns the error that lists them, sorted by primitive, with counts and source lines."""
    return UnsupportedPrimitiveError(name, {key: tuple(lines) for key, lines in sorted(self.found.items())})
