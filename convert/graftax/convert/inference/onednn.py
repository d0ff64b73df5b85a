"""oneDNN, which XLA can call on CPUs: where it is faster, with which options, and what must not be kept of it."""

import collections
import contextlib
import functools
import math
import platform as host
import threading
from collections.abc import Iterator, Mapping

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Var

from graftax.convert.jaxprs import nested_equations
from graftax.convert.xla_options import MACHINES

__all__ = ["FEW_ROWS_OPTIONS", "has_few_rows", "has_onednn", "onednn_options", "without_compilation_cache"]

# Jaxlib's XLA has kernels of two libraries, and asks YNNPACK first. What is named here is left to YNNPACK.
_ONEDNN: Mapping[str, str] = {"xla_cpu_experimental_onednn_custom_call": "True"}
_YNNPACK, _DOTS, _SUMS = (
  "xla_cpu_experimental_ynn_fusion_type",
  "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT",
  "LIBRARY_FUSION_TYPE_REDUCE",
)
# A call of oneDNN takes longer than the small products in the steps of a recurrent network. Sums are faster in
# transformers and loops, and slower after convolutions.
_WITH_LOOPS: Mapping[str, str] = {**_ONEDNN, _YNNPACK: f"{_DOTS},{_SUMS}"}
_WITH_CONVOLUTIONS: Mapping[str, str] = {**_ONEDNN, _YNNPACK: ""}
_WITH_PRODUCTS: Mapping[str, str] = {**_ONEDNN, _YNNPACK: _SUMS}
FEW_ROWS_OPTIONS: Mapping[str, str] = {_YNNPACK: _DOTS}
"""Options for programs of `has_few_rows`."""
# oneDNN is as fast or faster from 16 rows on, and with matrices of 16 MB, which are in no cache, for two rows or more.
_FEW_ROWS, _FEW_ELEMENTS = 8, 3 << 20
# A transformer for images has one, which makes its patches.
_FEW_CONVOLUTIONS = 1
_LOOPS, _CONVOLUTION = ("scan", "while"), "conv_general_dilated"


def onednn_options(program: ClosedJaxpr) -> dict[str, str]:
  """Returns the options with which XLA uses oneDNN on a CPU that has it, in the way that is the fastest for a program.

  They are for programs of `graftax.xla_call_module.lax_extras.with_contraction_barriers`: others can have wrong
  results. Training steps are slower with them.
  """
  counts = collections.Counter(equation.primitive.name for equation, _ in nested_equations(program.jaxpr))
  if any(counts[name] for name in _LOOPS):
    return dict(_WITH_LOOPS)
  return dict(_WITH_CONVOLUTIONS if counts[_CONVOLUTION] > _FEW_CONVOLUTIONS else _WITH_PRODUCTS)


def has_few_rows(program: ClosedJaxpr) -> bool:
  """Returns whether all that a program multiplies are matrices of float32 with few rows, one after the other.

  Such products take as long as reading the other matrix, and oneDNN reads slower than YNNPACK while that is in a cache.
  In narrow dtypes XLA would convert the matrix in each call.
  """
  equations = [equation for equation, _ in nested_equations(program.jaxpr)]
  if any(equation.primitive.name in (*_LOOPS, _CONVOLUTION) for equation in equations):
    return False
  products = [equation for equation in equations if equation.primitive.name == "dot_general"]
  return bool(products) and all(map(_is_short, products))


def _is_short(product: JaxprEqn) -> bool:
  """Returns whether a product is of few rows with a matrix that is not too large."""
  numbers: jax.lax.DotDimensionNumbers = product.params["dimension_numbers"]
  (contracted, _), (batch, _) = numbers
  left, right = map(_array_type, product.invars)
  rows = math.prod(size for axis, size in enumerate(left.shape) if axis not in (*contracted, *batch))
  return rows <= _FEW_ROWS and right.size <= _FEW_ELEMENTS and left.dtype == right.dtype == np.float32


def _array_type(atom: Var | Literal) -> jax.core.ShapedArray:
  aval = atom.aval
  assert isinstance(aval, jax.core.ShapedArray), "internal: a product of no arrays"
  return aval


class _CacheSwitch:
  """Counts the compilations that JAX's cache on disk must not keep, and turns it off while there are some."""

  _NAME = "jax_persistent_cache_min_compile_time_secs"

  def __init__(self) -> None:
    self._lock = threading.Lock()
    self._count = 0
    self._seconds = 0.0

  @contextlib.contextmanager
  def off(self) -> Iterator[None]:
    with self._lock:
      if not self._count:
        self._seconds = float(getattr(jax.config, self._NAME))
        jax.config.update(self._NAME, math.inf)
      self._count += 1
    try:
      yield
    finally:
      with self._lock:
        self._count -= 1
        if not self._count:
          jax.config.update(self._NAME, self._seconds)


_cache_switch = _CacheSwitch()


def without_compilation_cache() -> contextlib.AbstractContextManager[None]:
  """Keeps what is compiled inside out of JAX's cache on disk: programs that call oneDNN cannot be written there.

  XLA fails to serialize them, with std::bad_alloc. What other threads compile meanwhile is not written either.
  """
  return _cache_switch.off()


@functools.cache
def has_onednn() -> bool:
  """Returns whether XLA can compute convolutions on this CPU with oneDNN, and does not look behind barriers for that.

  All jaxlibs accept the option. Those before 0.11 ignore it, and 0.11 leaves barriers out before it looks for patterns.
  """
  if host.machine() not in MACHINES:
    return False
  sharding = jax.sharding.SingleDeviceSharding(jax.local_devices(backend="cpu")[0])
  x = jax.ShapeDtypeStruct((1, 8, 8, 8), "float32", sharding=sharding)
  kernel = jax.ShapeDtypeStruct((8, 8, 3, 3), "float32", sharding=sharding)

  def silu(x: jax.Array, kernel: jax.Array) -> tuple[jax.Array, jax.Array]:
    y = jax.lax.optimization_barrier(jax.lax.conv(x, kernel, (1, 1), "SAME"))
    return y, y * jax.lax.logistic(y)

  try:
    with without_compilation_cache():
      compiled = jax.jit(silu).lower(x, kernel).compile(compiler_options=dict(_WITH_CONVOLUTIONS))
  except RuntimeError:
    return False
  text = compiled.as_text() or ""
  return "__onednn$convolution" in text and "SWISH" not in text
