"""Calls, conditionals and loops: TensorFlow's functional control flow on `jax.lax`'s.

State that a branch or a loop body writes is an operand and a result of the JAX construct; what it only reads, and every
known value, is closed over, so that shapes stay known inside.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import checkify

from graftax.graphdef_ir import DType, FunctionRef
from graftax.ops_jax.context import Context, CountedLoop, PureFunction, ResourceHandle
from graftax.ops_jax.errors import InvalidInputError, ShapeChangeError, UnsupportedOpError
from graftax.ops_jax.known import to_dtype
from graftax.ops_jax.loop_lists import LoopLists, fit_lists
from graftax.ops_jax.numeric import invalid
from graftax.ops_jax.precision import float_dtype, promoted_dtype
from graftax.ops_jax.registry import register
from graftax.ops_jax.values import Array, Value, is_known, materialize
from graftax.ops_jax.variants import conformed, is_variant, joined, shapes_of
from graftax.ops_jax.wide import WideInts, exact, widened

__all__ = ["call", "case", "for_loop", "if_", "symbolic_gradient", "while_", "xla_if"]

_CALL_ATTRS = ("Tin", "Tout", "config", "config_proto", "executor_type")
_BRANCH_ATTRS = ("Tcond", "Tin", "Tout", "output_shapes")


@register("PartitionedCall", "StatefulPartitionedCall", ignores=_CALL_ATTRS, words="also")
def call(ctx: Context, args: list[Array], *, f: FunctionRef) -> tuple[Value, ...]:
  """The results of a library function.

  Source op: `tf.raw_ops.PartitionedCall`.
  """
  return ctx.call(f, args)


@register("SymbolicGradient", ignores=("Tin",))
def symbolic_gradient(
  ctx: Context, input: list[Array], *, f: FunctionRef, Tout: tuple[DType, ...]
) -> tuple[Value, ...]:
  """The derivative of a library function with respect to its arguments.

  Source op: `tf.raw_ops.SymbolicGradient`.

  Args:
    ctx: the program around the node.
    input: the arguments of `f`, then a cotangent for each of its results.
    f: the function.
    Tout: dtypes of the arguments.

  Returns:
    One per argument, of its shape and dtype; zeros for integers.
  """
  args = [jnp.asarray(materialize(x)) for x in input[: len(Tout)]]
  cotangents = [jnp.asarray(materialize(x)) for x in input[len(Tout) :]]
  pure = ctx.pure(f, args)
  state = [ctx.read(handle) for handle in pure.written]
  wanted = [i for i, x in enumerate(args) if jnp.issubdtype(x.dtype, jnp.inexact)]

  def function(*values: Array) -> list[Array]:
    filled = list(args)
    for i, value in zip(wanted, values, strict=True):
      filled[i] = value
    results, _ = pure.apply(state, filled, ctx.key)
    return [y for y in map(jnp.asarray, results) if jnp.issubdtype(y.dtype, jnp.inexact)]

  _, pull = jax.vjp(function, *[args[i] for i in wanted])
  # TensorFlow's gradient of a complex function is the conjugate of JAX's.
  pulled = pull([jnp.conj(c) for c in cotangents if jnp.issubdtype(c.dtype, jnp.inexact)])
  gradients: list[Value] = [jnp.zeros_like(x) for x in args]
  for i, gradient in zip(wanted, pulled, strict=True):
    gradients[i] = jnp.conj(gradient)
  return tuple(gradients)


@register("If", "StatelessIf", ignores=_BRANCH_ATTRS, words="also")
def if_(
  ctx: Context, cond: Array, input: list[Array], *, then_branch: FunctionRef, else_branch: FunctionRef
) -> tuple[Value, ...]:
  """The results of one of two functions.

  Source op: `tf.raw_ops.If`.

  Args:
    ctx: the program around the node.
    cond: a scalar is true when it is not zero; any other shape is true when it has elements.
    input: arguments of both functions.
    then_branch: called when `cond` is true.
    else_branch: called otherwise.

  Returns:
    The results, whose shapes and dtypes must agree between the branches.

  Raises:
    InvalidInputError: the branches give different shapes or dtypes, which only a known condition allows.
  """
  truth = _truth(cond)
  if not isinstance(truth, jax.core.Tracer):
    return ctx.call(then_branch if bool(truth) else else_branch, input)
  return _switch(ctx, truth.astype(np.int32), (else_branch, then_branch), input)


@register("XlaIf", ignores=("Tcond", "Tin", "Tout"), words="also")
def xla_if(
  ctx: Context, cond: Array, inputs: list[Array], *, then_branch: FunctionRef, else_branch: FunctionRef
) -> tuple[Value, ...]:
  """The results of one of two functions, as of `If`.

  Source op: `XlaIf` (tf2xla).
  """
  return if_(ctx, cond, inputs, then_branch=then_branch, else_branch=else_branch)


@register("Case", "StatelessCase", ignores=("Tin", "Tout", "output_shapes"), words="also")
def case(
  ctx: Context, branch_index: Array, input: list[Array], *, branches: tuple[FunctionRef, ...]
) -> tuple[Value, ...]:
  """The results of the function at `branch_index`.

  Source op: `tf.raw_ops.Case`.

  Args:
    ctx: the program around the node.
    branch_index: int32 scalar; out of range, negative too, means the last branch.
    input: arguments of every function.
    branches: the functions.

  Returns:
    The results, whose shapes and dtypes must agree between the branches.
  """
  last = len(branches) - 1
  if not isinstance(branch_index, jax.core.Tracer):
    index = int(branch_index)
    return ctx.call(branches[index if 0 <= index <= last else last], input)
  # `lax.switch` clamps, which would send a negative index to the first branch.
  return _switch(ctx, jnp.where(branch_index < 0, last, branch_index), branches, input)


@register("While", "StatelessWhile", "XlaWhile", ignores=("T", "output_shapes", "parallel_iterations"), words="also")
def while_(ctx: Context, input: list[Array], *, cond: FunctionRef, body: FunctionRef) -> tuple[Value, ...]:
  """The loop variables after `while cond(vars): vars = body(vars)`.

  Source op: `tf.raw_ops.While`.

  Args:
    ctx: the program around the node.
    input: initial loop variables; each keeps its dtype.
    cond: from loop variables to a scalar.
    body: from loop variables to loop variables.

  Returns:
    The loop variables after the last iteration.

  Raises:
    ShapeChangeError: a loop variable changes its shape, and how often the loop runs depends on data.

  A loop whose trip count is known while tracing is a `jax.lax.scan`, or one iteration after the other where arrays
  change their shapes. A scan, too, is one with a bound for it
  (`maximum_iterations` of the loop, or the option `max_while_iterations`). Any other loop is a `jax.lax.while_loop`,
  with derivatives as `graftax.xla_call_module.while_loops` describes them.

  Differs from TF: a loop that is a `jax.lax.while_loop` and has side effects other than assignments (it prints, or
  asserts under `enable_checkify_for_asserts`) has no reverse-mode derivatives. A loop that goes on beyond
  `max_while_iterations` gives NaN, extreme integers and true, and so does one that writes to a growing list farther
  than an element per write and iteration.
  """
  counted = ctx.counted_loop(cond, body, input)
  return _with_types_as_needed(input, lambda initial: _run_while(ctx, initial, cond, body, counted))


def _run_while(
  ctx: Context, input: list[Array], cond: FunctionRef, body: FunctionRef, counted: CountedLoop | None
) -> tuple[Value, ...]:
  loop = _Loop(ctx, ctx.pure(body, input), input, counted)
  if counted is None:
    bound = ctx.loop_bound(cond, body, input)
    if bound is None:
      bound = ctx.options.max_while_iterations
    pure_cond = ctx.pure(cond, input)
    if bound is not None:
      return loop.bounded(pure_cond, bound)
    # A loop with a `break` runs as long as it must, but its lists need room for as long as it might.
    room = ctx.loop_bound(cond, body, input, through_branches=True) if any(map(is_variant, input)) else None
    return loop.while_loop(pure_cond, room)
  if counted.unroll:
    return loop.unroll(counted)
  try:
    return loop.scan(counted)
  except ShapeChangeError:
    return loop.unroll(counted)


@register("For", ignores=("T",), words="also")
def for_loop(
  ctx: Context, start: Array, limit: Array, delta: Array, input: list[Array], *, body: FunctionRef
) -> tuple[Value, ...]:
  """The loop variables after `for i in range(start, limit, delta): vars = body(i, vars)`.

  Source op: `tf.raw_ops.For`.

  Args:
    ctx: the program around the node.
    start: int32 scalar, first value of the counter.
    limit: int32 scalar, where the counter stops, itself excluded.
    delta: int32 scalar, the counter's step.
    input: initial loop variables.
    body: from the counter and the loop variables to the loop variables.

  Raises:
    UnsupportedOpError: a bound depends on traced data.
  """
  if any(isinstance(bound, jax.core.Tracer) for bound in (start, limit, delta)):
    raise UnsupportedOpError(f"For node {ctx.node_name!r}: its bounds depend on traced data; they must be known.")
  counter = np.arange(int(start), int(limit), int(delta), dtype=np.int32)
  args = [np.int32(int(start)), *input]
  pure = ctx.pure(body, args)

  def with_counter(state: Sequence[Value], loop_vars: Sequence[Value], key: Any) -> Any:
    results, new_state = pure.apply(state, loop_vars, key)
    return (loop_vars[0], *results), new_state

  shifted = PureFunction(pure.written, (0, *(None if p is None else p for p in pure.passes_through)), with_counter)
  counted = CountedLoop(len(counter), {0: counter}, {0: np.int32(int(limit))})
  return _with_types_as_needed(args, lambda initial: _Loop(ctx, shifted, initial, counted).scan(counted))[1:]


class _NeedsOtherTypes(Exception):
  """Loop variables that must enter the loop in another form; functions that bring them into it, by position."""


def _with_types_as_needed(initial: Sequence[Value], run: Callable[[list[Value]], Any]) -> Any:
  """`run(initial)`, with 64-bit integers as words, and floats of a higher precision, where the loop makes them so."""
  variables = list(initial)
  while True:
    try:
      return run(variables)
    except _NeedsOtherTypes as e:
      for position, convert in e.args[0].items():
        variables[position] = convert(variables[position])


class _Loop:
  """One loop: which variables change, and the two ways to run it.

  A variable that the body returns untouched, a resource handle, or a known counter is no part of the carry.
  """

  def __init__(self, ctx: Context, body: PureFunction, initial: Sequence[Value], counted: CountedLoop | None):
    self.ctx = ctx
    self.body = body
    self.initial = list(initial)
    counters = counted.counters if counted else {}
    self.carried = [
      i
      for i, value in enumerate(initial)
      if body.passes_through[i] != i and i not in counters and not isinstance(value, ResourceHandle)
    ]
    self.key = ctx.rng() if ctx.key is not None else None

  def unroll(self, counted: CountedLoop) -> tuple[Value, ...]:
    """The loop as its iterations, one after the other."""
    variables = self.initial
    state: Sequence[Value] = [self.ctx.read(handle) for handle in self.body.written]
    for number in range(counted.num_iterations):
      known = {i: values[number] for i, values in counted.counters.items()}
      arguments = [known.get(i, value) for i, value in enumerate(variables)]
      results, state = self.body.apply(state, arguments, self._key_at(number))
      variables = list(results)
    for handle, value in zip(self.body.written, state, strict=True):
      self.ctx.write(handle, value)
    return tuple(counted.final.get(i, value) for i, value in enumerate(variables))

  def scan(self, counted: CountedLoop) -> tuple[Value, ...]:
    """The loop as `jax.lax.scan` over its counters."""
    positions = list(counted.counters)
    if counted.num_iterations == 0:
      return tuple(self.initial)

    def step(carry: Any, xs: Any) -> Any:
      number, counters = xs
      known = dict(zip(positions, counters, strict=True))
      return self._next(carry, known, number, lists), None

    carry, lists = self._initial_carry(counted, None)
    numbers = np.arange(counted.num_iterations, dtype=np.int32)
    carry, _ = jax.lax.scan(step, carry, (numbers, [counted.counters[i] for i in positions]))
    return self._finish(carry, lists, counted)

  def while_loop(self, cond: PureFunction, room: int | None) -> tuple[Value, ...]:
    """The loop as `jax.lax.while_loop`, with derivatives in every mode; of at most `room` iterations, where known."""
    from graftax.xla_call_module.while_loops import while_loop  # Importing it takes long, and few graphs need it.

    def keep_going(carry: Any) -> Array:
      number, inner = carry
      return self._holds(cond, inner, number)

    def step(carry: Any) -> Any:
      number, inner = carry
      return number + 1, self._next(inner, {}, number, lists)

    start, lists = self._initial_carry(None, room)
    _, (_, (values, state)) = while_loop(keep_going, step, (np.int32(0), start))
    return self._finish(_valid_unless(lists.overflow(values), (values, state)), lists, None)

  def bounded(self, cond: PureFunction, bound: int) -> tuple[Value, ...]:
    """The loop as `jax.lax.scan` of `bound` steps, which do nothing once the condition is false."""

    def step(carry: Any, number: Array) -> Any:
      holds = self._holds(cond, carry, number)
      return jax.lax.cond(holds, lambda: self._next(carry, {}, number, lists), lambda: carry), None

    carry, lists = self._initial_carry(None, bound)
    carry, _ = jax.lax.scan(step, carry, np.arange(bound, dtype=np.int32))
    unfinished = self._holds(cond, carry, np.int32(bound)) | lists.overflow(carry[0])
    if self.ctx.options.enable_checkify_for_asserts:
      checkify.check(
        jnp.logical_not(unfinished), f"{self.ctx.node_name}: the loop is not done after {bound} iterations"
      )
    return self._finish(_valid_unless(unfinished, carry), lists, None)

  def _holds(self, cond: PureFunction, carry: Any, number: Value) -> Array:
    values, _ = carry
    ((truth,), _) = cond.apply((), self._all_variables(values, {}), self._key_at(number))
    return _truth(truth)

  def _next(self, carry: Any, known: Mapping[int, Value], number: Value, lists: LoopLists) -> Any:
    values, state = carry
    results, new_state = self.body.apply(state, self._all_variables(values, known), self._key_at(number))
    self._need_types(results, values)
    self._need_shapes([results[i] for i in self.carried], values)
    self._need_shapes(new_state, state)
    following = lists.conformed([results[i] for i in self.carried])
    return [_as_operand_like(result, value) for result, value in zip(following, values, strict=True)], [
      _as_operand_like(value, old) for value, old in zip(new_state, state, strict=True)
    ]

  def _need_types(self, results: Sequence[Value], values: Sequence[Value]) -> None:
    """Starts the loop over if the body makes words, or a higher precision, of what has entered it as less."""
    needed = {i: _wider_form(results[i], value) for i, value in zip(self.carried, values, strict=True)}
    found = {i: convert for i, convert in needed.items() if convert is not None}
    if found:
      raise _NeedsOtherTypes(found)

  def _need_shapes(self, results: Sequence[Value], values: Sequence[Value]) -> None:
    """Refuses arrays that grow or shrink, which one compiled body cannot do."""
    for result, value in zip(results, values, strict=True):
      if is_variant(value) or isinstance(value, WideInts) or np.shape(result) == np.shape(value):
        continue
      raise ShapeChangeError(
        f"{self.ctx.node_name!r} (function {self.ctx.function_name!r}): a loop variable enters an iteration with shape "
        f"{list(np.shape(value))} and leaves it with {list(np.shape(result))}, which only a loop whose number of "
        f"iterations is known while tracing may do. Loop over a known range, write to a tf.TensorArray of the final "
        f"size, or call the function outside of transforms."
      )

  def _all_variables(self, values: Sequence[Value], known: Mapping[int, Value]) -> list[Value]:
    variables = list(self.initial)
    for position, value in [*zip(self.carried, values, strict=True), *known.items()]:
      variables[position] = value
    return variables

  def _initial_carry(self, counted: CountedLoop | None, bound: int | None) -> tuple[Any, LoopLists]:
    state = [_as_operand(self.ctx.read(handle)) for handle in self.body.written]

    def body(values: Sequence[Value], known: Mapping[int, Value]) -> Sequence[Value]:
      results, _ = self.body.apply(state, self._all_variables(values, known), self._key_at(0))
      return [results[i] for i in self.carried]

    what = f"{self.ctx.node_name!r} (function {self.ctx.function_name!r})"
    values = [_as_operand(self.initial[i]) for i in self.carried]
    counters, num_iterations = (counted.counters, counted.num_iterations) if counted else ({}, None)
    has_arrays = any(isinstance(value, ResourceHandle) and value.kind == "tensor_array" for value in self.initial)
    lists = fit_lists(values, body, counters, num_iterations, bound, what, has_arrays=has_arrays)
    return (lists.values, state), lists

  def _finish(self, carry: Any, lists: LoopLists, counted: CountedLoop | None) -> tuple[Value, ...]:
    values, state = carry
    for handle, value in zip(self.body.written, state, strict=True):
      self.ctx.write(handle, value)
    return tuple(self._all_variables(lists.restore(values), dict(counted.final) if counted else {}))

  def _key_at(self, number: Value) -> jax.Array | None:
    # Each iteration draws its own numbers.
    return None if self.key is None else jax.random.fold_in(self.key, number)


def _switch(ctx: Context, index: Array, branches: Sequence[FunctionRef], args: Sequence[Value]) -> tuple[Value, ...]:
  pures = [ctx.pure(branch, args) for branch in branches]
  written = tuple(dict.fromkeys(handle for pure in pures for handle in pure.written))
  state = {handle: _as_operand(ctx.read(handle)) for handle in written}
  key = ctx.rng() if ctx.key is not None else None
  statics: list[dict[int, Value]] = []
  # What branches give at these positions that is no array, joined.
  structures: dict[int, Any] = {}
  words: dict[Any, np.dtype] = {}
  floats: dict[Any, np.dtype] = {}

  def operand(value: Value, where: int | ResourceHandle) -> Value:
    """The value, as words where another branch makes words of it, and in the highest precision of any branch."""
    if isinstance(value, WideInts):
      words[where] = value.dtype
    if where in words:
      return widened(value, words[where])
    value = _as_operand(value)
    dtype = float_dtype(value)
    if dtype is None:
      return value
    floats[where] = promoted_dtype(dtype, floats.get(where, dtype))
    return value.astype(floats[where])

  def traced(pure: PureFunction) -> Callable[[], Any]:
    def run() -> Any:
      found, new_values = pure.apply([state[handle] for handle in pure.written], args, key)
      results = _in_common_structure(found, structures)
      after = {**state, **dict(zip(pure.written, new_values, strict=True))}
      statics.append({i: value for i, value in enumerate(results) if _is_static(value)})
      operands = [operand(value, i) for i, value in enumerate(results) if not _is_static(value)]
      return operands, [operand(after[handle], handle) for handle in written]

    return run

  try:
    try:
      operands, new_state = jax.lax.switch(index, [traced(pure) for pure in pures])
    except TypeError:
      if not structures and not words and not floats:
        raise
      # Now it is known what lists and optionals hold that the first branches leave empty, and which types any gives.
      statics.clear()
      operands, new_state = jax.lax.switch(index, [traced(pure) for pure in pures])
  except TypeError as e:
    raise InvalidInputError(
      f"{ctx.node_name!r} (function {ctx.function_name!r}): branches {[b.name for b in branches]!r} give results of "
      f"different shapes or dtypes, and which one runs depends on traced data: {e}"
    ) from e
  for handle, value in zip(written, new_state, strict=True):
    ctx.write(handle, value)
  return _merge(operands, statics, branches, ctx)


def _in_common_structure(results: Sequence[Value], structures: dict[int, Any]) -> list[Value]:
  """Results of a branch with lists and optionals laid out like those of the branches before; adds theirs."""
  full = list(results)
  for position, value in enumerate(results):
    if is_variant(value) or position in structures:
      own = shapes_of(value)
      structures[position] = joined(structures[position], own) if position in structures else own
      full[position] = conformed(value, structures[position])
  return full


def _merge(
  operands: list[Value], statics: list[dict[int, Value]], branches: Sequence[FunctionRef], ctx: Context
) -> tuple[Value, ...]:
  if any(other != statics[0] for other in statics[1:]):
    raise InvalidInputError(
      f"{ctx.node_name!r} (function {ctx.function_name!r}): branches {[b.name for b in branches]!r} return different "
      f"resources; which one is used must not depend on traced data."
    )
  merged = iter(operands)
  total = len(operands) + len(statics[0])
  return tuple(statics[0][i] if i in statics[0] else next(merged) for i in range(total))


def _valid_unless(condition: Value, carry: Any) -> Any:
  if is_known(condition) and not condition:
    return carry
  return jax.tree.map(lambda leaf: _invalid_if(condition, leaf), carry)


def _invalid_if(condition: Array, value: Array) -> Array:
  """`value`, or, where the condition holds, what a gather out of range gives: NaN, an extreme integer, or true."""
  if jnp.issubdtype(value.dtype, jax.dtypes.extended):
    return value
  return jnp.where(condition, jnp.full_like(value, invalid(value.dtype)), value)


def _is_static(value: Value) -> bool:
  return isinstance(value, ResourceHandle)


def _truth(value: Value) -> Array:
  """A condition as a bool scalar: not zero, or, unless it is a scalar, not empty."""
  if np.ndim(value):
    return np.bool_(np.size(value) > 0)
  return np.bool_(value != 0) if is_known(value) else value != 0


def _as_operand(value: Value) -> Value:
  """A value as `jax.lax` control flow takes it: arrays with a strong type."""

  def strong(leaf: Any) -> Any:
    leaf = exact(materialize(leaf))
    return jax.tree.map(lambda array: jax.lax.convert_element_type(array, array.dtype), leaf)

  return jax.tree.map(strong, value)


def _as_operand_like(value: Value, other: Value) -> Value:
  """A value as an operand, of words if the other one is, and in its precision."""
  if isinstance(other, WideInts):
    return widened(value, other.dtype)
  value = _as_operand(value)
  dtype = float_dtype(other)
  return value if dtype is None or float_dtype(value) in (None, dtype) else value.astype(dtype)


def _wider_form(value: Value, other: Value) -> Callable[[Value], Value] | None:
  """What brings `other` into the form of `value` where it holds less; None where it does not."""
  if isinstance(value, WideInts) and not isinstance(other, WideInts):
    return functools.partial(widened, dtype=value.dtype)
  dtype, other_dtype = float_dtype(value), float_dtype(other)
  if dtype is None or other_dtype is None or promoted_dtype(dtype, other_dtype) == other_dtype:
    return None
  return functools.partial(to_dtype, dtype=promoted_dtype(dtype, other_dtype))
