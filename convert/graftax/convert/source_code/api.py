"""`to_source`: a JAX function as a module of Python."""

import ast
import contextlib
import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from jax import export
from jax.extend.core import InconclusiveDimensionOperation

from graftax.convert.errors import InputError
from graftax.convert.host_split.host_arrays import OpenSizes, examined_arrays
from graftax.convert.host_split.host_calls import HostParts, host_parts
from graftax.convert.host_split.split import Split
from graftax.convert.pytrees import PyTree
from graftax.convert.source_code.errors import SourceError
from graftax.convert.source_code.folding import Folded
from graftax.convert.source_code.grouping import Scopes, WrittenFunction, grouped
from graftax.convert.source_code.idioms.rewriting import Recovery
from graftax.convert.source_code.naming import checked_name
from graftax.convert.source_code.nnx.classes import class_name
from graftax.convert.source_code.nnx.scopes import ModuleScopes
from graftax.convert.source_code.outermost import outermost
from graftax.convert.source_code.printing import Printed, width
from graftax.convert.source_code.program import num_equations
from graftax.convert.source_code.repeats import scope_repeats
from graftax.convert.source_code.roles import name_roles
from graftax.convert.source_code.spelling.choosing import Speller
from graftax.convert.source_code.split_source import array_specs, host_error, numeric_part
from graftax.convert.source_code.traced_program import TracedProgram, named_constants
from graftax.convert.source_code.variants import join_variants
from graftax.convert.source_code.writing import ParameterTree, write_module
from graftax.graphdef_ir import GraftaxError
from graftax.ops_jax import Value

__all__ = ["Source", "to_source"]


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

  def parameters(self, values: Mapping[str, Value] | None = None) -> PyTree:
    """Returns parameters for the function in the text, or for the class.

    Args:
      values: those of the original function. It may be left out if that has none.
    """

    def nested(tree: ParameterTree) -> PyTree:
      if isinstance(tree, dict):
        return {key: nested(inner) for key, inner in tree.items()}
      if isinstance(tree, list):
        return [nested(inner) for inner in tree]
      if tree[0] in self._frozen:
        return self._frozen[tree[0]]
      found: PyTree = values
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
  *example_args: PyTree,
  style: Literal["jax", "nnx"] = "jax",
  name: str = "model",
  host: Literal["graftax"] | None = None,
  **example_kwargs: PyTree,
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
      return _source(TracedProgram(fn, example_args, example_kwargs), name, is_module)
    if host is None:
      raise host_error(fn)
    return _split_source(fn, example_args, example_kwargs, name, is_module)
  except RecursionError as e:
    raise SourceError(
      f"the program is nested deeper than Python's recursion limit of {sys.getrecursionlimit()} calls allows; "
      "sys.setrecursionlimit raises it."
    ) from e


def _split_source(
  split: Split, args: Sequence[PyTree], kwargs: Mapping[str, PyTree], name: str, is_module: bool
) -> Source:
  """Returns the source of a split program. Sizes that cannot be open are those of the examples."""
  rng_name = split.head.inputs.free_name("rng")
  keys = {"rng": kwargs[rng_name]} if rng_name in kwargs else {}
  inputs = {key: value for key, value in kwargs.items() if key != rng_name or key in split.head.inputs.arguments}

  def source(open_sizes: OpenSizes) -> Source:
    parts = host_parts(split, examined_arrays(split, args, inputs, open_sizes=open_sizes))
    scope = export.SymbolicScope()
    specs = array_specs(parts.arrays, scope)
    program = TracedProgram(numeric_part(split, parts, scope), [split.params, *specs], keys)
    return _source(program, name, is_module, parts)

  # Examples may have equal sizes by chance, so that they are one size only if the program needs it.
  choices: tuple[OpenSizes, ...] = ("each", "equal", "batch")
  for open_sizes in choices:
    with contextlib.suppress(InconclusiveDimensionOperation, GraftaxError, TypeError, ValueError, NotImplementedError):
      return source(open_sizes)
  return source("none")


def _source(program: TracedProgram, name: str, is_module: bool, host: HostParts | None = None) -> Source:
  """Returns the source, with functions of the scopes that are worth one."""
  dissolved: frozenset[tuple[str, ...]] = frozenset()
  recovery, speller = Recovery(), Speller()
  while True:
    block, constants = program.block()
    frozen = named_constants(block, constants, program.has_parameters)
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
    main = outermost(program, function, folded, constants, is_module)
    join_variants(folded, main)
    small = _small(folded, main, scopes)
    if small <= dissolved:
      break
    dissolved |= small
  others = {value.name: array for value, array in constants.items() if value.parameter is None}
  text, tree, run = write_module(folded, main, list(others), name, kinds if is_module else None, host, program.num_keys)
  share = sum(parts for _, parts in recovery.found) / max(1, count)
  return Source(text, name, tree, others, min(1.0, share), frozen, host, run)


# A function that is called once is written where it is called, if it is this short.
_MIN_STATEMENTS = 6
# A function of one statement is written where it is called, unless the statement takes several lines.
_MIN_CHARACTERS = 88


def _small(folded: Folded, main: Printed, scopes: Scopes | None) -> frozenset[tuple[str, ...]]:
  """Returns the scopes of functions that are not worth one."""
  found: set[tuple[str, ...]] = set()
  if len(main.callees) == 1 and len(main.tree.body) <= 3:
    # The outermost scope is the program itself.
    found.update(f.names for f in main.callees if isinstance(f, WrittenFunction))
  for i, printed in enumerate(folded.functions):
    length = sum(1 for node in ast.walk(printed.tree) if isinstance(node, ast.stmt)) - 1
    sites = len(folded.instances[i])
    if scopes is not None and printed.has_parameters and scopes.is_module(printed.names):
      continue
    is_line = length <= 1 and width(printed.tree.body[-1], 1) < _MIN_CHARACTERS
    if is_line or (sites == 1 and length < _MIN_STATEMENTS):
      found.update(f.names for f in folded.instances[i] if isinstance(f, WrittenFunction))
  return frozenset(found)
