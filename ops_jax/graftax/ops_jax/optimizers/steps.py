"""The arithmetic of optimizers: `(*variables, *numbers) -> new variables`, elementwise, as in TensorFlow's kernels.

The parameters of each function are named and ordered as the inputs of its ops.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jax import lax

from graftax.ops_jax._core.values import Array

__all__ = [
  "Step",
  "ada_max",
  "adadelta",
  "adagrad",
  "adagrad_da",
  "adagrad_v2",
  "adam",
  "adam_with_amsgrad",
  "add_sign",
  "centered_rms_prop",
  "ftrl",
  "ftrl_v2",
  "gradient_descent",
  "keras_momentum",
  "momentum",
  "power_sign",
  "proximal_adagrad",
  "proximal_gradient_descent",
  "rms_prop",
]

# Takes the variables' values, then the op's other inputs; returns the variables' new values.
Step = Callable[..., tuple[Array, ...]]


def gradient_descent(var: Array, alpha: Array, delta: Array) -> tuple[Array, ...]:
  """`var - alpha * delta`."""
  return (var - alpha * delta,)


def _shrunk(prox: Array, rate: Array, l1: Array, l2: Array) -> Array:
  with_l1 = jnp.sign(prox) * jnp.maximum(jnp.abs(prox) - rate * l1, 0)
  return jnp.where(l1 > 0, with_l1, prox) / (1 + l2 * rate)


def proximal_gradient_descent(var: Array, alpha: Array, l1: Array, l2: Array, delta: Array) -> tuple[Array, ...]:
  """`shrink(var - alpha * delta)`: `sign(p) * max(|p| - alpha * l1, 0) / (1 + alpha * l2)`."""
  return (_shrunk(var - alpha * delta, alpha, l1, l2),)


def momentum(
  var: Array, accum: Array, lr: Array, grad: Array, momentum: Array, *, use_nesterov: bool = False
) -> tuple[Array, ...]:
  """`accum = momentum * accum + grad`; `var -= lr * accum`, with Nesterov `lr * (grad + momentum * accum)`."""
  accum = accum * momentum + grad
  return var - (grad * lr + accum * momentum * lr if use_nesterov else accum * lr), accum


def keras_momentum(
  var: Array, accum: Array, lr: Array, grad: Array, momentum: Array, *, use_nesterov: bool = False
) -> tuple[Array, ...]:
  """`accum = momentum * accum - lr * grad`; `var += accum`, with Nesterov `momentum * accum - lr * grad`."""
  accum = accum * momentum - grad * lr
  return var + (accum * momentum - grad * lr if use_nesterov else accum), accum


def adam(
  var: Array,
  m: Array,
  v: Array,
  beta1_power: Array,
  beta2_power: Array,
  lr: Array,
  beta1: Array,
  beta2: Array,
  epsilon: Array,
  grad: Array,
  *,
  use_nesterov: bool = False,
) -> tuple[Array, ...]:
  """`var -= lr * sqrt(1 - beta2_power) / (1 - beta1_power) * m / (sqrt(v) + epsilon)`: epsilon outside the root.

  `m` and `v` are running means of the gradient and its square. Nesterov steps along `beta1 * m + (1 - beta1) * grad`.
  """
  rate = lr * jnp.sqrt(1 - beta2_power) / (1 - beta1_power)
  m = m + (grad - m) * (1 - beta1)
  v = v + (lax.square(grad) - v) * (1 - beta2)
  direction = grad * (1 - beta1) + beta1 * m if use_nesterov else m
  return var - direction * rate / (jnp.sqrt(v) + epsilon), m, v


def adam_with_amsgrad(
  var: Array,
  m: Array,
  v: Array,
  vhat: Array,
  beta1_power: Array,
  beta2_power: Array,
  lr: Array,
  beta1: Array,
  beta2: Array,
  epsilon: Array,
  grad: Array,
) -> tuple[Array, ...]:
  """`adam` with `vhat`, the largest `v` so far, in the root."""
  rate = lr * jnp.sqrt(1 - beta2_power) / (1 - beta1_power)
  m = m + (grad - m) * (1 - beta1)
  v = v + (lax.square(grad) - v) * (1 - beta2)
  vhat = jnp.maximum(vhat, v)
  return var - m * rate / (jnp.sqrt(vhat) + epsilon), m, v, vhat


def ada_max(
  var: Array, m: Array, v: Array, beta1_power: Array, lr: Array, beta1: Array, beta2: Array, epsilon: Array, grad: Array
) -> tuple[Array, ...]:
  """`var -= lr / (1 - beta1_power) * m / (v + epsilon)` with `v = max(beta2 * v, |grad|)`."""
  m = m + (grad - m) * (1 - beta1)
  v = jnp.maximum(beta2 * v, jnp.abs(grad))
  return var - lr / (1 - beta1_power) * (m / (v + epsilon)), m, v


def adagrad(var: Array, accum: Array, lr: Array, grad: Array, *, update_slots: bool = True) -> tuple[Array, ...]:
  """`accum += grad**2`; `var -= lr * grad / sqrt(accum)`: no epsilon."""
  accum = accum + lax.square(grad) if update_slots else accum
  return var - lr * grad * lax.rsqrt(accum), accum


def adagrad_v2(
  var: Array, accum: Array, lr: Array, epsilon: Array, grad: Array, *, update_slots: bool = True
) -> tuple[Array, ...]:
  """`accum += grad**2`; `var -= lr * grad / (sqrt(accum) + epsilon)`: epsilon outside the root."""
  accum = accum + lax.square(grad) if update_slots else accum
  return var - lr * grad / (jnp.sqrt(accum) + epsilon), accum


def adagrad_da(
  var: Array,
  gradient_accumulator: Array,
  gradient_squared_accumulator: Array,
  grad: Array,
  lr: Array,
  l1: Array,
  l2: Array,
  global_step: Array,
) -> tuple[Array, ...]:
  """`-lr * total / (l2 * global_step * lr + sqrt(total_squares))`, the total shrunk by `l1 * global_step`."""
  step = jnp.asarray(global_step).astype(var.dtype)
  total, total_squares = gradient_accumulator + grad, gradient_squared_accumulator + lax.square(grad)
  clipped = jnp.where(l1 > 0, jnp.sign(total) * jnp.maximum(jnp.abs(total) - l1 * step, 0), total)
  return -lr * clipped / (l2 * step * lr + jnp.sqrt(total_squares)), total, total_squares


def proximal_adagrad(var: Array, accum: Array, lr: Array, l1: Array, l2: Array, grad: Array) -> tuple[Array, ...]:
  """`adagrad`, then `shrink` as in `proximal_gradient_descent` by the rate of each element, `lr / sqrt(accum)`."""
  accum = accum + lax.square(grad)
  rate = lr * lax.rsqrt(accum)
  return _shrunk(var - grad * rate, rate, l1, l2), accum


def adadelta(
  var: Array, accum: Array, accum_update: Array, lr: Array, rho: Array, epsilon: Array, grad: Array
) -> tuple[Array, ...]:
  """`var -= lr * update`, `update = sqrt(accum_update + epsilon) / sqrt(accum + epsilon) * grad`: inside the roots."""
  accum = accum * rho + lax.square(grad) * (1 - rho)
  update = jnp.sqrt(accum_update + epsilon) * lax.rsqrt(accum + epsilon) * grad
  return var - update * lr, accum, accum_update * rho + lax.square(update) * (1 - rho)


def rms_prop(
  var: Array, ms: Array, mom: Array, lr: Array, rho: Array, momentum: Array, epsilon: Array, grad: Array
) -> tuple[Array, ...]:
  """`mom = momentum * mom + lr * grad / sqrt(ms + epsilon)`: epsilon inside the root; `var -= mom`."""
  ms = ms + (lax.square(grad) - ms) * (1 - rho)
  mom = mom * momentum + grad * lr * lax.rsqrt(ms + epsilon)
  return var - mom, ms, mom


def centered_rms_prop(
  var: Array, mg: Array, ms: Array, mom: Array, lr: Array, rho: Array, momentum: Array, epsilon: Array, grad: Array
) -> tuple[Array, ...]:
  """`rms_prop` with the variance in the root, `sqrt(ms - mg**2 + epsilon)`: epsilon inside."""
  ms = ms + (lax.square(grad) - ms) * (1 - rho)
  mg = mg + (grad - mg) * (1 - rho)
  mom = mom * momentum + grad * lr * lax.rsqrt(ms - lax.square(mg) + epsilon)
  return var - mom, mg, ms, mom


def ftrl(
  var: Array,
  accum: Array,
  linear: Array,
  grad: Array,
  lr: Array,
  l1: Array,
  l2: Array,
  lr_power: Array,
  *,
  multiply_linear_by_lr: bool = False,
) -> tuple[Array, ...]:
  """`var = (l1 * sign(linear) - linear) / (accum**-lr_power / lr + 2 * l2)`, 0 where `|linear| <= l1`.

  With `multiply_linear_by_lr`, numerator and denominator are both scaled by `lr`.
  """
  return _ftrl(var, accum, linear, grad, grad, lr, l1, l2, lr_power, multiply_linear_by_lr)


def ftrl_v2(
  var: Array,
  accum: Array,
  linear: Array,
  grad: Array,
  lr: Array,
  l1: Array,
  l2: Array,
  l2_shrinkage: Array,
  lr_power: Array,
  *,
  multiply_linear_by_lr: bool = False,
) -> tuple[Array, ...]:
  """`ftrl`, whose `linear` takes `grad + 2 * l2_shrinkage * var` in place of the gradient."""
  shrunk = grad + 2 * l2_shrinkage * var
  return _ftrl(var, accum, linear, grad, shrunk, lr, l1, l2, lr_power, multiply_linear_by_lr)


def _ftrl(
  var: Array,
  accum: Array,
  linear: Array,
  grad: Array,
  shrunk_grad: Array,
  lr: Array,
  l1: Array,
  l2: Array,
  lr_power: Array,
  multiply_linear_by_lr: bool,
) -> tuple[Array, ...]:
  # With multiply_linear_by_lr everything is scaled by the learning rate, so that it may be 0.
  unit, rate = (lr, jnp.ones_like(lr)) if multiply_linear_by_lr else (jnp.ones_like(lr), lr)
  new_accum = accum + lax.square(grad)
  old_power, new_power = (jnp.power(a, -lr_power) for a in (accum, new_accum))
  linear = linear + shrunk_grad * unit - (new_power - old_power) / rate * var
  threshold = l1 * unit
  solution = (threshold * jnp.sign(linear) - linear) / (new_power / rate + 2 * l2 * unit)
  return jnp.where(jnp.abs(linear) > threshold, solution, 0), new_accum, linear


def add_sign(
  var: Array, m: Array, lr: Array, alpha: Array, sign_decay: Array, beta: Array, grad: Array
) -> tuple[Array, ...]:
  """`var -= lr * (alpha + sign_decay * sign(grad) * sign(m)) * grad` with `m = beta * m + (1 - beta) * grad`."""
  m = m * beta + grad * (1 - beta)
  return var - lr * (alpha + sign_decay * jnp.sign(grad) * jnp.sign(m)) * grad, m


def power_sign(
  var: Array, m: Array, lr: Array, logbase: Array, sign_decay: Array, beta: Array, grad: Array
) -> tuple[Array, ...]:
  """`var -= lr * exp(logbase * sign_decay * sign(grad) * sign(m)) * grad`, `m` as in `add_sign`."""
  m = m * beta + grad * (1 - beta)
  return var - lr * jnp.exp(logbase * sign_decay * jnp.sign(grad) * jnp.sign(m)) * grad, m
