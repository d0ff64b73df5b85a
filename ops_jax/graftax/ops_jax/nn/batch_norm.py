"""Batch normalization: FusedBatchNorm in all versions, and its gradient."""

from collections.abc import Callable, Sequence
from typing import Any, TypedDict, Unpack

import jax
import jax.numpy as jnp
from jax import lax

from graftax.ops_jax._core.errors import UnsupportedAttrError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array
from graftax.ops_jax.nn.activations import relu, relu_grad
from graftax.ops_jax.spatial.layouts import layout
from graftax.xla_call_module.lax_extras import default_promotion

__all__ = [
  "batch_norm_with_global_normalization",
  "batch_norm_with_global_normalization_grad",
  "fused_batch_norm",
  "fused_batch_norm_ex",
  "fused_batch_norm_grad",
  "fused_batch_norm_grad_ex",
  "fused_batch_norm_grad_v3",
  "fused_batch_norm_v3",
]

# The axes that are normalized: all but the channels.
_Axes = tuple[int, ...]


class _BatchNormGradAttrs(TypedDict, total=False):
  """Attributes of `FusedBatchNormGradV3` and its older versions."""

  epsilon: float
  data_format: str
  is_training: bool


class _BatchNormAttrs(_BatchNormGradAttrs, total=False):
  """Attributes of `FusedBatchNormV3` and its older versions."""

  exponential_avg_factor: float


def _reduced_axes(op: str, data_format: str, rank: int) -> _Axes:
  channel_axis = layout(op, data_format, rank).channel_axis
  return tuple(i for i in range(rank) if i != channel_axis)


def _moments(x: Array, axes: _Axes) -> tuple[Array, Array]:
  mean = jnp.mean(x, axes, keepdims=True)
  return mean, jnp.mean(lax.square(x - mean), axes, keepdims=True)


def _along_channels(vector: Array, x: Array, axes: _Axes) -> Array:
  return lax.expand_dims(jnp.asarray(vector).astype(x.dtype), axes) if jnp.ndim(vector) == 1 else vector


def fused_batch_norm_v3(
  x: Array,
  scale: Array,
  offset: Array,
  mean: Array,
  variance: Array,
  *,
  epsilon: float = 1e-4,
  exponential_avg_factor: float = 1.0,
  data_format: str = "NHWC",
  is_training: bool = True,
) -> tuple[Array, ...]:
  """Normalizes `x` per channel, scales and shifts it, and returns the statistics that the gradient needs.

  Source op: `tf.raw_ops.FusedBatchNormV3`.

  Args:
    x: `[batch, ..., channels]`, or `[batch, channels, ...]` for `"NCHW"` and `"NCDHW"`.
    scale: `[channels]`, float32 (or the dtype of `x`), as the following three.
    offset: `[channels]`.
    mean: `[channels]`, the mean to use when not training. In training, the running mean when
      `exponential_avg_factor` is not 1, otherwise unused (it may be empty).
    variance: `[channels]`, the same for the variance.
    epsilon: added to the variance.
    exponential_avg_factor: in training, weight of this batch in the returned statistics.
    data_format: `"NHWC"`, `"NCHW"`, `"NDHWC"` or `"NCDHW"`.
    is_training: whether the statistics of the batch are used.

  Returns:
    y: same shape and dtype as `x`.
    batch_mean: `[channels]`, the running mean after this batch; `mean` if not training.
    batch_variance: `[channels]`, likewise, with Bessel's correction.
    reserve_space_1: `[channels]`, mean used to normalize.
    reserve_space_2: `[channels]`, variance used to normalize, without the correction.
    reserve_space_3: empty.
    Only `y` is differentiable, with respect to `x`, `scale` and `offset`, as in TensorFlow.

  Differs from TF: for 5-D and float16 inputs TensorFlow's CPU kernel returns a scalar reserve_space_3 and, when not
  training, leaves the reserve spaces unset. Here they always hold what was used.
  """
  x, scale = jnp.asarray(x), jnp.asarray(scale)
  mean, variance = lax.stop_gradient((jnp.asarray(mean), jnp.asarray(variance)))
  axes = _reduced_axes("FusedBatchNorm", data_format, x.ndim)
  # TensorFlow computes 16-bit inputs in float32.
  wide = x.astype(jnp.float32)
  if is_training:
    center, spread = _moments(wide, axes)
    used = [lax.squeeze(lax.stop_gradient(moment), axes) for moment in (center, spread)]
  else:
    center, spread = (_along_channels(v, wide, axes) for v in (mean, variance))
    used = [mean, variance]
  # As in TensorFlow's kernel the factor is computed per channel, not per element of x.
  factor = lax.rsqrt(spread + epsilon) * _along_channels(scale, wide, axes)
  y = ((wide - center) * factor + _along_channels(offset, wide, axes)).astype(x.dtype)
  used = [v.astype(scale.dtype) for v in used]
  returned = _running_statistics(x, axes, used, (mean, variance), exponential_avg_factor) if is_training else used
  return (y, *returned, *used, jnp.zeros((0,), scale.dtype))


