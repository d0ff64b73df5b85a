"""`to_source`: a JAX function as a module of Python."""

import ast
import contextlib
import dataclasses
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.extend.core import InconclusiveDimensionOperation

from graftax.convert.errors import InputError
from graftax.convert.host_split.host_calls import HostParts, OpenSizes, examined_arrays, host_parts
from graftax.convert.host_split.split import Split
from graftax.convert.source_code.errors import SourceError
from graftax.convert.source_code.folding import Folded
from graftax.convert.source_code.grouping import Function, Loop, Scopes, grouped
from graftax.convert.source_code.idioms.helpers import WRITTEN
from graftax.convert.source_code.idioms.rewriting import Recovery, helper_definition
from graftax.convert.source_code.layout import laid_out
from graftax.convert.source_code.naming import checked_name, function_names, identifier, keys_of, named, unique
from graftax.convert.source_code.nnx.classes import as_class, class_name, members_of, module_keys, with_calls
from graftax.convert.source_code.nnx.scopes import ModuleScopes
from graftax.convert.source_code.nnx.state import assign, kind_of
from graftax.convert.source_code.printing import Printed, indexed, marked, width
from graftax.convert.source_code.program import Block, Operand, Value, num_equations
from graftax.convert.source_code.reading import Reader, read
from graftax.convert.source_code.repeats import scope_repeats
from graftax.convert.source_code.roles import name_roles
from graftax.convert.source_code.shorthand import with_shorthand
from graftax.convert.source_code.spelling.choosing import Speller
from graftax.convert.source_code.split_source import array_specs, host_error, numeric_part, with_host_calls
from graftax.convert.source_code.variants import SETTING, join_variants
from graftax.graphdef_ir import GraftaxError

__all__ = ["Source", "to_source"]

# Any in this module: pytrees of arguments and results.

ParameterTree = dict[str, "ParameterTree"] | list["ParameterTree"] | tuple[str, ...]
"""Parameters nested as the text reads them: the path of each in the original parameters."""


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
  """A program as Python.

  Attributes:
    text: the module; it imports jax and numpy, and flax for modules.
    name: of the function in it, or of the class.
    tree: how it nests parameters; leaves are paths in the original parameters, as tuples of keys.
    constants: arrays that are too large for a text, by name. If there are any, the function or the class takes them
      as the argument after the parameters.
    recovered: the share of the program's operations that became calls such as `jax.nn.softmax`, from 0 to 1.
    host: of a split program, what runs on the host, for the function `run` of the text; else None.
    run: the name of the function in the text that takes parameters, `host` and the inputs of a split program; else "".
  """

  text: str
  name: str
  tree: ParameterTree
  constants: dict[str, np.ndarray]
  recovered: float
  _frozen: dict[str, np.ndarray]
  host: HostParts | None = None
  run: str = ""

  def parameters(self, values: Mapping[str, Any] | None = None) -> Any:
    """Returns parameters for the function in the text, or for the class.

    Args:
      values: those of the original function. It may be left out if that has none.
    """

    def nested(tree: ParameterTree) -> Any:
      if isinstance(tree, dict):
        return {key: nested(inner) for key, inner in tree.items()}
      if isinstance(tree, list):
        return [nested(inner) for inner in tree]
      if tree[0] in self._frozen:
        return self._frozen[tree[0]]
      found: Any = values
      for key in tree:
        found = found[int(key)] if isinstance(found, list | tuple) else found[key]
      return found

    return nested(self.tree)

  def function(self) -> Callable[..., Any]:
    """Runs the text and returns its function, or its class, which is made of parameters and then constants."""
    names: dict[str, Any] = {}
    exec(compile(self.text, f"<{self.name}>", "exec"), names)
    found: Callable[..., Any] = names[self.name]
    return found


