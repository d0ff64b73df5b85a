"""The parameters of JAX functions as variables: names, values, what TensorFlow trains, and where to find them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from graftax.convert import variable_names
from graftax.savedmodel_io.errors import SaveInputError

__all__ = ["ParameterTree", "parameter_tree"]

# Any in this module: pytrees of the caller.


@dataclass(frozen=True, slots=True)
class ParameterTree:
  """Parameters.

  Attributes:
    specs: the pytree, with a `jax.ShapeDtypeStruct` for each array of numbers.
    values: variable name -> array.
    trainable: variable name -> whether TensorFlow trains it.
    attributes: nested dicts and lists of variable names.
  """

  specs: Any
  values: Mapping[str, Any]
  trainable: Mapping[str, bool]
  attributes: Any


def parameter_tree(params: Any, trainable: Any) -> ParameterTree:
  """Returns the variables of a pytree of arrays.

  Args:
    params: the pytree.
    trainable: a bool, or a pytree of bools; one of them may stand for a part of `params`. Integers are never trained.

  Raises:
    SaveInputError: a leaf is not an array, `trainable` does not fit, or two parameters have the same path.
  """
  try:
    paths, treedef = jax.tree_util.tree_flatten_with_path(params)
  except (ValueError, TypeError) as e:
    raise SaveInputError(f"params is not a pytree: {e}; expected dicts whose keys can be sorted") from e
  values = [_value(leaf, jax.tree_util.keystr(path)) for path, leaf in paths]
  names = variable_names(params)
  flags = _flags(trainable, params)
  return ParameterTree(
    specs=treedef.unflatten([_spec(leaf) for _, leaf in paths]),
    values=dict(zip(names, values, strict=True)),
    trainable={
      name: flag and bool(jax.numpy.issubdtype(value.dtype, jax.numpy.inexact))
      for name, flag, value in zip(names, flags, values, strict=True)
    },
    attributes=_nested([([_key(entry) for entry in path], name) for (path, _), name in zip(paths, names, strict=True)]),
  )


def _value(leaf: Any, path: str) -> Any:
  """Returns a leaf as an array of the dtype that JAX gives it; keys of random numbers as their bits."""
  if isinstance(leaf, jax.ShapeDtypeStruct):
    raise SaveInputError(f"params{path} has only a shape and a dtype; expected an array")
  if isinstance(leaf, jax.core.Tracer):
    raise SaveInputError(f"params{path} is traced by a JAX transformation; save outside of jit and grad")
  if isinstance(leaf, jax.Array):
    return jax.random.key_data(leaf) if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
  if not isinstance(leaf, bool | int | float | complex) and not (hasattr(leaf, "__array__") and hasattr(leaf, "dtype")):
    raise SaveInputError(f"params{path} is {leaf!r:.80} of type {type(leaf).__name__}; expected an array")
  try:
    return np.asarray(leaf, _dtype(leaf))
  except (TypeError, ValueError, OverflowError) as e:
    raise SaveInputError(f"params{path} cannot become an array of JAX: {e}") from e


def _spec(leaf: Any) -> Any:
  """Returns shape and dtype of a leaf, so that tracing does not copy its value; keys of random numbers stay."""
  dtype = _dtype(leaf)
  is_key = jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)
  return leaf if is_key else jax.ShapeDtypeStruct(np.shape(leaf), dtype)


def _dtype(leaf: Any) -> Any:
  if isinstance(leaf, jax.Array):
    return leaf.dtype
  try:
    return jax.dtypes.canonicalize_dtype(jax.dtypes.result_type(leaf))
  except TypeError as e:
    raise SaveInputError(f"a parameter has elements of type {getattr(leaf, 'dtype', type(leaf))}: {e}") from e


def _flags(trainable: Any, params: Any) -> list[bool]:
  try:
    spread = jax.tree.map(lambda flag, part: jax.tree.map(lambda _: flag, part), trainable, params)
  except (ValueError, TypeError) as e:
    raise SaveInputError(f"trainable does not have the structure of params: {e}") from e
  flags = jax.tree.leaves(spread)
  wrong = [flag for flag in flags if not isinstance(flag, bool | np.bool_)]
  if wrong or len(flags) != len(jax.tree.leaves(params)):
    raise SaveInputError(f"trainable holds {wrong[0] if wrong else None!r}; expected a bool, or a pytree of bools")
  return [bool(flag) for flag in flags]


def _key(entry: Any) -> str | int:
  """Returns the name of a child of a pytree, or its position in a sequence."""
  match entry:
    case jax.tree_util.DictKey():
      return str(entry.key)
    case jax.tree_util.GetAttrKey():
      return str(entry.name)
    case jax.tree_util.SequenceKey():
      return int(entry.idx)
  return str(getattr(entry, "key", entry))


def _nested(leaves: Sequence[tuple[list[str | int], str]]) -> Any:
  """Returns variable names nested by their paths: lists for sequences, dicts for anything else."""
  if len(leaves) == 1 and not leaves[0][0]:
    return leaves[0][1]
  groups: dict[str | int, list[tuple[list[str | int], str]]] = {}
  for path, name in leaves:
    if not path:
      raise SaveInputError(f"params: variable {name!r} and another one have the same path")
    groups.setdefault(path[0], []).append((path[1:], name))
  if groups and all(isinstance(key, int) for key in groups):
    return [_nested(group) for group in groups.values()]
  return {str(key): _nested(group) for key, group in groups.items()}
