"""Bias: BiasAdd, BiasAddGrad."""

import jax.numpy as jnp

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array

__all__ = ["bias_add", "bias_add_grad"]


def _channel_axis(op: str, data_format: str, rank: int) -> int:
  # TensorFlow uses the four-letter names for every rank.
  if rank < 2:
    raise InvalidInputError(f"{op}: the input has rank {rank}; expected at least 2, batch and channels.")
  return 1 if data_format.startswith("NC") else rank - 1


@register("BiasAdd", "BiasAddV1", ignores=("T",))
def bias_add(value: Array, bias: Array, *, data_format: str = "NHWC") -> Array:
  """Returns `value + bias`, with `bias` along the channels.

  Source op: `tf.raw_ops.BiasAdd`.

  Args:
    value: `[batch, ..., channels]`, or `[batch, channels, ...]` for `"NCHW"`; any numeric dtype.
    bias: `[channels]`, same dtype.
    data_format: `"NHWC"` or `"NCHW"`, whatever the rank.

  Returns:
    Same shape and dtype as `value`.

  Raises:
    InvalidInputError: `bias` does not fit.
  """
  value, bias = jnp.asarray(value), jnp.asarray(bias)
  axis = _channel_axis("BiasAdd", data_format, value.ndim)
  if bias.ndim != 1 or bias.shape[0] != value.shape[axis]:
    raise InvalidInputError(
      f"BiasAdd: bias of shape {bias.shape} does not fit the channels of value {value.shape} "
      f"(data_format={data_format!r})."
    )
  return value + bias.reshape((-1,) + (1,) * (value.ndim - 1 - axis))


@register("BiasAddGrad", ignores=("T",))
def bias_add_grad(out_backprop: Array, *, data_format: str = "NHWC") -> Array:
  """Sums over all axes but the channels; the result is `[channels]` of the same dtype.

  Source op: `tf.raw_ops.BiasAddGrad`.

  Args:
    out_backprop: `[batch, ..., channels]`, or `[batch, channels, ...]` for `"NCHW"`.
    data_format: as for `BiasAdd`.
  """
  out_backprop = jnp.asarray(out_backprop)
  axis = _channel_axis("BiasAddGrad", data_format, out_backprop.ndim)
  axes = tuple(i for i in range(out_backprop.ndim) if i != axis)
  return jnp.sum(out_backprop, axis=axes, dtype=out_backprop.dtype)
