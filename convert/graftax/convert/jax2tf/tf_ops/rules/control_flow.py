"""Branches and loops as StatelessIf and StatelessWhile."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr

from graftax.convert.jax2tf.tf_ops import complex_parts
from graftax.convert.jax2tf.tf_ops.builder import VARIANT_DTYPE, Builder
from graftax.convert.jax2tf.tf_ops.interpreter import run_jaxpr
from graftax.convert.jax2tf.tf_ops.registry import rule
from graftax.convert.jax2tf.tf_ops.rules._common import broadcast, compare, full, reshape, scatter_update, select
from graftax.convert.jax2tf.tf_ops.rules.shaping import positions
from graftax.convert.jax2tf.tf_ops.tensors import Dim, Tensor, partial_shape
from graftax.graphdef_ir import DType
from graftax.xla_call_module import lax_extras

Step = Callable[[Builder, list[Tensor]], Sequence[Tensor]]


@rule("cond", ignores=("branches_platforms",), folds=False)
def cond(
  b: Builder, index: Tensor, *operands: Tensor, branches: Sequence[ClosedJaxpr], outs: Sequence[jax.ShapeDtypeStruct]
) -> list[Tensor]:
  """Returns the results of the branch with a number; the nearest branch if there is none with it."""
  if index.value is not None:
    return run_jaxpr(b, branches[min(max(int(index.value), 0), len(branches) - 1)], operands)
  if len(branches) == 1:
    return run_jaxpr(b, branches[0], operands)
  if b.library.consumer == "onnx" and b.is_in_loop:
    return _branch_by_loops(b, index, operands, branches, outs)
  return _branch(b, index, operands, branches, outs, 0)


def _branch(
  b: Builder,
  index: Tensor,
  operands: Sequence[Tensor],
  branches: Sequence[ClosedJaxpr],
  outs: Sequence[jax.ShapeDtypeStruct],
  first: int,
) -> list[Tensor]:
  """Returns the results of one of the branches from `first` on: one of two, which may decide between the others."""
  known, passed = _split_known(operands)

  def otherwise(inner: Builder, given: list[Tensor]) -> Sequence[Tensor]:
    position, *rest = given
    rest = _joined(known, rest)
    if first + 2 == len(branches):
      return run_jaxpr(inner, branches[-1], rest)
    return _branch(inner, position, rest, branches, outs, first + 1)

  def this(inner: Builder, given: list[Tensor]) -> Sequence[Tensor]:
    return run_jaxpr(inner, branches[first], _joined(known, given[1:]))

  arguments = [index, *passed]
  then_branch, _ = b.function("branch", arguments, otherwise)
  else_branch, _ = b.function("branch", arguments, this)
  is_later = compare(b, "Greater", index, first)
  return b.op_list(
    "StatelessIf",
    is_later,
    [*arguments, *b.symbol_sizes()],
    shapes=[out.shape for out in outs],
    Tout=tuple(DType.from_numpy(out.dtype) for out in outs),
    then_branch=then_branch,
    else_branch=else_branch,
    **_LOWERED,
    output_shapes=tuple(partial_shape(out.shape) for out in outs),
  )


def _branch_by_loops(
  b: Builder,
  index: Tensor,
  operands: Sequence[Tensor],
  branches: Sequence[ClosedJaxpr],
  outs: Sequence[jax.ShapeDtypeStruct],
) -> list[Tensor]:
  """Returns the results of one of the branches, each of which is a loop of one step or none.

  TensorFlow writes the functions of a loop with branches in it anew, and tf2onnx then does not find the shapes of their
  parameters. It reads loops in loops.
  """
  known, passed = _split_known(operands)
  comparisons = ["LessEqual", *["Equal"] * (len(branches) - 2), "GreaterEqual"]
  results = [_zeros(b, out) for out in outs]
  for number, (branch, comparison) in enumerate(zip(branches, comparisons, strict=True)):

    def step(inner: Builder, given: list[Tensor], branch: ClosedJaxpr = branch) -> Sequence[Tensor]:
      runs, *rest = given
      found = run_jaxpr(inner, branch, _joined(known, rest[: len(passed)]))
      return [inner.op("LogicalNot", runs, shape=()), *rest[: len(passed)], *found]

    variables = [compare(b, comparison, index, number), *passed, *results]
    results = loop(b, variables, lambda _, given: given[:1], step)[1 + len(passed) :]
  return results


def _split_known(operands: Sequence[Tensor]) -> tuple[list[Tensor | None], list[Tensor]]:
  """Returns the operands that are known, None for others, and those others."""
  known = [operand if operand.value is not None and operand.value.size <= _MAX_KNOWN else None for operand in operands]
  return known, [operand for operand, value in zip(operands, known, strict=True) if value is None]


# TensorFlow's own branches and loops have this attribute: when they run, they are a part of the graph around them.
_LOWERED = {"_lower_using_switch_merge": True}

_MAX_KNOWN = 64
"""Known operands of up to this many elements are constants of each branch or body."""


def _joined(known: Sequence[Tensor | None], rest: Sequence[Tensor]) -> list[Tensor]:
  remaining = iter(rest)
  return [next(remaining) if value is None else value for value in known]


def loop(
  b: Builder, carry: Sequence[Tensor], test: Step, step: Step, *, max_iterations: Tensor | None = None
) -> list[Tensor]:
  """Returns the carry after steps for as long as a test holds.

  The variables of the loop are those that `tf.while_loop` makes: the number of steps so far and their largest number,
  then the carry. Converters to ONNX read the loop by these places, and allow no other use of the first two.

  Args:
    b: the builder.
    carry: what a step changes. Shapes and dtypes stay.
    test: returns one bool scalar for the carry.
    step: returns the next carry.
    max_iterations: an int32 scalar, a number of steps after which the test does not hold; None if it is not known.
  """

  if b.lacks("Complex") and any(x.dtype.kind == "c" for x in carry):
    return _loop_of_parts(b, carry, test, step, max_iterations)

  def counted_step(inner: Builder, given: list[Tensor]) -> Sequence[Tensor]:
    count, limit, *rest = given
    after = step(inner, rest)
    if b.library.consumer == "tflite":
      after = _apart(inner, count, rest, after)
    return [inner.op("AddV2", count, np.int32(1), shape=()), limit, *after]

  # tf2onnx makes a constant limit int64 in place, also where an equal constant is the beginning of a variable.
  limit = b.constant(-1, np.int32) if max_iterations is None or b.library.consumer == "onnx" else max_iterations
  variables = [b.constant(0, np.int32), limit, *carry]
  others = set(b.library.functions)
  condition, _ = b.function("condition", variables, lambda inner, given: test(inner, given[2:]))
  if b.library.consumer == "onnx" and b.library.functions.keys() - others - {condition.name}:
    for name in b.library.functions.keys() - others:
      del b.library.functions[name]
    return _loop_of_flag(b, carry, test, step, max_iterations)
  body, _ = b.function("body", variables, counted_step, returns_sizes=True)
  symbols = b.symbol_sizes()
  operands = [*variables, *symbols]
  found = b.op_list(
    "StatelessWhile",
    operands,
    shapes=[operand.shape for operand in operands],
    cond=condition,
    body=body,
    **_LOWERED,
    output_shapes=tuple(partial_shape(operand.shape) for operand in operands),
  )
  return found[2 : len(variables)]


def _apart(b: Builder, count: Tensor, before: Sequence[Tensor], after: Sequence[Tensor]) -> list[Tensor]:
  """Returns the variables after a step, none of which is another variable before it.

  TFLite's interpreter copies the results of a body to its parameters one after the other, so that a parameter which is
  the result at another place may be overwritten before it is copied.
  """
  refs = [variable.ref for variable in before]
  is_never = compare(b, "Less", count, 0)  # which the converter does not know
  return [
    b.op("SelectV2", is_never, full(b, x, 0), x, shape=x.shape)
    if x.ref is not None and x.ref in refs and x.ref != ref and x.dtype != VARIANT_DTYPE
    else x
    for ref, x in zip(refs, after, strict=True)
  ]


def _loop_of_parts(
  b: Builder, carry: Sequence[Tensor], test: Step, step: Step, max_iterations: Tensor | None
) -> list[Tensor]:
  """Returns the carry of a loop whose variables are the parts of complex numbers."""
  are_complex = [x.dtype.kind == "c" for x in carry]

  def divided(inner: Builder, tensors: Sequence[Tensor]) -> list[Tensor]:
    return [part for x in tensors for part in (complex_parts.parts(inner, x) if x.dtype.kind == "c" else [x])]

  def whole(inner: Builder, flat: Sequence[Tensor]) -> list[Tensor]:
    rest = iter(flat)
    return [
      inner.op("Complex", x, next(rest), shape=x.shape) if is_complex else x
      for is_complex, x in ((is_complex, next(rest)) for is_complex in are_complex)
    ]

  def test_of_parts(inner: Builder, given: list[Tensor]) -> Sequence[Tensor]:
    return test(inner, whole(inner, given))

  def step_of_parts(inner: Builder, given: list[Tensor]) -> Sequence[Tensor]:
    return divided(inner, step(inner, whole(inner, given)))

  return whole(b, loop(b, divided(b, carry), test_of_parts, step_of_parts, max_iterations=max_iterations))


def _loop_of_flag(
  b: Builder, carry: Sequence[Tensor], test: Step, step: Step, max_iterations: Tensor | None
) -> list[Tensor]:
  """Returns the carry of a loop whose body computes the next test, for tests with branches or loops in them.

  TensorFlow writes both functions of such a loop anew, and tf2onnx then does not find the shapes of their parameters.
  """

  def flagged_step(inner: Builder, given: list[Tensor]) -> Sequence[Tensor]:
    after = step(inner, given[1:])
    return [*test(inner, list(after)), *after]

  first = test(b, list(carry))
  return loop(b, [*first, *carry], lambda _, given: given[:1], flagged_step, max_iterations=max_iterations)[1:]


@rule("while", folds=False)
def while_(
  b: Builder, *operands: Tensor, cond_nconsts: int, body_nconsts: int, cond_jaxpr: ClosedJaxpr, body_jaxpr: ClosedJaxpr
) -> list[Tensor]:
  """Returns the carry of a loop. Under vmap each element has its own test, and finished ones keep their values."""
  known, consts = _split_known(operands[: cond_nconsts + body_nconsts])
  carry = operands[cond_nconsts + body_nconsts :]

  def runs(inner: Builder, given: Sequence[Tensor]) -> Tensor:
    of_test = _joined(known, given[: len(consts)])[:cond_nconsts]
    return run_jaxpr(inner, cond_jaxpr, [*of_test, *given[len(consts) :]])[0]

  def test(inner: Builder, given: list[Tensor]) -> Sequence[Tensor]:
    found = runs(inner, given)
    axes = np.arange(found.rank, dtype=np.int32)
    return [found if not found.rank else inner.op("Any", found, axes, shape=())]

  def step(inner: Builder, given: list[Tensor]) -> Sequence[Tensor]:
    before = given[len(consts) :]
    of_body = _joined(known, given[: len(consts)])[cond_nconsts:]
    after = run_jaxpr(inner, body_jaxpr, [*of_body, *before])
    if cond_jaxpr.out_avals[0].ndim:
      running = runs(inner, given)
      after = [_where(inner, running, new, old) for new, old in zip(after, before, strict=True)]
    return [*given[: len(consts)], *after]

  return loop(b, [*consts, *carry], test, step)[len(consts) :]


def _where(b: Builder, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
  mask = reshape(b, condition, (*condition.shape, *(1 for _ in range(x.rank - condition.rank))))
  return select(b, mask, x, y, x.shape)


@rule("scan", ignores=("_split_transpose", "ft_out", "linear", "unroll"), folds=False)
def scan(
  b: Builder,
  *operands: Tensor,
  jaxpr: ClosedJaxpr,
  length: Dim,
  reverse: bool,
  outs: Sequence[jax.ShapeDtypeStruct],
  num_consts: int | None = None,
  num_carry: int | None = None,
  ft_in: Any = None,
) -> list[Tensor]:
  """Returns the carry after a step for each row, and the rows that the steps made, stacked."""
  sizes = {"num_consts": num_consts, "num_carry": num_carry} if ft_in is None else {"ft_in": ft_in}
  num_consts, num_carry = lax_extras.scan_sizes(sizes)
  known, consts = _split_known(operands[:num_consts])
  init = list(operands[num_consts : num_consts + num_carry])
  rows = [_reversed(b, row, reverse) for row in operands[num_consts + num_carry :]]
  row_specs = outs[num_carry:]
  if isinstance(length, int) and length == 0:
    return [*init, *(_zeros(b, spec) for spec in row_specs)]
  # In TF.js, all runs of a loop in the body of another have the rows of the last one, if they are those of a list. The
  # converter to TFLite does not lower lists there.
  without_lists = b.is_in_loop and b.library.consumer in ("tfjs", "tflite")
  lists = [_zeros(b, spec) if without_lists else _reserved(b, spec, length) for spec in row_specs]
  num_fixed = 1 + len(consts) + len(rows)

  def test(inner: Builder, given: list[Tensor]) -> Sequence[Tensor]:
    return [inner.op("Less", given[0], inner.size(length), shape=())]

  def step(inner: Builder, given: list[Tensor]) -> Sequence[Tensor]:
    count, fixed = given[0], given[1:num_fixed]
    of_step = [inner.op("GatherV2", row, count, np.int32(0), shape=row.shape[1:]) for row in fixed[len(consts) :]]
    carry, made = given[num_fixed : num_fixed + num_carry], given[num_fixed + num_carry :]
    results = run_jaxpr(inner, jaxpr, [*_joined(known, fixed[: len(consts)]), *carry, *of_step])
    filled = [
      _with_row(inner, rows, count, item)
      if without_lists
      else inner.op("TensorListSetItem", rows, count, item, shape=())
      for rows, item in zip(made, results[num_carry:], strict=True)
    ]
    return [inner.op("AddV2", count, np.int32(1), shape=()), *fixed, *results[:num_carry], *filled]

  start = b.constant(0, np.int32)
  variables = [start, *consts, *rows, *init, *lists]
  final = loop(b, variables, test, step, max_iterations=b.size(length))[num_fixed:]
  stacked = [
    handle if without_lists else _stacked(b, handle, spec, length)
    for handle, spec in zip(final[num_carry:], row_specs, strict=True)
  ]
  return [*final[:num_carry], *(_reversed(b, rows, reverse) for rows in stacked)]


def _with_row(b: Builder, rows: Tensor, count: Tensor, item: Tensor) -> Tensor:
  return scatter_update(b, rows, reshape(b, count, (1, 1)), reshape(b, item, (1, *item.shape)))


def _reversed(b: Builder, rows: Tensor, reverse: bool) -> Tensor:
  """Returns rows in the opposite order if `reverse` is set.

  A loop cannot write them in that order: converters to ONNX order the rows of a list by when they were written.
  """
  if not reverse:
    return rows
  along = positions(b, rows.shape[:1], 0, np.dtype(np.int32))
  backwards = b.op("Sub", b.size(rows.shape[0] - 1), along, shape=along.shape)
  return b.op("GatherV2", rows, backwards, np.int32(0), shape=rows.shape)


def _reserved(b: Builder, spec: jax.ShapeDtypeStruct, length: Dim) -> Tensor:
  """Returns a list for rows of a stack, which are not read before they are set."""
  if b.library.consumer == "tflite" and not all(isinstance(size, int) for size in spec.shape[1:]):
    # TFLite reserves rows of fixed sizes only.
    return b.op("TensorListFromTensor", _zeros(b, spec), _row_shape(b, spec), shape=())
  dtype = DType.from_numpy(spec.dtype)
  return b.op("TensorListReserve", _row_shape(b, spec), b.size(length), shape=(), element_dtype=dtype)


def _stacked(b: Builder, handle: Tensor, spec: jax.ShapeDtypeStruct, length: Dim) -> Tensor:
  number = length if isinstance(length, int) else -1
  dtype = DType.from_numpy(spec.dtype)
  return b.op(
    "TensorListStack", handle, _row_shape(b, spec), shape=spec.shape, element_dtype=dtype, num_elements=number
  )


def _row_shape(b: Builder, spec: jax.ShapeDtypeStruct) -> Tensor:
  sizes = [size if isinstance(size, int) else -1 for size in spec.shape[1:]]
  return b.constant(np.array(sizes, np.int32).reshape(-1))


def _zeros(b: Builder, spec: jax.ShapeDtypeStruct) -> Tensor:
  return broadcast(b, b.constant(np.zeros((1,) * len(spec.shape), spec.dtype)), spec.shape)
