"""The parameters of a `JaxModule` as variables: names, arrays, what TensorFlow trains, and the way back."""

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import PyTreeDef

from graftax.convert import variable_names
from graftax.savedmodel_io.errors import VariableValueError
from graftax.savedmodel_io.pytrees import Leaf, PyTree
from graftax.savedmodel_io.writing.parameter_tree import parameter_tree, trainable_flags
from graftax.savedmodel_io.writing.pytree_difference import first_difference

__all__ = ["ModuleParameters", "ParameterStructure", "module_parameters"]


@dataclasses.dataclass(frozen=True, eq=False)
class ParameterStructure:
  """The pytree of parameters without their values, which functions can hold while values are replaced.

  Attributes:
    treedef: the structure.
    key_impls: for each leaf, the generator of random numbers that it is a key of, or None.
  """

  treedef: PyTreeDef
  key_impls: tuple[Any, ...]

  def rebuilt(self, values: Sequence[Leaf]) -> PyTree:
    """Returns a pytree of one value for each leaf; bits of keys become keys."""
    return self.treedef.unflatten(
      [
        value if impl is None else jax.random.wrap_key_data(value, impl=impl)
        for value, impl in zip(values, self.key_impls, strict=True)
      ]
    )


@dataclasses.dataclass(frozen=True, eq=False)
class ModuleParameters:
  """Parameters.

  Attributes:
    tree: the pytree of the caller.
    structure: its structure.
    names: the name of the variable of each leaf.
    values: the array of each leaf, with the dtype that JAX gives it; keys of random numbers as their bits, uint32.
    trainable: whether TensorFlow trains it.
    with_gradient: whether the caller asked for any parameter to be trained.
  """

  tree: PyTree
  structure: ParameterStructure
  names: tuple[str, ...]
  values: tuple[Leaf, ...]
  trainable: tuple[bool, ...]
  with_gradient: bool

  def updated(self, params: object) -> "ModuleParameters":
    """Returns the same parameters with other values.

    Raises:
      VariableValueError: the pytree has another structure, a leaf is not an array, or an array has another shape or
        dtype.
    """
    old, new = self.structure.treedef, jax.tree.structure(params)
    if new != old:
      difference = first_difference(params, self.tree, "params") or f"it is {new}; expected {old}"
      raise VariableValueError(f"params does not have the structure that the module was made with: {difference}")
    for name, was, now in zip(self.names, jax.tree.leaves(self.tree), jax.tree.leaves(params), strict=True):
      if _spec(was) != _spec(now):
        raise VariableValueError(
          f"parameter {name!r} is {_text(now)}; expected {_text(was)}, as the module was made with"
        )
    return dataclasses.replace(self, tree=params, values=_values(params, self.names))


def module_parameters(params: object, trainable: PyTree) -> ModuleParameters:
  """Returns the variables of a pytree of arrays.

  Names are paths, such as "dense.kernel". If a node of the pytree has keys without a name, all variables are named
  "jax_param_0", "jax_param_1" and so on, with a warning.

  Args:
    params: the pytree.
    trainable: None, a bool, or a pytree of bools; one bool may apply to a whole part of `params`. None is False.
      Integers and keys of random numbers are never trained.

  Raises:
    SaveInputError: a leaf is not an array, or `trainable` does not fit.
  """
  names = _names(params)
  flags = trainable_flags(False if trainable is None else trainable, params)
  values = _values(params, names)
  leaves, treedef = jax.tree.flatten(params)
  return ModuleParameters(
    tree=params,
    structure=ParameterStructure(
      treedef, tuple(jax.random.key_impl(leaf) if _is_key(leaf) else None for leaf in leaves)
    ),
    names=names,
    values=values,
    trainable=tuple(
      flag and jnp.issubdtype(value.dtype, jnp.inexact) for flag, value in zip(flags, values, strict=True)
    ),
    with_gradient=any(flags),
  )


def _names(params: object) -> tuple[str, ...]:
  paths = jax.tree_util.tree_leaves_with_path(params)
  if all(_has_name(key) for path, _ in paths for key in path):
    return variable_names(params, ".")
  warnings.warn(
    "The parameters hold pytree nodes whose keys have no names, so the variables are named jax_param_0, jax_param_1, "
    "... Register these nodes with jax.tree_util.register_pytree_with_keys and the keys of jax.tree_util, such as "
    f"GetAttrKey, to name variables by their paths. The structure is {jax.tree.structure(params)}.",
    stacklevel=4,
  )
  return tuple(f"jax_param_{i}" for i in range(len(paths)))


def _has_name(key: Any) -> bool:
  return any(hasattr(key, attribute) for attribute in ("key", "name", "idx"))


def _values(params: object, names: Sequence[str]) -> tuple[Leaf, ...]:
  values = parameter_tree(dict(zip(names, jax.tree.leaves(params), strict=True)), trainable=False).values
  return tuple(values[name] for name in names)


def _is_key(leaf: object) -> bool:
  return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _spec(leaf: object) -> tuple[tuple[int, ...], Any]:
  try:
    return np.shape(leaf), leaf.dtype if hasattr(leaf, "dtype") else jnp.result_type(leaf)
  except TypeError as e:
    raise VariableValueError(f"a parameter is {leaf!r:.80} of type {type(leaf).__name__}; expected an array") from e


def _text(leaf: object) -> str:
  shape, dtype = _spec(leaf)
  return f"{dtype}{list(shape)}"
