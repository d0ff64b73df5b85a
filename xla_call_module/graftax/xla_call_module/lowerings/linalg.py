"""Linear algebra: ops, and custom calls of CPU, GPU and TPU, as differentiable `lax.linalg` functions."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from graftax.xla_call_module import analysis, ir
from graftax.xla_call_module.context import Context
from graftax.xla_call_module.lowerings.custom_calls import backend_config, settings
from graftax.xla_call_module.patterns.triangles import keeps_lower_triangle
from graftax.xla_call_module.registry import register, register_custom_call
from graftax.xla_call_module.values import Recovered

__all__ = ["info", "zeros"]


def info(op: ir.Op, x: Array) -> Array:
  """Returns the status that is the last result of LAPACK's routines: success for every matrix in `x`.

  JAX's exported code replaces the results by NaN after a failure. The `lax.linalg` functions return NaN themselves.
  """
  return zeros(op.types[-1], x)


def zeros(kind: ir.TensorType, x: Array) -> Array:
  """Returns zeros of a declared type, whose open dimensions are batch dimensions of `x`."""
  batch = x.shape[:-2]
  return lax.full((*batch, *kind.shape[len(batch) :]), 0, kind.dtype)


def _char(op: ir.Op, name: str, default: str) -> str:
  """Returns a setting that LAPACK's interface stores as a character code or as a flag."""
  value = settings(op).get(name, default)
  return chr(value) if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _is_lower(op: ir.Op) -> bool:
  lower = settings(op).get("lower")
  if isinstance(lower, int):
    return bool(lower)
  return _char(op, "uplo", "L") == "L"


def _transposed(x: Array) -> Array:
  return jnp.swapaxes(x, -1, -2)


def _lower_factor(x: Array) -> Array:
  """Computes the Cholesky factor of a matrix given by its lower triangle."""
  return lax.linalg.cholesky(x, symmetrize_input=False)


def _upper_factor(x: Array) -> Array:
  """Computes the Cholesky factor of a matrix given by its upper triangle."""
  return jnp.conj(_transposed(_lower_factor(jnp.conj(_transposed(x)))))


@register("stablehlo.cholesky", attributes=("lower",))
def _cholesky(context: Context, op: ir.Op, x: Array) -> Array:
  return _lower_factor(x) if op.attrs.get("lower", False) else _upper_factor(x)


@register_custom_call("linalg.potrf")
def _potrf(context: Context, op: ir.Op, x: Array) -> Any:
  if not _is_lower(op):
    return _upper_factor(x), info(op, x)
  factor = _lower_factor(x)
  return Recovered((factor, info(op, x)), dict.fromkeys(_redundant_masks(context, op), factor))


def _redundant_masks(context: Context, op: ir.Op) -> list[int]:
  """Returns values that equal the factor: it is already NaN after a failure, and zero above the diagonal."""
  found: list[int] = []
  current = op.results[0]
  for is_redundant in (
    lambda user: _selects_success(context, user, op),
    lambda user: keeps_lower_triangle(context, user),
  ):
    users = analysis.uses_of_values(context).get(current, ())
    if len(users) != 1 or users[0][0] is None or users[0][1] != 1 or not is_redundant(users[0][0]):
      break
    current = users[0][0].results[0]
    found.append(current)
  return found


def _selects_success(context: Context, select: ir.Op, op: ir.Op) -> bool:
  """Returns whether a select keeps a value where the op's info is 0."""
  defined = analysis.definitions(context)
  condition = defined.get(select.operands[0])
  while condition is not None and condition.name in analysis.BROADCASTS:
    condition = defined.get(condition.operands[0])
  if select.name != "stablehlo.select" or condition is None or condition.name != "stablehlo.compare":
    return False
  left, right = condition.operands
  is_test = left == op.results[-1] and analysis.is_zero(context, right)
  return is_test and condition.attrs.text("comparison_direction") == "EQ"


@register_custom_call("Cholesky")
def _tpu_cholesky(context: Context, op: ir.Op, x: Array) -> Array:
  return _lower_factor(x)


@register_custom_call("linalg.getrf")
def _getrf(context: Context, op: ir.Op, x: Array) -> Any:
  factors, pivots, _ = lax.linalg.lu(x)
  return factors, pivots + np.ones((), pivots.dtype), info(op, x)


@register_custom_call("LuDecomposition")
def _lu(context: Context, op: ir.Op, x: Array) -> Any:
  return lax.linalg.lu(x)


@register_custom_call(
    "cu_lu_pivots_to_permutation", "hip_lu_pivots_to_permutation", "LuPivotsToPermutation",
    "linalg.lu_pivots_to_permutation",
)  # fmt: skip
def _lu_pivots_to_permutation(context: Context, op: ir.Op, pivots: Array) -> Any:
  return lax.linalg.lu_pivots_to_permutation(pivots, op.types[0].static_shape[-1])


