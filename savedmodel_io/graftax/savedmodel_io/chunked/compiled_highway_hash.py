"""HighwayHash of long data: the updates of its state, compiled by JAX for the CPU.

The state is an array `[4, 4]` of uint64: v0, v1, mul0 and mul1 of the reference implementation, of four lanes each.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["BLOCK_BYTES", "ZIPPER_HIGH", "ZIPPER_LOW", "can_compile", "update_blocks"]

_PACKET_WORDS = 4
# XLA compiles a loop to one kernel only if it reads little memory. So a loop over packets is nested in one over blocks.
_BLOCK_PACKETS = 16
BLOCK_BYTES = _BLOCK_PACKETS * _PACKET_WORDS * 8
_SEGMENT_BLOCKS = 1 << 13
# For each byte of the new first lane, and of the new second lane, its position among the 16 bytes of a pair of lanes.
ZIPPER_LOW = (3, 12, 2, 5, 14, 1, 15, 0)
ZIPPER_HIGH = (11, 4, 10, 13, 9, 6, 8, 7)


@functools.cache
def can_compile() -> bool:
  """Returns whether JAX can use the CPU, which `JAX_PLATFORMS` may exclude."""
  try:
    return bool(jax.local_devices(backend="cpu"))
  except (RuntimeError, AssertionError):
    return False


def update_blocks(state: np.ndarray, data: memoryview) -> np.ndarray:
  """Returns the state after more data.

  Args:
    state: `[4, 4]` of uint64.
    data: bytes, a multiple of `BLOCK_BYTES` of them.
  """
  blocks = np.frombuffer(data, np.uint64).reshape(-1, _BLOCK_PACKETS, _PACKET_WORDS)
  with jax.enable_x64(True), jax.default_device(jax.local_devices(backend="cpu")[0]):
    for start in range(0, len(blocks), _SEGMENT_BLOCKS):
      part = blocks[start : start + _SEGMENT_BLOCKS]
      segment = np.zeros((_SEGMENT_BLOCKS, *blocks.shape[1:]), np.uint64)  # always of one size: compiled once
      segment[: len(part)] = part
      state = np.asarray(_update_segment(state, segment, len(part)))
  return state


@jax.jit
def _update_segment(state: jax.Array, blocks: jax.Array, num_blocks: int) -> jax.Array:
  def update_block(i: jax.Array, state: jax.Array) -> jax.Array:
    block = blocks[i]
    return jax.lax.fori_loop(0, _BLOCK_PACKETS, lambda k, state: _updated(state, block[k]), state)

  return jax.lax.fori_loop(0, num_blocks, update_block, state)


def _updated(state: jax.Array, lanes: jax.Array) -> jax.Array:
  """Returns the state after a packet of 32 bytes."""
  v0, v1, mul0, mul1 = state
  low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
  v1 = v1 + mul0 + lanes
  mul0 = mul0 ^ (v1 & low) * (v0 >> half)
  v0 = v0 + mul1
  mul1 = mul1 ^ (v0 & low) * (v1 >> half)
  v0 = v0 + _zipped(v1)
  v1 = v1 + _zipped(v0)
  return jnp.stack([v0, v1, mul0, mul1])


def _zipped(lanes: jax.Array) -> jax.Array:
  """Returns each pair of lanes with its bytes in another order."""
  pair = (lanes[0::2], lanes[1::2])
  mixed = []
  for order in (ZIPPER_LOW, ZIPPER_HIGH):
    parts = [_moved(pair[source // 8], source % 8, target) for target, source in enumerate(order)]
    mixed.append(functools.reduce(jnp.bitwise_or, parts))
  return jnp.stack(mixed, axis=1).reshape(-1)


def _moved(lanes: jax.Array, source: int, target: int) -> jax.Array:
  """Returns numbers with one byte of the given ones, at another place."""
  byte = lanes & np.uint64(0xFF << 8 * source)
  distance = np.uint64(8 * abs(source - target))
  return byte >> distance if source > target else byte << distance
