"""The check of a lowering while JAX's 64-bit types are off."""

from collections.abc import Sequence

import jax
import numpy as np

from graftax.ops_jax import Int64Pair, as_int64_pair, canonical_dtype
from graftax.ops_jax import lowering as registered_lowering
from graftax.testing.harness.compare import check_equal
from graftax.testing.raw_ops.compare import Tolerance, loosened
from graftax.testing.raw_ops.oracle import RawOp, to_numpy
from graftax.testing.tolerance import tolerance as default_tolerance

__all__ = ["check_without_x64"]

_NARROWED = {
  np.dtype(np.int64): np.dtype(np.int32),
  np.dtype(np.uint64): np.dtype(np.uint32),
  np.dtype(np.float64): np.dtype(np.float32),
  np.dtype(np.complex128): np.dtype(np.complex64),
}


def check_without_x64(case: RawOp, expected: Sequence[np.ndarray], tolerance: Tolerance | None) -> None:
  """Compares shapes and dtypes while 64-bit types are off, and values if 32 bits can hold them.

  Known inputs keep their 64 bits, because the evaluator folds known values with 64-bit types on.
  """
  # Keys and counters of random ops are never truncated.
  accepts_pairs = case.op.startswith("Stateless") and registered_lowering(case.op, int64_pairs=True) is not None
  with jax.enable_x64(False):
    narrow = [as_int64_pair(x) if accepts_pairs and x.dtype == np.uint64 else _narrowed(x) for x in case.dynamic_inputs]
    inputs = [x for x in narrow if x is not None]
    fits = len(inputs) == len(narrow)
    if fits:
      outputs = jax.device_get(jax.jit(case.run)(*inputs))
    else:
      specs = [
        n if isinstance(n, Int64Pair) else jax.ShapeDtypeStruct(x.shape, canonical_dtype(x.dtype))
        for n, x in zip(narrow, case.dynamic_inputs, strict=True)
      ]
      outputs = jax.eval_shape(case.run, *specs)
    dtypes = [canonical_dtype(want.dtype) for want in expected]
  if fits:
    expected = _expected_of_narrowed(case, inputs, expected)
  for index, (got, want, dtype) in enumerate(zip(outputs, expected, dtypes, strict=True)):
    where = f"{case.op} (64-bit types off), output {index}"
    if (got.shape, got.dtype) not in ((want.shape, dtype), (want.shape, want.dtype)):
      raise AssertionError(f"{where}: {got.dtype}{got.shape}, expected {dtype}{want.shape}")
    wanted = _narrowed(want)
    if fits and wanted is not None:
      bounds = _narrow_tolerance(case.op, tolerance, want.dtype, dtype)
      check_equal(where, np.asarray(got), wanted, *bounds, dtype=np.asarray(got).dtype)


def _narrow_tolerance(op: str, given: Tolerance | None, wide: np.dtype, narrow: np.dtype) -> Tolerance:
  if wide == narrow:
    return given or default_tolerance(narrow, op)
  # The given tolerance is for the wide type. The inputs were chosen for that type, too, so the narrow one may lose more
  # digits.
  rtol, atol = loosened(default_tolerance(narrow, op))
  return (rtol, atol) if given is None else (max(given[0], rtol), max(given[1], atol))


def _narrowed(x: np.ndarray) -> np.ndarray | None:
  """Returns `x` in the type that replaces a 64-bit type, or None if 32 bits cannot hold its values."""
  with np.errstate(over="ignore"):
    narrow = x.astype(_NARROWED.get(x.dtype, x.dtype))
  if x.dtype.kind in "iu":
    return narrow if np.array_equal(narrow, x) else None
  return narrow if np.array_equal(np.isfinite(narrow), np.isfinite(x)) else None


def _expected_of_narrowed(
  case: RawOp, narrow: Sequence[np.ndarray | Int64Pair], expected: Sequence[np.ndarray]
) -> Sequence[np.ndarray]:
  """Returns what TensorFlow computes, in 64 bits, from inputs that were rounded to 32."""
  rounded = [np.asarray(x).astype(wide.dtype) for x, wide in zip(narrow, case.dynamic_inputs, strict=True)]
  if all(np.array_equal(x, y) for x, y in zip(rounded, case.dynamic_inputs, strict=True)):
    return expected
  dynamic = iter(rounded)
  flat = [x if static else next(dynamic) for x, static in zip(case.inputs, case.static, strict=True)]
  return [to_numpy(t) for t in case.oracle(flat)]
