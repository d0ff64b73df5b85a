"""Says where two pytrees differ, in the keys that a caller wrote."""

from typing import Any

import jax

from graftax.savedmodel_io.pytrees import PyTree

__all__ = ["first_difference"]

# Messages name up to this many keys.
_MAX_KEYS = 5


def first_difference(found: PyTree, expected: PyTree, name: str, *, is_prefix: bool = False) -> str | None:
  """Returns where the structure of a pytree first differs from the expected one, or None.

  Args:
    found: the pytree.
    expected: a pytree of the expected structure.
    name: what `found` is called in the text; paths follow it, as in "params['dense']".
    is_prefix: whether a leaf of `found` may take the place of a whole part.

  Example:
    >>> first_difference({"w": 1, "c": 2}, {"w": 1, "b": 2}, "params")
    "params has the unknown keys ['c'] and lacks the keys ['b']"
  """
  ours, theirs = _children(found), _children(expected)
  if ours is None:
    return None if is_prefix or theirs is None else f"{name} is a leaf; expected {_kind(expected)}"
  if theirs is None:
    return f"{name} is {_kind(found)}; expected a leaf"
  unknown, missing = [key for key in ours if key not in theirs], [key for key in theirs if key not in ours]
  texts = [f"has the unknown keys {_shown(unknown)}"] if unknown else []
  texts += [f"lacks the keys {_shown(missing)}"] if missing else []
  if texts:
    return f"{name} {' and '.join(texts)}"
  if type(found) is not type(expected):
    return f"{name} is {_kind(found)}; expected {_kind(expected)}"
  pairs = ((found_child, theirs[key][1], f"{name}{path}") for key, (path, found_child) in ours.items())
  differences = (first_difference(*pair, is_prefix=is_prefix) for pair in pairs)
  return next((difference for difference in differences if difference is not None), None)


def _children(part: PyTree) -> dict[Any, tuple[str, PyTree]] | None:
  """Returns key -> (path, child) of a node; None for a leaf."""
  pairs = jax.tree_util.tree_leaves_with_path(part, is_leaf=lambda value: value is not part)
  if len(pairs) == 1 and not pairs[0][0]:
    return None
  return {_key(path[0], i): (jax.tree_util.keystr(path), child) for i, (path, child) in enumerate(pairs)}


def _key(entry: object, position: int) -> Any:
  """Returns the key that a caller knows a child by; its position if it has none."""
  return next((getattr(entry, name) for name in ("key", "name", "idx") if hasattr(entry, name)), position)


def _kind(part: PyTree) -> str:
  return "None" if part is None else f"a {type(part).__name__}"


def _shown(keys: list[Any]) -> str:
  more = f" and {len(keys) - _MAX_KEYS} others" if len(keys) > _MAX_KEYS else ""
  return f"{keys[:_MAX_KEYS]!r}{more}"
