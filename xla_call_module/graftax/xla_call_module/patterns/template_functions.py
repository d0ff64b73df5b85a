"""The functions that `templates` recovers, and what a module must contain for a search to be worthwhile."""

import dataclasses
import functools
import importlib
from collections.abc import Callable
from typing import Any

import jax
import jax.scipy.special

__all__ = [
  "CHAIN_ENTRIES",
  "COMPLEX_ENTRIES",
  "CONSTANT_ENTRIES",
  "EXPONENTIAL_ENTRIES",
  "Entry",
  "differentiable_expn",
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
  """

  name: str
  num_args: int
  constants: tuple[float, ...] = ()
  has_loop: bool = False
  ops: frozenset[str] = frozenset()
  chain: tuple[str, ...] = ()
  result: int | None = None

  @property
  def function(self) -> Callable[..., Any]:
    function = _function(self.name)
    return function if self.result is None else lambda *args: function(*args)[self.result]


@functools.cache
def _function(name: str) -> Callable[..., Any]:
  module, _, attribute = f"jax.{name}".rpartition(".")
  function: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
  return function


@jax.custom_jvp
def differentiable_expn(n: Any, x: Any) -> Any:
  """Returns `jax.scipy.special.expn`; the derivative of JAX's leaks a tracer inside `jax.jit`."""
  return jax.scipy.special.expn(n, x)


@differentiable_expn.defjvp
def _expn_jvp(primals: Any, tangents: Any) -> Any:
  n, x = primals
  return differentiable_expn(n, x), -tangents[1] * differentiable_expn(n - 1, x)


# For lgamma: the logarithm of pi, and the constant term of the polynomial that JAX 0.12 evaluates in float32.
_LGAMMA = (1.1447298526763916, 1.1447298858494002, -0.21417342126369476)
_TWELFTH = (0.0833333358168602, 0.08333333333333333)

# A function precedes those that its expansion contains.
CONSTANT_ENTRIES = (
  Entry("scipy.special.log_ndtr", 1, (15.0,)),
  Entry("scipy.special.owens_t", 2, (0.6700000166893005, 0.67)),
  Entry("scipy.special.erfcx", 1, (9.419280052185059, 26.641747557046326)),
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
  Entry("lax.bessel_i0e", 1, (0.8044903874397278, 0.8044904110141088)),
  Entry("lax.bessel_i1e", 1, (0.7785762548446655, 0.7785762350182801)),
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
