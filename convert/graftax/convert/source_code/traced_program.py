"""A function with its arguments as a program: what is a parameter, and where each array is in arguments and results."""

import ast
import dataclasses
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.convert.pytrees import KeyPath, Leaf, PyTree
from graftax.convert.source_code.errors import SourceError
from graftax.convert.source_code.naming import identifier, unique
from graftax.convert.source_code.nnx.state import assign, kind_of
from graftax.convert.source_code.program import Block, Operand, Value
from graftax.convert.source_code.reading import Reader, read

__all__ = ["LeafExpression", "TracedProgram", "named_constants"]


@dataclasses.dataclass(eq=False, slots=True)
class LeafExpression:
  """The expression of an array in a nested result: a leaf, which expressions that JAX knows as pytrees are not."""

  tree: ast.expr


class TracedProgram:
  """A function with its arguments: what is a parameter, and where each array is in them."""

  def __init__(self, fn: Callable[..., Any], args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> None:
    self._fn, self._args, self._kwargs = fn, args, kwargs
    self.num_keys = len(kwargs)
    self.has_parameters = bool(args) and isinstance(args[0], Mapping)
    specs = jax.tree_util.tree_map_with_path(_spec, (tuple(args), dict(kwargs)))
    flat, self._structure = jax.tree_util.tree_flatten_with_path(specs)

    def call(leaves: Sequence[Leaf]) -> PyTree:
      given, named = jax.tree.unflatten(self._structure, leaves)
      results = fn(*given, **named)
      for leaf in jax.tree.leaves(results):
        _check_result(leaf)
      return results

    with warnings.catch_warnings():
      warnings.simplefilter("ignore")
      self._closed, results = jax.make_jaxpr(call, return_shape=True)([spec for _, spec in flat])
    self.results = results
    self._paths = [path for path, _ in flat]
    self.names = _argument_names(fn, len(args), list(kwargs), self.has_parameters)
    self._trainable = _trainable(fn, args[0]) if self.has_parameters else {}
    self.inputs: list[Value] = []
    self._reader = Reader()
    self.unchanged: frozenset[int] = frozenset()

  def block(self) -> tuple[Block, dict[Value, np.ndarray]]:
    """Returns the program anew, since stages change it."""
    self.inputs = []
    variables: Sequence[Any] = self._closed.jaxpr.invars
    for variable, path in zip(variables, self._paths, strict=True):
      value = Value(tuple(variable.aval.shape), variable.aval.dtype)
      keys = [_key(step) for step in path[1:]]
      if self.has_parameters and _key(path[0]) == 0 and keys[0] == 0:
        value.parameter = tuple(str(key) for key in keys[1:])
      else:
        value.name = self._shown_name(path)
      self.inputs.append(value)
    block, constants = read(self._closed, self.inputs, self._reader)
    self.unchanged = self._unchanged(block.results)
    block.results = [result for i, result in enumerate(block.results) if i not in self.unchanged]
    return block, constants

  def _shown_name(self, path: KeyPath) -> str:
    """Returns what functions call an array that they are given: the name of the argument, or its key in one."""
    keys = [_key(step) for step in path]
    last = self.names[int(keys[1])] if len(keys) == 2 and keys[0] == 0 else keys[-1]
    return last if isinstance(last, str) and len(last) > 1 else ""

  def _unchanged(self, results: Sequence[object]) -> frozenset[int]:
    """Returns which results are parameters that the program returns as they are, for `_result` to leave out."""
    if not self._returns_parameters:
      return frozenset()
    first = len(jax.tree.leaves(self.results[0]))
    own = {value: i for i, value in enumerate(v for v in self.inputs if v.parameter is not None)}
    return frozenset(
      first + i for i, value in enumerate(results[first:]) if isinstance(value, Value) and own.get(value) == i
    )

  def assign(self, block: Block) -> dict[tuple[str, ...], str]:
    """Makes new values of parameters assignments, and returns the kinds of parameters."""
    assigned: list[tuple[Value, Operand]] = []
    if self._returns_parameters:
      first = len(jax.tree.leaves(self.results[0]))
      new = [i for i in range(len(jax.tree.leaves(self.results))) if i not in self.unchanged]
      own = [value for value in self.inputs if value.parameter is not None]
      assigned = [(own[i - first], r) for i, r in zip(new, block.results, strict=True) if i >= first]
      block.results = block.results[: len(block.results) - len(assigned)]
      self.unchanged |= {i for i in new if i >= first}
    paths = frozenset(value.parameter for value, _ in assigned if value.parameter is not None)
    kinds = {v.parameter: kind_of(v, self._trainable, paths) for v in block.inputs if v.parameter is not None}
    assign(block, assigned, kinds)
    return kinds

  def _structure_of(self, tree: PyTree) -> PyTree:
    return jax.tree.structure(tree)

  @property
  def _returns_parameters(self) -> bool:
    return (
      self.has_parameters
      and isinstance(self.results, tuple)
      and len(self.results) == 2
      and self._structure_of(self.results[1]) == self._structure_of(self._args[0])
    )

  def nested_results(self, trees: Sequence[ast.expr]) -> tuple[PyTree, dict[str, ast.expr]]:
    """Returns results with the structure that the function gives them, and the new values of parameters."""
    count = len(jax.tree.leaves(self.results))
    given = iter(trees)
    leaves = [
      LeafExpression(ast.Constant(None)) if i in self.unchanged else LeafExpression(next(given)) for i in range(count)
    ]
    results = jax.tree.unflatten(jax.tree.structure(self.results), leaves)
    if not self._returns_parameters:
      return results, {}
    first = len(jax.tree.leaves(self.results[0]))
    paths = ["/".join(v.parameter) for v in self.inputs if v.parameter is not None]
    new = {
      p: leaf.tree
      for i, (p, leaf) in enumerate(zip(paths, leaves[first:], strict=True))
      if first + i not in self.unchanged
    }
    return results[0], new

  def tensors(self) -> Iterator[tuple[Value, str, list[str | int]]]:
    """Yields each array that is not a parameter, with its argument and its keys in that argument."""
    for value, path in zip(self.inputs, self._paths, strict=True):
      if value.parameter is None:
        keys = [_key(step) for step in path[1:]]
        argument = self.names[int(keys[0])] if _key(path[0]) == 0 else str(keys[0])
        yield value, argument, keys[1:]

  @property
  def arguments(self) -> list[str]:
    """The names of all arguments except parameters."""
    return [*self.names[self.has_parameters :], *map(str, self._kwargs)]


def _spec(path: KeyPath, leaf: Leaf) -> jax.ShapeDtypeStruct:
  if isinstance(leaf, jax.ShapeDtypeStruct):
    return leaf
  if isinstance(leaf, jax.Array):
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
  array = np.asarray(leaf)
  if array.dtype.kind in "OSU":
    place = jax.tree_util.keystr(tuple(path[2:]))
    what = f"{place} of argument {_key(path[1])!r}" if place else "an argument"
    raise SourceError(f"{what} is {leaf!r}, and not an array; bind it with functools.partial first.")
  return jax.ShapeDtypeStruct(array.shape, jax.dtypes.canonicalize_dtype(array.dtype))


def _check_result(leaf: Leaf) -> None:
  """Raises a `SourceError` if a result is not an array of numbers."""
  if not isinstance(leaf, jax.Array | np.ndarray | np.generic | bool | int | float | complex):
    raise SourceError(f"a result is {leaf!r}, a {type(leaf).__name__}, and not an array; return arrays alone.")
  if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "OSUV" and not jnp.issubdtype(leaf.dtype, np.number):
    raise SourceError(f"a result has the dtype {leaf.dtype}, which JAX does not have; return arrays of numbers alone.")


def _trainable(fn: Callable[..., Any], parameters: PyTree) -> dict[tuple[str, ...], bool]:
  """Returns whether parameters are trained: those with `trainable` as an attribute, and converted variables."""
  known: dict[tuple[str, ...], bool] = {
    (str(name),): spec.trainable for name, spec in getattr(fn, "variables", {}).items()
  }
  for path, leaf in jax.tree_util.tree_flatten_with_path(parameters)[0]:
    if hasattr(leaf, "trainable"):
      known[tuple(str(_key(step)) for step in path)] = bool(leaf.trainable)
  return known


def _key(step: Any) -> str | int:
  """Returns the key of a step of a path."""
  for attribute in ("key", "idx"):
    if hasattr(step, attribute):
      found = getattr(step, attribute)
      return found if isinstance(found, str | int) else str(found)
  raise SourceError(f"an argument has a node of a type of its own, at {step}; pass dicts, lists and tuples of arrays.")


def _argument_names(fn: Callable[..., Any], count: int, named: Sequence[str], has_parameters: bool) -> list[str]:
  """Returns names of positional arguments."""
  found: list[str] = []
  try:
    for parameter in inspect.signature(fn).parameters.values():
      if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD) and parameter.name not in named:
        found.append(parameter.name)
  except (TypeError, ValueError):
    pass
  found = found[:count]
  if has_parameters and not found:
    found = ["parameters"]  # only for positions: the text has its own name for them
  found += [f"x{i}" if count > 1 + has_parameters else "x" for i in range(len(found), count)]
  names: list[str] = []
  for name in found:
    names.append(unique(identifier(name), [*named, *names]))
  return names


def named_constants(block: Block, constants: dict[Value, np.ndarray], has_parameters: bool) -> dict[str, np.ndarray]:
  """Names constants, and makes those of a program without parameters its parameters, if they are floats."""
  frozen: dict[str, np.ndarray] = {}
  for i, (value, array) in enumerate(constants.items()):
    value.name = "constant" if len(constants) == 1 else f"constant_{i}"
    if not has_parameters and jnp.issubdtype(array.dtype, np.inexact):
      value.parameter = (value.name,)
      frozen[value.name] = array
    block.inputs.append(value)
  return frozen
