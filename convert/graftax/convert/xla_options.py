"""Options of XLA that were measured to make compiled programs faster: for a platform, this jaxlib, and a program.

The table of measurements is in the guide `docs/guides/speed.md`. An option gets in only if results and gradients under
it were compared with those without it. `LIBRARY_FUSION_TYPE_DOT`, which is about as fast, is not here, because with
jaxlib 0.10.0 it made the gradient of `relu(x @ w + b)` in bfloat16 0.
"""

import dataclasses
import functools
import math
import platform as host
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Literal

__all__ = ["compiler_options"]

# Any in this module: parameters of JAX's primitives.

_PLATFORMS = ("cpu", "gpu", "cuda", "rocm", "tpu")
# Where XLA's kernels for the CPU were measured.
_MACHINES = ("x86_64", "AMD64")
_CPU_CONVOLUTIONS: Mapping[str, str] = {
  # YNNPACK for single matrix products, which 1x1 convolutions become. Those that graftax has written as products gain
  # nothing, and programs with other convolutions are up to 45% slower.
  "xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT",
}
_MIN_POINTWISE_SHARE = 0.7


def compiler_options(platform: str | None = None, program: ClosedJaxpr | None = None) -> dict[str, str]:
  """Returns options for `jax.jit(..., compiler_options=)` that were measured to make programs faster.

  Options that the installed jaxlib does not know are left out, so the result can always be passed on. The result is
  empty where nothing helps, or where nothing was measured, as on accelerators. `jax.jit` accepts options only for the
  outermost function.

  Args:
    platform: "cpu", "gpu", "cuda", "rocm" or "tpu"; by default that on which JAX runs functions.
    program: what will be compiled, such as `jax.jit(fn).trace(params, x).jaxpr`. Options that are faster only for
      other programs are left out. Without a program, the result has all options that make some programs faster, and
      may make others slower.

  Returns:
    Values by the names of the options.

  Raises:
    ValueError: the platform is not known.
    TypeError: `program` is not a jaxpr.

  Example:
    >>> import jax
    >>> import jax.numpy as jnp
    >>> images, kernel = jnp.ones([1, 8, 8, 4]), jnp.ones([1, 1, 4, 8])
    >>> predict = lambda x: jax.nn.relu(jax.lax.conv_general_dilated(
    ...   x, kernel, [1, 1], "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
    >>> traced = jax.jit(predict).trace(images)
    >>> compiled = traced.lower().compile(compiler_options=compiler_options(program=traced.jaxpr))
    >>> compiled(images).shape
    (1, 8, 8, 8)
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
  if program is not None and not _is_mostly_pointwise(program):
    return {}
  return {name: value for name, value in _CPU_CONVOLUTIONS.items() if _is_accepted("cpu", name, value)}


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


def _is_mostly_pointwise(program: ClosedJaxpr) -> bool:
  """Returns whether most of what a program multiplies is in 1x1 convolutions that are left to XLA."""
  work = list(_work(program.jaxpr))
  pointwise = sum(part.num_products for part in work if part.is_pointwise)
  return pointwise > 0 and pointwise >= _MIN_POINTWISE_SHARE * sum(part.num_products for part in work)


@dataclasses.dataclass(frozen=True, slots=True)
class _Work:
  """What an equation multiplies."""

  num_products: int
  is_pointwise: bool


def _work(jaxpr: Any) -> Iterator[_Work]:
  """Yields what a program multiplies on a CPU."""
  platforms: dict[Any, Sequence[Any]] = {}
  for equation in jaxpr.eqns:
    name, params = equation.primitive.name, equation.params
    if name == "platform_index":
      platforms[equation.outvars[0]] = params["platforms"]
    elif name == "conv_general_dilated":
      yield _convolution(equation)
    elif name == "dot_general":
      ((contracted, _), _) = params["dimension_numbers"]
      operand = _sizes(equation.invars[0])
      num_products = math.prod(_sizes(equation.outvars[0])) * math.prod(operand[axis] for axis in contracted)
      yield _Work(num_products, False)
    else:
      times = params["length"] if name == "scan" else 1
      bodies = list(_bodies(params.values()))
      if name == "cond" and not isinstance(equation.invars[0], Literal) and equation.invars[0] in platforms:
        bodies = [bodies[_place_of_cpu(platforms[equation.invars[0]])]]
      for body in bodies:
        for part in _work(body):
          yield dataclasses.replace(part, num_products=times * part.num_products)


def _convolution(equation: Any) -> _Work:
  numbers = equation.params["dimension_numbers"].rhs_spec
  kernel = _sizes(equation.invars[1])
  num_products = math.prod(_sizes(equation.outvars[0])) * math.prod(kernel) // max(kernel[numbers[0]], 1)
  is_pointwise = all(kernel[axis] == 1 for axis in numbers[2:]) and equation.params["feature_group_count"] == 1
  return _Work(num_products, is_pointwise)


def _place_of_cpu(platforms: Sequence[Any]) -> int:
  """Returns the position of the branch for CPUs; the last one is for platforms that are not named."""
  return next((i for i, names in enumerate(platforms) if names is not None and "cpu" in names), len(platforms) - 1)


def _bodies(values: Any) -> Iterator[Any]:
  for value in values:
    if isinstance(value, (list, tuple)):
      yield from _bodies(value)
    elif hasattr(value, "eqns"):
      # A ClosedJaxpr has them, too.
      yield value


def _sizes(variable: Any) -> Sequence[int]:
  """Returns the shape of a variable, with symbolic sizes as 1."""
  return [size if isinstance(size, int) else 1 for size in variable.aval.shape]
