"""Names of the flat arguments and results of a JAX function, from its Python arguments and the paths in them."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax

from graftax.convert.pytrees import KeyPath, PyTree

__all__ = ["argument_names", "path_name", "positional_names", "result_names"]


def argument_names(
  function: Callable[..., Any], args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
) -> tuple[str, ...]:
  """Returns a name for each leaf of `(args, kwargs)`, such as "images" or "batch_images_0".

  Positional arguments have the names of the parameters; those collected by `*rest` are `rest_0`, `rest_1`, and so on.
  If Python does not tell the signature of the function, they are `args_0`, `args_1`, and so on.
  """
  names = [*zip(positional_names(function, len(args)), args, strict=True), *sorted(kwargs.items())]
  return tuple(
    path_name([name, *path]) for name, value in names for path, _ in jax.tree_util.tree_leaves_with_path(value)
  )


def result_names(result: PyTree) -> tuple[str, ...]:
  """Returns a name for each leaf of a result: its path if that is made of names, such as "logits", or "output_0"."""
  names = [path_name(path) for path, _ in jax.tree_util.tree_leaves_with_path(result)]
  return tuple(name if name and not name[0].isdigit() else f"output_{i}" for i, name in enumerate(names))


def path_name(path: KeyPath, separator: str = "_") -> str:
  """Returns the keys of a path in a pytree, joined."""
  return separator.join(map(_key_name, path))


def positional_names(function: Callable[..., Any], num: int) -> list[str]:
  """Returns the names of the first `num` positional arguments."""
  names = _names(function)
  return [next(names) for _ in range(num)]


def _names(function: Callable[..., Any]) -> Iterator[str]:
  rest = "args"
  try:
    parameters = inspect.signature(function).parameters.values()
  except (TypeError, ValueError):
    parameters = {}.values()
  for parameter in parameters:
    if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
      yield parameter.name
    elif parameter.kind is parameter.VAR_POSITIONAL:
      rest = parameter.name
  number = 0
  while True:
    yield f"{rest}_{number}"
    number += 1


def _key_name(key: Any) -> str:
  for attribute in ("key", "name", "idx"):
    if hasattr(key, attribute):
      return str(getattr(key, attribute))
  return str(key)
