"""Loops on `jax.lax`: While, For. Explains which form a loop gets.

Before a `While` runs, `ctx.loop_length` walks it with the values that are known while tracing and skips all others
(`graftax/convert/evaluation/loop_walk.py`). `_run_while` then takes the first of these that applies:

1. The condition is known in every iteration, so the loop is *counted*. If all that it changes is known too, as in a
   loop over sizes that fills a list, it does not run. Otherwise it becomes a `jax.lax.scan`, whose `xs` are the
   counters: the loop variables that are known in every iteration (`_Loop.scan`). Products of what the body reads with
   the counters, such as those of the inputs of a recurrent layer, are computed before the scan. It is unrolled
   (`_Loop.unroll`)
   a) if an inner loop is counted only as long as the counters are known, as in `for i: for j in range(i)`, and the
      outer loop has at most 64 iterations;
   b) if an array changes its shape from one iteration to the next;
   c) if the body needs to know the value of a counter, for example as a size, and there are at most 64 iterations.
2. The loop counts up to a symbolic size, such as the length of a sequence, which
   `graftax/convert/evaluation/symbolic_loops.py` finds. It becomes a `scan` of that many steps, unless its body needs
   to know values or shapes.
3. The condition declares a bound, as `maximum_iterations` does with `counter < maximum and ...`, or the option
   `max_while_iterations` gives one. The loop becomes a `scan` of that many steps, each of which does nothing once the
   condition is false (`_Loop.bounded`). A declared bound above 10,000 is ignored.
4. Otherwise the loop becomes a `while_loop` of `graftax.xla_call_module.lax_extras`, which has derivatives in every
   mode (`_Loop.while_loop`).

A loop is not counted if its condition depends on traced data or on a variable, or if it has more than 50,000
iterations. Outside of `jit`, values of JAX arrays of up to 4096 elements are known too. So the same loop can be counted
in an eager call and become a `while_loop` under `jit`. `For` is always counted; it raises if a bound is traced.
The logger "graftax.loops" says at level INFO what each loop became, and why.

Outside of `jit` and other transforms, a loop whose body needs values or shapes that one compiled body cannot have runs
one step after the other (`_Loop.step_by_step`), or is unrolled if it is counted, as in TensorFlow.

JAX needs one structure for a loop variable in all iterations. An array whose size depends on data enters the loop with
the bound that holds it after an iteration (`bounded/`); so does one that shrinks in a loop that is not counted. Tensor
lists, which may grow, get room for all of them in `loop_lists.py`. State that a loop body writes is an operand and a
result of the JAX loop. State that it only reads is closed over, as are known values, so shapes stay known inside the
body.
"""

import functools
import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import checkify

from graftax.graphdef_ir import DType, FunctionRef
from graftax.ops_jax._core.context import Context, CountedLoop, LoopLength, PureFunction, ResourceHandle
from graftax.ops_jax._core.errors import (
  InvalidInputError,
  LoopBoundError,
  ShapeChangeError,
  StaticInputError,
  UnsupportedOpError,
)
from graftax.ops_jax._core.known import canonical_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, UnconvertedList, Value, is_known, is_symbolic
from graftax.ops_jax.bounded.forms import form_of, in_form, invalid_if, joined_form, limited
from graftax.ops_jax.bounded.masks import poisoned
from graftax.ops_jax.bounded.values import is_bounded
from graftax.ops_jax.control_flow.loop_lists import LoopLists, fit_lists
from graftax.ops_jax.control_flow.operands import as_operand, as_operand_like, refuse_text, truth, wider_form
from graftax.ops_jax.int64_pairs.pairs import Int64Pair
from graftax.ops_jax.variants.structures import is_variant
from graftax.xla_call_module.lax_extras import scan_with_products_before

__all__ = ["for_loop", "while_"]

_LOGGER = logging.getLogger("graftax.loops")

