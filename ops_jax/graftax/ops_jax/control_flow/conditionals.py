"""Conditionals on `jax.lax.switch`: If, Case.

If the condition is known while tracing, only that branch is evaluated. State that a branch writes is a result of the
switch. State that it only reads is closed over, as are known values, so shapes stay known inside.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.graphdef_ir import FunctionRef
from graftax.ops_jax._core.context import Context, PureFunction, ResourceHandle
from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.precision import float_dtype, promoted_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Value
from graftax.ops_jax.bounded.forms import Form, form_of, in_form, joined_form
from graftax.ops_jax.bounded.values import is_bounded
from graftax.ops_jax.control_flow.operands import as_operand, truth
from graftax.ops_jax.int64_pairs.pairs import Int64Pair, as_int64_pair
from graftax.ops_jax.variants.structures import conformed, is_variant, joined, shapes_of

__all__ = ["case", "if_", "xla_if"]

_BRANCH_ATTRS = ("Tcond", "Tin", "Tout", "output_shapes")


@register("If", "StatelessIf", ignores=_BRANCH_ATTRS, int64_pairs="accept")
def if_(
  ctx: Context, cond: Array, input: list[Array], *, then_branch: FunctionRef, else_branch: FunctionRef
) -> tuple[Value, ...]:
  """Calls one of two functions.

  Source op: `tf.raw_ops.If`.

  Args:
    ctx: the program that contains the node.
    cond: a scalar is true if it is not zero; any other array is true if it is not empty.
    input: arguments of both functions.
    then_branch: called if `cond` is true.
    else_branch: called otherwise.

  Returns:
    The results, whose shapes and dtypes must agree between the branches.

  Raises:
    InvalidInputError: the branches return different shapes or dtypes, and the condition is traced.
  """
  condition = truth(cond)
  if not isinstance(condition, jax.core.Tracer):
    return ctx.call(then_branch if bool(condition) else else_branch, input)
  return _Switch(ctx, (else_branch, then_branch), input).run(condition.astype(np.int32))


@register("XlaIf", ignores=("Tcond", "Tin", "Tout"), int64_pairs="accept")
def xla_if(
  ctx: Context, cond: Array, inputs: list[Array], *, then_branch: FunctionRef, else_branch: FunctionRef
) -> tuple[Value, ...]:
  """Calls one of two functions, like `If`.

  Source op: `XlaIf` (tf2xla).
  """
  return if_(ctx, cond, inputs, then_branch=then_branch, else_branch=else_branch)


@register("Case", "StatelessCase", ignores=("Tin", "Tout", "output_shapes"), int64_pairs="accept")
def case(
  ctx: Context, branch_index: Array, input: list[Array], *, branches: tuple[FunctionRef, ...]
) -> tuple[Value, ...]:
  """Calls the function at `branch_index`.

  Source op: `tf.raw_ops.Case`.

  Args:
    ctx: the program that contains the node.
    branch_index: int32 scalar. If it is out of range (also if negative), the last branch is called.
    input: arguments of every function.
    branches: the functions.

  Returns:
    The results, whose shapes and dtypes must agree between the branches.
  """
  last = len(branches) - 1
  if not isinstance(branch_index, jax.core.Tracer):
    index = int(branch_index)
    return ctx.call(branches[index if 0 <= index <= last else last], input)
  # `lax.switch` clamps, so it would call the first branch for a negative index.
  return _Switch(ctx, branches, input).run(jnp.where(branch_index < 0, last, branch_index))


class _Switch:
  """The branches of a conditional, and the common form of their results.

  Attributes:
    statics: for each branch that was traced, its results that are not arrays, by position.
    structures: joined structures of results that are lists or optionals, by position.
    int64_pairs: results and variables that some branch returns as `Int64Pair`, with their dtypes.
    floats: the highest precision among the branches.
    forms: for each array result, the form that holds it in every branch that was traced.
    raised_inside: TypeErrors that nodes of the branches raised; they say nothing about the branches' results.
  """

  def __init__(self, ctx: Context, branches: Sequence[FunctionRef], args: Sequence[Value]):
    self.ctx, self.branches, self.args = ctx, branches, args
    self.pures = [ctx.pure(branch, args) for branch in branches]
    self.written = tuple(dict.fromkeys(handle for pure in self.pures for handle in pure.written))
    self.state = {handle: as_operand(ctx.read(handle)) for handle in self.written}
    self.key = ctx.rng() if ctx.key is not None else None
    self.statics: list[dict[int, Value]] = []
    self.structures: dict[int, Any] = {}
    self.int64_pairs: dict[Any, np.dtype] = {}
    self.floats: dict[Any, np.dtype] = {}
    self.forms: dict[Any, Form] = {}
    self.raised_inside: list[TypeError] = []

  def run(self, index: Array) -> tuple[Value, ...]:
    """Returns the results of the branch at `index`, which is in range, and assigns the variables that it writes."""
    try:
      operands, new_state = self._traced_alike(index)
    except TypeError as e:
      if self._is_from_inside(e):
        raise
      raise InvalidInputError(
        f"{self._where()}: branches {self._names()!r} return results of different shapes or dtypes, and which one runs "
        f"depends on traced data: {e}"
      ) from e
    for handle, value in zip(self.written, new_state, strict=True):
      self.ctx.write(handle, value)
    return self._merged(operands)

  def _traced_alike(self, index: Array) -> tuple[list[Value], list[Value]]:
    try:
      return self._traced(index)
    except TypeError as e:
      is_bounded_now = any(any(form.is_traced) for form in self.forms.values())
      may_agree_now = bool(self.structures or self.int64_pairs or self.floats or is_bounded_now)
      if self._is_from_inside(e) or not may_agree_now:
        raise
    # The contents of lists and optionals that the first branches leave empty, and all types, are known now.
    self.statics.clear()
    return self._traced(index)

  def _is_from_inside(self, error: TypeError) -> bool:
    return any(error is raised for raised in self.raised_inside)

  def _traced(self, index: Array) -> tuple[list[Value], list[Value]]:
    # New functions each time, because JAX caches traces by function.
    found: tuple[list[Value], list[Value]] = jax.lax.switch(index, [self._function(pure) for pure in self.pures])
    return found

  def _function(self, pure: PureFunction) -> Callable[[], tuple[list[Value], list[Value]]]:
    def run() -> tuple[list[Value], list[Value]]:
      try:
        found, new_values = pure.apply([self.state[handle] for handle in pure.written], self.args, self.key)
      except TypeError as e:
        self.raised_inside.append(e)
        raise
      results = self._in_common_structure(found)
      after = {**self.state, **dict(zip(pure.written, new_values, strict=True))}
      self.statics.append({i: value for i, value in enumerate(results) if isinstance(value, ResourceHandle)})
      operands = [self._operand(x, i) for i, x in enumerate(results) if not isinstance(x, ResourceHandle)]
      return operands, [self._operand(after[handle], handle) for handle in self.written]

    return run

  def _operand(self, value: Value, where: int | ResourceHandle) -> Value:
    """Returns the value as an `Int64Pair` if another branch returns one, and in the highest precision of any branch."""
    if isinstance(value, Int64Pair):
      self.int64_pairs[where] = value.dtype
    if where in self.int64_pairs:
      return as_int64_pair(value, self.int64_pairs[where])
    value = as_operand(self._in_common_form(value, where))
    dtype = float_dtype(value)
    if dtype is None:
      return value
    self.floats[where] = promoted_dtype(dtype, self.floats.get(where, dtype))
    return value.astype(self.floats[where])

  def _in_common_form(self, value: Value, where: int | ResourceHandle) -> Value:
    """Returns an array with a bounded size if another branch returns one, or one of another size."""
    if not is_bounded(value) and (isinstance(where, ResourceHandle) or not isinstance(value, Array)):
      return value
    own = form_of(value)
    form = joined_form(self.forms.get(where, own), own)
    if form is None:
      return value
    self.forms[where] = form
    return in_form(value, form) if any(form.is_traced) else value

  def _in_common_structure(self, results: Sequence[Value]) -> list[Value]:
    """Returns a branch's results with lists and optionals in the common structure, which it extends."""
    full = list(results)
    for position, value in enumerate(results):
      if is_variant(value) or position in self.structures:
        own = shapes_of(value)
        known = self.structures.get(position)
        self.structures[position] = own if known is None else joined(known, own)
        full[position] = conformed(value, self.structures[position])
    return full

  def _merged(self, operands: list[Value]) -> tuple[Value, ...]:
    """Merges array results and static results back into their original order."""
    first, *others = self.statics
    if any(other != first for other in others):
      raise InvalidInputError(
        f"{self._where()}: branches {self._names()!r} return different resources; which one is used must not depend on "
        f"traced data."
      )
    merged = iter(operands)
    return tuple(first[i] if i in first else next(merged) for i in range(len(operands) + len(first)))

  def _where(self) -> str:
    return f"{self.ctx.node_name!r} (function {self.ctx.function_name!r})"

  def _names(self) -> list[str]:
    return [branch.name for branch in self.branches]
