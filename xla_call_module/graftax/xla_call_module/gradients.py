"""Whose derivative is used: the gradient function that an artifact carries, or the derivative of the lifted code.

StableHLO has no trace of `custom_jvp`, `custom_vjp` and `stop_gradient`: differentiating the lifted code of a
straight-through estimator, a clipped gradient or a gamma sample gives other numbers than the author's. A gradient
function stored beside the module is the truth for reverse mode.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from graftax.xla_call_module import errors
from graftax.xla_call_module.lax_extras.arrays import is_inexact, replaced
from graftax.xla_call_module.lax_extras.linear_calls import linear_call
from graftax.xla_call_module.lax_extras.tangent_rules import call_with_tangents
from graftax.xla_call_module.module import Module

__all__ = ["stored_pullback", "with_policy"]

Function = Callable[..., Any]


def stored_pullback(module: Module, gradient: str, run: Callable[[Module], Function]) -> Function | None:
  """The gradient function that a module carries, where the policy `gradient` lets it be used; None otherwise.

  Args:
    run: makes a function of the gradient's module; called once, when the pullback is first used.
  """
  if not module.has_gradient or gradient == "primal":
    return None

  @functools.cache
  def stored() -> Function:
    found = module.gradient
    assert found is not None, "internal: a pullback without a stored gradient"
    return run(found)

  return lambda *args: stored()(*args)


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
  transpose = _Transpose(primal, pullback, module)
  return _ruled(primal, transpose, module, allows_forward_mode=gradient == "auto")


class _Transpose:
  """The stored gradient function: arguments and cotangents of the inexact outputs to those of the inexact inputs."""

  def __init__(self, primal: Function, pullback: Function, module: Module):
    self._primal, self._pullback, self._module = primal, pullback, module

  def __call__(self, args: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
    given = iter(cotangents)
    stored = self._module.gradient
    specs = stored.inputs[len(self._module.inputs) :] if stored is not None else ()
    shapes = self._result_shapes(args)
    full = []
    for position, spec in enumerate(self._module.outputs):
      if is_inexact(spec):
        full.append(next(given))
      elif position < len(specs):
        full.append(jnp.zeros(shapes[position], specs[position].dtype))
    if len(specs) not in (0, len(full)):  # the gradient takes cotangents of the inexact outputs only
      full = list(cotangents)
    results = self._pullback(*args, *full)
    if len(results) == len(self._module.inputs):
      return [r for r, spec in zip(results, self._module.inputs, strict=True) if is_inexact(spec)]
    return list(results)

  def _result_shapes(self, args: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The shapes of the results, those of a polymorphic module for these arguments."""
    outputs = self._module.outputs
    if all(None not in spec.shape for spec in outputs):
      return [spec.shape for spec in outputs]
    return [result.shape for result in jax.eval_shape(self._primal, *args)]


def _ruled(primal: Function, transpose: _Transpose, module: Module, *, allows_forward_mode: bool) -> Function:
  """Forward mode differentiates the primal; its tangent is one linear primitive whose transpose is the stored one.

  A derivative of the derivative takes the stored one for the results too, as `jax.export.Exported.call` does. That is
  right for `stop_gradient`, and for `custom_jvp` and `custom_vjp` whose rules call the function itself.
  """
  inputs = [i for i, spec in enumerate(module.inputs) if is_inexact(spec)]
  outputs = [i for i, spec in enumerate(module.outputs) if is_inexact(spec)]
  if not inputs or not outputs:
    return primal
  forward = _Tangent(primal, inputs, outputs) if allows_forward_mode else _refuse_forward_mode
  backward = _Cotangent(transpose, len(module.inputs))

  def rule(args: Sequence[Any], results: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    moving = [jnp.zeros_like(args[i]) if tangents[i] is None else tangents[i] for i in inputs]
    given = iter(linear_call(forward, backward, args, moving, [results[i] for i in outputs]))
    return [next(given) if i in outputs else None for i in range(len(results))]

  # Under jit, so that a call outside of it is traced once.
  return jax.jit(lambda *args: call_with_tangents(primal, rule, args))


def _refuse_forward_mode(*operands: Any) -> list[Any]:
  raise errors.DerivativeError(
    "gradient='saved': the gradient function of the artifact serves reverse mode only; forward-mode derivatives (jvp,"
    " jacfwd, hessian) would be those of the lifted code. Pass gradient='auto' or 'primal' for them."
  )


class _Tangent:
  """`(*args, *tangents)` to the tangents of the inexact outputs, by differentiating the primal."""

  def __init__(self, primal: Function, inputs: Sequence[int], outputs: Sequence[int]):
    self._primal, self._inputs, self._outputs = primal, tuple(inputs), tuple(outputs)

  def __call__(self, *operands: Any) -> list[Any]:
    num_args = len(operands) - len(self._inputs)
    args, tangents = list(operands[:num_args]), operands[num_args:]

    def run(*inexact: Any) -> list[Any]:
      results = self._primal(*replaced(args, self._inputs, inexact))
      return [results[i] for i in self._outputs]

    _, out = jax.jvp(run, [args[i] for i in self._inputs], list(tangents))
    return list(out)


class _Cotangent:
  """`(*args, *cotangents)` to the cotangents of the inexact inputs, by the stored gradient function."""

  def __init__(self, transpose: _Transpose, num_args: int):
    self._transpose, self._num_args = transpose, num_args

  def __call__(self, *operands: Any) -> list[Any]:
    return list(self._transpose(operands[: self._num_args], operands[self._num_args :]))
