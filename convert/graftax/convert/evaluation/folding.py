"""Runs steps on known values, so that their results are known too."""

import functools
from collections.abc import Sequence

import jax
import numpy as np

from graftax.convert.planning.plan import Step, as_new_object
from graftax.graphdef_ir import traits_of
from graftax.ops_jax import KNOWN_SIZE_LIMIT, Context, Value, is_symbolic

__all__ = ["run_on_known"]


def run_on_known(step: Step, context: Context, inputs: Sequence[Value]) -> Sequence[Value]:
  """Returns the outputs of a pure step for known inputs; known as well, unless they would be large constants.

  Args:
    step: the step to run.
    context: the program that contains the step.
    inputs: known values.
  """
  is_large = sum([value.size for value in inputs]) > KNOWN_SIZE_LIMIT
  # A symbolic dimension has no value while compiling; numpy keeps it known if it can.
  if is_large or _is_never_constant(step.node.op) or [v for v in inputs if v.dtype.hasobject and is_symbolic(v)]:
    return step.kernel.run(context, inputs)
  # Known values keep TensorFlow's precision, even with `jax_enable_x64` off: 1e-307 is not 0, and a seed that was
  # packed from two 32-bit halves keeps both.
  # Not ensure_compile_time_eval: under `vmap` that leaves calls of custom_jvp and custom_vjp to the batching trace.
  with jax.core.eval_context(), jax.enable_x64(True):
    outputs = step.kernel.run(context, [as_new_object(value) for value in inputs])
    return tuple(np.asarray(value) if isinstance(value, jax.Array) else value for value in outputs)


@functools.cache
def _is_never_constant(op: str) -> bool:
  # A large result would be a constant of the compiled program. A tensor list holds arrays, whose dtypes are those that
  # are written to it while tracing.
  traits = traits_of(op)
  return traits.large_result or traits.makes == "tensor_list"