# What a body raises if one compiled body cannot serve all iterations.
_NEEDS_VALUES = (StaticInputError, ShapeChangeError, InvalidInputError)

# The values of the variables that iterations change, and of the resources that they write.
_Carry = tuple[Sequence[Value], Sequence[Value]]

# Maps values of variables, loop variables and a PRNG key to a scalar, as `Context.detached` makes it.
_Condition = Callable[[Mapping[ResourceHandle, Value], Sequence[Value], jax.Array | None], tuple[Value, ...]]


@register("While", "StatelessWhile", "XlaWhile", ignores=("output_shapes", "parallel_iterations"), int64_pairs="accept")
def while_(
  ctx: Context, input: UnconvertedList, *, cond: FunctionRef, body: FunctionRef, T: tuple[DType, ...]
) -> tuple[Value, ...]:
  """Returns the loop variables after `while cond(vars): vars = body(vars)`.

  Source op: `tf.raw_ops.While`.

  Args:
    ctx: the program that contains the node.
    input: initial loop variables; each keeps its dtype.
    cond: maps loop variables to a scalar.
    body: maps loop variables to loop variables.
    T: dtypes of the loop variables; those of symbolic sizes are needed.

  Returns:
    The loop variables after the last iteration.

  Raises:
    LoopBoundError: a loop variable of bounded size grows, and no option limits it.
    ShapeChangeError: a loop variable changes its shape, and the number of iterations depends on traced data.

  The module docstring lists the conditions under which the loop becomes a `jax.lax.scan` or a `jax.lax.while_loop`.

  Differs from TF: a loop that becomes a `jax.lax.while_loop` and has side effects other than assignments (it prints, or
  asserts under `enable_checkify_for_asserts`) has no reverse-mode derivatives. A loop that needs more than
  `max_while_iterations` iterations returns NaN, extreme integers and true. So does a loop that writes to a growing list
  beyond one element per write and iteration.
  """
  unchanged = ctx.pure(body, input).passes_through
  input = [
    ctx.facts.materialized(x, canonical_dtype(T[i].numpy)) if is_symbolic(x) and unchanged[i] != i else x
    for i, x in enumerate(input)
  ]
  length = ctx.loop_length(cond, body, input)
  return _with_types_as_needed(input, lambda initial: _run_while(ctx, initial, cond, body, length))


def _run_while(
  ctx: Context, input: list[Array], cond: FunctionRef, body: FunctionRef, length: LoopLength
) -> tuple[Value, ...]:
  loop = _Loop(ctx, ctx.pure(body, input), input, length.counted)
  condition = ctx.detached(cond)
  if length.counted is not None and length.otherwise is not None:
    results = _run_symbolic(loop, length.counted)
    return _run_while(ctx, input, cond, body, length.otherwise()) if results is None else results
  if length.counted is not None:
    return _run_counted(loop, length.counted, condition)
  if ctx.pure(cond, input).written:
    raise UnsupportedOpError(
      f"{loop.where}: the condition {cond.name!r} assigns variables; assign them in the body, or before the loop."
    )
  try:
    return _run_uncounted(loop, condition, length)
  except _NEEDS_VALUES:
    results = loop.step_by_step(condition) if loop.is_concrete else None
    if results is None:
      raise
    loop.log_form("one step after the other, outside of jit: its body needs to know values or shapes")
    return results


def _run_symbolic(loop: "_Loop", counted: CountedLoop) -> tuple[Value, ...] | None:
  """Returns the results of a loop whose length is a symbolic size, or None if one compiled body cannot serve it."""
  try:
    results = loop.scan(counted)
  except _NEEDS_VALUES:
    return None
  loop.log_form(f"a scan of {counted.num_iterations} iterations, a size of an argument")
  return results


