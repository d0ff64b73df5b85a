"""The functions that `templates` recovers, and what a module must contain for a search to be worthwhile."""

import dataclasses
import functools
import importlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special

__all__ = [
  "CHAIN_ENTRIES",
  "COMPLEX_ENTRIES",
  "CONSTANT_ENTRIES",
  "EXPONENTIAL_ENTRIES",
  "Entry",
]


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
  """A function, and what a module must contain for a search for its expansion to be worthwhile.

  Attributes:
    name: the function, as in `lax.exp`, within `jax`.
    num_args: number of its arguments.
    constants: a constant of the expansion in float32 and one in float64, of each of JAX's algorithms; the module must
      contain one of them.
    has_loop: whether the expansion contains a loop.
    ops: ops that the module must contain.
    chain: ops from the result inwards, each of which computes an operand of the one before; a name without a dot is
      the beginning of the name of a function that is called.
    result: position of the result, for a function that returns a tuple and is not called as a whole.
    settings: keyword arguments of the function, by name.
  """

  name: str
  num_args: int
  constants: tuple[float, ...] = ()
  has_loop: bool = False
  ops: frozenset[str] = frozenset()
  chain: tuple[str, ...] = ()
  result: int | None = None
  settings: tuple[tuple[str, Any], ...] = ()

  @property
  def function(self) -> Callable[..., Any]:
    function = _function(self.name)
    if self.settings:
      return functools.partial(function, **dict(self.settings))
    return function if self.result is None else lambda *args: function(*args)[self.result]

  @property
  def replacement(self) -> Callable[..., Any]:
    """The function that takes the place of the expansion."""
    return _WITH_OUR_DERIVATIVE.get(self.name, self.function)


@functools.cache
def _function(name: str) -> Callable[..., Any]:
  module, _, attribute = f"jax.{name}".rpartition(".")
  function: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
  return function


@jax.custom_jvp
def _expn(n: Any, x: Any) -> Any:
  """Returns `jax.scipy.special.expn`, with another derivative: that of JAX 0.10 leaks a tracer inside of `jax.jit`."""
  return jax.scipy.special.expn(n, x)


@_expn.defjvp
def _expn_jvp(primals: Any, tangents: Any) -> Any:
  n, x = primals
  is_zero = n == 0
  # E_0(x) is exp(-x) / x, and E_-1, which would come next, is not a value of `expn`.
  safe = jnp.where(is_zero, x, 1)
  of_zero = _expn(n, safe) * (1 + 1 / safe)
  return _expn(n, x), -tangents[1] * jnp.where(is_zero, of_zero, _expn(jnp.where(is_zero, 1, n - 1), x))


@jax.custom_jvp
def _nextafter(x: Any, y: Any) -> Any:
  """Returns `jax.lax.nextafter`, with the derivative that it has from JAX 0.12 on."""
  return jax.lax.nextafter(x, y)


_nextafter.defjvps(lambda tangent, result, x, y: tangent, None)

_WITH_OUR_DERIVATIVE = {"scipy.special.expn": _expn, "lax.nextafter": _nextafter}


# For lgamma: the logarithm of pi, and the constant term of the polynomial that JAX 0.12 evaluates in float32.
_LGAMMA = (1.1447298526763916, 1.1447298858494002, -0.21417342126369476)
_TWELFTH = (0.0833333358168602, 0.08333333333333333)
_BESSEL_I0E = (0.8044903874397278, 0.8044904110141088)
_BESSEL_I1E = (0.7785762548446655, 0.7785762350182801)

