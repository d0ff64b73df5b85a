"""Random bits from ops that every XLA compiles.

On GPUs, JAX calls a kernel of jaxlib for them.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.random import threefry2x32_p

from graftax.xla_call_module import mlir

__all__ = ["random_rules", "threefry_2x32"]

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_NUM_GROUPS = 5


def random_rules() -> tuple[tuple[Any, Any], ...]:
  """Returns pairs of a primitive and its lowering rule."""
  return ((threefry2x32_p, mlir.lowering_of(threefry_2x32)),)


def threefry_2x32(key_0: Any, key_1: Any, x_0: Any, x_1: Any) -> Any:
  """Returns two words of 32 bits for each pair of words, with 20 rounds of Threefry; see Salmon et al., 2011."""
  keys = key_0, key_1, key_0 ^ key_1 ^ jnp.uint32(_PARITY)
  x_0, x_1 = x_0 + keys[0], x_1 + keys[1]
  for group in range(_NUM_GROUPS):
    for distance in _ROTATIONS[group % 2]:
      x_0 = x_0 + x_1
      x_1 = x_0 ^ _rotated_left(x_1, distance)
    x_0 = x_0 + keys[(group + 1) % 3]
    x_1 = x_1 + keys[(group + 2) % 3] + jnp.uint32(group + 1)
  return x_0, x_1


def _rotated_left(x: Any, distance: int) -> Any:
  shift = jax.lax.shift_left, jax.lax.shift_right_logical
  left, right = (op(x, jnp.full_like(x, by)) for op, by in zip(shift, (distance, 32 - distance), strict=True))
  return left | right
