"""QR decompositions. The factorization and the product of its reflectors together become `lax.linalg.qr`."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from graftax.xla_call_module import analysis, ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.lowerings.custom_calls import settings
from graftax.xla_call_module.lowerings.linalg import info, zeros
from graftax.xla_call_module.patterns.triangles import keeps_upper_triangle
from graftax.xla_call_module.registry import register_custom_call
from graftax.xla_call_module.values import Recovered

__all__: list[str] = []


@register_custom_call("linalg.orgqr", "ProductOfElementaryHouseholderReflectors")
def _orgqr(context: Context, op: ir.Op, x: Array, taus: Array, *rest: Array) -> Any:
  result = lax.linalg.householder_product(x, taus)
  return result if len(op.types) == 1 else (result, info(op, x))


@register_custom_call("linalg.ormqr")
def _ormqr(context: Context, op: ir.Op, x: Array, taus: Array, y: Array) -> Array:
  config = settings(op)
  left, transpose = (bool(config.get(name, False)) for name in ("left", "transpose"))
  return lax.linalg.ormqr(x, taus, y, left=left, transpose=transpose)


@register_custom_call("linalg.geqrf", "Qr")
def _geqrf(context: Context, op: ir.Op, x: Array) -> Any:
  """Lowers the factorization and the op that multiplies its reflectors to the differentiable `lax.linalg.qr`.

  The lower part of the packed factor contains the reflectors, which `lax.linalg.qr` does not return. The pair is
  therefore recognized only if the packed factor is read by nothing but the product and an upper-triangle mask.
  """
  pair = _qr_pair(context, op)
  if pair is None:
    return _packed(context, op, x)
  product, masked = pair
  q, r = lax.linalg.qr(x, full_matrices=product is not None and _is_full(context, product, x))
  rows = x.shape[-2] - r.shape[-2]
  packed = lax.pad(r, np.zeros((), r.dtype), [(0, 0, 0)] * (r.ndim - 2) + [(0, rows, 0), (0, 0, 0)]) if rows else r
  num_reflectors = op.types[1].shape[-1]
  num_reflectors = min(x.shape[-2:]) if num_reflectors is None else num_reflectors
  results = [packed, lax.full((*x.shape[:-2], num_reflectors), 0, x.dtype)]
  results += [zeros(kind, x) for kind in op.types[2:]]
  shapes = {number: analysis.definitions(context)[number].type for number in masked}
  triangles = {number: r for number, kind in shapes.items() if kind.shape[-2:] == tuple(r.shape[-2:])}
  return Recovered(tuple(results), triangles | ({product.results[0]: q} if product is not None else {}))


def _is_full(context: Context, product: ir.Op, x: Array) -> bool:
  """Returns whether the product has a column for each row of `x`, and `x` has fewer columns."""
  size = product.types[0].shape[-1]
  if size is not None:
    return bool(size == x.shape[-2] and x.shape[-2] != x.shape[-1])
  # The sizes are open: the packed factor is padded to a square for the full product.
  packed = analysis.definitions(context).get(product.operands[0])
  return packed is not None and packed.name in ("stablehlo.pad", "stablehlo.dynamic_pad")


_ORGQR = ("orgqr", "ungqr", "ProductOfElementaryHouseholderReflectors")


def _qr_pair(context: Context, op: ir.Op) -> tuple[ir.Op | None, list[int]] | None:
  """Returns the op that computes q (None if only r is used) and the upper triangles of the packed factor.

  Returns None if another op reads the packed factor or the scalars.
  """
  used = analysis.uses_of_values(context)
  readers = used.get(op.results[1], [])
  products = [user for user, position in readers if _is_product(user) and position == 1]
  if len(readers) > 1 or len(products) != len(readers):
    return None
  product = products[0] if products else None
  masked = _masked(context, op.results[0], product, used)
  return None if masked is None else (product, masked)


def _is_product(op: ir.Op | None) -> bool:
  return (
    op is not None
    and op.name == "stablehlo.custom_call"
    and any(n in op.attrs.text("call_target_name") for n in _ORGQR)
  )


def _masked(context: Context, number: int, product: ir.Op | None, used: Any) -> list[int] | None:
  """Returns the numbers of the upper triangles of the packed factor, or None if another op reads it."""
  found: list[int] = []
  for user, position in used.get(number, ()):
    if user is None:
      return None
    if user is product:
      continue
    if position == 0 and (user.name in _PASS_ON or _gathers_from_zero(context, user)):
      inner = _masked(context, user.results[0], product, used)
      if inner is None:
        return None
      found += inner
    elif user.name == "stablehlo.select" and position > 0 and keeps_upper_triangle(context, user, position):
      found.append(user.results[0])
    else:
      return None
  return found


_PASS_ON = (
  "stablehlo.dynamic_pad",
  "stablehlo.pad",
  "stablehlo.real_dynamic_slice",
  "stablehlo.reshape",
  "stablehlo.slice",
)


def _gathers_from_zero(context: Context, op: ir.Op) -> bool:
  """Returns whether a gather is a slice from index 0, as JAX writes `x[:, :n]` if the first size is open."""
  if op.name != "stablehlo.dynamic_gather" or not analysis.is_zero(context, op.operands[1]):
    return False
  return len(op.attrs.fields("dimension_numbers").integers("offset_dims", ())) == op.type.rank


def _packed(context: Context, op: ir.Op, x: Array) -> Any:
  """Returns the factor with the reflectors below its diagonal, which has no derivative."""
  packed, scalars = jnp.linalg.qr(x, mode="raw")
  return jnp.swapaxes(packed, -1, -2), scalars, *(zeros(kind, x) for kind in op.types[2:])
