"""Functions with ops that have no lowering: TensorFlow compiles them to StableHLO, which is lifted."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from graftax.convert.errors import ConversionError
from graftax.convert.jax2tf.tf_calls.flat_function import FlatFunction
from graftax.convert.program import Program, UnavailableCapture
from graftax.ops_jax import LookupTable, ResourceHandle, UnsupportedOpError

__all__ = ["compiled_by_tensorflow"]

# Any in this module: TensorFlow ships no type information, and arrays may be tracers.


def compiled_by_tensorflow(
  tf: Any,
  flat: FlatFunction,
  specs: Sequence[Any],
  program: Program,
  written: Sequence[str],
  error: UnsupportedOpError,
) -> tuple[Callable[..., Any], Mapping[str, Any]]:
  """Returns a function made of the StableHLO of a TensorFlow function, and its variables, as `convert_program` does.

  Its derivatives are those of the StableHLO. If the function has custom gradients, these are lost, so that
  differentiation raises an error.

  Args:
    tf: TensorFlow.
    flat: the function.
    specs: a `tf.TensorSpec` for each flat argument.
    program: the function as a program.
    written: the names of variables that it writes.
    error: why the program was not converted.

  Raises:
    UnsupportedOpError: TensorFlow does not compile the function; the message lists the ops and its reasons.
  """
  from graftax.xla_call_module import Module, StableHloError, lift

  reason = _obstacle(specs, program, written)
  if reason:
    raise _with_reason(error, reason) from error
  try:
    module = Module.from_hlo(flat.compiled_hlo(list(specs)), guard=False)
    lifted = lift(module)
  except (tf.errors.OpError, ValueError, StableHloError) as e:
    raise _with_reason(error, f"{type(e).__name__}: {str(e).strip().partition(chr(10))[0]}") from e
  if len(module.inputs) != len(specs) + len(program.captures):
    raise _with_reason(error, f"the module that TensorFlow compiled has {len(module.inputs)} inputs") from error
  run = _without_derivative(lifted, program.name) if program.gradients else lifted

  def call(values: Mapping[str, Any], *arrays: Any) -> tuple[list[Any], Mapping[str, Any]]:
    captured = [values[c.name] if isinstance(c, ResourceHandle) else c for c in program.captures]
    return list(run(*arrays, *captured)), values

  return call, program.variables


def _obstacle(specs: Sequence[Any], program: Program, written: Sequence[str]) -> str | None:
  """Returns why TensorFlow cannot compile the function to a module of its arguments and captures; None if it can."""
  if any(not spec.shape.is_fully_defined() for spec in specs):
    return "its shapes are symbolic"
  if written:
    return f"it writes the variables {list(written)!r}"
  if any(isinstance(capture, LookupTable | UnavailableCapture) for capture in program.captures):
    return "it captures tables or other resources"
  return None


def _with_reason(error: UnsupportedOpError, reason: str) -> UnsupportedOpError:
  return UnsupportedOpError(f"call_tf: {error}\nTensorFlow's compiler does not help: {reason}.")


def _without_derivative(function: Callable[..., Any], name: str) -> Callable[..., Any]:
  @jax.custom_jvp
  def call(*arrays: Any) -> Any:
    return function(*arrays)

  @call.defjvp
  def refuse(primals: Any, tangents: Any) -> Any:
    raise ConversionError(
      f"call_tf: {name} has custom gradients and ops without a JAX lowering. TensorFlow compiled it to StableHLO, in "
      f"which custom gradients are lost, so it cannot be differentiated. Register lowerings with "
      f"@graftax.ops_jax.register(op)."
    )

  return call
