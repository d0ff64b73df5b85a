"""`fft`, the linear-algebra ops of StableHLO itself, batch normalisation, and ops of several devices."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from graftax.xla_call_module import ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.registry import register

__all__: list[str] = []


@register("stablehlo.fft")
def _fft(context: Context, op: ir.Op, x: Array) -> Array:
  return lax.fft(x, lax.FftType[op.attrs["fft_type"]], tuple(op.attrs["fft_length"]))


@register("stablehlo.cholesky")
def _cholesky(context: Context, op: ir.Op, x: Array) -> Array:
  if op.attrs.get("lower", False):
    return lax.linalg.cholesky(x, symmetrize_input=False)
  flipped = lax.linalg.cholesky(jnp.conj(jnp.swapaxes(x, -1, -2)), symmetrize_input=False)
  return jnp.conj(jnp.swapaxes(flipped, -1, -2))


@register("stablehlo.triangular_solve")
def _triangular_solve(context: Context, op: ir.Op, a: Array, b: Array) -> Array:
  transpose = op.attrs["transpose_a"]
  return lax.linalg.triangular_solve(
    a,
    b,
    left_side=op.attrs["left_side"],
    lower=op.attrs["lower"],
    unit_diagonal=op.attrs["unit_diagonal"],
    transpose_a=transpose in ("TRANSPOSE", "ADJOINT"),
    conjugate_a=transpose == "ADJOINT",
  )


def _along(feature: int, x: Array, vector: Array) -> Array:
  return lax.broadcast_in_dim(vector, x.shape, (feature,))


@register("stablehlo.batch_norm_inference")
def _batch_norm_inference(context: Context, op: ir.Op, x: Array, *vectors: Array) -> Array:
  scale, offset, mean, variance = (_along(op.attrs["feature_index"], x, vector) for vector in vectors)
  epsilon = np.asarray(op.attrs["epsilon"], x.dtype)
  return (x - mean) / lax.sqrt(variance + epsilon) * scale + offset


def _moments(x: Array, feature: int) -> tuple[Array, Array]:
  axes = tuple(axis for axis in range(x.ndim) if axis != feature)
  mean = jnp.mean(x, axes)
  return mean, jnp.mean(lax.square(x - _along(feature, x, mean)), axes)


@register("stablehlo.batch_norm_training")
def _batch_norm_training(context: Context, op: ir.Op, x: Array, scale: Array, offset: Array) -> tuple[Array, ...]:
  mean, variance = _moments(x, op.attrs["feature_index"])
  return _batch_norm_inference(context, op, x, scale, offset, mean, variance), mean, variance


@register("stablehlo.batch_norm_grad")
def _batch_norm_grad(
  context: Context, op: ir.Op, x: Array, scale: Array, mean: Array, variance: Array, ct: Array
) -> tuple[Array, ...]:
  feature = op.attrs["feature_index"]
  axes = tuple(axis for axis in range(x.ndim) if axis != feature)
  count = np.asarray(x.size / x.shape[feature], x.dtype)
  centred = x - _along(feature, x, mean)
  deviation = lax.sqrt(variance + np.asarray(op.attrs["epsilon"], x.dtype))
  ct_offset = jnp.sum(ct, axes)
  ct_scale = jnp.sum(ct * centred / _along(feature, x, deviation), axes)
  per_feature = count * ct - _along(feature, x, ct_offset)
  per_feature -= centred * _along(feature, x, jnp.sum(ct * centred, axes) / lax.square(deviation))
  return _along(feature, x, scale / deviation / count) * per_feature, ct_scale, ct_offset


@register("stablehlo.replica_id", "stablehlo.partition_id", takes_known=True)
def _device_id(context: Context, op: ir.Op) -> Any:
  kind = op.name.removeprefix("stablehlo.").removesuffix("_id")
  if int(context.program.attrs.get(f"mhlo.num_{kind}s", 1)) != 1:
    raise context.unsupported(op, f"the module runs on several {kind}s, and a lifted function is one program.")
  return np.zeros((), op.type.dtype)


@register(
    "stablehlo.all_reduce", "stablehlo.all_gather", "stablehlo.all_to_all", "stablehlo.reduce_scatter",
    "stablehlo.collective_permute", "stablehlo.collective_broadcast", "stablehlo.cross-replica-sum",
)  # fmt: skip
def _collective(context: Context, op: ir.Op, *operands: Array, environment: Any = None) -> Any:
  """Over groups of one device a collective is the identity; larger groups need a mesh that this op does not name."""
  groups = op.attrs.get("replica_groups", op.attrs.get("source_target_pairs"))
  is_pairs = op.name == "stablehlo.collective_permute"
  alone = groups is not None and (
    all(int(a) == int(b) for a, b in groups) if is_pairs else np.shape(groups)[-1:] == (1,)
  )
  if not alone or len(operands) != len(op.types):
    raise context.unsupported(op, f"it communicates between devices in groups {np.asarray(groups).tolist()!r}.")
  return operands if len(operands) > 1 else operands[0]


@register("stablehlo.send", "stablehlo.recv", "stablehlo.infeed", "stablehlo.outfeed", takes_known=True)
def _host_transfer(context: Context, op: ir.Op, *operands: Any) -> Any:
  raise context.unsupported(op, "it exchanges data with the process that exported it.")


@register("stablehlo.uniform_quantize", "stablehlo.uniform_dequantize", takes_known=True)
def _quantize(context: Context, op: ir.Op, *operands: Any) -> Any:
  raise context.unsupported(op, "quantized types have no counterpart in JAX; XLA does not run them either.")


@register("chlo.top_k")
def _top_k(context: Context, op: ir.Op, x: Array) -> Any:
  return lax.top_k(x, op.attrs["k"])
