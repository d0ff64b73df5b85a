"""`shown`, a list of names as messages show it: the first ten, and how many there are besides."""

from collections.abc import Iterable

__all__ = ["shown"]

_MOST = 10


def shown(names: Iterable[str]) -> str:
  """Returns names as a list of bounded length.

  Example:
    >>> shown(["a", "b"])
    "['a', 'b']"
    >>> shown(map(str, range(1000)))
    "['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'] and 990 more"
  """
  every = list(names)
  more = f" and {len(every) - _MOST} more" if len(every) > _MOST else ""
  return f"{every[:_MOST]!r}{more}"
