"""The parameters of a model that somebody else wrote: names, shapes, and the way back into the model."""

import collections
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import jax
import numpy as np

from graftax.savedmodel_io.errors import MatchError
from graftax.savedmodel_io.matching.layouts import Array

__all__ = ["Target", "read_target"]


@dataclass(frozen=True, slots=True)
class Target:
  """A model's parameters.

  Attributes:
    arrays: name -> array, or `jax.ShapeDtypeStruct`, of floating-point numbers.
    others: names of arrays of other types, such as keys and counters, which are left alone.
    rebuild: makes the model of other arrays for some names.
  """

  arrays: Mapping[str, Array]
  others: tuple[str, ...]
  rebuild: Callable[[Mapping[str, Array]], object]


def read_target(model: object) -> Target:
  """Returns the parameters of a module of flax.nnx or equinox, of variables of linen or haiku, or of any pytree.

  Raises:
    MatchError: it has no arrays of floating-point numbers, or two arrays whose paths are the same name.
  """
  nnx = sys.modules.get("flax.nnx")
  if nnx is not None and isinstance(model, nnx.Module):
    graph, state = nnx.split(model)
    return _read(state, {}, lambda tree: nnx.merge(graph, tree))
  return _read(model, _names_of_state(model), lambda tree: tree)


def _read(tree: object, state_names: Mapping[int, str], finish: Callable[[object], object]) -> Target:
  paths, structure = jax.tree_util.tree_flatten_with_path(tree)
  names = [state_names.get(id(leaf)) or _name(path) for path, leaf in paths]
  leaves = [leaf for _, leaf in paths]
  arrays = {name: leaf for name, leaf in zip(names, leaves, strict=True) if _is_real(leaf)}
  if not arrays:
    raise MatchError(
      f"match: the target, a {type(tree).__name__}, has no arrays of floating-point numbers. Pass a module of flax.nnx "
      "or equinox, the variables of a linen module, or haiku's parameters."
    )
  counts = collections.Counter(name for name, leaf in zip(names, leaves, strict=True) if hasattr(leaf, "shape"))
  twice = [name for name in arrays if counts[name] > 1]
  if twice:
    raise MatchError(
      f"match: the target has {counts[twice[0]]} arrays of the name {twice[0]!r}: keys with slashes and nested keys "
      "give the same name. Rename one of them."
    )
  others = tuple(
    name for name, leaf in zip(names, leaves, strict=True) if name not in arrays and hasattr(leaf, "shape")
  )

  def rebuild(values: Mapping[str, Array]) -> object:
    new = [values.get(name, leaf) for name, leaf in zip(names, leaves, strict=True)]
    return finish(jax.tree_util.tree_unflatten(structure, new))

  return Target(arrays, others, rebuild)


def _names_of_state(model: object) -> dict[int, str]:
  """Returns the names of the arrays in an `equinox.nn.State`, by identity: they are named after what owns them.

  A state of two arrays of the same shape is the mean and the variance of a batch normalization.
  """
  equinox = sys.modules.get("equinox")
  parts = model if isinstance(model, tuple | list) else ()
  states = [part for part in parts if equinox is not None and isinstance(part, equinox.nn.State)]
  if equinox is None or len(states) != 1:
    return {}
  found = {}
  indices = jax.tree_util.tree_flatten_with_path(
    [part for part in parts if part is not states[0]], is_leaf=lambda part: isinstance(part, equinox.nn.StateIndex)
  )[0]
  for path, index in indices:
    if not isinstance(index, equinox.nn.StateIndex):
      continue
    leaves = jax.tree.leaves(states[0].get(index))
    is_batch_norm = len(leaves) == 2 and all(_is_real(leaf) and leaf.shape == leaves[0].shape for leaf in leaves)
    kinds = ("mean", "variance") if is_batch_norm else tuple(f"state_{k}" for k in range(len(leaves)))
    owner = _name(path[:-1])
    found.update({id(leaf): f"{owner}/{kind}" for leaf, kind in zip(leaves, kinds, strict=True)})
  return found


def _is_real(leaf: object) -> bool:
  dtype = getattr(leaf, "dtype", None)
  return hasattr(leaf, "shape") and dtype is not None and bool(jax.numpy.issubdtype(dtype, np.floating))


def _name(path: tuple[object, ...]) -> str:
  """Returns a path as a name with slashes; haiku's own slashes and "~" are parts like others."""
  parts: list[str] = []
  for key in path:
    part = str(next(getattr(key, field) for field in ("key", "name", "idx") if hasattr(key, field)))
    parts.extend(piece for piece in part.split("/") if piece)
  if len(parts) > 1 and parts[-1] in ("value", "raw_value") and not hasattr(path[-1], "key"):
    parts.pop()
  return "/".join(parts)
