"""Linear functions with a given transpose.

They support forward mode, reverse mode, `vmap` and derivatives of any order with respect to all arguments, if both
functions are differentiable.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.extend.core import Primitive
from jax.interpreters import ad, batching

from graftax.xla_call_module import mlir
from graftax.xla_call_module.lax_extras.arrays import ArrayFunction, replaced

__all__ = ["bilinear_call", "linear_call", "unmapped"]


def linear_call(
  forward: ArrayFunction,
  backward: ArrayFunction,
  residuals: Sequence[Array],
  operands: Sequence[Array],
  outputs: Sequence[Any] | None = None,
  *,
  is_transpose: bool = False,
) -> list[Array]:
  """Returns `forward(*residuals, *operands)`, a list of arrays that is linear in `operands`.

  Args:
    forward: the function. It must not close over traced values (see `closure_conversion`).
    backward: `backward(*residuals, *cotangents)` returns the cotangents of `operands`. It must not close over traced
      values either.
    residuals: arrays of any dtype on which the linear map depends.
    operands: floating-point or complex arrays.
    outputs: arrays or specs with the results' shapes and dtypes. If given, `forward` is traced only when forward mode
      needs it, so that it may raise an error which reverse mode never sees.
    is_transpose: whether `backward` is the transpose of `forward`, only in another form.

  Example:
    >>> double = lambda x: linear_call(lambda t: [2 * t], lambda ct: [3 * ct], [], [x])[0]
    >>> float(double(1.0)), float(jax.jvp(double, (1.0,), (1.0,))[1]), float(jax.grad(double)(1.0))
    (2.0, 2.0, 3.0)
  """
  if outputs is None:
    outputs = jax.eval_shape(forward, *residuals, *operands)
  return list(
    _linear_p.bind(
      *residuals,
      *operands,
      forward=forward,
      backward=backward,
      num_args=len(residuals),
      outputs=tuple(_spec(output) for output in outputs),
      is_transpose=is_transpose,
    )
  )


def bilinear_call(
  forward: ArrayFunction,
  backward_left: ArrayFunction,
  backward_right: ArrayFunction,
  left: Array,
  right: Array,
  shape: tuple[int, ...],
) -> Array:
  """Returns `forward(left, right)`, which is linear in each of its two arguments, with its derivatives in other forms.

  Args:
    forward: the function. Neither it nor the following ones may close over traced values.
    backward_left: `backward_left(right, cotangent)` returns the cotangent of `left`.
    backward_right: `backward_right(left, cotangent)` returns that of `right`.
    left: a floating-point or complex array.
    right: likewise, of the same dtype.
    shape: of the result, so that `forward` is traced only when it is needed.

  Example:
    >>> product = lambda x, y: bilinear_call(jnp.multiply, jnp.multiply, lambda x, ct: ct / (1 / x), x, y, ())
    >>> [float(g) for g in jax.grad(product, (0, 1))(2.0, 3.0)]
    [3.0, 2.0]
  """

  outputs = [jax.ShapeDtypeStruct(shape, left.dtype)]

  def of_right(left: Array, right: Array) -> list[Array]:
    return linear_call(
      lambda right, left: [forward(left, right)],
      lambda right, cotangent: [backward_left(right, cotangent)],
      [right],
      [left],
      outputs,
      is_transpose=True,
    )

  (result,) = linear_call(
    of_right,
    lambda left, cotangent: [backward_right(left, cotangent)],
    [left],
    [right],
    outputs,
    is_transpose=True,
  )
  return result


_Specs = tuple[jax.ShapeDtypeStruct, ...]

_linear_p = Primitive("graftax_linear_call")
_linear_p.multiple_results = True


@_linear_p.def_impl
def _impl(
  *operands: Array, forward: ArrayFunction, backward: ArrayFunction, num_args: int, outputs: _Specs, is_transpose: bool
) -> Any:
  return forward(*operands)


@_linear_p.def_abstract_eval
def _abstract(*avals: object, outputs: _Specs, **params: object) -> list[jax.core.ShapedArray]:
  return [jax.core.ShapedArray(output.shape, output.dtype) for output in outputs]


def _jvp(
  operands: Sequence[Array], tangents: Sequence[Any], *, num_args: int, forward: ArrayFunction, **params: object
) -> tuple[list[Array], list[Array]]:
  params = {**params, "num_args": num_args, "forward": forward}
  results: list[Array] = _linear_p.bind(*operands, **params)
  out: list[Array] = [jnp.zeros_like(result) for result in results]
  if any(type(t) is not ad.Zero for t in tangents[num_args:]):
    moved = [ad.instantiate_zeros(t) for t in tangents[num_args:]]
    out = _linear_p.bind(*operands[:num_args], *moved, **params)
  inexact = [
      i for i, t in enumerate(tangents[:num_args])
      if type(t) is not ad.Zero and getattr(t, "dtype", None) != jax.dtypes.float0
  ]  # fmt: skip
  if inexact:
    extra = _along_arguments(forward, operands, [tangents[i] for i in inexact], inexact)
    out = [ad.add_tangents(a, b) for a, b in zip(out, extra, strict=True)]
  return results, out


def _along_arguments(
  forward: ArrayFunction, operands: Sequence[Array], tangents: Sequence[Array], positions: Sequence[int]
) -> list[Array]:
  def run(*moving: Array) -> Any:
    return forward(*replaced(operands, positions, moving))

  moved: list[Array] = jax.jvp(run, [operands[i] for i in positions], list(tangents))[1]
  return moved


def _transpose(
  cotangents: Sequence[Any],
  *operands: Array,
  forward: ArrayFunction,
  backward: ArrayFunction,
  num_args: int,
  **params: object,
) -> list[Array | None]:
  given: list[Array] = [ad.instantiate_zeros(ct) for ct in cotangents]
  if any(ad.is_undefined_primal(x) for x in operands[:num_args]):
    return _transpose_along_arguments(forward, given, operands)
  results: Sequence[Array] = backward(*operands[:num_args], *given)
  undefined: list[bool] = [ad.is_undefined_primal(x) for x in operands[num_args:]]
  moving = [result if wanted else None for result, wanted in zip(results, undefined, strict=True)]
  return [*[None] * num_args, *moving]


def _transpose_along_arguments(
  forward: ArrayFunction, cotangents: Sequence[Array], operands: Sequence[Any]
) -> list[Array | None]:
  """Transposes a function that is linear in arguments on which the linear map depends, so in these alone.

  As in forward mode, this is the derivative of `forward`; `backward` says nothing of these arguments.
  """
  positions = [i for i, x in enumerate(operands) if ad.is_undefined_primal(x)]

  def run(*moving: Array) -> Any:
    return forward(*replaced(operands, positions, moving))

  moved = iter(jax.linear_transpose(run, *(operands[i].aval for i in positions))(list(cotangents)))
  return [next(moved) if i in positions else None for i in range(len(operands))]


class _Mapped:
  """A function mapped over axis 0 of every operand that is batched."""

  def __init__(self, function: ArrayFunction, axes: Sequence[int | None]):
    self._function, self._axes = function, tuple(axes)

  def __call__(self, *operands: Array) -> Any:
    return jax.vmap(self._function, in_axes=self._axes, out_axes=0)(*operands)

  @property
  def function(self) -> ArrayFunction:
    return self._function


def unmapped(function: ArrayFunction) -> ArrayFunction:
  """Returns the function that was given to `linear_call`, of one that `vmap` has mapped any number of times."""
  while isinstance(function, _Mapped):
    function = function.function
  return function


def _batch(
  operands: Sequence[Array],
  dims: Sequence[int | None],
  *,
  forward: ArrayFunction,
  backward: ArrayFunction,
  num_args: int,
  outputs: _Specs,
  is_transpose: bool,
) -> tuple[list[Array], list[int]]:
  size = next(x.shape[d] for x, d in zip(operands, dims, strict=True) if d is not None)
  moved: list[Array] = []
  axes: list[int | None] = []
  for position, (x, dim) in enumerate(zip(operands, dims, strict=True)):
    if dim is not None:
      moved.append(jnp.moveaxis(x, dim, 0))
      axes.append(0)
    elif position < num_args:
      moved.append(x)
      axes.append(None)
    else:  # batch every tangent, so that every cotangent is batched too
      moved.append(jnp.broadcast_to(x, (size, *x.shape)))
      axes.append(0)
  results: list[Array] = _linear_p.bind(
    *moved,
    forward=_Mapped(forward, axes),
    backward=_Mapped(backward, [*axes[:num_args], *[0] * len(outputs)]),
    num_args=num_args,
    outputs=tuple(jax.ShapeDtypeStruct((size, *output.shape), output.dtype) for output in outputs),
    is_transpose=is_transpose,
  )
  return results, [0] * len(results)


def _spec(x: Any) -> jax.ShapeDtypeStruct:
  return jax.ShapeDtypeStruct(x.shape, x.dtype)


ad.primitive_jvps[_linear_p] = _jvp
ad.primitive_transposes[_linear_p] = _transpose
batching.primitive_batchers[_linear_p] = _batch
mlir.register_function_lowering(_linear_p, lambda *operands, forward, **_: forward(*operands))
