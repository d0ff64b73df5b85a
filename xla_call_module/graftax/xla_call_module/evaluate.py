"""Evaluates the IR: folds ops on known integers, and calls the registered lowerings for all other ops."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from graftax.xla_call_module import analysis, errors, fold, ir, registry, values, without_x64
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.patterns.inlining import MAX_INLINED_OPS

__all__ = ["call_function", "region_function", "run_function", "run_ops", "run_region"]

Environment = dict[int, Any]
_MAX_EXPANDED_OPS = 1000


def run_function(context: Context, function: ir.Function, arguments: Sequence[Any]) -> list[Any]:
  """Evaluates a function of the module on known values, traced values or tokens and returns its results."""
  environment = dict(zip(function.body.args, arguments, strict=True))
  run_ops(context, function.body.ops, environment)
  return [environment[number] for number in function.body.returns]


def run_region(context: Context, region: ir.Region, outer: Environment, arguments: Sequence[Any]) -> list[Any]:
  """Evaluates a region and returns its results; captured values are read from the outer environment."""
  environment = {number: outer[number] for number in region.captures}
  environment.update(zip(region.args, arguments, strict=True))
  run_ops(context, region.ops, environment)
  return [environment[number] for number in region.returns]


def region_function(context: Context, region: ir.Region, outer: Environment) -> Callable[..., Any]:
  """Returns a region as a Python function. It returns a single result as is and several results as a tuple."""

  def run(*arguments: Any) -> Any:
    results = [values.materialize(value) for value in run_region(context, region, outer, arguments)]
    return results[0] if len(results) == 1 else tuple(results)

  return run


def run_ops(context: Context, ops: Sequence[ir.Op], environment: Environment) -> None:
  """Evaluates ops in order and stores their results in the environment."""
  if ops:
    context.budget.spend_steps(len(ops), ops[0].place)
  for op in ops:
    if op.results and op.results[0] in environment:
      continue  # a recognized pattern has computed it already
    operands = [environment[number] for number in op.operands]
    rule = registry.ops.get(op.name)
    try:
      if rule is not None and (unknown := rule.unknown_attributes(op.attrs)):
        raise context.does_not_know(op, unknown)
      folded = fold.try_fold(op, operands)
      if folded is not None:
        environment[op.results[0]] = folded
        continue
      result = _lowered(context, op, rule, operands, environment)
    except errors.LiftError as error:
      if context.options.on_unsupported is None:
        raise
      scope = {number: values.materialize(value) for number, value in environment.items()}
      result = context.options.on_unsupported(op, error, scope)
    except errors.StableHloError:
      raise
    except Exception as error:
      if _is_of_module(error, rule, op, context):
        raise _malformed(op, error) from error
      _annotate(error, op)
      raise
    _enter(context, op, result, environment)


def _lowered(
  context: Context, op: ir.Op, rule: registry.LoweringRule | None, operands: Sequence[Any], environment: Environment
) -> Any:
  """Returns the results that the registered lowering of an op computes."""
  if rule is None:
    raise context.unsupported(op, "no lowering is registered for it.")
  if context.without_x64 and without_x64.concerns(op, operands):
    return without_x64.evaluate(context, op, operands)
  if not rule.takes_known:
    operands = [values.materialize(value) for value in operands]
  if op.regions or rule.takes_environment:
    return rule.function(context, op, *operands, environment=environment)
  return rule.function(context, op, *operands)


def _enter(context: Context, op: ir.Op, result: Any, environment: Environment) -> None:
  """Stores the result or results of a lowering in the environment."""
  if isinstance(result, values.Recovered):
    environment.update(result.others)
    result = result.results
  results = result if type(result) in (tuple, list) else (result,)
  _check_results(context, op, results)
  environment.update(zip(op.results, results, strict=True))


def _check_results(context: Context, op: ir.Op, results: Sequence[Any]) -> None:
  """Checks that the results have the declared types, since lowerings and callbacks may be written by users."""
  if len(results) != len(op.results):
    raise _wrong_results(op, results)
  for kind, value in zip(op.types, results, strict=True):
    if type(kind) is not ir.TensorType or _is_exactly(value, kind):
      continue
    if None in kind.shape:
      _check_size(context, op, value)
    # While 64-bit types are disabled, 64-bit integers are `BoundedInt64` or `Int64Pair`.
    is_64_bit_integer = context.without_x64 and kind.dtype.itemsize == 8
    if not is_64_bit_integer and not _has_type(value, kind):
      raise _wrong_results(op, results)


def _is_exactly(value: Any, kind: ir.TensorType) -> bool:
  """Returns whether a value has the declared type, which has no open dimension; the common case."""
  return getattr(value, "shape", None) == kind.shape and bool(value.dtype == kind.dtype)


def _check_size(context: Context, op: ir.Op, value: Any) -> None:
  """Checks the size of a result whose declared type does not tell it."""
  shape: Any = getattr(value, "shape", (None,))
  if all(isinstance(dim, int) for dim in shape):
    context.budget.check_array(shape, value.dtype.itemsize, op.place)


def _has_type(value: Any, kind: ir.TensorType) -> bool:
  shape = getattr(value, "shape", None)
  if shape == kind.shape:
    return bool(value.dtype == kind.dtype)
  if shape is None or len(shape) != len(kind.shape) or value.dtype != kind.dtype:
    return False
  return all(want is None or dim == want for dim, want in zip(shape, kind.shape, strict=True))


def _wrong_results(op: ir.Op, results: Sequence[Any]) -> errors.ArgumentError:
  made = ", ".join(
    f"{value.dtype}[{', '.join(map(str, value.shape))}]" if hasattr(value, "dtype") else type(value).__name__
    for value in results
  )
  target = op.attrs.text("call_target_name", "")
  return errors.ArgumentError(
    f"the lowering of {op.place}{f' ({target})' if target else ''} returned ({made}); the module declares "
    f"({', '.join(map(str, op.types))})."
  )


def _annotate(error: Exception, op: ir.Op) -> None:
  if not _is_annotated(error):
    error.add_note(f"while lifting {op.place}")


def _is_annotated(error: Exception) -> bool:
  return any(earlier.startswith("while lifting") for earlier in getattr(error, "__notes__", ()))


# What Python, NumPy and JAX raise for operands, attributes and regions that an op may not have.
_MALFORMED = (
  ArithmeticError, AssertionError, AttributeError, IndexError, KeyError, MemoryError, NotImplementedError,
  RecursionError, TypeError, ValueError,
)  # fmt: skip
_OF_TRACING = (jax.errors.JAXTypeError, jax.errors.JAXIndexError)


def _is_of_module(error: Exception, rule: registry.LoweringRule | None, op: ir.Op, context: Context) -> bool:
  """Returns whether an error that a lowering raised comes from the module, and not from functions of the caller."""
  if not isinstance(error, _MALFORMED) or isinstance(error, _OF_TRACING) or _is_annotated(error):
    return False
  target = str(op.attrs.get("call_target_name"))
  if target in context.options.custom_calls or target == "tf.call_tf_function":
    return False
  inner = registry.custom_calls.get(target) or registry.composites.get(str(op.attrs.get("name"))) or rule
  return inner is not None and inner.function.__module__.startswith(__package__ or "")


def _malformed(op: ir.Op, error: Exception) -> errors.LiftError:
  reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
  return errors.LiftError(
    f"{op.place} does not lift, because its operands, attributes or regions do not fit it: {reason}",
    op=op.name,
    location=op.location,
    reason=reason,
  )


def call_function(context: Context, name: str, arguments: Sequence[Any]) -> list[Any]:
  """Calls a private function of the module: inline if it is small, else as a named `jax.jit`.

  Known arguments that determine shapes or trip counts are closed over; the function is traced once for each set of
  their values.
  """
  function = context.ir.functions[name]
  is_known = bool(arguments) and all(isinstance(value, (np.ndarray, values.SymbolicArray)) for value in arguments)
  # If small functions call small functions twice each, inlining all of them would produce exponentially many ops.
  inlines = analysis.expanded_size(context, function) <= _MAX_EXPANDED_OPS
  if inlines and (len(function.body.ops) <= MAX_INLINED_OPS or is_known):
    return run_function(context, function, arguments)
  wanted = analysis.static_parameters(context, function)
  static = {
    index: value
    for index, value in enumerate(arguments)
    if isinstance(value, (values.Token, values.SymbolicArray)) or (index in wanted and values.is_known(value))
  }
  traced = [values.materialize(value) for index, value in enumerate(arguments) if index not in static]
  if any(isinstance(value, without_x64.BoundedInt64) for value in traced):
    return run_function(context, function, arguments)
  key = (name, tuple((index, _static_key(value)) for index, value in static.items()))
  call = context.calls.get(key)
  if call is None:
    call = context.calls[key] = _Call(context, function, static)
  return call(traced)


def _static_key(value: Any) -> Any:
  if isinstance(value, np.ndarray):
    return value.dtype.str, value.shape, value.tobytes()
  if isinstance(value, values.SymbolicArray):
    return value.dtype.str, value.shape, tuple(value.dims.flat)
  return None


class _Call:
  """A function of the module under `jax.jit`, with its static arguments closed over.

  Known results (shape arithmetic, tokens) are stored while tracing, because they would become traced in `jit`.
  """

  def __init__(self, context: Context, function: ir.Function, static: dict[int, Any]):
    self.context, self.function, self.static = context, function, static
    self.known: dict[Any, dict[int, Any]] = {}

    def body(*traced: Any) -> list[Any]:
      rest = iter(traced)
      arguments = [static[i] if i in static else next(rest) for i in range(len(function.body.args))]
      results = run_function(context, function, arguments)
      known = {
        i: value
        for i, value in enumerate(results)
        if isinstance(value, (values.Token, values.SymbolicArray, without_x64.BoundedInt64)) or _is_small_known(value)
      }
      if any(isinstance(value, without_x64.BoundedInt64) for value in known.values()):
        raise errors.X64Error(
          f"function {function.name!r} returns 64-bit integers and 64-bit types are disabled; set jax_enable_x64 or"
          " pass x64='enable'."
        )
      self.known[_signature(traced)] = known
      return [values.materialize(value) for i, value in enumerate(results) if i not in known]

    body.__name__ = body.__qualname__ = function.name.replace(".", "_")
    self.jitted = jax.jit(body)

  def __call__(self, traced: Sequence[Any]) -> list[Any]:
    outputs = iter(self.jitted(*traced))
    known = self.known[_signature(traced)]
    return [known[i] if i in known else next(outputs) for i in range(len(self.function.result_types))]


def _is_small_known(value: Any) -> bool:
  return isinstance(value, np.ndarray) and value.dtype.kind in "iub" and value.size <= analysis.MAX_SHAPE_SIZE


def _signature(traced: Sequence[Any]) -> tuple[Any, ...]:
  return tuple((np.shape(value), value.dtype) for value in traced)