def to_source(
  fn: Callable[..., Any] | Split,
  *example_args: Any,
  style: Literal["jax", "nnx"] = "jax",
  name: str = "model",
  host: Literal["graftax"] | None = None,
  **example_kwargs: Any,
) -> Source:
  """Returns a JAX function as Python that imports only jax and numpy, and flax if modules are asked for.

  The function has the values and derivatives of `fn` for arguments with the shapes and dtypes of the examples. If the
  first argument is a dict, it holds parameters: the text nests them by its functions, see `Source.parameters`. A second
  result with the structure of the parameters is their new values; the text returns only those that it computes. Checks
  of the platform in lifted modules are left out.

  Args:
    fn: any function that JAX can trace, such as a converted function; or a split model, see `host`.
    *example_args: arrays, `jax.ShapeDtypeStruct`s or pytrees of them. Symbolic sizes stay open. For a split model they
      are the inputs of its head, without parameters. The head runs on them, on twice as many, and on the
      first and the last one alone; sizes that differ are open.
    style: "jax": functions of parameters and arrays; or "nnx": modules of flax.nnx. A module is made of parameters and
      called with the other arguments. Variables that are trained are `nnx.Param`s, and others `nnx.BatchStat`s if they
      are named as moving statistics, or `nnx.Variable`s. If `fn` returns new values of parameters, a call assigns them.
    name: of the function in the text. The class of a module has its words with capital letters.
    host: "graftax": write the numeric part of a split model, such as `SavedModel.split` returns, and a function `run`
      that calls `Source.host` before and after it. By default such models are refused, because `host` needs graftax.
    **example_kwargs: arguments that are passed by name.

  Raises:
    InputError: `name` cannot be the name of a function, `style` or `host` is unknown, or examples of a split model do
      not fit it.
    ConversionError: the numeric part of a split model takes something else than arrays of JAX.
    SourceError: `fn` is split and `host` is left out, or `fn` calls back to Python, runs what only graftax can run, is
      nested too deep, or has arguments or results that are not dicts, lists, tuples, None and arrays.

  Example:
    >>> import jax.numpy as jnp
    >>> print(to_source(lambda x: jnp.tanh(x) + 1, jnp.ones(3)).text)
    \"\"\"Written by graftax.\"\"\"
    <BLANKLINE>
    import jax.numpy as jnp
    <BLANKLINE>
    <BLANKLINE>
    def model(x):
        return jnp.tanh(x) + 1.0
    <BLANKLINE>
    >>> source = to_source(lambda p, x: x @ p["kernel"], {"kernel": jnp.ones((3, 2))}, jnp.ones(3), style="nnx")
    >>> print(source.text)
    \"\"\"Written by graftax.\"\"\"
    <BLANKLINE>
    import jax
    import jax.numpy as jnp
    from flax import nnx
    <BLANKLINE>
    <BLANKLINE>
    class Model(nnx.Module):
        def __init__(self, params):
            params = jax.tree.map(jnp.asarray, params)
            self.kernel = nnx.Param(params["kernel"])
    <BLANKLINE>
        def __call__(self, x):
            return x @ self.kernel
    <BLANKLINE>
  """
  if style not in ("jax", "nnx"):
    raise InputError(f"style={style!r}: expected 'jax' or 'nnx'")
  if host not in (None, "graftax"):
    raise InputError(f"host={host!r}: expected 'graftax' or None")
  is_module = style == "nnx"
  name = checked_name(name)
  name = class_name(name) if is_module else name
  try:
    if not isinstance(fn, Split):
      return _source(_Program(fn, example_args, example_kwargs), name, is_module)
    if host is None:
      raise host_error(fn)
    return _split_source(fn, example_args, example_kwargs, name, is_module)
  except RecursionError as e:
    raise SourceError(
      f"the program is nested deeper than Python's recursion limit of {sys.getrecursionlimit()} calls allows; "
      "sys.setrecursionlimit raises it."
    ) from e


