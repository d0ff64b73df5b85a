"""The parameters of JAX functions as variables: names, values, what TensorFlow trains, and where to find them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from graftax.convert import variable_names
from graftax.savedmodel_io.errors import SaveInputError
from graftax.savedmodel_io.pytrees import Leaf, PyTree
from graftax.savedmodel_io.writing.pytree_difference import first_difference

__all__ = ["ParameterTree", "parameter_tree", "trainable_flags"]


@dataclass(frozen=True, slots=True)
class ParameterTree:
  """Parameters.

  Attributes:
    specs: the pytree, with a `jax.ShapeDtypeStruct` for each array of numbers.
    values: variable name -> array.
    trainable: variable name -> whether TensorFlow trains it.
    attributes: nested dicts and lists of variable names.
  """

  specs: PyTree
  values: Mapping[str, Leaf]
  trainable: Mapping[str, bool]
  attributes: PyTree


def parameter_tree(params: object, trainable: object) -> ParameterTree:
  """Returns the variables of a pytree of arrays.

  Args:
    params: the pytree.
    trainable: a bool, or a pytree of bools; one bool may apply to a whole part of `params`. Integers are never trained.

  Raises:
    SaveInputError: a leaf is not an array, `trainable` does not fit, or two parameters have the same path.
  """
  try:
    paths, treedef = jax.tree_util.tree_flatten_with_path(params)
  except (ValueError, TypeError) as e:
    raise SaveInputError(f"params is not a pytree: {e}; expected dicts whose keys can be sorted") from e
  values = [_value(leaf, jax.tree_util.keystr(path)) for path, leaf in paths]
  names = variable_names(params)
  flags = trainable_flags(trainable, params)
  return ParameterTree(
    specs=jax.tree.unflatten(treedef, [_spec(leaf) for _, leaf in paths]),
    values=dict(zip(names, values, strict=True)),
    trainable={
      name: flag and bool(jax.numpy.issubdtype(value.dtype, jax.numpy.inexact))
      for name, flag, value in zip(names, flags, values, strict=True)
    },
    attributes=_attributes(params, iter(names)),
  )


def trainable_flags(trainable: object, params: object) -> list[bool]:
  """Returns whether each leaf of `params` is trained, from a bool or a pytree like the upper part of `params`.

  Raises:
    SaveInputError: `trainable` does not fit.
  """
  try:
    spread = jax.tree.map(lambda flag, part: jax.tree.map(lambda _: flag, part), trainable, params)
  except (ValueError, TypeError) as e:
    difference = first_difference(trainable, params, "trainable", is_prefix=True) or e
    raise SaveInputError(f"trainable does not have the structure of params: {difference}") from e
  flags = jax.tree.leaves(spread)
  wrong = [flag for flag in flags if not isinstance(flag, bool | np.bool_)]
  if wrong or len(flags) != len(jax.tree.leaves(params)):
    raise SaveInputError(f"trainable holds {wrong[0] if wrong else None!r}; expected a bool, or a pytree of bools")
  return [bool(flag) for flag in flags]


def _value(leaf: object, path: str) -> Leaf:
  """Returns a leaf as an array of the dtype that JAX gives it; keys of random numbers as their bits."""
  if isinstance(leaf, jax.ShapeDtypeStruct):
    raise SaveInputError(f"params{path} has only a shape and a dtype; expected an array")
  if isinstance(leaf, jax.core.Tracer):
    raise SaveInputError(f"params{path} is traced by a JAX transformation; save outside of jit and grad")
  if isinstance(leaf, jax.Array):
    return jax.random.key_data(leaf) if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
  if not isinstance(leaf, bool | int | float | complex) and not (hasattr(leaf, "__array__") and hasattr(leaf, "dtype")):
    raise SaveInputError(f"params{path} is {leaf!r:.80} of type {type(leaf).__name__}; expected an array")
  try:
    with np.errstate(over="ignore"):
      array, value = np.asarray(leaf), np.asarray(leaf, _dtype(leaf))
  except (TypeError, ValueError, OverflowError) as e:
    raise SaveInputError(f"params{path} cannot become an array of JAX: {e}") from e
  if value.dtype != array.dtype and value.dtype.kind in "iu" and not np.array_equal(value, array):
    raise SaveInputError(
      f"params{path} has {array.dtype} values beyond {value.dtype}, which JAX would truncate; "
      "jax.config.update('jax_enable_x64', True) keeps them"
    )
  if value.dtype != array.dtype and value.dtype.kind in "fc" and np.isinf(value).sum() != np.isinf(array).sum():
    raise SaveInputError(
      f"params{path} has {array.dtype} values beyond the range of {value.dtype}; "
      "jax.config.update('jax_enable_x64', True) keeps them"
    )
  return value


def _spec(leaf: object) -> Leaf:
  """Returns shape and dtype of a leaf, so that tracing does not copy its value; keys of random numbers stay."""
  dtype = _dtype(leaf)
  is_key = jax.numpy.issubdtype(dtype, jax.dtypes.prng_key)
  return leaf if is_key else jax.ShapeDtypeStruct(np.shape(leaf), dtype)


def _dtype(leaf: object) -> Any:
  if isinstance(leaf, jax.Array):
    return leaf.dtype
  try:
    return jax.dtypes.canonicalize_dtype(jax.dtypes.result_type(leaf))
  except TypeError as e:
    raise SaveInputError(f"a parameter has elements of type {getattr(leaf, 'dtype', type(leaf))}: {e}") from e


def _attributes(part: object, names: Iterator[str]) -> PyTree:
  """Returns a part of the pytree with the next names for its leaves: lists for sequences, dicts for anything else.

  None, and what has neither leaves nor keys, is an empty list, so that the elements after it keep their positions.
  """
  children = jax.tree_util.tree_leaves_with_path(part, is_leaf=lambda value: value is not part)
  if len(children) == 1 and not children[0][0]:
    return next(names)
  keys = [path[0] for path, _ in children]
  values = [_attributes(child, names) for _, child in children]
  if all(isinstance(key, jax.tree_util.SequenceKey) for key in keys) and not isinstance(part, Mapping):
    return values
  by_name = {_key(key): value for key, value in zip(keys, values, strict=True)}
  if len(by_name) != len(keys):
    raise SaveInputError(f"params: two children of a {type(part).__name__} are named alike: {[_key(k) for k in keys]}")
  return by_name


def _key(entry: object) -> str:
  """Returns the name of a child of a pytree."""
  return str(entry.name if isinstance(entry, jax.tree_util.GetAttrKey) else getattr(entry, "key", entry))
