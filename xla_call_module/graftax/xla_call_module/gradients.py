"""Whose derivative is used: the gradient function that an artifact carries, or the derivative of the lifted code.

StableHLO has no trace of `custom_jvp`, `custom_vjp` and `stop_gradient`: differentiating the lifted code of a
straight-through estimator, a clipped gradient or a gamma sample gives other numbers than the author's. A gradient
function stored beside the module is the truth for reverse mode.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching

from graftax.xla_call_module import errors, mlir
from graftax.xla_call_module.module import ArgumentSpec, Module

__all__ = ["GradientDifference", "compare_gradients", "with_policy"]

Function = Callable[..., Any]


def with_policy(primal: Function, module: Module, pullback: Function | None, gradient: str) -> Function:
  """The primal with the derivative that the policy asks for; see `lift`.

  Args:
    primal: flat arrays to a list of arrays.
    pullback: `pullback(*args, *cotangents)` gives the cotangents of the arguments; None where there is none.
    gradient: "saved", "primal" or "auto".
  """
  if gradient == "primal" or (gradient == "auto" and pullback is None):
    return primal
  if pullback is None:
    raise errors.DerivativeError(
      "gradient='saved': the artifact carries no gradient function. Export it with one (vjp_order=1,"
      " with_gradient=True), or use gradient='primal'."
    )
  transpose = _Transpose(pullback, module)
  return _saved(primal, transpose, module) if gradient == "saved" else _auto(primal, transpose, module)


def _is_differentiable(spec: ArgumentSpec) -> bool:
  return bool(jnp.issubdtype(spec.dtype, jnp.inexact))


class _Transpose:
  """The stored gradient function: arguments and cotangents of the inexact outputs to those of the inexact inputs."""

  def __init__(self, pullback: Function, module: Module):
    self._pullback, self._module = pullback, module

  def __call__(self, args: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
    given = iter(cotangents)
    stored = self._module.gradient
    specs = stored.inputs[len(self._module.inputs) :] if stored is not None else ()
    full = []
    for position, spec in enumerate(self._module.outputs):
      if _is_differentiable(spec):
        full.append(next(given))
      elif position < len(specs):
        full.append(np.zeros([dim or 0 for dim in specs[position].shape], specs[position].dtype))
    if len(specs) not in (0, len(full)):  # the gradient takes cotangents of the inexact outputs only
      full = list(cotangents)
    results = self._pullback(*args, *full)
    if len(results) == len(self._module.inputs):
      return [r for r, spec in zip(results, self._module.inputs, strict=True) if _is_differentiable(spec)]
    return list(results)


def _saved(primal: Function, transpose: _Transpose, module: Module) -> Function:
  call = jax.custom_vjp(lambda *args: list(primal(*args)))

  def forward(*args: Any) -> Any:
    return list(primal(*args)), args

  def backward(args: Any, cotangents: Any) -> Any:
    inexact = [ct for ct, spec in zip(cotangents, module.outputs, strict=True) if _is_differentiable(spec)]
    results = iter(transpose(args, inexact))
    return tuple(
      next(results) if _is_differentiable(spec) else np.zeros(np.shape(arg), jax.dtypes.float0)
      for arg, spec in zip(args, module.inputs, strict=True)
    )

  call.defvjp(forward, backward)
  return call


def _auto(primal: Function, transpose: _Transpose, module: Module) -> Function:
  """Forward mode differentiates the primal; its tangent is one linear primitive whose transpose is the stored one."""
  inputs = [i for i, spec in enumerate(module.inputs) if _is_differentiable(spec)]
  outputs = [i for i, spec in enumerate(module.outputs) if _is_differentiable(spec)]
  if not inputs or not outputs:
    return primal
  call = jax.custom_jvp(lambda *args: list(primal(*args)))
  forward = _Tangent(primal, inputs, outputs)
  backward = _Cotangent(transpose, len(module.inputs))

  @call.defjvp
  def _(args: Any, tangents: Any) -> Any:
    results = list(primal(*args))  # as in custom_vjp: a second derivative sees the primal as it is
    linear = _linear_p.bind(
      *args, *(tangents[i] for i in inputs), forward=forward, backward=backward, num_args=len(args)
    )
    given = iter(linear)
    out = [
      next(given) if i in outputs else np.zeros(np.shape(result), jax.dtypes.float0) for i, result in enumerate(results)
    ]
    return results, out

  return call


class _Tangent:
  """`(*args, *tangents)` to the tangents of the inexact outputs, by differentiating the primal."""

  def __init__(self, primal: Function, inputs: Sequence[int], outputs: Sequence[int]):
    self._primal, self._inputs, self._outputs = primal, tuple(inputs), tuple(outputs)

  def __call__(self, *operands: Any) -> list[Any]:
    num_args = len(operands) - len(self._inputs)
    args, tangents = list(operands[:num_args]), operands[num_args:]

    def run(*inexact: Any) -> list[Any]:
      full = list(args)
      for position, value in zip(self._inputs, inexact, strict=True):
        full[position] = value
      results = self._primal(*full)
      return [results[i] for i in self._outputs]

    _, out = jax.jvp(run, [args[i] for i in self._inputs], list(tangents))
    return list(out)


class _Cotangent:
  """`(*args, *cotangents)` to the cotangents of the inexact inputs, by the stored gradient function."""

  def __init__(self, transpose: _Transpose, num_args: int):
    self._transpose, self._num_args = transpose, num_args

  def __call__(self, *operands: Any) -> list[Any]:
    return list(self._transpose(operands[: self._num_args], operands[self._num_args :]))


# ------------------------------------------------------------------------------------------------ the linear primitive

_linear_p = Primitive("stablehlo_saved_linear")
_linear_p.multiple_results = True


@_linear_p.def_impl
def _linear_impl(*operands: Any, forward: Function, backward: Function, num_args: int) -> Any:
  return forward(*operands)


@_linear_p.def_abstract_eval
def _linear_abstract(*avals: Any, forward: Function, backward: Function, num_args: int) -> Any:
  specs = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
  return [jax.core.ShapedArray(out.shape, out.dtype) for out in jax.eval_shape(forward, *specs)]


def _linear_jvp(operands: Any, tangents: Any, *, forward: Function, backward: Function, num_args: int) -> Any:
  params = {"forward": forward, "backward": backward, "num_args": num_args}
  results = _linear_p.bind(*operands, **params)
  out = [jnp.zeros_like(result) for result in results]
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
  forward: Function, operands: Sequence[Any], tangents: Sequence[Any], positions: Sequence[int]
) -> Any:
  def run(*moving: Any) -> Any:
    full = list(operands)
    for position, value in zip(positions, moving, strict=True):
      full[position] = value
    return forward(*full)

  return jax.jvp(run, [operands[i] for i in positions], list(tangents))[1]


def _linear_transpose(cotangents: Any, *operands: Any, forward: Function, backward: Function, num_args: int) -> Any:
  given = [ad.instantiate_zeros(ct) for ct in cotangents]
  results = backward(*operands[:num_args], *given)
  undefined = [ad.is_undefined_primal(x) for x in operands[num_args:]]
  return [None] * num_args + [r if wanted else None for r, wanted in zip(results, undefined, strict=True)]


class _Mapped:
  """A function mapped over axis 0 of every operand that is batched."""

  def __init__(self, function: Function, axes: Sequence[int | None]):
    self._function, self._axes = function, tuple(axes)

  def __call__(self, *operands: Any) -> Any:
    return jax.vmap(self._function, in_axes=self._axes, out_axes=0)(*operands)


def _linear_batch(operands: Any, dims: Any, *, forward: Function, backward: Function, num_args: int) -> Any:
  size = next(x.shape[d] for x, d in zip(operands, dims, strict=True) if d is not None)
  moved: list[Any] = []
  axes: list[int | None] = []
  for position, (x, dim) in enumerate(zip(operands, dims, strict=True)):
    if dim is not None:
      moved.append(jnp.moveaxis(x, dim, 0))
      axes.append(0)
    elif position < num_args:
      moved.append(x)
      axes.append(None)
    else:  # every tangent is batched, so that every cotangent is
      moved.append(jnp.broadcast_to(x, (size, *x.shape)))
      axes.append(0)
  num_outputs = len(jax.eval_shape(_Mapped(forward, axes), *[_spec(x) for x in moved]))
  results = _linear_p.bind(
      *moved, forward=_Mapped(forward, axes), num_args=num_args,
      backward=_Mapped(backward, [*axes[:num_args], *[0] * num_outputs]),
  )  # fmt: skip
  return results, [0] * len(results)


def _spec(x: Any) -> jax.ShapeDtypeStruct:
  return jax.ShapeDtypeStruct(x.shape, x.dtype)


ad.primitive_jvps[_linear_p] = _linear_jvp
ad.primitive_transposes[_linear_p] = _linear_transpose
batching.primitive_batchers[_linear_p] = _linear_batch
mlir.register_function_lowering(_linear_p, lambda *operands, forward, **_: forward(*operands))


# --------------------------------------------------------------------------------------------------------- comparison


@dataclasses.dataclass(frozen=True, slots=True)
class GradientDifference:
  """How far the stored gradient and that of the lifted code are apart, for one argument.

  Attributes:
    argument: its position.
    largest: the largest absolute difference.
    where: index of that entry.
    saved: the stored gradient there.
    primal: the gradient of the lifted code there.
    num_different: how many entries differ by more than the tolerance.
  """

  argument: int
  largest: float
  where: tuple[int, ...]
  saved: float
  primal: float
  num_different: int


def compare_gradients(
  saved: Function, primal: Function, module: Module, args: Sequence[Any], tolerance: float
) -> tuple[GradientDifference, ...]:
  """Where the reverse-mode derivatives of two lifted functions differ, for cotangents of ones."""
  inputs = [i for i, spec in enumerate(module.inputs) if _is_differentiable(spec)]

  def total(function: Function) -> Callable[..., Any]:
    def run(*inexact: Any) -> Any:
      full = list(args)
      for position, value in zip(inputs, inexact, strict=True):
        full[position] = value
      return sum(jnp.real(out).sum() for out in function(*full) if jnp.issubdtype(out.dtype, jnp.inexact))

    return run

  chosen = [jnp.asarray(args[i]) for i in inputs]
  positions = tuple(range(len(chosen)))
  pairs = zip(inputs, *(jax.grad(total(f), positions)(*chosen) for f in (saved, primal)), strict=True)
  found = []
  for argument, a, b in pairs:
    a, b = np.asarray(a), np.asarray(b)
    gap = np.abs(a.astype(np.complex128) - b.astype(np.complex128))
    gap = np.where(np.isnan(gap), np.where(np.isnan(a) & np.isnan(b), 0.0, np.inf), gap)
    far = gap > tolerance * (1 + np.abs(a.astype(np.complex128)))
    if far.any():
      where = tuple(int(i) for i in np.unravel_index(np.argmax(gap), gap.shape))
      found.append(
        GradientDifference(
          argument, float(gap[where]), where, float(a[where].real), float(b[where].real), int(far.sum())
        )
      )
  return tuple(found)
