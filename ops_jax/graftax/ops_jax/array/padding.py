"""Padding with a constant or with mirrored values: Pad, PadV2, MirrorPad. Paddings must be known."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.known import is_small
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static, is_known

__all__ = ["mirror_pad", "mirror_pad_grad", "pad", "pad_v2"]

_MIRROR_MODES: dict[str, Any] = {"REFLECT": "reflect", "SYMMETRIC": "symmetric"}


@register("Pad", ignores=("T", "Tpaddings"), symbolic=True, data_inputs=("input",))
def pad(input: Array, paddings: Static[np.ndarray]) -> Array:
  """Pads `input` with `paddings[i] = (before, after)` zeros around dimension `i`; see `pad_v2`."""
  return pad_v2(input, paddings, np.zeros((), input.dtype if input.dtype != object else np.int32))


@register("PadV2", ignores=("T", "Tpaddings"), symbolic=True, data_inputs=("input", "constant_values"))
def pad_v2(input: Array, paddings: Static[np.ndarray], constant_values: Array) -> Array:
  """Pads `input` with copies of a value.

  Source op: `tf.raw_ops.PadV2`.

  Args:
    input: any shape and dtype.
    paddings: `[rank, 2]`, number of values before and after each dimension. Must be known.
    constant_values: scalar of the dtype of `input`.

  Raises:
    InvalidInputError: `paddings` has another shape, or a negative entry.
  """
  pairs = _pairs("Pad", paddings, input.ndim)
  if not pairs:
    return input
  if is_known(input) and is_known(constant_values):
    shape = [low + dim + high for (low, high), dim in zip(pairs, input.shape, strict=True)]
    if input.dtype == object or is_small(shape):
      return np.pad(input, pairs, constant_values=np.asarray(constant_values).item())
  value = jnp.asarray(constant_values).reshape(()).astype(input.dtype)
  return lax.pad(jnp.asarray(input), value, [(low, high, 0) for low, high in pairs])


@register("MirrorPad", ignores=("T", "Tpaddings"), symbolic=True, data_inputs=("input",))
def mirror_pad(input: Array, paddings: Static[np.ndarray], *, mode: str) -> Array:
  """Pads `input` with its own values, mirrored.

  Source op: `tf.raw_ops.MirrorPad`.

  Args:
    input: any shape and dtype.
    paddings: `[rank, 2]`, how many values before and after each dimension. Must be known.
    mode: "REFLECT" leaves out the border value, "SYMMETRIC" repeats it.

  Raises:
    InvalidInputError: more values are asked for than the dimension has.

  Differs from TF: more values than a symbolic dimension has are NaN (an extreme integer, true) instead of raising an
  error.
  """
  pairs = _pairs("MirrorPad", paddings, input.ndim)
  spare = 1 if mode == "REFLECT" else 0
  for axis, (pair, dim) in enumerate(zip(pairs, input.shape, strict=True)):
    if isinstance(dim, int) and any(isinstance(p, int) and p > max(dim - spare, 0) for p in pair):
      raise InvalidInputError(f"MirrorPad: paddings {pair!r} are too large for dimension {axis} of {input.shape}.")
  if not pairs:
    return input
  if is_known(input) and is_small(low + dim + high for (low, high), dim in zip(pairs, input.shape, strict=True)):
    return np.pad(input, pairs, mode=_MIRROR_MODES[mode])
  if not all(isinstance(size, int) for size in (*input.shape, *(p for pair in pairs for p in pair))):
    return _mirror_by_position(jnp.asarray(input), pairs, spare)
  return jnp.pad(input, pairs, mode=_MIRROR_MODES[mode])


def _mirror_by_position(x: jax.Array, pairs: Sequence[tuple[Any, Any]], spare: int) -> jax.Array:
  """Computes `jnp.pad` for symbolic sizes, by one reflection; cells that would need a second one are NaN."""
  for axis, ((low, high), dim) in enumerate(zip(pairs, x.shape, strict=True)):
    last = jnp.asarray(dim - 1, np.int32)
    position = lax.iota(np.int32, low + dim + high) - jnp.asarray(low, np.int32)
    position = jnp.where(position < 0, spare - 1 - position, position)
    position = jnp.where(position > last, 2 * last + 1 - spare - position, position)
    position = jnp.where(position < 0, dim, position)
    x = jnp.take(x, position, axis, mode="fill")
  return x


@register("MirrorPadGrad", ignores=("T", "Tpaddings"))
def mirror_pad_grad(input: Array, paddings: Static[np.ndarray], *, mode: str) -> Array:
  """Computes the gradient of `mirror_pad`: each padded value is added to the value that it mirrors."""
  pairs = _pairs("MirrorPadGrad", paddings, input.ndim)
  input = jnp.asarray(input)
  shape = [dim - low - high for (low, high), dim in zip(pairs, input.shape, strict=True)]
  original = jax.ShapeDtypeStruct(tuple(shape), input.dtype)
  (gradient,) = jax.linear_transpose(lambda x: mirror_pad(x, paddings, mode=mode), original)(input)
  return gradient


def _pairs(op: str, paddings: np.ndarray, rank: int) -> list[tuple[Any, Any]]:
  if paddings.shape != (rank, 2):
    raise InvalidInputError(f"{op}: paddings must have shape [{rank}, 2]; got {paddings.shape}.")
  pairs = [tuple(p if paddings.dtype == object else int(p) for p in pair) for pair in paddings]
  if any(isinstance(p, int) and p < 0 for pair in pairs for p in pair):
    raise InvalidInputError(f"{op}: paddings must not be negative; got {paddings.tolist()!r}.")
  return [(low, high) for low, high in pairs]