def _split_source(split: Split, args: Sequence[Any], kwargs: Mapping[str, Any], name: str, is_module: bool) -> Source:
  """Returns the source of a split program. Sizes that cannot be open are those of the examples."""
  rng_name = split.head.inputs.free_name("rng")
  keys = {"rng": kwargs[rng_name]} if rng_name in kwargs else {}
  inputs = {key: value for key, value in kwargs.items() if key != rng_name or key in split.head.inputs.arguments}

  def source(open_sizes: OpenSizes) -> Source:
    parts = host_parts(split, examined_arrays(split, args, inputs, open_sizes=open_sizes))
    scope = export.SymbolicScope()
    specs = array_specs(parts.arrays, scope)
    program = _Program(numeric_part(split, parts, scope), [split.params, *specs], keys)
    return _source(program, name, is_module, parts)

  # Examples may have equal sizes by chance, so that they are one size only if the program needs it.
  choices: tuple[OpenSizes, ...] = ("each", "equal", "batch")
  for open_sizes in choices:
    with contextlib.suppress(InconclusiveDimensionOperation, GraftaxError, TypeError, ValueError, NotImplementedError):
      return source(open_sizes)
  return source("none")


def _source(program: "_Program", name: str, is_module: bool, host: HostParts | None = None) -> Source:
  """Returns the source, with functions of the scopes that are worth one."""
  dissolved: frozenset[tuple[str, ...]] = frozenset()
  recovery, speller = Recovery(), Speller()
  while True:
    block, constants = program.block()
    frozen = _named_constants(block, constants, program.has_parameters)
    count = num_equations(block)
    block = recovery.recover(block)
    name_roles(block)
    scopes: Scopes | None = None
    kinds: dict[tuple[str, ...], str] = {}
    if not is_module:
      scope_repeats(block)
    else:
      kinds = program.assign(block)
      scopes = ModuleScopes(block)
    function = grouped(block, name, dissolved, scopes)
    folded = Folded(speller, kinds)
    main = _main(program, function, folded, constants, is_module)
    join_variants(folded, main)
    small = _small(folded, main, scopes)
    if small <= dissolved:
      break
    dissolved |= small
  share = sum(parts for _, parts in recovery.found) / max(1, count)
  return _written(
    folded, main, constants, frozen, name, kinds if is_module else None, min(1.0, share), host, program.num_keys
  )


# A function that is called once is written where it is called, if it is this short.
_MIN_STATEMENTS = 6
# A function of one statement is written where it is called, unless the statement takes several lines.
_MIN_CHARACTERS = 88


def _small(folded: Folded, main: Printed, scopes: Scopes | None) -> frozenset[tuple[str, ...]]:
  """Returns the scopes of functions that are not worth one."""
  found: set[tuple[str, ...]] = set()
  if len(main.callees) == 1 and len(main.tree.body) <= 3:
    # The outermost scope is the program itself.
    found.update(f.names for f in main.callees if isinstance(f, Function))
  for i, printed in enumerate(folded.functions):
    length = sum(1 for node in ast.walk(printed.tree) if isinstance(node, ast.stmt)) - 1
    sites = len(folded.instances[i])
    if scopes is not None and printed.has_parameters and scopes.is_module(printed.names):
      continue
    is_line = length <= 1 and width(printed.tree.body[-1], 1) < _MIN_CHARACTERS
    if is_line or (sites == 1 and length < _MIN_STATEMENTS):
      found.update(f.names for f in folded.instances[i] if isinstance(f, Function))
  return frozenset(found)