def _running_statistics(
  x: Array, axes: _Axes, batch: Sequence[Array], running: tuple[Array, Array], factor: float
) -> list[Array]:
  count = jnp.asarray(1.0, jnp.float32)
  for axis in axes:
    count = count * x.shape[axis]
  bessel = (count / jnp.maximum(count - 1, 1)).astype(batch[1].dtype)
  corrected = [batch[0], batch[1] * bessel]
  if factor == 1.0:
    return corrected
  return [(1 - factor) * old + factor * new for old, new in zip(running, corrected, strict=True)]


@register("FusedBatchNorm", "FusedBatchNormV2", ignores=("T", "U"))
def fused_batch_norm(
  x: Array,
  scale: Array,
  offset: Array,
  mean: Array,
  variance: Array,
  **attrs: Unpack[_BatchNormAttrs],
) -> tuple[Array, ...]:
  """Returns the first five results of `FusedBatchNormV3`."""
  return fused_batch_norm_v3(x, scale, offset, mean, variance, **attrs)[:5]


register("FusedBatchNormV3", ignores=("T", "U"))(fused_batch_norm_v3)


@register("_FusedBatchNormEx", ignores=("T", "U", "num_side_inputs"))
def fused_batch_norm_ex(
  x: Array,
  scale: Array,
  offset: Array,
  mean: Array,
  variance: Array,
  side_input: list[Array],
  *,
  activation_mode: str = "Identity",
  **attrs: Unpack[_BatchNormAttrs],
) -> tuple[Array, ...]:
  """Computes `FusedBatchNormV3`, adds `side_input`, and applies an activation, as fused by TensorFlow's optimizer.

  Raises:
    UnsupportedAttrError: `activation_mode` is neither `"Identity"` nor `"Relu"`.
  """
  y, *rest = fused_batch_norm_v3(x, scale, offset, mean, variance, **attrs)
  return (_activation("_FusedBatchNormEx", activation_mode)(sum(side_input, y)), *rest)


def _activation(op: str, mode: str) -> Callable[[Array], Array]:
  if mode not in ("Identity", "Relu"):
    raise UnsupportedAttrError(f"{op}: activation_mode={mode!r} is not supported; expected 'Identity' or 'Relu'.")
  return relu if mode == "Relu" else lambda y: y


def _gradients(
  y_backprop: Array,
  x: Array,
  scale: Array,
  mean: Array,
  variance: Array,
  axes: _Axes,
  epsilon: float,
  is_training: bool,
) -> tuple[Array, Array, Array]:
  inverse = lax.rsqrt(variance + epsilon)
  normalized = (x - mean) * inverse
  offset_backprop = jnp.sum(y_backprop, axes, keepdims=True)
  scale_backprop = jnp.sum(y_backprop * normalized, axes, keepdims=True)
  centered = y_backprop
  if is_training:
    centered = y_backprop - jnp.mean(y_backprop, axes, keepdims=True)
    centered = centered - normalized * jnp.mean(y_backprop * normalized, axes, keepdims=True)
  return centered * scale * inverse, scale_backprop, offset_backprop