@register_custom_call("linalg.syevd")
def _syevd(context: Context, op: ir.Op, x: Array) -> Any:
  vectors, eigenvalues = lax.linalg.eigh(x, lower=_is_lower(op), symmetrize_input=False)
  return vectors, eigenvalues, info(op, x)


@register_custom_call("Eigh")
def _eigh(context: Context, op: ir.Op, x: Array, *rest: Array) -> Any:
  lower, sorts = _flags_of_eigh(op)
  return lax.linalg.eigh(x, lower=lower, symmetrize_input=False, sort_eigenvalues=sorts)


def _flags_of_eigh(op: ir.Op) -> tuple[bool, bool]:
  """Returns whether the lower triangle is read, and whether eigenvalues are sorted: `"1,0,100,1e-6"`."""
  config = backend_config(op)
  text = config.decode() if isinstance(config, bytes) else str(config)
  lower, _, rest = text.partition(",")
  return lower != "0", rest.startswith("1")


@register_custom_call("linalg.gesdd", "linalg.gesvd")
def _gesdd(context: Context, op: ir.Op, x: Array) -> Any:
  """Lowers gesdd and gesvd; settings of LAPACK and of GPUs differ. Results: the overwritten input, s, u, vt, info."""
  if "mode" not in settings(op):
    return _svd(context, op, x, vt_is_v=False)
  mode = _char(op, "mode", "A")
  if mode == "N":
    s = lax.linalg.svd(x, compute_uv=False, full_matrices=False)
    u, vt = (zeros(kind, x) for kind in op.types[2:4])
  else:
    u, s, vt = lax.linalg.svd(x, full_matrices=mode == "A")
  return jnp.asarray(x), s, u, vt, info(op, x)


@register_custom_call("linalg.gesvd_v")
def _gesvdj(context: Context, op: ir.Op, x: Array) -> Any:
  """Lowers cuSOLVER's gesvdj and gesvdp, which return v instead of its conjugate transpose."""
  return _svd(context, op, x, vt_is_v=True)


def _svd(context: Context, op: ir.Op, x: Array, *, vt_is_v: bool) -> Any:
  config = settings(op)
  # The routine gets the transposed matrix in row-major order, so its left vectors are the rows of vt.
  swaps = bool(config.get("transposed", False))
  if config.get("compute_uv", True):
    size = min(x.shape[-2:])
    last = x.ndim - 1
    axes = (last - 1, last) if swaps else (last, last if vt_is_v else last - 1)
    # JAX has no derivative for a full decomposition. gesvdj returns one even if only the thin one is read.
    reads_thin = all(
      _reads_at_most(context, number, axis, size) for number, axis in zip(op.results[2:4], axes, strict=True)
    )
    u, s, vt = lax.linalg.svd(x, full_matrices=bool(config.get("full_matrices", True)) and not reads_thin)
    found = (vt, u) if swaps else (u, jnp.conj(_transposed(vt)) if vt_is_v else vt)
    vectors = [_fitted(value, kind) for value, kind in zip(found, op.types[2:4], strict=True)]
  else:
    s = lax.linalg.svd(x, compute_uv=False, full_matrices=False)
    vectors = [zeros(kind, x) for kind in op.types[2:4]]
  return jnp.asarray(x), s, *vectors, info(op, x)


def _reads_at_most(context: Context, number: int, axis: int, size: int) -> bool:
  """Returns whether all users slice a value to at most `size` entries along an axis."""
  for user, position in analysis.uses_of_values(context).get(number, ()):
    if user is None:
      return False
    if user.name == "stablehlo.slice":
      if user.attrs.integers("limit_indices")[axis] > size:
        return False
    elif user.name == "stablehlo.transpose":
      if not _reads_at_most(context, user.results[0], user.attrs.integers("permutation").index(axis), size):
        return False
    elif user.name != "stablehlo.select" or position == 0 or not _reads_at_most(context, user.results[0], axis, size):
      return False
  return True


def _fitted(x: Array, kind: ir.TensorType) -> Array:
  """Slices singular vectors to the declared shape, or pads them with zeros, which are not read."""
  shape = tuple(have if dim is None else dim for have, dim in zip(x.shape, kind.shape, strict=True))
  pads = [(0, max(dim - have, 0), 0) for have, dim in zip(x.shape, shape, strict=True)]
  if any(high for _, high, _ in pads):
    x = lax.pad(x, np.zeros((), x.dtype), pads)
  return x[tuple(slice(0, dim) for dim in shape)] if tuple(x.shape) != shape else x


