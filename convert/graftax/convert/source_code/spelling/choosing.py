"""Takes the first spelling of an operation whose own program is the operation."""

import ast
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.export import is_symbolic_dim
from jax.extend.core import primitives

from graftax.convert.source_code import spelling
from graftax.convert.source_code.comparing import same_block
from graftax.convert.source_code.errors import SourceError
from graftax.convert.source_code.program import Block, Dim, Equation, Literal, Value
from graftax.convert.source_code.reading import read
from graftax.convert.source_code.spelling.registry import proposals
from graftax.convert.source_code.spelling.texts import array_text, dim_names, number_text

__all__ = ["Speller", "dims_of", "namespace", "traced"]

_ = spelling  # the modules of the room register their spellings


def namespace() -> dict[str, object]:
  """Returns the names that texts may use."""
  return {"jax": jax, "jnp": jnp, "lax": lax, "np": np, "primitives": primitives}


def traced(function: Callable[..., object], inputs: list[Value]) -> Block:
  """Returns a function of arrays as a block in normal form."""
  specs = [jax.ShapeDtypeStruct(value.shape, value.dtype) for value in inputs]
  values = [Value(value.shape, value.dtype) for value in inputs]
  with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    closed = jax.make_jaxpr(function)(*specs)
  block, constants = read(closed, values)
  if constants:
    raise ValueError("the program has large constants")
  return block


class Speller:
  """Chooses spellings; equal operations are traced once."""

  def __init__(self) -> None:
    self._found: dict[tuple[object, ...], str] = {}

  def spell(self, equation: Equation) -> ast.expr:
    """Returns an expression of an operation, in which `_i` is operand i; literals are written out.

    Raises:
      SourceError: JAX's public functions do not have the operation.
    """
    if equation.op == "idiom":
      return ast.parse(_with_literals(equation.settings["text"], equation, bare=False), mode="eval").body
    key = _key(equation)
    if key not in self._found:
      self._found[key] = _chosen(equation)
    return ast.parse(self._found[key], mode="eval").body


def _key(equation: Equation) -> tuple[object, ...]:
  operands = tuple(
    ("literal", o.array.dtype.name, o.shape, o.array.tobytes())
    if isinstance(o, Literal)
    else (str(o.dtype), str(o.shape))
    for o in equation.inputs
  )
  same = tuple(equation.inputs.index(o) for o in equation.inputs)
  results = tuple((str(o.dtype), str(o.shape)) for o in equation.outputs)
  return equation.op, repr(sorted(equation.settings.items(), key=lambda item: item[0])), operands, same, results


def _chosen(equation: Equation) -> str:
  inputs = list(dict.fromkeys(o for o in equation.inputs if isinstance(o, Value)))
  wanted = Block(inputs, [equation], list(equation.outputs))
  last: Exception | None = None
  for proposal in proposals(equation):
    for bare in (True, False):
      if not bare and not any(isinstance(o, Literal) for o in equation.inputs):
        break
      try:
        text = _with_literals(proposal, equation, bare)
        if same_block(traced(_function(text, equation, inputs), inputs), wanted):
          return text
      except SourceError:
        raise
      except Exception as error:  # A proposal may be anything that Python or JAX refuses.
        last = error
  scope = "/".join(equation.scope)
  raise SourceError(
    f"{equation.op} in scope {scope!r} has no form in JAX's public functions that is the same program"
    + (f"; the last form that was tried failed: {last}" if last else "")
  )


def _with_literals(proposal: str, equation: Equation, bare: bool) -> str:
  tree = ast.parse(proposal, mode="eval")
  literals = {
    f"_{i}": number_text(o.array[()], o.dtype) if bare and o.shape == () else array_text(o)
    for i, o in enumerate(equation.inputs)
    if isinstance(o, Literal)
  }
  return ast.unparse(_Substitution({n: ast.parse(t, mode="eval").body for n, t in literals.items()}).visit(tree))


class _Substitution(ast.NodeTransformer):
  def __init__(self, expressions: dict[str, ast.expr]) -> None:
    self._expressions = expressions

  def visit_Name(self, node: ast.Name) -> ast.expr:
    return self._expressions.get(node.id, node)


def _function(text: str, equation: Equation, inputs: list[Value]) -> Callable[..., object]:
  with warnings.catch_warnings():
    # Of a proposal that indexes a number, which fails below.
    warnings.simplefilter("ignore", SyntaxWarning)
    code = compile(text, "<spelling>", "eval")
  known = {**namespace(), **dims_of(equation)}

  def function(*arrays: jax.Array) -> object:
    given = dict(zip(inputs, arrays, strict=True))
    operands = {f"_{i}": given[o] for i, o in enumerate(equation.inputs) if isinstance(o, Value)}
    result = eval(code, {**known, **operands})
    if len(equation.outputs) > 1:
      return tuple(result)
    if isinstance(result, list | tuple):
      raise TypeError("the result is in a tuple")
    return result

  return function


def dims_of(equation: Equation) -> dict[str, Dim]:
  """Returns the symbolic dimensions that a text may name."""
  shapes = [o.shape for o in [*equation.inputs, *equation.outputs]]
  found: dict[str, Dim] = {}
  sizes: list[Any] = [*(size for shape in shapes for size in shape), equation.settings.get("dim")]
  for size in filter(is_symbolic_dim, sizes):
    for name in dim_names(size):
      dims: Sequence[Any] = jax.export.symbolic_shape(name, scope=size.scope)  # of a private class
      found.setdefault(name, dims[0])
  return found
