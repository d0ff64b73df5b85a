"""Creates named tuple classes at run time that can be pickled; equal definitions give the same class."""

import functools
import keyword
import sys
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from graftax.convert.pytrees import PyTree

__all__ = ["attribute_value", "field_names", "named_tuple_class", "portable"]


@functools.lru_cache(maxsize=1024)
def named_tuple_class(name: str, fields: tuple[str, ...]) -> type[tuple[Any, ...]]:
  """Returns a named tuple class. The same name and fields give the same class, also after unpickling elsewhere.

  Args:
    name: the name of the class. "NamedTuple" takes its place if it is not a valid name of a Python class.
    fields: names of the attributes, in order.

  Raises:
    ValueError: a field name is not a valid name of a Python attribute.

  Example:
    >>> named_tuple_class("Pair", ("left", "right"))(1, 2)
    Pair(left=1, right=2)
  """
  usable = name if name.isidentifier() and not keyword.iskeyword(name) else "NamedTuple"
  cls = namedtuple(usable, fields)  # type: ignore[misc]  # mypy expects a literal name
  made: type[tuple[Any, ...]] = type(usable, (cls,), {"__slots__": (), "__reduce__": _reduce, "__module__": __name__})
  return made


def field_names(names: Sequence[str]) -> tuple[str, ...]:
  """Returns names of attributes as names of fields, which do not begin with an underscore.

  If that makes two names equal, the one that had an underscore ends with it instead.

  Example:
    >>> field_names(["_a", "a", "_b"])
    ('a_', 'a', 'b')
  """
  found = [name for name in names if not name.startswith("_")]
  fields = []
  for name in names:
    field = name.lstrip("_")
    while name != field and field in found:
      field += "_"
    found.append(field)
    fields.append(field)
  return tuple(fields)


def attribute_value(value: object, field: str, default: PyTree) -> PyTree:
  """Returns the attribute for a name of `field_names`. What an object stores precedes its properties."""
  candidates = (field, f"_{field}", f"_{field.rstrip('_')}")
  stored = getattr(value, "__dict__", {})
  for name in candidates:
    if name in stored:
      return stored[name]
  return next((getattr(value, name) for name in candidates if hasattr(value, name)), default)


def _reduce(value: Any) -> tuple[Any, ...]:
  return _make, (type(value).__name__, value._fields, tuple(value))


def _make(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
  return named_tuple_class(name, fields)(*values)


def portable(structure: PyTree) -> PyTree:
  """Replaces named tuples whose class cannot be imported by those of `named_tuple_class`.

  Such classes come from TensorFlow, when it loads a SavedModel, and from functions that define classes.
  """
  if isinstance(structure, tuple) and hasattr(structure, "_fields"):
    values = [portable(value) for value in structure]
    cls = type(structure)
    if _is_importable(cls) or cls.__reduce__ is _reduce:
      return cls(*values)
    return named_tuple_class(cls.__name__, tuple(cls._fields))(*values)
  if type(structure) in (list, tuple):
    return type(structure)(portable(value) for value in structure)
  if type(structure) is dict:
    return {key: portable(value) for key, value in structure.items()}
  return structure


def _is_importable(cls: type) -> bool:
  found: Any = sys.modules.get(cls.__module__)
  for part in cls.__qualname__.split("."):
    found = getattr(found, part, None)
  return found is cls
