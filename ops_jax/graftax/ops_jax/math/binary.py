"""Elementwise functions of two arguments: AddV2, Sub, Mul, RealDiv, FloorMod, Pow, Maximum; and AddN.

The arguments broadcast as in numpy and share their dtype with the result. Known inputs give known results, even if they
hold symbolic dimensions.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.ops_jax._core.derivatives import with_partials
from graftax.ops_jax._core.errors import InvalidInputError
from graftax.ops_jax._core.fast_dispatch import fast_dispatch
from graftax.ops_jax._core.integer_facts import NO_FACTS, IntegerFacts
from graftax.ops_jax._core.known import keep_known
from graftax.ops_jax._core.registry import register
from graftax.ops_jax._core.values import Array, is_known
from graftax.ops_jax.variants.arithmetic import sum_of_variants
from graftax.ops_jax.variants.structures import is_variant
from graftax.ops_jax.variants.tensor_array_gradient import FlowGradient

__all__ = [
  "add",
  "add_n",
  "atan2",
  "div",
  "div_no_nan",
  "floor_div",
  "floor_mod",
  "maximum",
  "minimum",
  "mod",
  "mul",
  "mul_no_nan",
  "next_after",
  "pow_",
  "squared_difference",
  "sub",
  "truncate_div",
  "xdivy",
  "xlog1py",
  "xlogy",
]


_add = fast_dispatch(lax.add, jnp.add)
_subtract = fast_dispatch(lax.sub, jnp.subtract)
_multiply = fast_dispatch(lax.mul, jnp.multiply)


@register("Add", "AddV2", ignores=("T",), symbolic=True)
def add(x: Array, y: Array, *, facts: IntegerFacts = NO_FACTS) -> Array:
  """Returns `x + y`; integers wrap. Known strings are joined."""
  if isinstance(x, FlowGradient) or isinstance(y, FlowGradient):
    return sum_of_variants([x, y], "Add")
  return facts.combined(keep_known(np.add, _add, x, y), x, y)


@register("Sub", ignores=("T",), symbolic=True)
def sub(x: Array, y: Array, *, facts: IntegerFacts = NO_FACTS) -> Array:
  """Returns `x - y`; integers wrap."""
  return facts.combined(keep_known(np.subtract, _subtract, x, y), x, y, sign=-1)


@register("Mul", ignores=("T",), symbolic=True)
def mul(x: Array, y: Array, *, facts: IntegerFacts = NO_FACTS) -> Array:
  """Returns `x * y`; integers wrap."""
  return facts.scaled(keep_known(np.multiply, _multiply, x, y), x, y)


@register("AddN", "AccumulateNV2", ignores=("T", "N", "shape"), symbolic=True)
def add_n(inputs: list[Array], *, facts: IntegerFacts = NO_FACTS) -> Array:
  """Sums arrays of one shape and dtype, or tensor lists of one length."""
  if any(map(is_variant, inputs)):
    return sum_of_variants(inputs, "AddN")
  return functools.reduce(functools.partial(add, facts=facts), inputs)


@register("RealDiv", "Div", ignores=("T",), symbolic=True)
def div(x: Array, y: Array) -> Array:
  """Returns `x / y`; for integers the quotient rounded towards 0.

  Source ops: `tf.raw_ops.Div`, `tf.raw_ops.RealDiv`.

  Args:
    x: any shape.
    y: any shape that broadcasts with `x`.

  Raises:
    InvalidInputError: an integer is divided by a known 0.

  Differs from TF: division by a traced integer 0 gives an unspecified number; TensorFlow raises an error. The gradient
  with respect to a divisor whose square is out of the dtype's range (in float16 below 0.004, in float32 below 1e-19) is
  infinite or 0, as in JAX.
  """
  if _is_integer(x) or _is_integer(y):
    return truncate_div(x, y)
  return keep_known(np.divide, lambda a, b: lax.div(*_broadcast(a, b)), x, y)


@register("TruncateDiv", ignores=("T",), symbolic=True)
def truncate_div(x: Array, y: Array) -> Array:
  """Returns `x / y` rounded towards 0; see `div` for division by 0."""
  _refuse_zero_divisor("TruncateDiv", y)
  if _is_integer(x) or _is_integer(y):
    return keep_known(_np_truncate_div, lambda a, b: lax.div(*_broadcast(a, b)), x, y)
  return _truncate(lax.div(*_broadcast(x, y)))


@register("FloorDiv", ignores=("T",), symbolic=True)
def floor_div(x: Array, y: Array) -> Array:
  """Returns `x / y` rounded towards minus infinity; see `div` for division by 0. Derivative 0."""
  _refuse_zero_divisor("FloorDiv", y)
  if _is_integer(x) or _is_integer(y):
    return keep_known(np.floor_divide, jnp.floor_divide, x, y)
  return keep_known(lambda a, b: np.floor(np.divide(a, b)), lambda a, b: lax.floor(lax.div(*_broadcast(a, b))), x, y)


@register("FloorMod", ignores=("T",), symbolic=True)
def floor_mod(x: Array, y: Array) -> Array:
  """Returns the remainder of `floor_div`, with the sign of `y`; see `div` for division by 0."""
  _refuse_zero_divisor("FloorMod", y)
  return keep_known(np.mod, jnp.mod, x, y)


@register("Mod", "TruncateMod", ignores=("T",), symbolic=True)
def mod(x: Array, y: Array) -> Array:
  """Returns the remainder of `truncate_div`, with the sign of `x`; see `div` for division by 0."""
  _refuse_zero_divisor("Mod", y)
  return keep_known(_np_truncate_mod, lambda a, b: lax.rem(*_broadcast(a, b)), x, y)


@register("DivNoNan", ignores=("T",))
def div_no_nan(x: Array, y: Array) -> Array:
  """Returns `x / y`, or 0 (with derivative 0) if `y` is 0."""
  x, y = _broadcast(x, y)
  is_zero = y == 0
  return jnp.where(is_zero, jnp.zeros_like(x), lax.div(x, jnp.where(is_zero, jnp.ones_like(y), y)))


@register("MulNoNan", ignores=("T",))
def mul_no_nan(x: Array, y: Array) -> Array:
  """Returns `x * y`, or 0 if `y` is 0, even if `x` is infinite or NaN.

  Source op: `tf.raw_ops.MulNoNan`.

  Args:
    x: any shape.
    y: any shape that broadcasts with `x`.

  Differs from TF: the gradient with respect to `y` is `x` times the incoming gradient even if that is 0, so it is NaN
    for an infinite `x`; TensorFlow returns 0.
  """
  return _mul_no_nan(*_broadcast(x, y))


_mul_no_nan: Callable[..., Array] = with_partials(
  lambda x, y: jnp.where(y == 0, jnp.zeros_like(x), x * y),
  lambda t, z, x, y: _mul_no_nan(t, y),
  lambda t, z, x, y: x * t,
)


@register("Xdivy", ignores=("T",))
def xdivy(x: Array, y: Array) -> Array:
  """Returns `x / y`, or 0 (with derivative 0) if `x` is 0.

  Differs from TF: the gradient for complex numbers is conjugated as for every other op; TensorFlow's is not.
  """
  return _zero_at_zero(lax.div, *_broadcast(x, y))


@register("Xlogy", ignores=("T",))
def xlogy(x: Array, y: Array) -> Array:
  """Returns `x * log(y)`, or 0 (with derivative 0) if `x` is 0.

  Differs from TF: the gradient for complex numbers is conjugated as for every other op; TensorFlow's is not.
  """
  return _zero_at_zero(lambda a, b: a * lax.log(b), *_broadcast(x, y))


@register("Xlog1py", ignores=("T",))
def xlog1py(x: Array, y: Array) -> Array:
  """Returns `x * log1p(y)`, or 0 (with derivative 0) if `x` is 0.

  Differs from TF: the gradient for complex numbers is conjugated as for every other op; TensorFlow's is not.
  """
  return _zero_at_zero(lambda a, b: a * lax.log1p(b), *_broadcast(x, y))


def _zero_at_zero(function: Callable[[Array, Array], Array], x: Array, y: Array) -> Array:
  # The inner select keeps a NaN out of the derivative of the branch that is not taken.
  is_zero = x == 0
  return jnp.where(is_zero, jnp.zeros_like(x), function(x, jnp.where(is_zero, jnp.ones_like(y), y)))


@register("Pow", ignores=("T",), symbolic=True)
def pow_(x: Array, y: Array) -> Array:
  """Returns `x ** y`; integers wrap.

  Source op: `tf.raw_ops.Pow`.

  Args:
    x: any shape.
    y: any shape that broadcasts with `x`.

  Returns:
    The broadcast shape. The derivative with respect to `y` is 0 where `x` is not positive.

  Raises:
    InvalidInputError: a known integer exponent is negative.

  Differs from TF: a traced negative integer exponent gives an unspecified number; TensorFlow raises an error.
  """
  if not (_is_integer(x) or _is_integer(y)):
    return _pow(*_broadcast(x, y))
  if is_known(y) and y.dtype != object and np.any(y < 0):
    raise InvalidInputError(f"Pow: integers to negative integer powers are not allowed; got exponents {y!r}.")
  return keep_known(np.power, lambda x, y: _integer_power(*_broadcast(x, y)), x, y)


def _integer_power(x: Array, y: Array) -> Array:
  # `jnp.power` reads only the 6 lowest bits of an exponent.
  def step(_: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    power, square, exponent = carry
    return jnp.where(exponent & 1 == 1, power * square, power), square * square, exponent >> 1

  return lax.fori_loop(0, jnp.iinfo(y.dtype).bits, step, (jnp.ones_like(x), x, y))[0]


def _pow_partial_x(t: Array, z: Array, x: Array, y: Array) -> Array:
  return t * y * _pow(x, y - jnp.ones_like(y))


def _pow_partial_y(t: Array, z: Array, x: Array, y: Array) -> Array:
  is_regular = x != 0 if jnp.issubdtype(x.dtype, jnp.complexfloating) else x > 0
  log_x = jnp.where(is_regular, lax.log(jnp.where(is_regular, x, jnp.ones_like(x))), jnp.zeros_like(x))
  return t * z * log_x


_pow: Callable[..., Array] = with_partials(lax.pow, _pow_partial_x, _pow_partial_y)


@register("Maximum", ignores=("T",), symbolic=True)
def maximum(x: Array, y: Array, *, facts: IntegerFacts = NO_FACTS) -> Array:
  """Returns the larger of `x` and `y`, or NaN if one is NaN. If they are equal, the derivative is that of `x`."""
  return facts.maximum(keep_known(_np_maximum, lambda a, b: _maximum(*_broadcast(a, b)), x, y), x, y)


@register("Minimum", ignores=("T",), symbolic=True)
def minimum(x: Array, y: Array, *, facts: IntegerFacts = NO_FACTS) -> Array:
  """Returns the smaller of `x` and `y`, or NaN if one is NaN. If they are equal, the derivative is that of `x`."""
  return facts.minimum(keep_known(_np_minimum, lambda a, b: _minimum(*_broadcast(a, b)), x, y), x, y)


_maximum = with_partials(
  jnp.maximum,
  lambda t, z, x, y: jnp.where(x >= y, t, jnp.zeros_like(t)),
  lambda t, z, x, y: jnp.where(x >= y, jnp.zeros_like(t), t),
)
_minimum = with_partials(
  jnp.minimum,
  lambda t, z, x, y: jnp.where(x <= y, t, jnp.zeros_like(t)),
  lambda t, z, x, y: jnp.where(x <= y, jnp.zeros_like(t), t),
)


@register("SquaredDifference", ignores=("T",), symbolic=True)
def squared_difference(x: Array, y: Array) -> Array:
  """Returns `(x - y) ** 2`; for complex numbers `|x - y| ** 2`, still of complex dtype."""
  difference = sub(x, y)
  if jnp.issubdtype(difference.dtype, jnp.complexfloating):
    return jnp.conj(difference) * difference
  return mul(difference, difference)


@register("Atan2", ignores=("T",))
def atan2(y: Array, x: Array) -> Array:
  """Returns the angle in radians of the point `(x, y)`, in [-pi, pi]."""
  return lax.atan2(*_broadcast(y, x))


@register("NextAfter", ignores=("T",))
def next_after(x1: Array, x2: Array) -> Array:
  """Returns the number next to `x1` in the direction of `x2`."""
  return _next_after(*_broadcast(x1, x2))


_next_after = with_partials(lax.nextafter, lambda t, y, x1, x2: t, None)


def _broadcast(x: Array, y: Array) -> tuple[Array, Array]:
  x, y = jnp.asarray(x), jnp.asarray(y)
  if x.shape == y.shape:
    return x, y
  x, y = jnp.broadcast_arrays(x, y)
  return x, y


def _is_integer(x: Array) -> bool:
  # Symbolic dimensions are integers too.
  return x.dtype == object or jnp.issubdtype(x.dtype, jnp.integer)


def _refuse_zero_divisor(op: str, y: Array) -> None:
  if is_known(y) and y.dtype != object and _is_integer(y) and np.any(np.equal(y, 0)):
    raise InvalidInputError(f"{op}: integer division by zero; the divisor is {y!r}.")


def _np_truncate_div(x: np.ndarray, y: np.ndarray) -> np.ndarray:
  quotient = np.floor_divide(x, y)
  # Symbolic dimensions are never negative, so for them floor and truncation agree.
  if x.dtype == object or y.dtype == object:
    return quotient
  return quotient + ((np.mod(x, y) != 0) & ((x < 0) != (y < 0))).astype(quotient.dtype)


def _np_truncate_mod(x: np.ndarray, y: np.ndarray) -> np.ndarray:
  return np.mod(x, y) if x.dtype == object or y.dtype == object else np.fmod(x, y)


def _truncate(x: Array) -> Array:
  return jnp.where(x < 0, lax.ceil(x), lax.floor(x))


# Any: the result for two scalars is a dimension, whose class is private in JAX.
def _np_maximum(x: np.ndarray, y: np.ndarray) -> Any:
  return _max_dims(x, y) if x.dtype == object or y.dtype == object else np.maximum(x, y)


def _np_minimum(x: np.ndarray, y: np.ndarray) -> Any:
  return _min_dims(x, y) if x.dtype == object or y.dtype == object else np.minimum(x, y)


_max_dims = np.frompyfunc(jax.core.max_dim, 2, 1)
_min_dims = np.frompyfunc(jax.core.min_dim, 2, 1)