# A function precedes those that its expansion contains.
CONSTANT_ENTRIES = (
  Entry("scipy.special.log_ndtr", 1, (15.0,)),
  Entry("scipy.special.owens_t", 2, (0.6700000166893005, 0.67)),
  # The latter two are those of JAX 0.12.
  Entry("scipy.special.erfcx", 1, (9.419280052185059, 26.641747557046326, 0.06439931690692902, 0.086244814735813427)),
  Entry("scipy.special.dawsn", 1, (3.25,)),
  Entry("scipy.special.fresnel", 1, (2.5625,), result=0),
  Entry("scipy.special.fresnel", 1, (2.5625,), result=1),
  Entry("scipy.special.spence", 1, (1.644934058189392, 1.6449340668482264)),
  Entry("lax.betainc", 3, _LGAMMA, True),
  Entry("lax.igamma_grad_a", 2, _LGAMMA, True),
  Entry("lax.igamma", 2, _LGAMMA, True),
  Entry("lax.igammac", 2, _LGAMMA, True),
  Entry("lax.polygamma", 2, _TWELFTH),
  # lax.zeta has no derivative.
  Entry("scipy.special.zeta", 2, _TWELFTH),
  Entry("lax.lgamma", 1, _LGAMMA),
  Entry("lax.digamma", 1, (2.0149030685424805, 2.0149030205422647)),
  Entry("lax.erfc", 1, (1.1283791065216064, 49267.39426086359)),
  Entry("lax.erf_inv", 1, (2.832976818084717, 1.6536545626831027)),
  # In JAX 0.12 these have custom derivatives.
  Entry("scipy.special.i0", 1, _BESSEL_I0E),
  Entry("scipy.special.i1", 1, _BESSEL_I1E),
  Entry("scipy.special.ndtri", 1, (0.35414958000183105, 1.4142135679721832)),
  Entry("lax.bessel_i0e", 1, _BESSEL_I0E),
  Entry("lax.bessel_i1e", 1, _BESSEL_I1E),
)
COMPLEX_ENTRIES = tuple(
  Entry(f"lax.{name}", 1, ops=frozenset(f"stablehlo.{op}" for op in ("complex", *ops)))
  for name, *ops in (
    ("log1p", "log_plus_one", "atan2"),
    ("log", "log_plus_one", "atan2"),
    ("atan", "log_plus_one", "atan2"),
    ("sqrt", "sqrt", "maximum"),
    ("cos", "exponential_minus_one", "cosine"),
    ("sin", "exponential_minus_one", "sine"),
    ("square", "is_finite"),
    ("logistic", "exponential", "cosine", "divide"),
    ("exp", "exponential", "cosine"),
  )
)
# Functions whose expansion contains exp(-x).
EXPONENTIAL_ENTRIES = (
  Entry("lax.logistic", 1, ops=frozenset(f"stablehlo.{op}" for op in ("negate", "exponential", "divide"))),
  Entry("numpy.logaddexp", 2, ops=frozenset(f"stablehlo.{op}" for op in ("negate", "exponential", "log_plus_one"))),
)
# Functions with a derivative of their own (`custom_jvp`), whose expansion has another one or none: at 0, where a branch
# that is not chosen is infinite, or because of a loop. Those of one name are functions of the module.
CHAIN_ENTRIES = (
  Entry("scipy.special.expn", 2, chain=("_expn",)),  # JAX 0.12
  Entry("scipy.special.erfcinv", 1, chain=("_erfcinv_impl",)),
  *(
    Entry(f"{module}.{name}", num_args, chain=(name,))
    for module, name, num_args in (
      ("scipy.special", "expi", 1),
      ("scipy.special", "expn", 2),
      ("scipy.special", "sici", 1),
      ("scipy.special", "hyp1f1", 3),
      ("scipy.special", "hyp2f1", 4),
      ("numpy", "sinc", 1),
      ("numpy", "i0", 1),
      ("nn", "relu6", 1),
      ("nn", "relu", 1),
      ("nn", "log1mexp", 1),
    )
  ),
  Entry("lax.asin", 1, chain=("stablehlo.atan2", "stablehlo.sqrt", "stablehlo.multiply", "stablehlo.subtract")),
  Entry(
    "lax.nextafter", 2,
    chain=("stablehlo.bitcast_convert", *["stablehlo.select"] * 4, "stablehlo.or", "stablehlo.and"),
  ),
  Entry(
    "scipy.special.entr", 1,
    chain=("stablehlo.select", "stablehlo.negate", "_where", "stablehlo.multiply", "stablehlo.log"),
  ),
  Entry("scipy.special.xlogy", 2, chain=("_where", "stablehlo.multiply", "stablehlo.log")),
  Entry("scipy.special.xlog1py", 2, chain=("_where", "stablehlo.multiply", "stablehlo.log_plus_one")),
  Entry(
    "numpy.logaddexp2", 2,
    chain=("stablehlo.select", "stablehlo.add", "stablehlo.multiply", "stablehlo.log_plus_one"),
  ),
  Entry("scipy.special.logit", 1, chain=("stablehlo.log", "stablehlo.divide", "stablehlo.subtract")),
  Entry("scipy.special.poch", 2, chain=("_where", "stablehlo.divide", "stablehlo.multiply", "gammasgn")),
)  # fmt: skip
