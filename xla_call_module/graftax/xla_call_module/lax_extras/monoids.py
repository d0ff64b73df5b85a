"""Associative functions of two arrays with a neutral element, by name."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

__all__ = [
  "BOOL_FORMS",
  "MONOIDS",
  "highest",
  "identity",
  "is_identity",
  "lowest",
  "monoid_of_primitive",
  "only_primitive",
  "reduce_monoid",
  "unwrapped",
]

MONOIDS: dict[str, Callable[..., Any]] = {
    "add": lax.add, "multiply": lax.mul, "maximum": lax.max, "minimum": lax.min,
    "and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor,
}  # fmt: skip
"""Associative functions with an identity, by name."""

_OF_PRIMITIVES = {"mul": "multiply", "max": "maximum", "min": "minimum"}

BOOL_FORMS = {"add": "or", "multiply": "and", "maximum": "or", "minimum": "and"}
"""The logical functions that equal the arithmetic ones on booleans."""

_LOGICAL = ("and", "or", "xor")

_CALLS = ("jit", "pjit", "closed_call", "core_call")
_CALLS_WITH_RULES = ("custom_jvp_call", "custom_vjp_call", "checkpoint")


def identity(name: str, dtype: np.dtype) -> np.ndarray | None:
  """Returns the neutral element of a monoid, or None if the dtype has none (the maximum of complex numbers).

  Args:
    name: a key of `MONOIDS`.
    dtype: the dtype of the scalars. For a type without infinity, the neutral elements of "minimum" and "maximum" are
      its greatest and its least value.

  Returns:
    A scalar of `dtype`.

  Example:
    >>> identity("minimum", np.dtype("int8")), identity("add", np.dtype("float32"))
    (array(127, dtype=int8), array(0., dtype=float32))
  """
  if name in ("add", "or", "xor"):
    return np.zeros((), dtype)
  if name == "multiply":
    return np.ones((), dtype)
  if name == "and":
    return np.ones((), dtype) if dtype == np.bool_ else np.invert(np.zeros((), dtype))
  if jnp.issubdtype(dtype, jnp.complexfloating):
    return None
  if dtype == np.bool_:
    return np.asarray(name == "minimum")
  if jnp.issubdtype(dtype, jnp.integer):
    integers = jnp.iinfo(dtype)
    return np.asarray(integers.min if name == "maximum" else integers.max, dtype)
  limits = jnp.finfo(dtype)
  has_inf = bool(np.isinf(np.asarray(np.inf, dtype).astype(np.float32)))
  low, high = (-np.inf, np.inf) if has_inf else (limits.min, limits.max)
  return np.asarray(low if name == "maximum" else high, dtype)


def monoid_of_primitive(name: str) -> str | None:
  """Returns the key of `MONOIDS` for the name of a JAX primitive, or None if the primitive is not one of them.

  Example:
    >>> monoid_of_primitive("max"), monoid_of_primitive("sin")
    ('maximum', None)
  """
  key = _OF_PRIMITIVES.get(name, name)
  return key if key in MONOIDS else None


def lowest(dtype: Any) -> np.ndarray:
  """Returns the neutral scalar of a maximum: minus infinity, or the least value of a real dtype without infinity.

  Example:
    >>> lowest("int8"), lowest("float32")
    (array(-128, dtype=int8), array(-inf, dtype=float32))
  """
  return _limit("maximum", dtype)


def highest(dtype: Any) -> np.ndarray:
  """Returns the neutral scalar of a minimum: infinity, or the greatest value of a real dtype without infinity.

  Example:
    >>> highest("int8"), highest("float32")
    (array(127, dtype=int8), array(inf, dtype=float32))
  """
  return _limit("minimum", dtype)


def _limit(name: str, dtype: Any) -> np.ndarray:
  found = identity(name, np.dtype(dtype))
  assert found is not None, f"internal: {dtype} has no order"
  return found


def is_identity(name: str, init: Any, dtype: np.dtype) -> bool:
  """Returns whether a known initial value is the neutral element, so that it can be left out.

  Args:
    name: a key of `MONOIDS`.
    init: a scalar of `dtype`; anything but a NumPy array counts as unknown, and the result is False.
    dtype: the dtype of the scalars. They are compared bit for bit, so -0.0 is not the neutral element of a sum.

  Example:
    >>> is_identity("add", np.float32(0)[...], np.dtype("float32"))
    True
  """
  neutral = identity(name, dtype)
  return neutral is not None and isinstance(init, np.ndarray) and init.tobytes() == neutral.tobytes()


def reduce_monoid(name: str, x: Array, init: Any, axes: Sequence[int]) -> Array | None:
  """Returns `x` reduced along axes by a monoid, or None if JAX does not support this for the dtype of `x`.

  Args:
    name: a key of `MONOIDS`.
    x: any dtype.
    init: initial value of the reduction, a scalar; skipped if it is known to be neutral.
    axes: not negative.
  """
  neutral = identity(name, x.dtype)
  if neutral is None or (
    name in _LOGICAL and x.dtype.kind not in "iub"
  ):  # JAX's reductions do not support 4-bit integers
    return None
  if 0 in (x.shape[axis] for axis in axes):  # the derivative of an empty maximum would be NaN
    return lax.broadcast(init, [dim for axis, dim in enumerate(x.shape) if axis not in axes])
  result = lax.reduce(x, neutral, MONOIDS[name], axes)
  if is_identity(name, init, x.dtype):
    return result
  return MONOIDS[name](result, lax.broadcast(init, result.shape) if result.ndim else init)


def only_primitive(function: Jaxpr | ClosedJaxpr, *, ignores_rules: bool = False) -> str | None:
  """Returns the name of the primitive that a function of two scalars is, in any order of them, or None.

  Args:
    function: the function.
    ignores_rules: whether a function with a derivative of its own counts as the function without it.

  Example:
    >>> import jax
    >>> only_primitive(jax.make_jaxpr(lambda x, y: y + x)(1.0, 2.0))
    'add'
  """
  jaxpr = unwrapped(function, ignores_rules=ignores_rules)
  if len(jaxpr.invars) != 2 or len(jaxpr.eqns) != 1 or list(jaxpr.outvars) != list(jaxpr.eqns[0].outvars):
    return None
  (eqn,) = jaxpr.eqns
  takes_both = not any(isinstance(atom, Literal) for atom in eqn.invars) and set(eqn.invars) == set(jaxpr.invars)
  return eqn.primitive.name if takes_both else None


def unwrapped(function: Jaxpr | ClosedJaxpr, *, ignores_rules: bool = False) -> Jaxpr:
  """Returns the jaxpr of a function, without calls that only wrap it.

  Args:
    function: a jaxpr; the constants of a closed one are dropped.
    ignores_rules: whether calls with a derivative of their own, such as those of `jax.custom_jvp`, are removed too.
  """
  jaxpr = function.jaxpr if isinstance(function, ClosedJaxpr) else function
  if len(jaxpr.eqns) != 1:
    return jaxpr
  (call,) = jaxpr.eqns
  inner = call.params.get("jaxpr", call.params.get("call_jaxpr"))
  wraps = call.primitive.name in _CALLS or ignores_rules and call.primitive.name in _CALLS_WITH_RULES
  if inner is None or not wraps or (list(call.invars), list(call.outvars)) != (list(jaxpr.invars), list(jaxpr.outvars)):
    return jaxpr
  return unwrapped(inner, ignores_rules=ignores_rules)
