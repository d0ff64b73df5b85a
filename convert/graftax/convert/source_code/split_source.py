"""Split programs: the numeric part as source, with calls of graftax around it."""

import ast
import inspect
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import export

from graftax.convert.errors import InputError
from graftax.convert.host_split.carriers import KnownArray
from graftax.convert.host_split.host_arrays import HostArray
from graftax.convert.host_split.host_calls import HostParts, host_nodes
from graftax.convert.host_split.split import Split
from graftax.convert.pytrees import Leaf
from graftax.convert.source_code.errors import SourceError
from graftax.convert.source_code.naming import unique
from graftax.convert.source_code.program import Dim
from graftax.ops_jax import Value

__all__ = ["array_specs", "host_error", "numeric_part", "with_host_calls"]

_HELD = ("params", "constants")
# Of the function that calls graftax.
_VARIABLES = ("host", "module", "arrays", "rest", "results", "new", "inputs", "args")
# Ops of each part that a message names.
_MOST_OPS = 5
_JAX = """
def {run}({arguments}):
    arrays, rest = host.head({inputs})
    {results} = jax.jit({name})({held}*arrays{others})
    return {returned}
"""
_NNX = """
@nnx.jit
def {compiled}(module, *arrays):
    return module(*arrays)


def {run}({arguments}):
    arrays, rest = host.head({inputs})
    return host.tail({compiled}(module, *arrays{others}), rest)
"""


def host_error(split: Split) -> SourceError:
  """Returns the error of a split program without `host="graftax"`."""
  lines: list[str] = []
  for part, nodes in host_nodes(split.head.function, split.tail.function).items():
    counts = Counter(node.op for node in nodes)
    for op, count in list(counts.items())[:_MOST_OPS]:
      lines.append(f"\n  {part}: {op} x{count}: {next(node.name for node in nodes if node.op == op)!r}")
    if len(counts) > _MOST_OPS:
      lines.append(f"\n  {part}: {len(counts) - _MOST_OPS} other ops")
  listed = "".join(lines) or "\n  head: computes sizes of arrays"
  return SourceError(
    f"{split.head.name}: a part of the model runs on the host, which is not source of JAX:{listed}\n"
    "host='graftax' (of the command, --host graftax) writes the rest, and calls of graftax for these parts. What is "
    "written then needs graftax wherever it takes or returns strings."
  )


def array_specs(arrays: Sequence[HostArray], scope: export.SymbolicScope) -> list[jax.ShapeDtypeStruct]:
  """Returns shapes and dtypes of the arguments of the numeric part; open sizes are symbols."""
  return [
    jax.ShapeDtypeStruct(_symbolic(array.shape, scope), np.dtype(array.dtype))
    for array in arrays
    if array.value is None
  ]


def _symbolic(sizes: Sequence[int | str], scope: export.SymbolicScope) -> tuple[Dim, ...]:
  dims: Sequence[Any] = export.symbolic_shape(", ".join(map(str, sizes)), scope=scope)  # of a private class
  return tuple(dims)


def numeric_part(split: Split, parts: HostParts, scope: export.SymbolicScope) -> Callable[..., Any]:
  """Returns the numeric part as a function of parameters and arrays, with named results and new parameters."""

  def function(
    params: Mapping[str, Value], *tensors: Leaf, rng: Leaf = None
  ) -> tuple[dict[str, Leaf], dict[str, Value]]:
    given = iter(tensors)
    values = [next(given) if array.value is None else _known(array, scope) for array in parts.arrays]
    results, new_params = split.body(params, *values, rng=rng)
    return dict(zip(parts.results, results, strict=True)), new_params

  kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
  names = [array.name for array in parts.arrays if array.value is None]
  names = [unique("params_", names), *names]
  signature = inspect.Signature([inspect.Parameter(name, kind) for name in names])
  function.__signature__ = signature  # type: ignore[attr-defined]  # inspect reads it
  return function


def _known(array: HostArray, scope: export.SymbolicScope) -> KnownArray:
  """Returns a value on which shapes depend, with open sizes as symbols."""
  is_open = any(isinstance(size, str) for size in array.value or ())
  values = np.array(_symbolic(array.value or (), scope), object if is_open else array.dtype)
  return KnownArray(values.reshape([size for size in array.shape if isinstance(size, int)]))


def with_host_calls(
  definitions: Sequence[ast.stmt], name: str, parts: HostParts, num_keys: int
) -> tuple[str, list[ast.stmt]]:
  """Returns the name and the definition of the function that calls graftax before and after the numeric part.

  Args:
    definitions: those of the numeric part.
    name: of its function or class.
    parts: the parts for the host.
    num_keys: how many random keys it takes after the arrays.

  Raises:
    InputError: the function has the name of a variable of the one that calls it.
    SourceError: it takes sizes that no array has.
  """
  if name in _VARIABLES:
    raise InputError(f"name={name!r}: a variable of the function that calls it has this name; choose another.")
  taken = [d.name for d in definitions if isinstance(d, ast.FunctionDef | ast.ClassDef)]
  run = unique("run", taken)
  main = next(d for d in definitions if isinstance(d, ast.FunctionDef | ast.ClassDef) and d.name == name)
  is_class = isinstance(main, ast.ClassDef)
  function = main if isinstance(main, ast.FunctionDef) else _call(main)
  names = [argument.arg for argument in function.args.args]
  held = [argument for argument in names if argument in _HELD] if not is_class else []
  num_arrays = sum(array.value is None for array in parts.arrays)
  rest = names[len(held) + is_class + num_arrays :]
  if len(rest) > num_keys:
    raise SourceError(f"{parts.before.name}: sizes that no array has are arguments of the numeric part: {rest}.")
  compiled = unique("compiled", [*taken, run])
  own = [*held, *rest, *_VARIABLES, "jax", "nnx", run, compiled, name]
  inputs, passed = _inputs(parts, own)
  others = "".join(f", {key}" for key in rest)
  if is_class:
    text = _NNX.format(
      run=run,
      compiled=compiled,
      arguments=", ".join(["module", "host", *rest, inputs]),
      inputs=passed,
      others=others,
    )
  else:
    returns = function.body[-1]
    has_state = isinstance(returns, ast.Return) and isinstance(returns.value, ast.Tuple)
    text = _JAX.format(
      run=run,
      name=name,
      arguments=", ".join([*held, "host", *rest, inputs]),
      inputs=passed,
      results="results, new" if has_state else "results",
      held="".join(f"{argument}, " for argument in held),
      others=others,
      returned="host.tail(results, rest), new" if has_state else "host.tail(results, rest)",
    )
  return run, ast.parse(text).body


def _call(definition: ast.ClassDef) -> ast.FunctionDef:
  return next(d for d in definition.body if isinstance(d, ast.FunctionDef) and d.name == "__call__")


def _inputs(parts: HostParts, taken: Sequence[str]) -> tuple[str, str]:
  """Returns the inputs as a function names them in its signature, and as it passes them on."""
  parameters = parts.before.inputs.signature.parameters.values()
  names = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
  if len(names) == len(parameters) and not set(names) & set(taken) and all(map(_is_read_as_written, names)):
    return "*, " + ", ".join(names), ", ".join(f"{name}={name}" for name in names)
  return "*args, **inputs", "*args, **inputs"


def _is_read_as_written(name: str) -> bool:
  """Returns whether Python takes a name in its text for this very name; it reads other letters in the form NFKC."""
  return name == unicodedata.normalize("NFKC", name) and name != "__debug__"
