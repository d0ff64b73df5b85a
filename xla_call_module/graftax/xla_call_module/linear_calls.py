"""Functions whose derivative is given, and linear functions whose transpose is given, rather than derived.

Forward mode, reverse mode, `vmap` and derivatives of any order with respect to everything work on them, as long as what
is given is itself differentiable. `jax.custom_jvp` is no base for this: inside a `scan`, JAX 0.10 drops its rule for
derivatives of the second order.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching

from graftax.xla_call_module import mlir

__all__ = ["Closed", "call_with_tangents", "closed", "is_inexact", "linear_call"]

Function = Callable[..., Any]
Rule = Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], Sequence[Any]]


def linear_call(
  forward: Function,
  backward: Function,
  residuals: Sequence[Any],
  operands: Sequence[Any],
  outputs: Sequence[Any] | None = None,
) -> list[Any]:
  """`forward(*residuals, *operands)`, a list of arrays that is linear in `operands`.

  Args:
    forward: the function. It must not close over traced values (see `closed`).
    backward: `backward(*residuals, *cotangents)` gives the cotangents of `operands`; the same holds for it.
    residuals: what the linear map depends on, arrays of any dtype.
    operands: floating-point or complex arrays.
    outputs: arrays or specs with the results' shapes and dtypes. With them, `forward` is not looked at before it is
      needed, so that it may raise an error that only forward mode sees.

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
    )
  )


@dataclasses.dataclass(frozen=True, slots=True)
class Closed:
  """A function and what it closes over, apart.

  Attributes:
    function: `function(*values, *leaves)` gives the flat results.
    values: what the function closed over, traced or not.
    has_effects: whether it does anything but compute its results.
  """

  function: Function
  values: list[Any]
  has_effects: bool


def closed(function: Function, *args: Any) -> Closed:
  """`function` with what it closes over made explicit.

  Args:
    function: from pytrees of arrays to a pytree of arrays.
    *args: pytrees of arrays or specs.
  """
  jaxpr = jax.make_jaxpr(function)(*args)
  num = len(jaxpr.consts)

  def pure(*operands: Any) -> list[Any]:
    return list(jaxpr_as_fun(ClosedJaxpr(jaxpr.jaxpr, list(operands[:num])))(*operands[num:]))

  return Closed(pure, list(jaxpr.consts), bool(jaxpr.effects))


def is_inexact(x: Any) -> bool:
  """Whether an array or spec has derivatives: floating-point or complex numbers."""
  return bool(jnp.issubdtype(x.dtype, jnp.inexact))


def call_with_tangents(function: Function, rule: Rule, operands: Sequence[Any]) -> list[Any]:
  """`function(*operands)`, a list of arrays, with the derivative that `rule` gives.

  Args:
    function: the function. Neither may close over traced values (see `closed`).
    rule: `rule(operands, results, tangents)` gives the tangents of the results, given those of the operands. None, in
      both, is a tangent of zeros, or that of something without derivatives.
    operands: arrays of any dtype.
  """
  return list(_ruled_p.bind(*operands, jaxpr=jax.make_jaxpr(function)(*operands), rule=rule))


_ruled_p = Primitive("graftax_call_with_tangents")
_ruled_p.multiple_results = True


@_ruled_p.def_impl
def _ruled_impl(*operands: Any, jaxpr: ClosedJaxpr, rule: Rule) -> Any:
  return jaxpr_as_fun(jaxpr)(*operands)


@_ruled_p.def_abstract_eval
def _ruled_abstract(*avals: Any, jaxpr: ClosedJaxpr, rule: Rule) -> Any:
  return jaxpr.out_avals


def _ruled_jvp(operands: Any, tangents: Any, *, jaxpr: ClosedJaxpr, rule: Rule) -> Any:
  results = _ruled_p.bind(*operands, jaxpr=jaxpr, rule=rule)
  given = [None if type(t) is ad.Zero or getattr(t, "dtype", None) == jax.dtypes.float0 else t for t in tangents]
  moved = rule(list(operands), list(results), given)
  return results, [
    ad.Zero(jax.typeof(r).to_tangent_aval()) if t is None else t for r, t in zip(results, moved, strict=True)
  ]


