"""Finds the line of a user's Python that an equation of a jaxpr comes from."""

from pathlib import Path

from jax.extend import source_info_util
from jax.extend.core import JaxprEqn

__all__ = ["source_line"]

# The files that trace a user's function. Their frames do not say where an operation comes from; those of tests do.
_OURS = str(Path(__file__).parent)
_MOST_FRAMES = 100


def source_line(eqn: JaxprEqn) -> str:
  """Returns the innermost line of Python that is neither JAX's nor ours, or "" if JAX knows none."""
  frames = source_info_util.summarize(eqn.source_info, _MOST_FRAMES).splitlines()
  return next((frame for frame in reversed(frames) if not frame.startswith(_OURS) or "_test.py:" in frame), "")
