"""StableHLO modules in TensorFlow graphs, as `jax2tf.convert` writes them."""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from graftax.graphdef_ir import DType, FunctionRef, Limits
from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.known import canonical_dtype
from graftax.ops_jax._core.precision import FLOATS, float_dtype
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Value, materialize

# Importing this package takes as long as importing all lowerings, and few graphs contain a module, so the functions
# that need it import it.
if TYPE_CHECKING:
  from graftax.xla_call_module import Limits as ModuleLimits
  from graftax.xla_call_module import Module

__all__ = ["xla_call_module"]


@register("XlaCallModule", ignores=("Sout",))
def xla_call_module(
  ctx: Context,
  args: list[Array],
  *,
  version: int,
  module: bytes,
  Tin: tuple[DType, ...],
  Tout: tuple[DType, ...],
  dim_args_spec: tuple[str, ...] = (),
  platforms: tuple[str, ...] = (),
  function_list: tuple[FunctionRef, ...] = (),
  has_token_input_output: bool = False,
  disabled_checks: tuple[str, ...] = (),
  use_shardy_partitioner: bool = False,
) -> tuple[Value, ...]:
  """Runs a StableHLO module as ordinary JAX operations.

  Source op: `tf.raw_ops.XlaCallModule`.

  Args:
    ctx: the program around the node, for the functions of `function_list` and `xlacallmodule_strict_checks`.
    args: arguments of the module's `main`, without platform index, dimension arguments and tokens.
    version: the calling convention, 2 to 10.
    module: the serialized module.
    Tin: dtypes of the arguments in the graph.
    Tout: dtypes of the results.
    dim_args_spec: `"argument.axis"` of the dimensions that are arguments in old modules.
    platforms: platforms for which the module was lowered.
    function_list: TensorFlow functions that the module calls; lowered as any other function, with this program's state.
    has_token_input_output: whether `main` has tokens as arguments and results; they are ignored.
    disabled_checks: checks that the exporter disabled.
    use_shardy_partitioner: the kind of sharding annotations in the module; both kinds are read.

  Raises:
    StableHloError: the module cannot be read, was lowered for other platforms, or does not fit the arguments.

  Differs from TF: shapes are static, so those of polymorphic modules are refined while tracing. An op of the module
  without a JAX counterpart runs as an opaque operation without a derivative. Floats whose precision differs from the
  graph's, such as bfloat16 parameters of a float32 model, are converted to the graph's.
  """
  from graftax.xla_call_module import call, lift

  parsed = _module(
    version,
    module,
    platforms,
    disabled_checks,
    dim_args_spec,
    function_list,
    has_token_input_output,
    ctx.options.limits,
  )
  options: dict[str, Any] = {
    "check_platform": ctx.options.xlacallmodule_strict_checks,
    "allow_custom_calls": ctx.options.allow_custom_calls,
    "limits": _limits(ctx.options.limits),
  }

  def call_tf_function(function: FunctionRef, *operands: Array) -> Sequence[Value]:
    return ctx.call(function, operands)

  values = _in_declared_precision([jnp.asarray(materialize(arg)) for arg in args], Tin)
  if function_list:
    # Those functions depend on the program around them, so `call`, which reuses traces, would be wrong.
    results: Sequence[Any] = lift(parsed, call_tf_function=call_tf_function, **options)(*values)
  else:
    results = call(parsed, *values, **options)
  if len(results) != len(Tout):
    raise InvalidInputError(
      f"XlaCallModule node {ctx.node_name!r} (function {ctx.function_name!r}): the module has {len(results)} results; "
      f"the node has {len(Tout)}."
    )
  return tuple(_result(value, dtype) for value, dtype in zip(results, Tout, strict=True))


def _in_declared_precision(values: Sequence[Array], dtypes: Sequence[DType]) -> list[Array]:
  # A module computes in the types that it was written for, unlike ops, which promote.
  declared = [dtype.base.numpy if dtype.base in FLOATS else None for dtype in dtypes]
  return [
    value if dtype is None or float_dtype(value) in (None, canonical_dtype(dtype)) else value.astype(dtype)
    for value, dtype in zip(values, declared, strict=True)
  ]


@functools.lru_cache(maxsize=256)
def _module(
  version: int,
  module: bytes,
  platforms: tuple[str, ...],
  disabled_checks: tuple[str, ...],
  dim_args_spec: tuple[str, ...],
  function_list: tuple[FunctionRef, ...],
  has_token_input_output: bool,
  limits: Limits,
) -> "Module":
  from graftax.xla_call_module import Module

  return Module.from_call_module(
    version=version,
    module=module,
    platforms=platforms,
    disabled_checks=disabled_checks,
    dim_args_spec=dim_args_spec,
    function_list=function_list,
    has_token_input_output=has_token_input_output,
    limits=_limits(limits),
  )


def _limits(limits: Limits) -> "ModuleLimits":
  from graftax.xla_call_module import Limits as ModuleLimits

  return ModuleLimits.like(limits)


def _result(value: Array, dtype: DType) -> Array:
  # Modules represent float0, the dtype of derivatives of integers, as booleans; TensorFlow uses the dtype in Tout.
  wanted = dtype.base.numpy
  if value.dtype == np.bool_ and wanted != np.bool_:
    return value.astype(wanted)
  return value
