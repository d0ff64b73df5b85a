"""One linear primitive whose transpose is given: tangents by one function, cotangents by another that was stored."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching

from graftax.xla_call_module import mlir

__all__ = ["bind"]

Function = Callable[..., Any]

_linear_p = Primitive("stablehlo_saved_linear")
_linear_p.multiple_results = True


def bind(args: Sequence[Any], tangents: Sequence[Any], forward: Function, backward: Function) -> list[Any]:
  """`forward(*args, *tangents)`, linear in the tangents; its transpose is `backward(*args, *cotangents)`.

  `backward` gives the cotangents of the tangents. Both batch, compile and differentiate as they are.
  """
  return list(_linear_p.bind(*args, *tangents, forward=forward, backward=backward, num_args=len(args)))


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
    i
    for i, t in enumerate(tangents[:num_args])
    if type(t) is not ad.Zero and getattr(t, "dtype", None) != jax.dtypes.float0
  ]
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
    *moved,
    forward=_Mapped(forward, axes),
    num_args=num_args,
    backward=_Mapped(backward, [*axes[:num_args], *[0] * num_outputs]),
  )
  return results, [0] * len(results)


def _spec(x: Any) -> jax.ShapeDtypeStruct:
  return jax.ShapeDtypeStruct(x.shape, x.dtype)


ad.primitive_jvps[_linear_p] = _linear_jvp
ad.primitive_transposes[_linear_p] = _linear_transpose
batching.primitive_batchers[_linear_p] = _linear_batch
mlir.register_function_lowering(_linear_p, lambda *operands, forward, **_: forward(*operands))