class _Program:
  """A function with its arguments: what is a parameter, and where each array is in them."""

  def __init__(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    self._fn, self._args, self._kwargs = fn, args, kwargs
    self.num_keys = len(kwargs)
    self.has_parameters = bool(args) and isinstance(args[0], Mapping)
    specs = jax.tree.map(_spec, (tuple(args), dict(kwargs)))
    flat, self._structure = jax.tree_util.tree_flatten_with_path(specs)

    def call(leaves: Sequence[Any]) -> Any:
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

  def _shown_name(self, path: Sequence[Any]) -> str:
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

  def _structure_of(self, tree: Any) -> Any:
    return jax.tree.structure(tree)

  @property
  def _returns_parameters(self) -> bool:
    return (
      self.has_parameters
      and isinstance(self.results, tuple)
      and len(self.results) == 2
      and self._structure_of(self.results[1]) == self._structure_of(self._args[0])
    )

  def nested_results(self, trees: Sequence[ast.expr]) -> tuple[Any, dict[str, ast.expr]]:
    """Returns results with the structure that the function gives them, and the new values of parameters."""
    count = len(jax.tree.leaves(self.results))
    given = iter(trees)
    leaves = [_Leaf(ast.Constant(None)) if i in self.unchanged else _Leaf(next(given)) for i in range(count)]
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


def _spec(leaf: Any) -> jax.ShapeDtypeStruct:
  if isinstance(leaf, jax.ShapeDtypeStruct):
    return leaf
  if isinstance(leaf, jax.Array):
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
  array = np.asarray(leaf)
  if array.dtype.kind in "OSU":
    raise SourceError(f"an argument is {leaf!r}, and not an array; bind it with functools.partial first.")
  return jax.ShapeDtypeStruct(array.shape, jax.dtypes.canonicalize_dtype(array.dtype))


def _check_result(leaf: Any) -> None:
  """Raises a `SourceError` if a result is not an array of numbers."""
  if not isinstance(leaf, jax.Array | np.ndarray | np.generic | bool | int | float | complex):
    raise SourceError(f"a result is {leaf!r}, a {type(leaf).__name__}, and not an array; return arrays alone.")
  if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "OSUV" and not jnp.issubdtype(leaf.dtype, np.number):
    raise SourceError(f"a result has the dtype {leaf.dtype}, which JAX does not have; return arrays of numbers alone.")


def _trainable(fn: Callable[..., Any], parameters: Any) -> dict[tuple[str, ...], bool]:
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


def _named_constants(block: Block, constants: dict[Value, np.ndarray], has_parameters: bool) -> dict[str, np.ndarray]:
  """Names constants, and makes those of a program without parameters its parameters, if they are floats."""
  frozen: dict[str, np.ndarray] = {}
  for i, (value, array) in enumerate(constants.items()):
    value.name = "constant" if len(constants) == 1 else f"constant_{i}"
    if not has_parameters and jnp.issubdtype(array.dtype, np.inexact):
      value.parameter = (value.name,)
      frozen[value.name] = array
    block.inputs.append(value)
  return frozen


def _main(
  program: _Program,
  function: Function,
  folded: Folded,
  constants: Mapping[Value, np.ndarray],
  is_module: bool,
) -> Printed:
  """Returns the outermost function."""
  prelude: dict[Value, ast.expr] = {}
  hints: dict[str, str] = {}
  given = {name: marked("value", "argument", i) for i, name in enumerate(program.arguments)}
  hints.update({mark: name for name, mark in given.items()})
  for value, argument, keys in program.tensors():
    found: ast.expr = ast.Name(given[argument])
    for key in keys:
      found = ast.Subscript(found, ast.Constant(key))
    prelude[value] = found
  arguments = list(given.values())
  others = [value for value in constants if value.parameter is None]
  if others and not is_module:
    arguments.insert(0, "constants")
  for value in others:
    name = ast.Constant(value.name)
    prelude[value] = (
      ast.Name(marked("constant", value.name)) if is_module else ast.Subscript(ast.Name("constants"), name)
    )
  printed = folded.main(function, prelude, arguments)
  printed.hints.update(hints)
  _result(program, printed)
  return printed


def _result(program: _Program, printed: Printed) -> None:
  """Gives the results their structure."""
  last = printed.tree.body[-1]
  assert isinstance(last, ast.Return)
  count = len(jax.tree.leaves(program.results)) - len(program.unchanged)
  value = last.value or ast.Constant(None)
  flat = list(value.elts) if count > 1 and isinstance(value, ast.Tuple) else [value]
  results, updates = program.nested_results(flat[:count])
  last.value = _expression(results)
  if updates:
    new = ast.Dict([ast.Constant(path) for path in updates], list(updates.values()))
    last.value = ast.Tuple([last.value, new])


@dataclasses.dataclass(eq=False, slots=True)
class _Leaf:
  tree: ast.expr


def _expression(tree: Any) -> ast.expr:
  """Returns the expression of a result."""
  if isinstance(tree, _Leaf):
    return tree.tree
  if tree is None:
    return ast.Constant(None)
  if isinstance(tree, Mapping):
    return ast.Dict([ast.Constant(key) for key in tree], [_expression(value) for value in tree.values()])
  if isinstance(tree, list):
    return ast.List([_expression(value) for value in tree])
  if isinstance(tree, tuple):
    return ast.Tuple([_expression(value) for value in tree])
  raise SourceError(f"a result is a {type(tree).__name__}; return dicts, lists and tuples of arrays.")


def _written(
  folded: Folded,
  main: Printed,
  constants: Mapping[Value, np.ndarray],
  frozen: dict[str, np.ndarray],
  name: str,
  kinds: Mapping[tuple[str, ...], str] | None,
  recovered: float,
  host: HostParts | None,
  num_keys: int,
) -> Source:
  """Chooses names and lays out the module of Python.

  Args:
    folded: the functions.
    main: the outermost one.
    constants: arrays that are not in the text.
    frozen: those of them that are parameters.
    name: of the outermost function, or class.
    kinds: if functions with parameters are classes, the kind of each parameter.
    recovered: as in `Source`.
    host: as in `Source`.
    num_keys: how many arguments of a split program are random keys.
  """
  names = function_names(folded, name)
  find_keys = keys_of if kinds is None else module_keys
  keys = [find_keys(printed, folded, names) for printed in folded.functions]
  others = {value.name: array for value, array in constants.items() if value.parameter is None}
  written = list(names)
  if kinds is not None:
    for i, printed in enumerate(folded.functions):
      if printed.has_parameters:
        written[i] = unique(class_name(names[i]), [*names, *written[:i], name])
  functions: dict[str, ast.expr] = {marked("function", i): ast.Name(n) for i, n in enumerate(written)}
  definitions: list[ast.stmt] = []

  def define(
    printed: Printed, name: str, parameters: str, keys: tuple[list[tuple[str, ...]], list[tuple[str, ...]]]
  ) -> None:
    if kinds is None or not (printed.has_parameters or printed is main):
      expressions = {**functions, **_parameters(parameters, keys)}
      if printed.has_parameters:
        printed.tree.args.args.insert(0, ast.arg(parameters))
      definitions.extend(_definitions(printed, name, expressions, names, written, folded))
      return
    leaf_kinds = [kinds[leaf.parameter or ()] for leaf in printed.leaves]
    own_constants = others if printed is main else ()
    members = members_of(printed, keys, leaf_kinds, lambda sub: written[folded.index(sub)], own_constants)
    printed.tree = with_calls(printed.tree)
    tree, *rest = _definitions(printed, name, {**functions, **members.expressions()}, names, written, folded)
    assert isinstance(tree, ast.FunctionDef) and not rest
    definitions.append(as_class(tree, name, members, printed is main))

  for i, printed in enumerate(folded.functions):
    define(printed, written[i], "p", keys[i])
  own_keys = find_keys(main, folded, names)
  define(main, name, "params", own_keys)

  def tree(printed: Printed, instance: Printed) -> ParameterTree:
    """Returns the parameters of one function: keys are those of the text, and values those of this instance."""
    index = folded.functions.index(printed) if printed is not main else -1
    leaves, subs = keys[index] if printed is not main else own_keys
    out: dict[str, ParameterTree] = {}
    for key, leaf in zip(leaves, instance.leaves, strict=True):
      _put(out, key, leaf.parameter or (leaf.name,))
    for key, sub in zip(subs, instance.subs, strict=True):
      if isinstance(sub, Loop):
        _put(out, key, [tree(folded.resolve(f), folded.by_instance[id(f)]) for f in sub.functions])
      else:
        _put(out, key, tree(folded.resolve(sub), folded.by_instance[id(sub)]))
    return out

  run = ""
  if host is not None:
    run, calls = with_host_calls(definitions, name, host, num_keys)
    definitions += calls
  definitions = with_shorthand(definitions)
  # Helpers stand after those that they call.
  for helper in reversed(WRITTEN):
    if any(n.id == helper for d in definitions for n in ast.walk(d) if isinstance(n, ast.Name)):
      definitions = [helper_definition(helper), *definitions]
  text = laid_out(_imports(definitions), definitions, "Written by graftax.")
  return Source(text, name, tree(main, main), others, recovered, frozen, host, run)


def _parameters(name: str, keys: tuple[list[tuple[str, ...]], list[tuple[str, ...]]]) -> dict[str, ast.expr]:
  """Returns expressions of a function's parameters, and of those of its calls."""
  return {
    marked(kind, i): indexed(name, key)
    for kind, some in zip(("leaf", "sub"), keys, strict=True)
    for i, key in enumerate(some)
  }


def _definitions(
  printed: Printed,
  name: str,
  expressions: dict[str, ast.expr],
  names: Sequence[str],
  written: Sequence[str],
  folded: Folded,
) -> list[ast.stmt]:
  """Returns the definitions of a function with its names.

  Args:
    printed: the function.
    name: its name.
    expressions: of marks.
    names: of functions.
    written: the same, or the classes that are written instead.
    folded: the functions.
  """
  taken = [*written]
  for i, sub in enumerate(printed.subs):
    if isinstance(sub, Loop):
      item = names[folded.index(sub.functions[0])]
      item = item if item not in written else f"{item}_params"
      expressions[marked("item", i)] = ast.Name(item)
      taken.append(item)
  for mark, role in (("self", ""), ("self§jvp", "_jvp"), ("self§fwd", "_fwd"), ("self§bwd", "_bwd")):
    expressions[marked(mark)] = ast.Name(name + role)
  for node in (n for tree in [printed.tree, *printed.extras] for n in ast.walk(tree)):
    if isinstance(node, ast.keyword) and (node.arg or "").startswith(SETTING):
      node.arg = _setting_name(node.arg or "", names, written)
    found = node.id if isinstance(node, ast.Name) else node.arg if isinstance(node, ast.arg) else ""
    if found.startswith(marked("dim", "")):
      size = identifier(found.removeprefix(marked("dim", "")))
      expressions[found] = ast.Name(size)
      taken.append(size)
    elif found.startswith(SETTING):
      setting = _setting_name(found, names, written)
      expressions[found] = ast.Name(setting)
      taken.append(setting)
  trees: list[ast.stmt] = [printed.tree, *printed.extras]
  printed.tree.name = name
  for tree in trees:
    if isinstance(tree, ast.FunctionDef):
      for decorator in tree.decorator_list:
        named(ast.Expr(decorator), {}, expressions, [])
      if tree.name in expressions:
        found_name = expressions[tree.name]
        assert isinstance(found_name, ast.Name)
        tree.name = found_name.id
    named(tree, printed.hints, expressions, taken)
  return trees


def _setting_name(mark: str, names: Sequence[str], written: Sequence[str]) -> str:
  """Returns the name of an argument that is a setting: the same in all functions, and that of none."""
  return unique(mark.removeprefix(SETTING), [*names, *written])


def _put(tree: dict[str, ParameterTree], key: Sequence[str], value: ParameterTree) -> None:
  for part in key[:-1]:
    inner = tree.setdefault(part, {})
    assert isinstance(inner, dict)
    tree = inner
  tree[key[-1]] = value


_IMPORTS = {
  "jax": "import jax",
  "jnp": "import jax.numpy as jnp",
  "np": "import numpy as np",
  "nnx": "from flax import nnx",
  "lax": "from jax import lax",
  "primitives": "from jax.extend.core import primitives",
}


def _imports(definitions: Sequence[ast.stmt]) -> str:
  read = {n.id for d in definitions for n in ast.walk(d) if isinstance(n, ast.Name)}
  text = "\n".join(line for name, line in _IMPORTS.items() if name in read)
  return re.sub(r"\n{3,}", "\n\n", text)