def _ruled_transpose(cotangents: Any, *operands: Any, jaxpr: ClosedJaxpr, rule: Rule) -> Any:
  """For a function that is linear in the operands that are asked for: it is its own derivative."""
  wanted = [i for i, x in enumerate(operands) if ad.is_undefined_primal(x)]
  inexact = [i for i, aval in enumerate(jaxpr.out_avals) if is_inexact(aval)]

  def function(*some: Any) -> list[Any]:
    given = dict(zip(wanted, some, strict=True))
    results = jaxpr_as_fun(jaxpr)(*[given.get(i, x) for i, x in enumerate(operands)])
    return [results[i] for i in inexact]

  transposed = jax.linear_transpose(function, *[_spec(operands[i].aval) for i in wanted])
  found = dict(zip(wanted, transposed([ad.instantiate_zeros(cotangents[i]) for i in inexact]), strict=True))
  return [found.get(i) for i in range(len(operands))]


class _MappedRule:
  """A rule mapped over axis 0 of every operand that is batched, and of all results."""

  def __init__(self, rule: Rule, axes: Sequence[int | None]):
    self._rule, self._axes = rule, list(axes)

  def __call__(self, operands: Sequence[Any], results: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    given = [i for i, tangent in enumerate(tangents) if tangent is not None]
    moving: list[int] = []

    def one(operands: Any, results: Any, some: Any) -> list[Any]:
      full = dict(zip(given, some, strict=True))
      moved = self._rule(operands, results, [full.get(i) for i in range(len(operands))])
      moving[:] = [i for i, tangent in enumerate(moved) if tangent is not None]
      return [moved[i] for i in moving]

    axes = self._axes, 0, [self._axes[i] for i in given]
    out = jax.vmap(one, in_axes=axes, out_axes=0)(list(operands), list(results), [tangents[i] for i in given])
    full = dict(zip(moving, out, strict=True))
    return [full.get(i) for i in range(len(results))]


def _ruled_batch(operands: Any, dims: Any, *, jaxpr: ClosedJaxpr, rule: Rule) -> Any:
  moved = [x if dim is None else jnp.moveaxis(x, dim, 0) for x, dim in zip(operands, dims, strict=True)]
  axes = [None if dim is None else 0 for dim in dims]
  mapped = jax.make_jaxpr(jax.vmap(jaxpr_as_fun(jaxpr), in_axes=axes, out_axes=0))(*moved)
  results = _ruled_p.bind(*moved, jaxpr=mapped, rule=_MappedRule(rule, axes))
  return results, [0] * len(results)


ad.primitive_jvps[_ruled_p] = _ruled_jvp
ad.primitive_transposes[_ruled_p] = _ruled_transpose
batching.primitive_batchers[_ruled_p] = _ruled_batch
mlir.register_function_lowering(_ruled_p, lambda *operands, jaxpr, **_: jaxpr_as_fun(jaxpr)(*operands))


# ---------------------------------------------------------------------------------------------------- linear functions


_linear_p = Primitive("graftax_linear_call")
_linear_p.multiple_results = True


@_linear_p.def_impl
def _impl(*operands: Any, forward: Function, backward: Function, num_args: int, outputs: Any) -> Any:
  return forward(*operands)


@_linear_p.def_abstract_eval
def _abstract(*avals: Any, forward: Function, backward: Function, num_args: int, outputs: Any) -> Any:
  return [jax.core.ShapedArray(output.shape, output.dtype) for output in outputs]


def _jvp(operands: Any, tangents: Any, *, num_args: int, forward: Function, **params: Any) -> Any:
  params = {**params, "num_args": num_args, "forward": forward}
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


def _transpose(cotangents: Any, *operands: Any, backward: Function, num_args: int, **params: Any) -> Any:
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


def _batch(operands: Any, dims: Any, *, forward: Function, backward: Function, num_args: int, outputs: Any) -> Any:
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
  results = _linear_p.bind(
    *moved,
    forward=_Mapped(forward, axes),
    backward=_Mapped(backward, [*axes[:num_args], *[0] * len(outputs)]),
    num_args=num_args,
    outputs=tuple(jax.ShapeDtypeStruct((size, *output.shape), output.dtype) for output in outputs),
  )
  return results, [0] * len(results)


def _spec(x: Any) -> jax.ShapeDtypeStruct:
  return jax.ShapeDtypeStruct(x.shape, x.dtype)


ad.primitive_jvps[_linear_p] = _jvp
ad.primitive_transposes[_linear_p] = _transpose
batching.primitive_batchers[_linear_p] = _batch
mlir.register_function_lowering(_linear_p, lambda *operands, forward, **_: forward(*operands))
