"""`Refusals`: collects the equations that have no form in TensorFlow ops, for one error."""

import collections
import dataclasses
from pathlib import Path

from jax.extend import source_info_util
from jax.extend.core import JaxprEqn

from graftax.convert.errors import UnsupportedPrimitiveError

__all__ = ["Refusals"]

# The files that trace a user's function. Their frames do not say where an operation comes from; those of tests do.
_OURS = str(Path(__file__).parents[1])
_MOST_FRAMES = 100


@dataclasses.dataclass(slots=True)
class Refusals:
  """Collects the equations that have no form.

  Attributes:
    found: `(primitive, reason)` -> the source line of each equation.
  """

  found: dict[tuple[str, str], list[str]] = dataclasses.field(default_factory=lambda: collections.defaultdict(list))

  def add(self, eqn: JaxprEqn, reason: str) -> None:
    """Notes an equation, and why it has no form."""
    self.found[eqn.primitive.name, reason].append(_source_line(eqn))

  def error(self, name: str) -> UnsupportedPrimitiveError:
    """Returns the error that lists them, sorted by primitive, with counts and source lines."""
    return UnsupportedPrimitiveError(name, {key: tuple(lines) for key, lines in sorted(self.found.items())})


def _source_line(eqn: JaxprEqn) -> str:
  """Returns the innermost line of Python that is neither JAX's nor ours, or "" if JAX knows none."""
  frames = source_info_util.summarize(eqn.source_info, _MOST_FRAMES).splitlines()
  return next((frame for frame in reversed(frames) if not frame.startswith(_OURS) or "_test.py:" in frame), "")
