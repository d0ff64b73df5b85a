"""Symbolic shapes for the arguments of a JAX function, from specifications such as "batch, ..."."""

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import EllipsisType
from typing import Any

import jax

from graftax.convert.errors import ConversionError
from graftax.convert.pytrees import Leaf, PyTree

__all__ = [
  "PolyShape",
  "ShapeSpecs",
  "check_callable",
  "eval_polymorphic_shape",
  "symbolic_args_specs",
  "symbolic_specs",
]


class PolyShape(tuple[int | str | EllipsisType, ...]):
  """The shape of one array as a tuple: numbers, names of dimensions, "_" or a final `...`.

  Deprecated, as in jax2tf: write the shape as text, such as "batch, ...".

  Raises:
    ValueError: an element is none of these.
  """

  def __new__(cls, *dim_specs: int | str | EllipsisType) -> "PolyShape":
    warnings.warn(
      "PolyShape is deprecated, use string specifications for symbolic shapes", DeprecationWarning, stacklevel=2
    )
    for dim in dim_specs:
      if not isinstance(dim, int | str | EllipsisType):
        raise ValueError(
          f"Invalid polymorphic shape element: {dim!r}; must be a string representing a dimension variable, or an "
          "integer, or ..."
        )
    return super().__new__(cls, dim_specs)

  def __str__(self) -> str:
    return f"({', '.join('...' if dim is ... else str(dim) for dim in self)})"


ShapeSpecs = str | PolyShape | Sequence[Any] | Mapping[str, Any] | None


def symbolic_specs(
  function: Callable[..., Any],
  args: tuple[PyTree, ...],
  kwargs: Mapping[str, PyTree],
  polymorphic_shapes: ShapeSpecs,
  constraints: Sequence[str] = (),
) -> tuple[tuple[PyTree, ...], dict[str, PyTree]]:
  """Returns `(args, kwargs)` with the shapes that the specifications name.

  Args:
    function: the function that is called; its signature tells the names of positional arguments.
    args: nested positional arguments with leaves that have a shape and a dtype. Dimensions may be None if the
      specification names them.
    kwargs: keyword arguments, likewise.
    polymorphic_shapes: None if all shapes are static; one specification for all positional arguments; a sequence of
      one for each positional argument, in which None means static and a nested argument has a nested specification; or
      a mapping from names of arguments, positional or keyword, to these. Arguments without an entry are static.
    constraints: constraints on the dimensions, such as "a >= b".

  Raises:
    ValueError: a specification does not fit its argument, or cannot be parsed.
  """
  for_args: PyTree = polymorphic_shapes
  for_kwargs: PyTree = None
  if isinstance(polymorphic_shapes, Mapping):
    for_args, for_kwargs = _by_name(function, args, kwargs, polymorphic_shapes)
  scope = jax.export.SymbolicScope(constraints)
  try:
    return (
      symbolic_args_specs(args, _as_text(for_args), scope),
      symbolic_args_specs(dict(kwargs), _as_text(for_kwargs), scope),
    )
  except ValueError as e:
    unknown = [leaf.shape for leaf in jax.tree.leaves((args, kwargs)) if None in leaf.shape]
    if not unknown:
      raise
    raise ConversionError(
      f"{e} Arguments have unknown sizes: {', '.join(map(str, unknown))}. Name each of them with polymorphic_shapes, "
      f'for example "batch, ...", or give the tensors static shapes.'
    ) from e


def symbolic_args_specs(args: PyTree, shapes_specs: PyTree, scope: jax.export.SymbolicScope) -> PyTree:
  """Returns `jax.ShapeDtypeStruct`s with symbolic dimensions, as `jax.export.symbolic_args_specs` does.

  That function refuses arguments with unknown sizes: `jax.ShapeDtypeStruct` since JAX 0.12, and other types before.

  Args:
    args: nested arrays, or anything with `shape` and `dtype`. Dimensions may be None if the specification names them.
      None in place of an array stays None, whatever its specification is.
    shapes_specs: None if all shapes are static, one specification for all arguments, or specifications nested like the
      upper part of `args`.
    scope: of the dimensions.

  Raises:
    ValueError: a specification does not fit its argument, or cannot be parsed.

  Example:
    >>> import types
    >>> import numpy as np
    >>> open_spec = types.SimpleNamespace(shape=(None, 2), dtype=np.dtype(np.float32))
    >>> symbolic_args_specs([open_spec], "n, _", jax.export.SymbolicScope())
    [ShapeDtypeStruct(shape=(n, 2), dtype=float32)]
  """
  # None is an argument without arrays, and among the specifications a static shape.
  leaves, structure = jax.tree.flatten(args, is_leaf=_is_none)
  texts = jax.tree.leaves(jax.tree.broadcast(shapes_specs, args, is_leaf=_is_none), is_leaf=_is_none)
  specs = [
    None if leaf is None else _symbolic_spec(_shape_and_dtype(leaf), text, scope)
    for leaf, text in zip(leaves, texts, strict=True)
  ]
  return jax.tree.unflatten(structure, specs)


