"""The error of a program that cannot be written as source."""

from graftax.graphdef_ir.errors import UnsupportedError

__all__ = ["SourceError"]


class SourceError(UnsupportedError):
  """A program has parts that source with JAX alone does not have, such as calls back to Python or work with strings."""
