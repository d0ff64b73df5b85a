"""Parameters by name as nested dicts, and back: `nest` and `unnest`."""

from collections.abc import Mapping

from graftax.savedmodel_io.errors import ParameterNameError
from graftax.savedmodel_io.pytrees import Leaf, PyTree

__all__ = ["flat", "nest", "unnest"]

_SEPARATOR = "/"
# The key of a value whose name is also the beginning of other names, as in "kernel" and "kernel/Adam".
_OWN_VALUE = ""


def nest(params: Mapping[str, Leaf]) -> dict[str, PyTree]:
  """Returns parameters as nested dicts, by the parts of their names between slashes.

  Args:
    params: name -> value, such as the parameters of `SavedModel.convert`. Values are not looked at.

  Returns:
    Nested dicts whose leaves are the very values. If a name is also the beginning of others, its value has the key `""`
    beside them. `unnest` returns the same names and values.

  Raises:
    ParameterNameError: a name has an empty part, as in "a//b" and "a/", so that the way back would not be unique.

  Example:
      >>> nest({"dense/kernel": 1, "dense/kernel/Adam": 2, "dense/bias": 3})
      {'dense': {'kernel': {'': 1, 'Adam': 2}, 'bias': 3}}
  """
  prefixes = {name[:end] for name in params for end, letter in enumerate(name) if letter == _SEPARATOR}
  tree: dict[str, PyTree] = {}
  for name, value in params.items():
    *parents, last = name.split(_SEPARATOR)
    if not all((*parents, last)):
      raise ParameterNameError(f"the parameter name {name!r} cannot be nested: it has an empty part.")
    node = tree
    for part in parents:
      node = node.setdefault(part, {})
    if name in prefixes:
      node.setdefault(last, {})[_OWN_VALUE] = value
    else:
      node[last] = value
  return tree


def unnest(tree: Mapping[str, PyTree]) -> dict[str, Leaf]:
  """Returns nested dicts as parameters by name, with slashes between the keys; what `nest` returned as it was.

  Args:
    tree: nested dicts with strings as keys. Everything that is not a dict is a value. Empty dicts have none.

  Raises:
    ParameterNameError: a key is not a string or holds a slash, or two values get the same name.

  Example:
      >>> unnest({"dense": {"kernel": {"": 1, "Adam": 2}, "bias": 3}})
      {'dense/kernel': 1, 'dense/kernel/Adam': 2, 'dense/bias': 3}
  """
  params: dict[str, Leaf] = {}
  _add_values(tree, (), params)
  return params


def flat(params: Mapping[str, Leaf]) -> dict[str, Leaf]:
  """Returns parameters by name: nested dicts as `unnest` does, flat ones (with or without slashes) as they are."""
  return unnest(params) if any(isinstance(value, Mapping) for value in params.values()) else dict(params)


def _add_values(node: Mapping[str, PyTree], parents: tuple[str, ...], params: dict[str, Leaf]) -> None:
  for key, value in node.items():
    if not isinstance(key, str) or _SEPARATOR in key:
      raise ParameterNameError(f"key {key!r} below {_SEPARATOR.join(parents)!r}; expected strings without slashes.")
    if isinstance(value, Mapping):
      _add_values(value, (*parents, key), params)
      continue
    name = _SEPARATOR.join(parents if key == _OWN_VALUE else (*parents, key))
    if name in params or not name:
      raise ParameterNameError(f"two parameters of the tree, or its root, have the name {name!r}.")
    params[name] = value
