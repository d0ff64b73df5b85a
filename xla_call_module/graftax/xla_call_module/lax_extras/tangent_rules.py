"""Functions with a given derivative.

They support forward mode, reverse mode, `vmap` and derivatives of any order with respect to all arguments, if the rule
is differentiable. They are `jax.custom_jvp` functions. JAX before 0.12 ignores rules of these for second derivatives in
a `scan`; there, they are a primitive of our own.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_derivatives import SymbolicZero
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching

from graftax.xla_call_module import jax_versions, mlir
from graftax.xla_call_module.lax_extras.arrays import ArrayFunction, is_inexact

__all__ = ["call_with_tangents"]

TangentRule = Callable[[Sequence[Array], Sequence[Array], Sequence[Array | None]], Sequence[Array | None]]


def call_with_tangents(
  function: ArrayFunction, rule: TangentRule, operands: Sequence[Array], *, recorded: ArrayFunction | None = None
) -> list[Array]:
  """Returns `function(*operands)`, a list of arrays, with the derivative that `rule` computes.

  Args:
    function: the function. None of the three may close over traced values (see `closure_conversion`).
    rule: `rule(operands, results, tangents)` returns the tangents of the results, given those of the operands. In both,
      None means a tangent of zeros or an array without derivatives.
    operands: arrays of any dtype.
    recorded: runs instead of `function` when derivatives are taken. It returns the same results, followed by values
      that only `rule` needs; `rule` gets all of them and returns tangents of all.
  """
  if jax_versions.KEEPS_JVP_RULES_IN_SCANS:
    return list(_with_custom_jvp(function, rule, recorded)(*operands))
  return list(_ruled_p.bind(*operands, jaxpr=jax.make_jaxpr(function)(*operands), rule=rule, recorded=recorded))


def _with_custom_jvp(function: ArrayFunction, rule: TangentRule, recorded: ArrayFunction | None) -> ArrayFunction:
  """Returns `function` as a `jax.custom_jvp` function."""

  def call(*operands: Array) -> list[Array]:
    return list(function(*operands))

  def jvp(operands: Sequence[Array], tangents: Any) -> tuple[list[Array], list[Any]]:
    full = differentiable if recorded is None else _with_custom_jvp(recorded, rule, None)
    results = full(*operands)
    moved = _tangents(rule, operands, results, tangents, SymbolicZero)
    num_results = len(jax.eval_shape(call, *operands)) if recorded is not None else len(results)
    return results[:num_results], moved[:num_results]

  differentiable = jax.custom_jvp(call)
  differentiable.defjvp(jvp, symbolic_zeros=True)
  return differentiable


def _tangents(
  rule: TangentRule,
  operands: Sequence[Array],
  results: Sequence[Array],
  tangents: Sequence[Any],
  zero: Callable[[Any], Any],
) -> list[Any]:
  """Returns the tangents of the results, with `zero(type)` for those of zeros."""
  given = [None if _is_zero(tangent) else tangent for tangent in tangents]
  moved = rule(list(operands), list(results), given)
  return [zero(jax.typeof(r).to_tangent_aval()) if t is None else t for r, t in zip(results, moved, strict=True)]


def _is_zero(tangent: Any) -> bool:
  return type(tangent) in (ad.Zero, SymbolicZero) or getattr(tangent, "dtype", None) == jax.dtypes.float0


_ruled_p = Primitive("graftax_call_with_tangents")
_ruled_p.multiple_results = True


@_ruled_p.def_impl
def _ruled_impl(*operands: Array, jaxpr: ClosedJaxpr, **_: Any) -> Any:
  return jaxpr_as_fun(jaxpr)(*operands)


@_ruled_p.def_abstract_eval
def _ruled_abstract(*avals: Any, jaxpr: ClosedJaxpr, **_: Any) -> Any:
  return jaxpr.out_avals


def _ruled_jvp(
  operands: Sequence[Array], tangents: Any, *, jaxpr: ClosedJaxpr, rule: TangentRule, recorded: ArrayFunction | None
) -> Any:
  full = jaxpr if recorded is None else jax.make_jaxpr(recorded)(*operands)
  results = _ruled_p.bind(*operands, jaxpr=full, rule=rule, recorded=None)
  all_tangents = _tangents(rule, operands, results, tangents, ad.Zero)
  num_results = len(jaxpr.out_avals)
  return results[:num_results], all_tangents[:num_results]


def _ruled_transpose(cotangents: Any, *operands: Array, jaxpr: ClosedJaxpr, **_: Any) -> Any:
  """Transposes the function itself, because it is linear in the operands that have cotangents."""
  wanted = [i for i, x in enumerate(operands) if ad.is_undefined_primal(x)]
  inexact = [i for i, aval in enumerate(jaxpr.out_avals) if is_inexact(aval)]

  def function(*some: Array) -> list[Array]:
    given = dict(zip(wanted, some, strict=True))
    results = jaxpr_as_fun(jaxpr)(*[given.get(i, x) for i, x in enumerate(operands)])
    return [results[i] for i in inexact]

  transposed = jax.linear_transpose(
    function, *(jax.ShapeDtypeStruct(operands[i].aval.shape, operands[i].aval.dtype) for i in wanted)
  )
  found = dict(zip(wanted, transposed([ad.instantiate_zeros(cotangents[i]) for i in inexact]), strict=True))
  return [found.get(i) for i in range(len(operands))]


class _MappedRule:
  """A rule mapped over axis 0 of every operand that is batched, and of all results."""

  def __init__(self, rule: TangentRule, axes: Sequence[int | None]):
    self._rule, self._axes = rule, list(axes)

  def __call__(
    self, operands: Sequence[Array], results: Sequence[Array], tangents: Sequence[Array | None]
  ) -> list[Array | None]:
    given = [i for i, tangent in enumerate(tangents) if tangent is not None]
    moving: list[int] = []

    def one(operands: Sequence[Array], results: Sequence[Array], some: Sequence[Array | None]) -> list[Array | None]:
      full = dict(zip(given, some, strict=True))
      moved = self._rule(operands, results, [full.get(i) for i in range(len(operands))])
      moving[:] = [i for i, tangent in enumerate(moved) if tangent is not None]
      return [moved[i] for i in moving]

    axes = self._axes, 0, [self._axes[i] for i in given]
    out = jax.vmap(one, in_axes=axes, out_axes=0)(list(operands), list(results), [tangents[i] for i in given])
    found = dict(zip(moving, out, strict=True))
    return [found.get(i) for i in range(len(results))]


def _ruled_batch(
  operands: Sequence[Array], dims: Any, *, jaxpr: ClosedJaxpr, rule: TangentRule, recorded: ArrayFunction | None
) -> Any:
  moved = [x if dim is None else jnp.moveaxis(x, dim, 0) for x, dim in zip(operands, dims, strict=True)]
  axes = [None if dim is None else 0 for dim in dims]
  mapped = jax.make_jaxpr(jax.vmap(jaxpr_as_fun(jaxpr), in_axes=axes, out_axes=0))(*moved)
  mapped_recorded = None if recorded is None else jax.vmap(recorded, in_axes=axes, out_axes=0)
  results = _ruled_p.bind(*moved, jaxpr=mapped, rule=_MappedRule(rule, axes), recorded=mapped_recorded)
  return results, [0] * len(results)


ad.primitive_jvps[_ruled_p] = _ruled_jvp
ad.primitive_transposes[_ruled_p] = _ruled_transpose
batching.primitive_batchers[_ruled_p] = _ruled_batch
mlir.register_function_lowering(_ruled_p, lambda *operands, jaxpr, **_: jaxpr_as_fun(jaxpr)(*operands))
jax_versions.expands_to(_ruled_p, _ruled_impl)
