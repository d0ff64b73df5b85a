"""Reversal and rotation along axes: ReverseV2, ReverseSequence, Roll."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax._core.axes import canonical_axes, canonical_axis
from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, Static, is_known

__all__ = ["reverse", "reverse_sequence", "reverse_v2", "roll"]


@register("ReverseV2", ignores=("T", "Tidx"), symbolic=True, data_inputs=("tensor",))
def reverse_v2(tensor: Array, axis: Static[tuple[int, ...]]) -> Array:
  """Reverses `tensor` along axes, which must be known."""
  axes = canonical_axes("ReverseV2", axis, tensor.ndim)
  return np.flip(tensor, axes) if is_known(tensor) else lax.rev(tensor, axes)


@register("Reverse", ignores=("T",), symbolic=True, data_inputs=("tensor",))
def reverse(tensor: Array, dims: Static[np.ndarray]) -> Array:
  """Reverses `tensor` along the dimensions whose entry in `dims` is true."""
  if dims.shape != (tensor.ndim,):
    raise InvalidInputError(f"Reverse: dims must have one entry for each dimension of {tensor.shape}; got {dims!r}.")
  return reverse_v2(tensor, tuple(int(axis) for axis in np.flatnonzero(dims)))


@register("ReverseSequence", ignores=("T", "Tlen"), data_inputs=("input",))
def reverse_sequence(input: Array, seq_lengths: Array, *, seq_dim: int, batch_dim: int = 0) -> Array:
  """Reverses the first `seq_lengths[b]` elements of each sequence of `input`.

  Source op: `tf.raw_ops.ReverseSequence`.

  Args:
    input: `[..., batch, ..., length, ...]`.
    seq_lengths: `[batch]`, integer, each at most `length`.
    seq_dim: position of `length`.
    batch_dim: position of `batch`.

  Returns:
    Same shape and dtype as `input`.

  Raises:
    InvalidInputError: `seq_lengths` does not fit, or the two positions are one.
  """
  seq_axis = canonical_axis("ReverseSequence", seq_dim, input.ndim)
  batch_axis = canonical_axis("ReverseSequence", batch_dim, input.ndim)
  if seq_axis == batch_axis or seq_lengths.shape != (input.shape[batch_axis],):
    raise InvalidInputError(
      f"ReverseSequence: seq_lengths of shape {seq_lengths.shape} does not fit input of shape {input.shape} with "
      f"seq_dim={seq_dim}, batch_dim={batch_dim}."
    )
  length = input.shape[seq_axis]
  positions = lax.iota(np.dtype(np.int32), length)[None, :]
  lengths = jnp.asarray(seq_lengths).astype(np.int32)[:, None]
  sources = jnp.where(positions < lengths, lengths - 1 - positions, positions)
  shape = [1] * input.ndim
  shape[batch_axis], shape[seq_axis] = input.shape[batch_axis], length
  sources = (sources if batch_axis < seq_axis else sources.T).reshape(shape)
  return jnp.take_along_axis(jnp.asarray(input), sources, seq_axis, mode="clip")


@register("Roll", ignores=("T", "Tshift", "Taxis"), data_inputs=("input",))
def roll(input: Array, shift: Array, axis: Static[tuple[int, ...]]) -> Array:
  """Rotates `input`: elements that leave at the end come back at the start.

  Source op: `tf.raw_ops.Roll`.

  Args:
    input: any shape and dtype.
    shift: scalar or `[num_axes]`, integer; how far towards larger indices.
    axis: the axes; one named twice is rotated twice. Must be known.

  Returns:
    Same shape and dtype as `input`.
  """
  axes = [canonical_axis("Roll", a, input.ndim) for a in axis]
  shifts: Sequence[Array | int] = (
    [int(s) for s in np.reshape(shift, -1)] if is_known(shift) else list(jnp.reshape(shift, -1))
  )
  for amount, position in zip(shifts, axes, strict=True):
    input = jnp.roll(input, amount, position)
  return input