def _symbolic_spec(spec: Leaf, text: str | None, scope: jax.export.SymbolicScope) -> jax.ShapeDtypeStruct:
  return jax.ShapeDtypeStruct(jax.export.symbolic_shape(text, like=spec.shape, scope=scope), spec.dtype)


def _is_none(value: Any) -> bool:
  return value is None


def _shape_and_dtype(leaf: Leaf) -> Leaf:
  """Returns the type of an array as JAX sees it, or a specification as it is."""
  try:
    return jax.typeof(leaf)
  except TypeError:
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
      return leaf
    raise


def eval_polymorphic_shape(
  fun_jax: Callable[..., Any], *, polymorphic_shapes: ShapeSpecs = None
) -> Callable[..., tuple[PyTree, PyTree]]:
  """Returns a function that computes the shapes of results, which may depend on named dimensions.

  Nothing is compiled or run, as with `jax.eval_shape`.

  Args:
    fun_jax: a JAX function.
    polymorphic_shapes: the shapes of its arguments; see `convert`.

  Returns:
    A function that takes `jax.ShapeDtypeStruct`s, or anything with `shape` and `dtype`, in place of the arguments. It
    returns the results as `jax.ShapeDtypeStruct`s, and their shapes as text. This text can be the `polymorphic_shapes`
    of a function of these results.

  Example:
    >>> import jax, numpy as np
    >>> a = jax.ShapeDtypeStruct((2, 3), np.float32)
    >>> b = jax.ShapeDtypeStruct((3, 4), np.float32)
    >>> spec, shape = eval_polymorphic_shape(lambda a, b: a @ b, polymorphic_shapes=["a, b", "b, c"])(a, b)
    >>> print(spec.shape, shape)
    (a, c) (a, c)
  """

  def evaluate(*args_specs: PyTree, **kwargs_specs: PyTree) -> tuple[PyTree, PyTree]:
    args, kwargs = symbolic_specs(fun_jax, args_specs, kwargs_specs, polymorphic_shapes)
    results = jax.eval_shape(fun_jax, *args, **kwargs)
    return results, jax.tree.map(lambda result: str(result.shape), results)

  return evaluate


def check_callable(function: Any) -> None:
  """Raises TypeError if JAX cannot trace `function`, with the text that callers of `jax.jit` know."""
  if isinstance(function, staticmethod):
    raise TypeError(f"staticmethod arguments are not supported, got {function}")
  if not callable(function):
    raise TypeError(f"Expected a callable value, got {function}")
  if inspect.isgeneratorfunction(function):
    raise TypeError(f"Expected a function, got a generator function: {function}")


def _by_name(
  function: Callable[..., Any], args: tuple[PyTree, ...], kwargs: Mapping[str, PyTree], specs: Mapping[str, PyTree]
) -> tuple[tuple[PyTree, ...], dict[str, PyTree]]:
  """Returns the specifications of positional arguments and those of keyword arguments."""
  for_args: list[PyTree] = []
  names = set(kwargs)
  for name, num in _positional(function, len(args)):
    names.add(name)
    spec = specs.get(name)
    is_rest = num is not None
    if is_rest and isinstance(spec, Sequence) and not isinstance(spec, str | PolyShape):
      if len(spec) != num:
        raise ValueError(f"polymorphic_shapes[{name!r}]: got {len(spec)} shapes for {num} arguments.")
      for_args.extend(spec)
    else:
      for_args.extend([spec] * (1 if num is None else num))
  unknown = sorted(set(specs) - names)
  if unknown:
    raise ValueError(f"polymorphic_shapes has shapes for {unknown!r}; the call has the arguments {sorted(names)!r}.")
  return tuple(for_args), {name: specs.get(name) for name in kwargs}


def _positional(function: Callable[..., Any], num: int) -> list[tuple[str, int | None]]:
  """Returns `(name, None)` for each of `num` positional arguments, and `(name, number)` for those in `*rest`."""
  try:
    parameters = list(inspect.signature(function).parameters.values())
  except (TypeError, ValueError):
    parameters = []
  kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
  named: list[tuple[str, int | None]] = []
  named.extend((p.name, None) for p in parameters if p.kind in kinds)
  named = named[:num]
  rest = next((p.name for p in parameters if p.kind is inspect.Parameter.VAR_POSITIONAL), "args")
  return named if len(named) == num else [*named, (rest, num - len(named))]


def _as_text(specs: PyTree) -> PyTree:
  """Returns the specifications with text in place of each `PolyShape`, and with tuples for the outermost list."""
  if isinstance(specs, list):
    specs = tuple(specs)
  return jax.tree.map(
    lambda spec: str(spec) if isinstance(spec, PolyShape) else spec,
    specs,
    is_leaf=lambda spec: spec is None or isinstance(spec, PolyShape),
  )
