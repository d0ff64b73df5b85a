"""The custom call `payload_tool.soft_clip`, for which no process has a kernel."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from graftax.xla_call_module import CustomCall, Op

__all__ = ["TARGET", "SoftClip", "soft_clip"]

TARGET = "payload_tool.soft_clip"


def soft_clip(x: Array, limit: float) -> Array:
  """Returns the custom call, for functions that are exported; `SoftClip` runs it."""
  result: Array = jax.ffi.ffi_call(TARGET, x)(x, limit=np.float32(limit))
  return result


class SoftClip(CustomCall):
  """`limit * tanh(x / limit)`, with the derivative of the identity within the limit."""

  target = TARGET

  def compute(self, op: Op, *operands: Array) -> Array:
    (x,) = operands
    limit = _limit(op)
    return limit * jnp.tanh(x / limit)

  def pull_back(
    self, op: Op, operands: Sequence[Array], results: Sequence[Array], cotangents: Sequence[Array]
  ) -> Sequence[Array]:
    (x,), (cotangent,) = operands, cotangents
    return [jnp.where(jnp.abs(x) <= _limit(op), cotangent, 0)]

  def run_batch(self, op: Op, size: int, is_batched: Sequence[bool], *operands: Array) -> Array:
    return self.compute(op, *operands)  # works on all examples at once


def _limit(op: Op) -> float:
  return op.attrs.fields("mhlo.backend_config").real("limit")