def _training_gradients(axes: _Axes, epsilon: float) -> Callable[..., tuple[Array, Array, Array]]:
  """Returns `_gradients` in training, from the saved statistics, with a derivative that knows they depend on x."""

  @jax.custom_jvp
  def value(y_backprop: Array, x: Array, scale: Array, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
    return _gradients(y_backprop, x, scale, mean, variance, axes, epsilon, True)

  @value.defjvp
  @default_promotion()
  def _jvp(primals: Any, tangents: Any) -> Any:
    def recomputed(y_backprop: Array, x: Array, scale: Array) -> tuple[Array, Array, Array]:
      return _gradients(y_backprop, x, scale, *_moments(x, axes), axes, epsilon, True)

    return value(*primals), jax.jvp(recomputed, primals[:3], tangents[:3])[1]

  return value


@register("FusedBatchNormGradV3", ignores=("T", "U"))
def fused_batch_norm_grad_v3(
  y_backprop: Array,
  x: Array,
  scale: Array,
  reserve_space_1: Array,
  reserve_space_2: Array,
  reserve_space_3: Array,
  *,
  epsilon: float = 1e-4,
  data_format: str = "NHWC",
  is_training: bool = True,
) -> tuple[Array, ...]:
  """Returns the gradient of `FusedBatchNormV3`.

  Source op: `tf.raw_ops.FusedBatchNormGradV3`.

  Args:
    y_backprop: gradient of the result, same shape and dtype as `x`.
    x: input of the normalization.
    scale: `[channels]`.
    reserve_space_1: `[channels]`, mean that was used.
    reserve_space_2: `[channels]`, variance that was used.
    reserve_space_3: unused.
    epsilon: as in the normalization, like the following two.
    data_format: see above.
    is_training: see above.

  Returns:
    x_backprop: same shape and dtype as `x`.
    scale_backprop: `[channels]`.
    offset_backprop: `[channels]`.
    reserve_space_4: 0, a placeholder, like reserve_space_5.

  Differs from TF: for 5-D inputs TensorFlow's CPU kernel makes the placeholders empty.
  """
  del reserve_space_3
  y_backprop, x, scale = jnp.asarray(y_backprop), jnp.asarray(x), jnp.asarray(scale)
  axes = _reduced_axes("FusedBatchNormGrad", data_format, x.ndim)
  wide_dy, wide_x = y_backprop.astype(jnp.float32), x.astype(jnp.float32)
  factor = _along_channels(scale, wide_x, axes)
  mean, variance = (_along_channels(v, wide_x, axes) for v in lax.stop_gradient((reserve_space_1, reserve_space_2)))
  if is_training:
    gradients = _training_gradients(axes, epsilon)(wide_dy, wide_x, factor, mean, variance)
  else:
    gradients = _gradients(wide_dy, wide_x, factor, mean, variance, axes, epsilon, False)
  x_backprop, *backprops = gradients
  dtype = jnp.asarray(reserve_space_1).dtype
  unused = jnp.zeros((), dtype)
  return (x_backprop.astype(x.dtype), *(lax.squeeze(v, axes).astype(dtype) for v in backprops), unused, unused)


@register("FusedBatchNormGrad", "FusedBatchNormGradV2", ignores=("T", "U"))
def fused_batch_norm_grad(
  y_backprop: Array,
  x: Array,
  scale: Array,
  reserve_space_1: Array,
  reserve_space_2: Array,
  **attrs: Unpack[_BatchNormGradAttrs],
) -> tuple[Array, ...]:
  """Returns the gradient of `FusedBatchNorm`; see `FusedBatchNormGradV3`."""
  return fused_batch_norm_grad_v3(y_backprop, x, scale, reserve_space_1, reserve_space_2, reserve_space_2, **attrs)


@register("_FusedBatchNormGradEx", ignores=("T", "U"))
def fused_batch_norm_grad_ex(
  y_backprop: Array,
  x: Array,
  scale: Array,
  reserve_space_1: Array,
  reserve_space_2: Array,
  reserve_space_3: Array,
  offset: Array,
  y: Array,
  *,
  num_side_inputs: int = 0,
  activation_mode: str = "Identity",
  **attrs: Unpack[_BatchNormGradAttrs],
) -> tuple[Array, ...]:
  """Computes the gradient of `_FusedBatchNormEx`: through the activation, then as `FusedBatchNormGradV3`.

  Raises:
    UnsupportedAttrError: `activation_mode` is neither `"Identity"` nor `"Relu"`.
  """
  del offset
  _activation("_FusedBatchNormGradEx", activation_mode)
  y_backprop = relu_grad(y_backprop, y) if activation_mode == "Relu" else jnp.asarray(y_backprop)
  gradients = fused_batch_norm_grad_v3(y_backprop, x, scale, reserve_space_1, reserve_space_2, reserve_space_3, **attrs)
  return (*gradients, *[y_backprop] * num_side_inputs)


@register("BatchNormWithGlobalNormalization", ignores=("T",))
def batch_norm_with_global_normalization(
  t: Array, m: Array, v: Array, beta: Array, gamma: Array, *, variance_epsilon: float, scale_after_normalization: bool
) -> Array:
  """Normalizes `t` per channel with the given statistics, as the first versions of TensorFlow did.

  Source op: `BatchNormWithGlobalNormalization`.

  Args:
    t: `[batch, height, width, channels]`.
    m: `[channels]`, mean.
    v: `[channels]`, variance.
    beta: `[channels]`, added at the end.
    gamma: `[channels]`, factor if `scale_after_normalization` is set.
    variance_epsilon: added to the variance.
    scale_after_normalization: whether to multiply by `gamma`.
  """
  factor = lax.rsqrt(jnp.asarray(v) + jnp.asarray(variance_epsilon, v.dtype))
  factor = factor * gamma if scale_after_normalization else factor
  return jnp.asarray(t) * factor + (beta - m * factor)


@register("BatchNormWithGlobalNormalizationGrad", ignores=("T",))
def batch_norm_with_global_normalization_grad(
  t: Array,
  m: Array,
  v: Array,
  gamma: Array,
  backprop: Array,
  *,
  variance_epsilon: float,
  scale_after_normalization: bool,
) -> tuple[Array, ...]:
  """Returns derivatives of `BatchNormWithGlobalNormalization` with respect to `t`, `m`, `v`, `beta` and `gamma`.

  Source op: `BatchNormWithGlobalNormalizationGrad`.
  """

  def forward(t: Array, m: Array, v: Array, beta: Array, gamma: Array) -> Array:
    return batch_norm_with_global_normalization(
      t, m, v, beta, gamma, variance_epsilon=variance_epsilon, scale_after_normalization=scale_after_normalization
    )

  operands = [jnp.asarray(x) for x in (t, m, v, jnp.zeros_like(gamma), gamma)]
  return tuple(jax.vjp(forward, *operands)[1](jnp.asarray(backprop)))