def _run_counted(loop: "_Loop", counted: CountedLoop, cond: "_Condition | None" = None) -> tuple[Value, ...]:
  number = counted.num_iterations
  if counted.results is not None:
    loop.log_form("known values: all that it changes is known while tracing")
    return tuple(counted.results.get(i, value) for i, value in enumerate(loop.initial))
  try:
    if not counted.unroll:
      results = loop.scan(counted)
      loop.log_form(f"a scan of {number} iterations, which are known while tracing")
      return results
    reason = "an inner loop is counted only with known counters"
  except ShapeChangeError:
    reason = "an array changes its shape"
  except _NEEDS_VALUES:
    if number > counted.MAX_UNROLLED and not loop.is_concrete:
      raise
    reason = "its body needs to know values or shapes"
  loop.log_form(f"unrolled iterations: {reason}")
  # The number of iterations assumes that no array changes its shape, so the condition decides where it can.
  stepped = None if cond is None else loop.step_by_step(cond)
  return loop.unroll(counted, may_change_shapes=cond is None) if stepped is None else stepped


def _run_uncounted(loop: "_Loop", cond: "_Condition", length: LoopLength) -> tuple[Value, ...]:
  if length.bound is not None:
    loop.log_form(f"a scan of at most {length.bound} iterations, as its condition declares")
    return loop.bounded(cond, length.bound)
  limit = loop.ctx.options.max_while_iterations
  if limit is not None:
    loop.log_form(f"a scan of at most {limit} iterations, as max_while_iterations says: {length.reason}")
    return loop.bounded(cond, limit)
  loop.log_form(f"a while_loop: {length.reason}")
  return loop.while_loop(cond, length.room)


@register("For", ignores=("T",), int64_pairs="accept")
def for_loop(
  ctx: Context, start: Array, limit: Array, delta: Array, input: list[Array], *, body: FunctionRef
) -> tuple[Value, ...]:
  """Returns the loop variables after `for i in range(start, limit, delta): vars = body(i, vars)`.

  Source op: `tf.raw_ops.For`.

  Args:
    ctx: the program that contains the node.
    start: int32 scalar, first value of the counter.
    limit: int32 scalar, end of the counter's range (exclusive).
    delta: int32 scalar, step of the counter.
    input: initial loop variables.
    body: maps the counter and the loop variables to the loop variables.

  Raises:
    UnsupportedOpError: a bound depends on traced data.
    InvalidInputError: `delta` is 0.
    LimitExceededError: the values of the counter do not fit in memory.
  """
  if any(isinstance(bound, jax.core.Tracer) for bound in (start, limit, delta)):
    raise UnsupportedOpError(f"For node {ctx.node_name!r}: its bounds depend on traced data; make them constants.")
  where = f"For node {ctx.node_name!r} (function {ctx.function_name!r})"
  if not int(delta):
    raise InvalidInputError(f"{where}: delta is 0; expected any other number.")
  ctx.budget.check_array((len(range(int(start), int(limit), int(delta))),), 4, where)
  counter = np.arange(int(start), int(limit), int(delta), dtype=np.int32)
  args = [np.int32(int(start)), *input]
  pure = ctx.pure(body, args)

  # `_Loop` expects a body that returns all loop variables. So the counter becomes variable 0, which passes through,
  # and the body's results move up by one; `passes_through` counts arguments; the counter is already one of them.
  def with_counter(state: Sequence[Value], loop_vars: Sequence[Value], key: Any) -> Any:
    results, new_state = pure.apply(state, loop_vars, key)
    return (loop_vars[0], *results), new_state

  shifted = PureFunction(pure.written, (0, *pure.passes_through), with_counter)
  counted = CountedLoop(len(counter), {0: counter}, {0: np.int32(int(limit))})

  def run(initial: list[Value]) -> tuple[Value, ...]:
    return _run_counted(_Loop(ctx, shifted, initial, counted), counted)

  return _with_types_as_needed(args, run)[1:]


class _NeedsOtherTypes(Exception):
  """Raised if loop variables must enter the loop in another form; holds conversion functions by position."""


