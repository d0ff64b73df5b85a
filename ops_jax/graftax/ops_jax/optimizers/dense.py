"""One step of an optimizer: the dense ResourceApply ops, and their twins for TF1 reference variables.

The arithmetic is that of TensorFlow's kernels, in `steps.py`; here is which variable takes which part in it.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from graftax.ops_jax._core.context import Context, ResourceHandle
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array
from graftax.ops_jax.optimizers import steps

__all__ = ["apply_step"]

_Lowering = Callable[..., tuple[()]]


def apply_step(ctx: Context, handles: tuple[ResourceHandle, ...], step: steps.Step, *numbers: Array) -> tuple[()]:
  """Replaces the values of `handles` by `step(*values, *numbers)`, which returns as many."""
  values = step(*[jnp.asarray(ctx.read(handle)) for handle in handles], *numbers)
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

    ignores = ("T", "use_locking")
    register(name, ignores=ignores)(twin)
    return register(f"Resource{name}", ignores=ignores)(function)

  return decorate


@_register_with_twin("ApplyGradientDescent")
def _gradient_descent(ctx: Context, var: ResourceHandle, alpha: Array, delta: Array) -> tuple[()]:
  """`var -= alpha * delta`."""
  return apply_step(ctx, (var,), steps.gradient_descent, alpha, delta)


@_register_with_twin("ApplyProximalGradientDescent")
def _proximal_gradient_descent(
  ctx: Context, var: ResourceHandle, alpha: Array, l1: Array, l2: Array, delta: Array
) -> tuple[()]:
  return apply_step(ctx, (var,), steps.proximal_gradient_descent, alpha, l1, l2, delta)


@_register_with_twin("ApplyMomentum")
def _momentum(
  ctx: Context,
  var: ResourceHandle,
  accum: ResourceHandle,
  lr: Array,
  grad: Array,
  momentum: Array,
  *,
  use_nesterov: bool = False,
) -> tuple[()]:
  step = functools.partial(steps.momentum, use_nesterov=use_nesterov)
  return apply_step(ctx, (var, accum), step, lr, grad, momentum)


@register("ResourceApplyKerasMomentum", ignores=("T", "use_locking"))
def _keras_momentum(
  ctx: Context,
  var: ResourceHandle,
  accum: ResourceHandle,
  lr: Array,
  grad: Array,
  momentum: Array,
  *,
  use_nesterov: bool = False,
) -> tuple[()]:
  step = functools.partial(steps.keras_momentum, use_nesterov=use_nesterov)
  return apply_step(ctx, (var, accum), step, lr, grad, momentum)


@_register_with_twin("ApplyAdam")
def _adam(
  ctx: Context,
  var: ResourceHandle,
  m: ResourceHandle,
  v: ResourceHandle,
  beta1_power: Array,
  beta2_power: Array,
  lr: Array,
  beta1: Array,
  beta2: Array,
  epsilon: Array,
  grad: Array,
  *,
  use_nesterov: bool = False,
) -> tuple[()]:
  step = functools.partial(steps.adam, use_nesterov=use_nesterov)
  return apply_step(ctx, (var, m, v), step, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad)


@register("ResourceApplyAdamWithAmsgrad", ignores=("T", "use_locking"))
def _adam_with_amsgrad(
  ctx: Context,
  var: ResourceHandle,
  m: ResourceHandle,
  v: ResourceHandle,
  vhat: ResourceHandle,
  beta1_power: Array,
  beta2_power: Array,
  lr: Array,
  beta1: Array,
  beta2: Array,
  epsilon: Array,
  grad: Array,
) -> tuple[()]:
  numbers = (beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad)
  return apply_step(ctx, (var, m, v, vhat), steps.adam_with_amsgrad, *numbers)


@_register_with_twin("ApplyAdaMax")
def _ada_max(
  ctx: Context,
  var: ResourceHandle,
  m: ResourceHandle,
  v: ResourceHandle,
  beta1_power: Array,
  lr: Array,
  beta1: Array,
  beta2: Array,
  epsilon: Array,
  grad: Array,
) -> tuple[()]:
  return apply_step(ctx, (var, m, v), steps.ada_max, beta1_power, lr, beta1, beta2, epsilon, grad)


@_register_with_twin("ApplyAdagrad")
def _adagrad(
  ctx: Context, var: ResourceHandle, accum: ResourceHandle, lr: Array, grad: Array, *, update_slots: bool = True
) -> tuple[()]:
  step = functools.partial(steps.adagrad, update_slots=update_slots)
  return apply_step(ctx, (var, accum), step, lr, grad)


@_register_with_twin("ApplyAdagradV2")
def _adagrad_v2(
  ctx: Context,
  var: ResourceHandle,
  accum: ResourceHandle,
  lr: Array,
  epsilon: Array,
  grad: Array,
  *,
  update_slots: bool = True,
) -> tuple[()]:
  step = functools.partial(steps.adagrad_v2, update_slots=update_slots)
  return apply_step(ctx, (var, accum), step, lr, epsilon, grad)


@_register_with_twin("ApplyAdagradDA")
def _adagrad_da(
  ctx: Context,
  var: ResourceHandle,
  gradient_accumulator: ResourceHandle,
  gradient_squared_accumulator: ResourceHandle,
  grad: Array,
  lr: Array,
  l1: Array,
  l2: Array,
  global_step: Array,
) -> tuple[()]:
  handles = (var, gradient_accumulator, gradient_squared_accumulator)
  return apply_step(ctx, handles, steps.adagrad_da, grad, lr, l1, l2, global_step)


@_register_with_twin("ApplyProximalAdagrad")
def _proximal_adagrad(
  ctx: Context, var: ResourceHandle, accum: ResourceHandle, lr: Array, l1: Array, l2: Array, grad: Array
) -> tuple[()]:
  return apply_step(ctx, (var, accum), steps.proximal_adagrad, lr, l1, l2, grad)


@_register_with_twin("ApplyAdadelta")
def _adadelta(
  ctx: Context,
  var: ResourceHandle,
  accum: ResourceHandle,
  accum_update: ResourceHandle,
  lr: Array,
  rho: Array,
  epsilon: Array,
  grad: Array,
) -> tuple[()]:
  return apply_step(ctx, (var, accum, accum_update), steps.adadelta, lr, rho, epsilon, grad)


@_register_with_twin("ApplyRMSProp")
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
) -> tuple[()]:
  return apply_step(ctx, (var, ms, mom), steps.rms_prop, lr, rho, momentum, epsilon, grad)


@_register_with_twin("ApplyCenteredRMSProp")
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
) -> tuple[()]:
  return apply_step(ctx, (var, mg, ms, mom), steps.centered_rms_prop, lr, rho, momentum, epsilon, grad)


@_register_with_twin("ApplyFtrl")
def _ftrl(
  ctx: Context,
  var: ResourceHandle,
  accum: ResourceHandle,
  linear: ResourceHandle,
  grad: Array,
  lr: Array,
  l1: Array,
  l2: Array,
  lr_power: Array,
  *,
  multiply_linear_by_lr: bool = False,
) -> tuple[()]:
  step = functools.partial(steps.ftrl, multiply_linear_by_lr=multiply_linear_by_lr)
  return apply_step(ctx, (var, accum, linear), step, grad, lr, l1, l2, lr_power)


@_register_with_twin("ApplyFtrlV2")
def _ftrl_v2(
  ctx: Context,
  var: ResourceHandle,
  accum: ResourceHandle,
  linear: ResourceHandle,
  grad: Array,
  lr: Array,
  l1: Array,
  l2: Array,
  l2_shrinkage: Array,
  lr_power: Array,
  *,
  multiply_linear_by_lr: bool = False,
) -> tuple[()]:
  step = functools.partial(steps.ftrl_v2, multiply_linear_by_lr=multiply_linear_by_lr)
  return apply_step(ctx, (var, accum, linear), step, grad, lr, l1, l2, l2_shrinkage, lr_power)


@_register_with_twin("ApplyAddSign")
def _add_sign(
  ctx: Context,
  var: ResourceHandle,
  m: ResourceHandle,
  lr: Array,
  alpha: Array,
  sign_decay: Array,
  beta: Array,
  grad: Array,
) -> tuple[()]:
  return apply_step(ctx, (var, m), steps.add_sign, lr, alpha, sign_decay, beta, grad)


@_register_with_twin("ApplyPowerSign")
def _power_sign(
  ctx: Context,
  var: ResourceHandle,
  m: ResourceHandle,
  lr: Array,
  logbase: Array,
  sign_decay: Array,
  beta: Array,
  grad: Array,
) -> tuple[()]:
  return apply_step(ctx, (var, m), steps.power_sign, lr, logbase, sign_decay, beta, grad)
