"""Creates named tuple classes at run time that can be pickled; equal definitions give the same class."""

import functools
import keyword
import sys
from collections import namedtuple
from collections.abc import Mapping
from typing import Any

from graftax.convert.pytrees import PyTree

__all__ = ["as_named_tuple", "attribute_value", "named_tuple_class", "portable", "stored_attributes"]

# Before names of attributes that are not names of fields.
_PREFIX = "field"


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


def as_named_tuple(name: str, attributes: Mapping[str, PyTree]) -> PyTree:
  """Returns the attributes of an object, such as an extension type of TensorFlow, as a named tuple.

  The names of fields do not begin with an underscore. If that makes two names equal, the one that had an underscore
  ends with it instead. If it leaves a keyword or what is not a name, the field begins with "field".

  Args:
    name: the name of the class, as that of `named_tuple_class`.
    attributes: values by name, in the order of the fields.

  Example:
    >>> as_named_tuple("Masked", {"_values": 1, "values": 2, "_mask": 3, "_in": 4})
    Masked(values_=1, values=2, mask=3, field_in=4)
  """
  taken = [attribute for attribute in attributes if not attribute.startswith("_")]
  fields: list[str] = []
  for attribute in attributes:
    field = attribute.lstrip("_")
    if attribute != field and (not field.isidentifier() or keyword.iskeyword(field)):
      field = f"{_PREFIX}{attribute}"
    while attribute != field and field in taken:
      field += "_"
    taken.append(field)
    fields.append(field)
  return named_tuple_class(name, tuple(fields))(*attributes.values())


def attribute_value(value: object, field: str, default: PyTree) -> PyTree:
  """Returns the attribute for a field of `as_named_tuple`. What an object stores precedes its properties."""
  candidates = [field, f"_{field}", f"_{field.rstrip('_')}"]
  if field.startswith(f"{_PREFIX}_"):
    attribute = field.removeprefix(_PREFIX)
    candidates += [attribute, attribute.rstrip("_")]
  stored = stored_attributes(value)
  for name in candidates:
    if name in stored:
      return stored[name]
  return next((getattr(value, name) for name in candidates if hasattr(value, name)), default)


def stored_attributes(value: object) -> dict[str, PyTree]:
  """Returns the attributes in the dict of an object, and those in slots."""
  slots = [cls.__dict__.get("__slots__", ()) for cls in type(value).__mro__]
  names = [name for names in slots for name in ([names] if isinstance(names, str) else names)]
  in_slots = {name: getattr(value, name) for name in names if name != "__dict__" and hasattr(value, name)}
  return {**getattr(value, "__dict__", {}), **in_slots}


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
