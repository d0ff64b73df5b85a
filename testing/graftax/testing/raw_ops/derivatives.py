"""The check of derivatives against `tf.GradientTape`, and of forward mode against reverse mode."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from graftax.ops_jax import Value
from graftax.testing._tensorflow import import_tensorflow
from graftax.testing.cotangents import is_inexact, random_like
from graftax.testing.harness.compare import check_equal
from graftax.testing.raw_ops.compare import Tolerance, loosened
from graftax.testing.raw_ops.oracle import RawOp, to_numpy
from graftax.testing.tolerance import tolerance as default_tolerance

__all__ = ["check_grad"]


def check_grad(
  case: RawOp, grad: Literal[True] | Collection[str], order: int, forward: bool, tolerance: Tolerance | None
) -> None:
  names = [name for name, static in zip(case.input_names, case.static, strict=True) if not static]
  wanted = [i for i, name in enumerate(names) if is_inexact(case.dynamic_inputs[i]) and (grad is True or name in grad)]
  if not wanted:
    raise AssertionError(f"{case.op}: grad={grad!r} names no floating-point input among {names!r}")
  points = [case.dynamic_inputs[i] for i in wanted]
  outputs = [to_numpy(t) for t in case.oracle(case.inputs)]
  rng = np.random.default_rng(0)
  cotangents = [random_like(rng, y) for y in outputs if is_inexact(y)]

  def function(*xs: Value) -> tuple[Value, ...]:
    dynamic = [jnp.asarray(x) for x in case.dynamic_inputs]
    for i, x in zip(wanted, xs, strict=True):
      dynamic[i] = x
    return tuple(y for y, spec in zip(case.run(*dynamic), outputs, strict=True) if is_inexact(spec))

  tangents = [random_like(rng, x) for x in points] if forward else []
  got, jax_second, pushed = _jax_derivatives(function, points, cotangents, order, tangents)
  want, tf_second = _tensorflow_gradients(case, wanted, cotangents, order)
  for kind, actual, expected in (("gradient", got, want), ("second derivative", jax_second, tf_second)):
    for i, a, e in zip(wanted, actual, expected, strict=bool(actual)):
      where = f"{case.op} ({kind} with respect to {names[i]})"
      check_equal(where, a, e, *(tolerance or loosened(default_tolerance(e.dtype, case.op))))
  if forward:
    _check_forward(case.op, tangents, got, pushed, cotangents)


def _conjugate(x: Any) -> Any:
  return x.conj() if x.dtype.kind == "c" else x


def _jax_derivatives(
  function: Callable[..., Any],
  points: Sequence[np.ndarray],
  cotangents: Sequence[np.ndarray],
  order: int,
  tangents: Sequence[np.ndarray],
) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
  """Returns gradients, second derivatives if `order` is 2, and the `jvp` if there are tangents."""
  # Under `jit` a rule for derivatives runs after the function was traced, so it must not refer to values of that trace.
  function = jax.jit(function)

  # TensorFlow's gradient of a complex function is the conjugate of JAX's.
  def first(*xs: Value) -> list[Value]:
    _, vjp = jax.vjp(function, *xs)
    return [_conjugate(g) for g in vjp(tuple(_conjugate(jnp.asarray(c)) for c in cotangents))]

  def second(*xs: Value) -> tuple[Value, ...]:
    return jax.grad(lambda *xs: sum(jnp.sum(g) for g in first(*xs)), argnums=tuple(range(len(xs))))(*xs)

  # One compiled program, because compiling is most of the time that a check takes.
  @jax.jit
  def derivatives(xs: list[Value], tangents: list[Value]) -> tuple[Sequence[Value], ...]:
    pushed = jax.jvp(function, xs, tangents)[1] if tangents else ()
    return first(*xs), second(*xs) if order > 1 else (), pushed

  found = derivatives([jnp.asarray(x) for x in points], list(tangents))
  first_order, second_order, pushed = ([np.asarray(g) for g in group] for group in found)
  return first_order, second_order, pushed


def _tensorflow_gradients(
  case: RawOp, wanted: Sequence[int], cotangents: Sequence[np.ndarray], order: int
) -> tuple[list[np.ndarray], list[np.ndarray]]:
  tf = import_tensorflow()
  positions = [i for i, static in enumerate(case.static) if not static]
  flat = [tf.constant(x, dtype=x.dtype) if x.dtype != object else x for x in case.inputs]
  points = [flat[positions[i]] for i in wanted]

  def dense(gradients: Sequence[Any]) -> list[Any]:
    return [tf.zeros_like(x) if g is None else tf.convert_to_tensor(g) for g, x in zip(gradients, points, strict=True)]

  with tf.GradientTape(persistent=True) as outer:
    outer.watch(points)
    with tf.GradientTape() as inner:
      inner.watch(points)
      outputs = [y for y in case.oracle(flat) if y.dtype.is_floating or y.dtype.is_complex]
    gradients = dense(inner.gradient(outputs, points, [tf.constant(c, dtype=c.dtype) for c in cotangents]))
    total = tf.add_n([tf.reduce_sum(g) for g in gradients]) if order > 1 else None
  second = dense(outer.gradient(total, points)) if order > 1 else []
  return [to_numpy(g) for g in gradients], [to_numpy(g) for g in second]


def _check_forward(
  op: str,
  tangents: Sequence[np.ndarray],
  gradients: Sequence[np.ndarray],
  pushed: Sequence[np.ndarray],
  cotangents: Sequence[np.ndarray],
) -> None:
  # Real parts are compared, because a function that conjugates is linear over the reals only.
  forward = sum((_wide(t).ravel() @ _wide(c).conj().ravel()).real for t, c in zip(pushed, cotangents, strict=True))
  backward = sum((_wide(t).ravel() @ _wide(g).conj().ravel()).real for t, g in zip(tangents, gradients, strict=True))
  rtol = max(default_tolerance(x.dtype, op)[0] for x in (*tangents, *cotangents)) * 100
  np.testing.assert_allclose(forward, backward, rtol=rtol, atol=rtol, err_msg=f"{op}: jvp and vjp disagree")


def _wide(x: Any) -> np.ndarray:
  array = np.asarray(x)
  return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
