"""Primitives that call a function: its nodes take the place of the call."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr

from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.interpreter import run_jaxpr, run_open_jaxpr
from graftax.convert.jax2tf.tf_ops.registry import Unsupported, rule
from graftax.convert.jax2tf.tf_ops.rules._common import reshape
from graftax.convert.jax2tf.tf_ops.rules._error_functions import exp_of_negative_square
from graftax.convert.jax2tf.tf_ops.tensors import Tensor


def _run(b: Builder, jaxpr: Jaxpr | ClosedJaxpr, operands: Any) -> list[Tensor]:
  return run_jaxpr(b, jaxpr, operands) if isinstance(jaxpr, ClosedJaxpr) else run_open_jaxpr(b, jaxpr, (), operands)


@rule(
  "jit",
  "pjit",
  ignores=(
    "compiler_options_kvs",
    "ctx_mesh",
    "donated_invars",
    "in_layouts",
    "in_shardings",
    "inline",
    "keep_unused",
    "name",
    "out_layouts",
    "out_shardings",
  ),
  folds=False,
)
def jit(b: Builder, *operands: Tensor, jaxpr: Any) -> list[Tensor]:
  """Returns the results of a compiled function."""
  return _run(b, jaxpr, operands)


@rule("call_hi_primitive", folds=False)
def call_hi_primitive(b: Builder, *operands: Tensor, _prim: Any) -> list[Tensor]:
  """Returns the results of a primitive that JAX expands before lowering, such as `searchsorted` since JAX 0.12."""
  avals, tree = jax.tree.flatten(_prim.in_avals)

  def function(*arrays: jax.Array) -> list[jax.Array]:
    return jax.tree.leaves(_prim.expand(*jax.tree.unflatten(tree, arrays)))

  expanded = jax.make_jaxpr(function)(*(jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals))
  return _run(b, expanded, operands)


@rule("checkpoint", "remat", "remat2", ignores=("differentiated", "policy", "prevent_cse"), folds=False)
def checkpoint(b: Builder, *operands: Tensor, jaxpr: Any) -> list[Tensor]:
  """Returns the results of a function; what it recomputes is computed again."""
  return _run(b, jaxpr, operands)


@rule("call", "closed_call", "core_call", ignores=("name",), folds=False)
def call(b: Builder, *operands: Tensor, call_jaxpr: Any) -> list[Tensor]:
  """Returns the results of a function."""
  return _run(b, call_jaxpr, operands)


@rule(
  "custom_jvp_call",
  ignores=("jvp", "jvp_jaxpr_fun", "jvp_jaxpr_thunk", "name", "num_consts", "symbolic_zeros"),
  folds=False,
)
def custom_jvp_call(b: Builder, *operands: Tensor, call_jaxpr: Any) -> list[Tensor]:
  """Returns the results of a function with a custom JVP rule, which JAX has applied if this is a derivative."""
  if b.lacks("Bitcast", "BitwiseAnd") and _is_exp_of_negative_square(call_jaxpr):
    return [exp_of_negative_square(b, operands[0])]
  return _run(b, call_jaxpr, operands)


def _is_exp_of_negative_square(call_jaxpr: Any) -> bool:
  """Returns whether a function is the one of the derivative of `erfc` in JAX 0.12, which reads the bits of float32."""
  jaxpr = call_jaxpr.jaxpr
  name = str(getattr(jaxpr.debug_info, "func_src_info", "")).partition(" ")[0]
  return (
    name == "exp_neg_sq"
    and jaxpr.invars[0].aval.dtype == np.float32
    and [equation.primitive.name for equation in jaxpr.eqns] == _EXP_OF_NEGATIVE_SQUARE
  )


_EXP_OF_NEGATIVE_SQUARE = (
  "abs min bitcast_convert_type and bitcast_convert_type sub mul add mul neg exp neg polynomial mul mul add"
).split()


@rule(
  "custom_vjp_call",
  "custom_vjp_call_jaxpr",
  ignores=("bwd", "fwd", "fwd_jaxpr_thunk", "name", "num_consts", "out_trees", "symbolic_zeros"),
  folds=False,
)
def custom_vjp_call(b: Builder, *operands: Tensor, call_jaxpr: Any = None, fun_jaxpr: Any = None) -> list[Tensor]:
  """Returns the results of a function with a custom VJP rule, which JAX has applied if this is a derivative."""
  return _run(b, fun_jaxpr if call_jaxpr is None else call_jaxpr, operands)


@rule("custom_linear_solve", folds=False)
def custom_linear_solve(b: Builder, *operands: Tensor, const_lengths: Any, jaxprs: Any) -> list[Tensor]:
  """Returns what the solver of a linear system computes."""
  starts, position = {}, 0
  for name, length in zip(const_lengths._fields, const_lengths, strict=True):
    starts[name] = position
    position += length
  of_solver = operands[starts["solve"] : starts["solve"] + const_lengths.solve]
  return _run(b, jaxprs.solve, [*of_solver, *operands[position:]])


@rule("graftax_call_with_tangents", ignores=("recorded", "rule"), folds=False)
def call_with_tangents(b: Builder, *operands: Tensor, jaxpr: Any) -> list[Tensor]:
  """Returns the results of a function with a given derivative, such as a loop of unknown length."""
  return _run(b, jaxpr, operands)


@rule("graftax_linear_call", ignores=("backward", "num_args", "outputs", "is_transpose"), folds=False)
def linear_call(b: Builder, *operands: Tensor, forward: Any) -> list[Tensor]:
  """Returns the results of a linear function with a given transpose."""
  specs = [jax.ShapeDtypeStruct(operand.shape, operand.dtype) for operand in operands]
  return _run(b, jax.make_jaxpr(forward)(*specs), operands)


@rule(
  "copy",
  "copy_p",
  "device_put",
  "optimization_barrier",
  "reshard",
  "sharding_constraint",
  "name",
  "stop_gradient",
  ignores=(
    "axes",
    "concrete_mesh",
    "context_mesh",
    "copy_semantics",
    "devices",
    "dst_sharding",
    "layout",
    "name",
    "srcs",
    "unconstrained_dims",
  ),
)
def identity(b: Builder, *operands: Tensor) -> list[Tensor]:  # fmt: skip
  """Returns the operands; these primitives are hints to compilers."""
  del b
  return list(operands)


@rule(
  "shard_map",
  ignores=("auto", "check_rep", "check_vma", "in_specs", "manual_axes", "newly_manual_axes", "out_specs"),
  folds=False,
)
def shard_map(b: Builder, *operands: Tensor, jaxpr: Any, mesh: Any) -> list[Tensor]:
  """Returns the results of the function that each device runs, if there is one device."""
  if mesh.size != 1:
    raise Unsupported(f"code for {mesh.size} devices")
  return _run(b, jaxpr, operands)


@rule(
  "all_gather",
  "all_gather_invariant",
  "all_to_all",
  "reduce_scatter",
  ignores=(
    "all_gather_dimension",
    "axis_index_groups",
    "axis_name",
    "axis_size",
    "concat_axis",
    "scatter_dimension",
    "split_axis",
    "tiled",
  ),
  folds=False,
)
def from_itself(b: Builder, x: Tensor, *, out: jax.ShapeDtypeStruct) -> Tensor:
  """Returns what a device gets in a `shard_map` over one device: its own data."""
  return reshape(b, x, out.shape)


@rule("ppermute", ignores=("axis_name",), folds=False)
def ppermute(b: Builder, x: Tensor, *, perm: Any) -> Tensor:
  """Returns what the only device sends to itself."""
  del b
  if not perm:
    raise Unsupported("a device that gets nothing")
  return x


@rule("axis_index", ignores=("axis_name",), folds=False)
def axis_index(b: Builder) -> Tensor:
  """Returns the position of the only device."""
  return b.constant(0, np.int32)


@rule("pvary", ignores=("axes",), folds=False)
def pvary(b: Builder, *operands: Tensor) -> list[Tensor]:
  """Returns the operands; JAX marks values that differ between devices, and does not evaluate the mark elsewhere."""
  del b
  return list(operands)


@rule("platform_index", folds=False)
def platform_index(b: Builder, *, platforms: Sequence[Sequence[str] | None]) -> Tensor:
  """Returns the number of the branch for all platforms, or of that for CPUs if there is none, or `b` prefers it.

  Code for all platforms is nearer to TensorFlow's ops, which run on all: the forms of convolutions for CPUs in ops_jax,
  for example, are products of many slices. One branch is taken for a whole function, since the branches of a derivative
  go on with what the same branches of the values have kept.
  """
  cpu = next((number for number, names in enumerate(platforms) if names and "cpu" in names), None)
  default = next((number for number, names in enumerate(platforms) if names is None), None)
  b.library.has_platform_choice |= cpu is not None and default is not None
  chosen = next((n for n in ((cpu, default) if b.library.prefers_cpu else (default, cpu)) if n is not None), None)
  if chosen is None:
    raise Unsupported(f"branches for the platforms {platforms} only")
  return b.constant(chosen, np.int32)