@register_custom_call("linalg.geev")
def _geev(context: Context, op: ir.Op, x: Array) -> Any:
  """Lowers geev. Results: eigenvalues (real and imaginary parts if the input is real), left and right vectors, info."""
  left = _char(op, "compute_left", "N") == "V"
  right = _char(op, "compute_right", "V") == "V"
  found = list(lax.linalg.eig(x, compute_left_eigenvectors=left, compute_right_eigenvectors=right))
  eigenvalues = found.pop(0)
  kinds = op.types[-3:-1]
  vectors = [found.pop(0) if wanted else zeros(kind, x) for wanted, kind in zip((left, right), kinds, strict=True)]
  parts = (lax.real(eigenvalues), lax.imag(eigenvalues)) if len(op.types) == 5 else (eigenvalues,)
  return *parts, *vectors, info(op, x)


@register("stablehlo.triangular_solve", attributes=("left_side", "lower", "transpose_a", "unit_diagonal"))
def _triangular_solve(context: Context, op: ir.Op, a: Array, b: Array) -> Array:
  transpose = op.attrs.text("transpose_a")
  # XLA has no solver for float16 on GPUs.
  dtype = np.float32 if a.dtype == np.float16 else a.dtype
  found = lax.linalg.triangular_solve(
    a.astype(dtype),
    b.astype(dtype),
    left_side=op.attrs.boolean("left_side"),
    lower=op.attrs.boolean("lower"),
    unit_diagonal=op.attrs.boolean("unit_diagonal"),
    transpose_a=transpose in ("TRANSPOSE", "ADJOINT"),
    conjugate_a=transpose == "ADJOINT",
  )
  return found.astype(b.dtype)


@register_custom_call("linalg.trsm")
def _trsm(context: Context, op: ir.Op, a: Array, b: Array, *rest: Array) -> Any:
  transpose = _char(op, "trans_x", "N")
  if rest:  # Until JAX 0.5, a scalar factor was the last operand.
    b = b * rest[0]
  return lax.linalg.triangular_solve(
    a,
    b,
    left_side=_char(op, "side", "L") == "L",
    lower=_char(op, "uplo", "L") == "L",
    transpose_a=transpose in "TC",
    conjugate_a=transpose == "C",
    unit_diagonal=_char(op, "diag", "N") == "U",
  )


@register_custom_call("linalg.gehrd")
def _gehrd(context: Context, op: ir.Op, x: Array) -> Any:
  return (*lax.linalg.hessenberg(x), info(op, x))


@register_custom_call("linalg.sytrd")
def _sytrd(context: Context, op: ir.Op, x: Array) -> Any:
  return (*lax.linalg.tridiagonal(x, lower=_is_lower(op)), info(op, x))


@register_custom_call("linalg.gees")
def _gees(context: Context, op: ir.Op, x: Array) -> Any:
  """Lowers gees. Results: Schur form, vectors, eigenvalues (which JAX does not return), the sort count, info."""
  wants_vectors = _char(op, "mode", "V") == "V"
  if _char(op, "sort", "N") != "N":
    raise context.unsupported(op, "it sorts eigenvalues, which JAX does not support.")
  found = lax.linalg.schur(x, compute_schur_vectors=wants_vectors)
  form = found[0]
  vectors = found[1] if wants_vectors else zeros(op.types[1], x)
  middle = [zeros(kind, x) for kind in op.types[2:]]
  used = analysis.uses_of_values(context)
  if any(used.get(number) for number in op.results[2:-1]):
    raise context.unsupported(op, "its eigenvalue results are used.")
  return form, vectors, *middle


@register_custom_call("linalg.gtsv")
def _gtsv(context: Context, op: ir.Op, lower: Array, diagonal: Array, upper: Array, b: Array) -> Any:
  """Lowers LAPACK's gtsv. Results: the overwritten diagonals, the solution, info."""
  x = lax.linalg.tridiagonal_solve(_padded(lower, diagonal, 1), diagonal, _padded(upper, diagonal, 0), b)
  used = analysis.uses_of_values(context)
  if any(used.get(number) for number in op.results[:-2]):
    raise context.unsupported(op, "its factored diagonals are used.")
  overwritten = [zeros(kind, b) for kind in op.types[:-2]]
  return *overwritten, x, info(op, x)


def _padded(band: Array, diagonal: Array, side: int) -> Array:
  """Pads a band of n - 1 entries to the n entries that JAX expects; the entry outside the matrix is zero."""
  if band.shape[-1] == diagonal.shape[-1]:
    return band
  widths = [(0, 0, 0)] * (band.ndim - 1) + [(1, 0, 0) if side else (0, 1, 0)]
  return lax.pad(band, np.zeros((), band.dtype), widths)


@register_custom_call("linalg.gtsv2")
def _gtsv2(context: Context, op: ir.Op, lower: Array, diagonal: Array, upper: Array, b: Array) -> Any:
  return lax.linalg.tridiagonal_solve(lower, diagonal, upper, b)
