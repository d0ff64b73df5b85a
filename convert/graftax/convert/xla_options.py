"""Options of XLA that were measured to make compiled programs faster, by platform.

An option gets in only if results under it were compared with those without it, and if no program of the kind that it is
for was slower. The measurements, and the options that were tried without success, are in the guide
`docs/guides/speed.md`.
"""

import collections
import contextlib
import functools
import math
import platform as host
import threading
from collections.abc import Iterator, Mapping

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

__all__ = ["compiler_options", "has_onednn", "onednn_options", "without_compilation_cache"]

_PLATFORMS = ("cpu", "gpu", "cuda", "rocm", "tpu")
# Where XLA's kernels for the CPU were measured.
_MACHINES = ("x86_64", "AMD64")
_CPU: Mapping[str, str] = {}
# Jaxlib's XLA has kernels of two libraries, and asks YNNPACK first. What is named here is left to YNNPACK.
_ONEDNN: Mapping[str, str] = {"xla_cpu_experimental_onednn_custom_call": "True"}
_YNNPACK = "xla_cpu_experimental_ynn_fusion_type"
# A call of oneDNN takes longer than the small products in the steps of a recurrent network. Sums are faster in
# transformers, and slower after convolutions.
_WITH_LOOPS: Mapping[str, str] = {**_ONEDNN, _YNNPACK: "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"}
_WITH_CONVOLUTIONS: Mapping[str, str] = {**_ONEDNN, _YNNPACK: ""}
_WITH_PRODUCTS: Mapping[str, str] = {**_ONEDNN, _YNNPACK: "LIBRARY_FUSION_TYPE_REDUCE"}
# A transformer for images has one, which makes its patches.
_FEW_CONVOLUTIONS = 1
_LOOPS, _CONVOLUTION = ("scan", "while"), "conv_general_dilated"


def compiler_options(platform: str | None = None, program: ClosedJaxpr | None = None) -> dict[str, str]:
  """Returns options for `jax.jit(..., compiler_options=)` that were measured to make programs faster.

  Options that the installed jaxlib does not know are left out, so the result can always be passed on. The result is
  empty where nothing helps, or where nothing was measured, as on accelerators. Today it is empty everywhere. `jax.jit`
  accepts options only for the outermost function.

  Args:
    platform: "cpu", "gpu", "cuda", "rocm" or "tpu"; by default that on which JAX runs functions.
    program: what will be compiled, such as `jax.jit(fn).trace(params, x).jaxpr`. Options that are faster only for
      other programs are left out. Without a program, the result has those that make no program slower.

  Returns:
    Values by the names of the options.

  Raises:
    ValueError: the platform is not known.
    TypeError: `program` is not a jaxpr.

  Example:
    >>> import jax
    >>> import jax.numpy as jnp
    >>> traced = jax.jit(lambda x: jax.nn.relu(x @ x)).trace(jnp.ones([2, 2]))
    >>> compiled = traced.lower().compile(compiler_options=compiler_options(program=traced.jaxpr))
    >>> compiled(jnp.ones([2, 2])).shape
    (2, 2)
  """
  if platform is not None and platform not in _PLATFORMS:
    raise ValueError(f"platform={platform!r} is not known; expected one of {_PLATFORMS}.")
  if program is not None and not isinstance(program, ClosedJaxpr):
    raise TypeError(
      f"program={program!r:.200}: expected a jaxpr, such as jax.jit(fn).trace(params, x).jaxpr or "
      "jax.make_jaxpr(fn)(params, x)."
    )
  if (platform or jax.default_backend()) != "cpu" or host.machine() not in _MACHINES:
    return {}
  return {name: value for name, value in _CPU.items() if _is_accepted("cpu", name, value)}


def onednn_options(program: ClosedJaxpr) -> dict[str, str]:
  """Returns the options with which XLA uses oneDNN on a CPU that has it, in the way that is the fastest for a program.

  They are for programs of `graftax.xla_call_module.lax_extras.with_contraction_barriers`: others can have wrong
  results. Training steps are slower with them.
  """
  counts = collections.Counter(equation.primitive.name for equation in _equations(program.jaxpr))
  if any(counts[name] for name in _LOOPS):
    return dict(_WITH_LOOPS)
  return dict(_WITH_CONVOLUTIONS if counts[_CONVOLUTION] > _FEW_CONVOLUTIONS else _WITH_PRODUCTS)


def _equations(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
  """Yields the equations of a program and of all programs within."""
  for equation in jaxpr.eqns:
    yield equation
    for leaf in jax.tree.leaves(list(equation.params.values()), is_leaf=_is_program):
      if _is_program(leaf):
        yield from _equations(leaf.jaxpr if isinstance(leaf, ClosedJaxpr) else leaf)


def _is_program(value: object) -> bool:
  return isinstance(value, ClosedJaxpr | Jaxpr)


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
        self._seconds = getattr(jax.config, self._NAME)
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
  if host.machine() not in _MACHINES:
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


@functools.cache
def _is_accepted(platform: str, name: str, value: str) -> bool:
  """Returns whether the installed jaxlib compiles with an option.

  XLA refuses an unknown option or value of one compilation with an error; in the variable XLA_FLAGS it would end the
  process.
  """
  try:
    device = jax.local_devices(backend=platform)[0]
    scalar = jax.ShapeDtypeStruct((), "float32", sharding=jax.sharding.SingleDeviceSharding(device))
    jax.jit(lambda x: x).lower(scalar).compile(compiler_options={name: value})
  except RuntimeError:
    return False
  return True
