"""One step of an optimizer for some rows: the ResourceSparseApply ops, and their twins for TF1 reference variables."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from graftax.ops_jax._core.context import Context, ResourceHandle
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array
from graftax.ops_jax.array.gather import positions_or_end
from graftax.ops_jax.optimizers import steps

__all__ = ["apply_step_to_rows"]

_Lowering = Callable[..., tuple[()]]


def apply_step_to_rows(
  ctx: Context, handles: tuple[ResourceHandle, ...], step: Callable[..., tuple[Array, ...]], grad: Array, indices: Array
) -> tuple[()]:
  """Applies `step(*rows, grad_row)` to the rows `indices` of the variables; a row named twice takes two steps.

  Args:
    ctx: holds the variables.
    handles: variables of shape `[num_rows, ...]`.
    step: `(*values, gradient) -> new values`, elementwise.
    grad: `[num_indices, ...]`.
    indices: `[num_indices]`.

  Raises:
    InvalidInputError: a known index is out of range.

  Differs from TF: rows at traced indices out of range are left out rather than an error.
  """
  variables = tuple(jnp.asarray(ctx.read(handle)) for handle in handles)
  grad, indices = jnp.asarray(grad), positions_or_end(ctx.node_name, indices, variables[0].shape[0])

  def all_at_once(variables: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    rows = step(*[v[indices] for v in variables], grad)
    return tuple(v.at[indices].set(row, mode="drop") for v, row in zip(variables, rows, strict=True))

  def one_by_one(variables: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    def body(variables: tuple[jax.Array, ...], item: tuple[Array, Array]) -> tuple[tuple[jax.Array, ...], None]:
      index, row_grad = item
      rows = step(*[v[index] for v in variables], row_grad)
      return tuple(v.at[index].set(row, mode="drop") for v, row in zip(variables, rows, strict=True)), None

    return lax.scan(body, variables, (indices, grad))[0]

  if indices.shape[0] <= 1:
    values = all_at_once(variables)
  else:
    ordered = jnp.sort(indices)
    values = lax.cond(jnp.any(ordered[1:] == ordered[:-1]), one_by_one, all_at_once, variables)
  for handle, value in zip(handles, values, strict=True):
    ctx.write(handle, value)
  return ()


def _register_with_twin(name: str) -> Callable[[_Lowering], _Lowering]:
  """Registers a lowering as `Resource<name>`, and as `<name>`, which returns the variable it changed."""

  def decorate(function: _Lowering) -> _Lowering:
    @functools.wraps(function)
    def twin(ctx: Context, var: ResourceHandle, *args: Any, **attrs: Any) -> ResourceHandle:
      function(ctx, var, *args, **attrs)
      return var

    ignores = ("T", "Tindices", "use_locking")
    register(name, ignores=ignores)(twin)
    return register(f"Resource{name}", ignores=ignores)(function)

  return decorate


@_register_with_twin("SparseApplyMomentum")
def _momentum(
  ctx: Context,
  var: ResourceHandle,
  accum: ResourceHandle,
  lr: Array,
  grad: Array,
  indices: Array,
  momentum: Array,
  *,
  use_nesterov: bool = False,
) -> tuple[()]:
  def step(v: Array, a: Array, g: Array) -> tuple[Array, ...]:
    return steps.momentum(v, a, lr, g, momentum, use_nesterov=use_nesterov)

  return apply_step_to_rows(ctx, (var, accum), step, grad, indices)


@register("ResourceSparseApplyKerasMomentum", ignores=("T", "Tindices", "use_locking"))
def _keras_momentum(
  ctx: Context,
  var: ResourceHandle,
  accum: ResourceHandle,
  lr: Array,
  grad: Array,
  indices: Array,
  momentum: Array,
  *,
  use_nesterov: bool = False,
) -> tuple[()]:
  def step(v: Array, a: Array, g: Array) -> tuple[Array, ...]:
    return steps.keras_momentum(v, a, lr, g, momentum, use_nesterov=use_nesterov)

  return apply_step_to_rows(ctx, (var, accum), step, grad, indices)


@_register_with_twin("SparseApplyAdagrad")
def _adagrad(
  ctx: Context,
  var: ResourceHandle,
  accum: ResourceHandle,
  lr: Array,
  grad: Array,
  indices: Array,
  *,
  update_slots: bool = True,
) -> tuple[()]:
  def step(v: Array, a: Array, g: Array) -> tuple[Array, ...]:
    return steps.adagrad(v, a, lr, g, update_slots=update_slots)

  return apply_step_to_rows(ctx, (var, accum), step, grad, indices)


@_register_with_twin("SparseApplyAdagradV2")
def _adagrad_v2(
  ctx: Context,
  var: ResourceHandle,
  accum: ResourceHandle,
  lr: Array,
  epsilon: Array,
  grad: Array,
  indices: Array,
  *,
  update_slots: bool = True,
) -> tuple[()]:
  def step(v: Array, a: Array, g: Array) -> tuple[Array, ...]:
    return steps.adagrad_v2(v, a, lr, epsilon, g, update_slots=update_slots)

  return apply_step_to_rows(ctx, (var, accum), step, grad, indices)


@_register_with_twin("SparseApplyAdagradDA")
def _adagrad_da(
  ctx: Context,
  var: ResourceHandle,
  gradient_accumulator: ResourceHandle,
  gradient_squared_accumulator: ResourceHandle,
  grad: Array,
  indices: Array,
  lr: Array,
  l1: Array,
  l2: Array,
  global_step: Array,
) -> tuple[()]:
  def step(v: Array, total: Array, squares: Array, g: Array) -> tuple[Array, ...]:
    return steps.adagrad_da(v, total, squares, g, lr, l1, l2, global_step)

  handles = (var, gradient_accumulator, gradient_squared_accumulator)
  return apply_step_to_rows(ctx, handles, step, grad, indices)


@_register_with_twin("SparseApplyProximalAdagrad")
def _proximal_adagrad(
  ctx: Context,
  var: ResourceHandle,
  accum: ResourceHandle,
  lr: Array,
  l1: Array,
  l2: Array,
  grad: Array,
  indices: Array,
) -> tuple[()]:
  def step(v: Array, a: Array, g: Array) -> tuple[Array, ...]:
    return steps.proximal_adagrad(v, a, lr, l1, l2, g)

  return apply_step_to_rows(ctx, (var, accum), step, grad, indices)


@_register_with_twin("SparseApplyProximalGradientDescent")
def _proximal_gradient_descent(
  ctx: Context, var: ResourceHandle, alpha: Array, l1: Array, l2: Array, grad: Array, indices: Array
) -> tuple[()]:
  def step(v: Array, g: Array) -> tuple[Array, ...]:
    return steps.proximal_gradient_descent(v, alpha, l1, l2, g)

  return apply_step_to_rows(ctx, (var,), step, grad, indices)


@_register_with_twin("SparseApplyAdadelta")
def _adadelta(
  ctx: Context,
  var: ResourceHandle,
  accum: ResourceHandle,
  accum_update: ResourceHandle,
  lr: Array,
  rho: Array,
  epsilon: Array,
  grad: Array,
  indices: Array,
) -> tuple[()]:
  def step(v: Array, a: Array, u: Array, g: Array) -> tuple[Array, ...]:
    return steps.adadelta(v, a, u, lr, rho, epsilon, g)

  return apply_step_to_rows(ctx, (var, accum, accum_update), step, grad, indices)


@_register_with_twin("SparseApplyRMSProp")
def _rms_prop(
  ctx: Context,
  var: ResourceHandle,
  ms: ResourceHandle,
  mom: ResourceHandle,
  lr: Array,
  rho: Array,
  momentum: Array,
  epsilon: Array,
  grad: Array,
  indices: Array,
) -> tuple[()]:
  def step(v: Array, s: Array, m: Array, g: Array) -> tuple[Array, ...]:
    return steps.rms_prop(v, s, m, lr, rho, momentum, epsilon, g)

  return apply_step_to_rows(ctx, (var, ms, mom), step, grad, indices)


@_register_with_twin("SparseApplyCenteredRMSProp")
def _centered_rms_prop(
  ctx: Context,
  var: ResourceHandle,
  mg: ResourceHandle,
  ms: ResourceHandle,
  mom: ResourceHandle,
  lr: Array,
  rho: Array,
  momentum: Array,
  epsilon: Array,
  grad: Array,
  indices: Array,
) -> tuple[()]:
  def step(v: Array, mean: Array, s: Array, m: Array, g: Array) -> tuple[Array, ...]:
    return steps.centered_rms_prop(v, mean, s, m, lr, rho, momentum, epsilon, g)

  return apply_step_to_rows(ctx, (var, mg, ms, mom), step, grad, indices)


@_register_with_twin("SparseApplyFtrl")
def _ftrl(
  ctx: Context,
  var: ResourceHandle,
  accum: ResourceHandle,
  linear: ResourceHandle,
  grad: Array,
  indices: Array,
  lr: Array,
  l1: Array,
  l2: Array,
  lr_power: Array,
  *,
  multiply_linear_by_lr: bool = False,
) -> tuple[()]:
  def step(v: Array, a: Array, n: Array, g: Array) -> tuple[Array, ...]:
    return steps.ftrl(v, a, n, g, lr, l1, l2, lr_power, multiply_linear_by_lr=multiply_linear_by_lr)

  return apply_step_to_rows(ctx, (var, accum, linear), step, grad, indices)


@_register_with_twin("SparseApplyFtrlV2")
def _ftrl_v2(
  ctx: Context,
  var: ResourceHandle,
  accum: ResourceHandle,
  linear: ResourceHandle,
  grad: Array,
  indices: Array,
  lr: Array,
  l1: Array,
  l2: Array,
  l2_shrinkage: Array,
  lr_power: Array,
  *,
  multiply_linear_by_lr: bool = False,
) -> tuple[()]:
  def step(v: Array, a: Array, n: Array, g: Array) -> tuple[Array, ...]:
    return steps.ftrl_v2(v, a, n, g, lr, l1, l2, l2_shrinkage, lr_power, multiply_linear_by_lr=multiply_linear_by_lr)

  return apply_step_to_rows(ctx, (var, accum, linear), step, grad, indices)
