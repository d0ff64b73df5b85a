"""Options of XLA that were measured to make compiled programs faster, by platform.

An option gets in only if no program was slower with it, and if results and gradients under it were compared with those
without it. Today there is none; those that were tried are in the guide `docs/guides/speed.md`.
"""

import functools
import platform as host
from collections.abc import Mapping

import jax
from jax.extend.core import ClosedJaxpr

__all__ = ["MACHINES", "compiler_options"]

_PLATFORMS = ("cpu", "gpu", "cuda", "rocm", "tpu")
# Where XLA's kernels for the CPU were measured.
MACHINES = ("x86_64", "AMD64")
_CPU: Mapping[str, str] = {}


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
  if (platform or jax.default_backend()) != "cpu" or host.machine() not in MACHINES:
    return {}
  return {name: value for name, value in _CPU.items() if _is_accepted("cpu", name, value)}


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