def _with_types_as_needed(initial: Sequence[Value], run: Callable[[list[Value]], Any]) -> Any:
  """Returns `run(initial)`, with variables as `Int64Pair` or in a higher precision if the loop returns them so."""
  variables = list(initial)
  while True:
    try:
      return run(variables)
    except _NeedsOtherTypes as e:
      for position, convert in e.args[0].items():
        variables[position] = convert(variables[position])


class _Loop:
  """One loop: its variables that change, and the ways to run it.

  The carry holds the variables that change, except resource handles and known counters.
  """

  def __init__(self, ctx: Context, body: PureFunction, initial: Sequence[Value], counted: CountedLoop | None):
    self.ctx = ctx
    self.body = body
    self.initial = list(initial)
    self.is_uncounted = counted is None
    counters = counted.counters if counted else {}
    self.carried = [
      i
      for i, value in enumerate(initial)
      if body.passes_through[i] != i and i not in counters and not isinstance(value, ResourceHandle)
    ]
    self.key = ctx.rng() if ctx.key is not None else None

  @property
  def where(self) -> str:
    """Returns the node's name and its function's, for messages."""
    return f"{self.ctx.node_name!r} (function {self.ctx.function_name!r})"

  @property
  def is_concrete(self) -> bool:
    """Returns whether the loop starts outside of all JAX transforms, from values and not from tracers."""
    start = [*self.initial, *(self.ctx.read(handle) for handle in self.body.written), self.key]
    return not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(start))

  @property
  def max_size(self) -> int | None:
    """Returns the bound that the option `max_sizes` gives for the loop's variables, or None."""
    sizes = self.ctx.options.max_sizes or {}
    return sizes.get(self.ctx.node_name, sizes.get("While"))

  def log_form(self, form: str) -> None:
    """Logs what this loop becomes, and why."""
    _LOGGER.info("%s becomes %s", self.where, form)

  def step_by_step(self, cond: _Condition) -> tuple[Value, ...] | None:
    """Runs the loop in Python; returns None if its condition depends on traced data after all."""
    variables = tuple(self.initial)
    state: Sequence[Value] = [self.ctx.read(handle) for handle in self.body.written]
    for number in itertools.count():
      (condition,) = cond(dict(zip(self.body.written, state, strict=True)), variables, self._key_at(number))
      holds = truth(condition)
      if isinstance(holds, jax.core.Tracer):
        return None
      if not holds:
        break
      variables, state = self.body.apply(state, variables, self._key_at(number))
    self._write(state)
    return variables

  def unroll(self, counted: CountedLoop, *, may_change_shapes: bool) -> tuple[Value, ...]:
    """Runs the iterations one after the other, without the condition."""
    variables = self.initial
    state: Sequence[Value] = [self.ctx.read(handle) for handle in self.body.written]
    for number in range(counted.num_iterations):
      known = counted.known(number)
      arguments = [known.get(i, value) for i, value in enumerate(variables)]
      results, state = self.body.apply(state, arguments, self._key_at(number))
      if not may_change_shapes:
        self._need_shapes([results[i] for i in self.carried], [variables[i] for i in self.carried])
      variables = list(results)
    self._write(state)
    return tuple(counted.final.get(i, value) for i, value in enumerate(variables))

  def scan(self, counted: CountedLoop) -> tuple[Value, ...]:
    """Runs the loop as `jax.lax.scan` over its counters."""
    columns = counted.columns()
    for column in columns.values():
      refuse_text(column)
    if counted.num_iterations == 0:
      return tuple(self.initial)

    def step(carry: _Carry, xs: tuple[Array, Sequence[Array]]) -> _Carry:
      number, counters = xs
      known = dict(zip(columns, counters, strict=True))
      return self._next(carry, known, number, lists)

    carry, lists = self._initial_carry(counted, None)
    # The array of a symbolic length is traced.
    arange = (jnp if counted.is_symbolic else np).arange
    numbers = arange(counted.num_iterations, dtype=np.int32)
    carry = scan_with_products_before(step, carry, (numbers, list(columns.values())))
    return self._finish(carry, lists, counted)

  def while_loop(self, cond: _Condition, room: int | None) -> tuple[Value, ...]:
    """Runs the loop as a `while_loop` with derivatives in every mode; lists get room for `room` iterations."""
    from graftax.xla_call_module.lax_extras import while_loop  # Importing it takes long, and few graphs need it.

    def keep_going(carry: tuple[Value, _Carry]) -> Array | np.bool_:
      number, inner = carry
      return self._holds(cond, inner, number)

    def step(carry: tuple[Value, _Carry]) -> tuple[Value, _Carry]:
      number, inner = carry
      return number + 1, self._next(inner, {}, number, lists)

    start, lists = self._initial_carry(None, room)
    _, (values, state) = while_loop(keep_going, step, (np.int32(0), start))
    return self._finish(_valid_unless(lists.overflow(values), (values, state)), lists, None)

  def bounded(self, cond: _Condition, bound: int) -> tuple[Value, ...]:
    """Runs the loop as `jax.lax.scan` of `bound` steps, which do nothing once the condition is false."""

    def step(carry: _Carry, number: Array) -> tuple[_Carry, None]:
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

  def _holds(self, cond: _Condition, carry: _Carry, number: Value) -> Array | np.bool_:
    values, state = carry
    written = dict(zip(self.body.written, state, strict=True))
    (condition,) = cond(written, self._all_variables(values, {}), self._key_at(number))
    return truth(condition)

  def _next(self, carry: _Carry, known: Mapping[int, Value], number: Value, lists: LoopLists) -> _Carry:
    values, state = carry
    results, new_state = self.body.apply(state, self._all_variables(values, known), self._key_at(number))
    self._need_types(results, values)
    self._need_shapes([results[i] for i in self.carried], values)
    self._need_shapes(new_state, state)
    following = lists.conformed([results[i] for i in self.carried])
    return [as_operand_like(result, value) for result, value in zip(following, values, strict=True)], [
      as_operand_like(value, old) for value, old in zip(new_state, state, strict=True)
    ]

  def _need_types(self, results: Sequence[Value], values: Sequence[Value]) -> None:
    """Raises `_NeedsOtherTypes` if the body returns an `Int64Pair` or a wider dtype for a variable of another form."""
    needed = {
      i: self._bounded_form(results[i], value) or wider_form(results[i], value)
      for i, value in zip(self.carried, values, strict=True)
    }
    found = {i: convert for i, convert in needed.items() if convert is not None}
    if found:
      raise _NeedsOtherTypes(found)

  def _bounded_form(self, result: Value, value: Value) -> Callable[[Value], Value] | None:
    """Returns a conversion of a loop variable to the bounded size that holds what the body returns, or None.

    Raises:
      LoopBoundError: the bound grows with each iteration, and no option limits it.
    """
    if is_variant(value) or isinstance(value, Int64Pair) or isinstance(result, Int64Pair):
      return None
    if not is_bounded(result) and not is_bounded(value) and not self._shrinks(result, value):
      return None
    own = form_of(value)
    form = joined_form(own, form_of(result))
    if form is None:
      return None
    if self.max_size is not None:
      form = limited(form, self.max_size)
    elif is_bounded(value) and form.sizes != own.sizes:
      raise LoopBoundError(
        f"{self.where}: a loop variable whose size depends on data has at most {list(own.sizes)} elements before an "
        f"iteration and {list(form.sizes)} after it. Pass the largest size with the option "
        f"max_sizes={{{self.ctx.node_name!r}: n}}, or call the function outside of transforms.",
        self.ctx.node_name,
      )
    return None if is_bounded(value) and form == own else functools.partial(in_form, form=form)

  def _shrinks(self, result: Value, value: Value) -> bool:
    """Returns whether a loop of unknown length returns fewer elements for a variable, or more up to a given size."""
    if not self.is_uncounted or self.is_concrete or is_variant(result):
      return False
    before, after = np.shape(value), np.shape(result)
    if len(before) != len(after) or before == after or not all(isinstance(n, int) for n in (*before, *after)):
      return False
    return self.max_size is not None or all(new <= old for new, old in zip(after, before, strict=True))

  @property
  def _remedy_for_growth(self) -> str:
    """Returns the sentence about the option that lets arrays grow in this loop, or "" if it is set or has no effect."""
    if self.max_size is not None or not self.is_uncounted:
      return ""
    return f"Pass the largest size with the option max_sizes={{{self.ctx.node_name!r}: n}}. "

  def _need_shapes(self, results: Sequence[Value], values: Sequence[Value]) -> None:
    """Raises if an array grows or shrinks, which one compiled body cannot do."""
    for result, value in zip(results, values, strict=True):
      if is_variant(value) or isinstance(value, Int64Pair) or is_bounded(value) or is_bounded(result):
        continue
      if np.shape(result) == np.shape(value):
        continue
      raise ShapeChangeError(
        f"{self.where}: a loop variable enters an iteration with shape "
        f"{list(np.shape(value))} and leaves it with {list(np.shape(result))}, which only a loop whose number of "
        f"iterations is known while tracing can do. {self._remedy_for_growth}Loop over a known range, write to a "
        f"tf.TensorArray of the final size, or call the function outside of transforms."
      )

  def _all_variables(self, values: Sequence[Value], known: Mapping[int, Value]) -> list[Value]:
    variables = list(self.initial)
    for position, value in [*zip(self.carried, values, strict=True), *known.items()]:
      variables[position] = value
    return variables

  def _initial_carry(self, counted: CountedLoop | None, bound: int | None) -> tuple[_Carry, LoopLists]:
    state = [as_operand(self.ctx.read(handle)) for handle in self.body.written]

    def body(values: Sequence[Value], known: Mapping[int, Value]) -> Sequence[Value]:
      results, _ = self.body.apply(state, self._all_variables(values, known), self._key_at(0))
      return [results[i] for i in self.carried]

    values = [as_operand(self.initial[i]) for i in self.carried]
    has_arrays = any(isinstance(value, ResourceHandle) and value.kind == "tensor_array" for value in self.initial)
    lists = fit_lists(values, body, counted, bound, self.where, has_arrays=has_arrays)
    return (lists.values, state), lists

  def _finish(self, carry: _Carry, lists: LoopLists, counted: CountedLoop | None) -> tuple[Value, ...]:
    values, state = carry
    self._write(state)
    return tuple(self._all_variables(lists.restore(values), dict(counted.final) if counted else {}))

  def _write(self, state: Sequence[Value]) -> None:
    for handle, value in zip(self.body.written, state, strict=True):
      self.ctx.write(handle, value)

  def _key_at(self, number: Value) -> jax.Array | None:
    # Each iteration draws different random numbers.
    return None if self.key is None else jax.random.fold_in(self.key, number)


def _valid_unless(condition: Value, carry: _Carry) -> _Carry:
  if is_known(condition) and not condition:
    return carry
  valid: _Carry = jax.tree.map(
    lambda leaf: invalid_if(condition, leaf) if is_bounded(leaf) else _invalid_if(condition, leaf),
    carry,
    is_leaf=is_bounded,
  )
  return valid


def _invalid_if(condition: jax.Array, value: jax.Array) -> jax.Array:
  """Returns `value`; if the condition holds, the result of a gather out of range: NaN, an extreme integer, or true."""
  if jnp.issubdtype(value.dtype, jax.dtypes.extended):
    return value
  return poisoned(value, condition)
