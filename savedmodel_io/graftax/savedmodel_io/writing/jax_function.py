"""`JaxFunction`, a JAX function and the arguments that it is traced with, and how users may write one."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from graftax.convert import Program, jax2tf
from graftax.savedmodel_io.errors import SaveInputError
from graftax.savedmodel_io.pytrees import Leaf, PyTree

__all__ = ["JaxFunction", "as_traces", "symbolic_arguments"]

_BATCH = "batch"


@dataclasses.dataclass(frozen=True, eq=False)
class JaxFunction:
  """A JAX function and the shapes and dtypes of its arguments, for `save`.

  Attributes:
    function: any JAX function of nested arrays, which returns nested arrays. Its first argument is `params`, if `save`
      is given any.
    args: the other positional arguments, nested: arrays, or anything with `shape` and `dtype`. Dimensions may be
      symbolic (`jax.export.symbolic_shape`; for several arguments, `jax.export.symbolic_args_specs`). A dimension of
      None, as in a `tf.TensorSpec`, may have any size. At the first position it is the same for all arguments, and
      elsewhere each has its own.
    kwargs: keyword arguments, likewise.
    polymorphic_shapes: names open dimensions as `jax.export.symbolic_args_specs` does: text such as `"batch, _, 3"` for
      all arguments, or a sequence of text or None, one for each of `args`; or a dict of text by the name of keyword
      arguments, with the key "args" for positional ones.
    constraints: on these dimensions, such as `"length >= 2"`; those on symbolic dimensions are in their scope.
    takes_params: whether the first argument is `params`.
    with_gradient: whether TensorFlow can differentiate it. If not, trying to is an error.
  """

  function: Callable[..., Any]
  args: Sequence[PyTree] = ()
  kwargs: Mapping[str, PyTree] = dataclasses.field(default_factory=dict)
  polymorphic_shapes: PyTree = None
  constraints: Sequence[str] = ()
  takes_params: bool = True
  with_gradient: bool = True


def as_traces(value: Any, what: str) -> tuple[JaxFunction | Program, ...]:
  """Returns the traces of a function that a user passes.

  Args:
    value: a `JaxFunction`, a `Program`, a tuple `(function, *args)`, a function without further arguments, or a list of
      these.
    what: the function, for messages.

  Raises:
    SaveInputError: it is something else.
  """
  values = value if isinstance(value, list) else [value]
  traces = tuple(_as_trace(each, what) for each in values)
  if not traces:
    raise SaveInputError(f"{what} is an empty list; expected at least one trace")
  return traces


def symbolic_arguments(function: JaxFunction, what: str) -> tuple[tuple[PyTree, ...], dict[str, PyTree]]:
  """Returns `(args, kwargs)` of a function, with symbolic dimensions for those that are open.

  Raises:
    SaveInputError: an argument is not like an array, its shape contradicts what `polymorphic_shapes` says, or a
      constraint is malformed.
  """
  if not isinstance(function.args, Sequence) or not isinstance(function.kwargs, Mapping):
    raise SaveInputError(
      f"{what}: args is a {type(function.args).__name__} and kwargs a {type(function.kwargs).__name__}; expected a "
      "sequence of arguments, and a dict of keyword arguments"
    )
  args, kwargs = tuple(function.args), dict(function.kwargs)
  for argument in (*args, *kwargs.values()):
    sizes = argument if isinstance(argument, tuple) else ()
    if any(size is None for size in sizes) and all(size is None or type(size) is int for size in sizes):
      shape = f'jax.export.symbolic_shape("{", ".join(_dimension_names(sizes, iter(range(len(argument)))))}")'
      raise SaveInputError(
        f"{what}: {argument} is a shape without a dtype; expected jax.ShapeDtypeStruct({shape}, np.float32), say"
      )
  for path, leaf in jax.tree_util.tree_leaves_with_path((args, kwargs)):
    if not hasattr(leaf, "shape") and not isinstance(leaf, bool | int | float | complex):
      name = jax.tree_util.keystr(path[1:])
      raise SaveInputError(f"{what}: argument {name} is {leaf!r:.80}; expected an array, or jax.ShapeDtypeStruct")
  try:
    scope = _scope((args, kwargs), tuple(function.constraints))
  except ValueError as e:
    raise SaveInputError(f"{what}: constraints={function.constraints!r}: {e}") from e
  given = function.polymorphic_shapes
  if given is None and not _open_dimensions((args, kwargs)):
    return args, kwargs
  by_name = dict(given) if isinstance(given, Mapping) else {"args": given}
  for_args = by_name.pop("args", None)
  unknown = sorted(by_name.keys() - kwargs.keys())
  if unknown:
    raise SaveInputError(f"{what}: polymorphic_shapes names {unknown}, but the keyword arguments are {sorted(kwargs)}")
  numbers = iter(range(1 << 30))
  try:
    if for_args is None:
      args = _with_names(args, scope, numbers)
    else:
      args = jax2tf.symbolic_args_specs(args, _as_tuple(for_args), scope)
    for name, value in kwargs.items():
      if by_name.get(name) is None:
        kwargs[name] = _with_names(value, scope, numbers)
      else:
        (kwargs[name],) = jax2tf.symbolic_args_specs((value,), (by_name[name],), scope)
  except (ValueError, TypeError) as e:
    raise SaveInputError(f"{what}: polymorphic_shapes={given!r} does not fit its arguments: {e}") from e
  return args, kwargs


def _as_trace(value: Any, what: str) -> JaxFunction | Program:
  if isinstance(value, JaxFunction | Program):
    trace = value
  elif isinstance(value, tuple) and value:
    trace = JaxFunction(value[0], value[1:])
  else:
    trace = JaxFunction(value)
  if isinstance(trace, JaxFunction) and not callable(trace.function):
    raise SaveInputError(f"{what} is {trace.function!r:.80}; expected a function, or a tuple (function, *args)")
  return trace


def _scope(nested: PyTree, constraints: tuple[str, ...]) -> jax.export.SymbolicScope:
  """Returns the scope for names of dimensions that are None: the one that other dimensions have, or a new one."""
  shapes = (getattr(leaf, "shape", ()) for leaf in jax.tree.leaves(nested))
  found = [dim.scope for shape in shapes for dim in shape if jax.export.is_symbolic_dim(dim)]
  return found[0] if found and not constraints else jax.export.SymbolicScope(constraints)


def _open_dimensions(nested: PyTree) -> bool:
  return any(None in getattr(leaf, "shape", ()) for leaf in jax.tree.leaves(nested))


def _as_tuple(specs: PyTree) -> PyTree:
  return tuple(specs) if isinstance(specs, list) else specs


def _with_names(nested: PyTree, scope: jax.export.SymbolicScope, numbers: Iterator[int]) -> PyTree:
  """Returns nested arguments with a name for each dimension that is None."""

  def named(leaf: Leaf) -> Leaf:
    shape = getattr(leaf, "shape", ())
    if None not in shape:
      return leaf
    symbols = jax.export.symbolic_shape(", ".join([*_dimension_names(shape, numbers), ""]), scope=scope)
    return jax.ShapeDtypeStruct(symbols, np.dtype(leaf.dtype))

  return jax.tree.map(named, nested)


def _dimension_names(shape: Sequence[object], numbers: Iterator[int]) -> list[str]:
  """Returns the dimensions of a shape as text, with a name for each that is None."""
  return [
    str(size) if size is not None else _BATCH if axis == 0 else f"dimension_{next(numbers)}"
    for axis, size in enumerate(shape)
  ]
