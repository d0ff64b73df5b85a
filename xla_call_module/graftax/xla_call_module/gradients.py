"""Chooses the derivative of a module: the gradient function in the artifact, or the derivative of the lifted code.

StableHLO does not represent `custom_jvp`, `custom_vjp` and `stop_gradient`. Differentiating the lifted code of a
straight-through estimator, a clipped gradient or a gamma sample therefore gives results that the author did not intend.
A gradient function stored with the module has the author's derivative, for reverse mode.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from graftax.xla_call_module import errors
from graftax.xla_call_module.lax_extras.arrays import ArrayFunction, is_inexact, replaced
from graftax.xla_call_module.lax_extras.linear_calls import linear_call
from graftax.xla_call_module.lax_extras.tangent_rules import call_with_tangents
from graftax.xla_call_module.module import Module

__all__ = ["stored_pullback", "with_policy"]


def stored_pullback(module: Module, gradient: str, run: Callable[[Module], ArrayFunction]) -> ArrayFunction | None:
  """Returns the gradient function of a module, or None if it has none or the policy `gradient` ignores it.

  Args:
    module: the module that may have a gradient function.
    gradient: "saved", "primal" or "auto".
    run: lifts or embeds the gradient's module; called once, when the pullback is first used.
  """
  if not module.has_gradient or gradient == "primal":
    return None

  @functools.cache
  def stored() -> ArrayFunction:
    found = module.gradient
    assert found is not None, "internal: a pullback without a stored gradient"
    return run(found)

  return lambda *args: stored()(*args)


def with_policy(primal: ArrayFunction, module: Module, pullback: ArrayFunction | None, gradient: str) -> ArrayFunction:
  """Returns the primal function with the derivative that the policy selects; see `lift`.

  Args:
    primal: from flat arrays to a list of arrays.
    module: the module that `primal` runs.
    pullback: `pullback(*args, *cotangents)` returns the cotangents of the arguments; None if there is no pullback.
    gradient: "saved", "primal" or "auto".
  """
  if gradient == "primal" or (gradient == "auto" and pullback is None):
    return primal
  if pullback is None:
    raise errors.DerivativeError(
      "gradient='saved': the artifact has no gradient function. Export it with one (vjp_order=1,"
      " with_gradient=True), or use gradient='primal'."
    )
  transpose = _Transpose(primal, pullback, module)
  return _ruled(primal, transpose, module, allows_forward_mode=gradient == "auto")


class _Transpose:
  """The stored gradient function, from cotangents of the inexact outputs to cotangents of the inexact inputs."""

  def __init__(self, primal: ArrayFunction, pullback: ArrayFunction, module: Module):
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
    if len(specs) not in (0, len(full)):  # the stored function accepts cotangents of the inexact outputs only
      full = list(cotangents)
    results = self._pullback(*args, *full)
    if len(results) == len(self._module.inputs):
      return [r for r, spec in zip(results, self._module.inputs, strict=True) if is_inexact(spec)]
    return list(results)

  def _result_shapes(self, args: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Returns the shapes of the results; those of a polymorphic module depend on the arguments."""
    outputs = self._module.outputs
    if all(None not in spec.shape for spec in outputs):
      return [spec.shape for spec in outputs]
    return [result.shape for result in jax.eval_shape(self._primal, *args)]


def _ruled(primal: ArrayFunction, transpose: _Transpose, module: Module, *, allows_forward_mode: bool) -> ArrayFunction:
  """Returns the primal with a tangent that is one linear primitive; its transpose is the stored gradient function.

  A second derivative also uses the stored function for the results, as `jax.export.Exported.call` does. That is correct
  for `stop_gradient`, and for rules of `custom_jvp` and `custom_vjp` that call the function itself.
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

  # Under jit, so that calls outside of a jit are traced only once.
  return jax.jit(lambda *args: call_with_tangents(primal, rule, args))


def _refuse_forward_mode(*operands: Any) -> list[Any]:
  raise errors.DerivativeError(
    "gradient='saved': the gradient function of the artifact supports reverse mode only. For forward-mode derivatives"
    " (jvp, jacfwd, hessian) of the lifted code, pass gradient='auto' or 'primal'."
  )


class _Tangent:
  """Maps `(*args, *tangents)` to the tangents of the inexact outputs by differentiating the primal."""

  def __init__(self, primal: ArrayFunction, inputs: Sequence[int], outputs: Sequence[int]):
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
  """Maps `(*args, *cotangents)` to the cotangents of the inexact inputs with the stored gradient function."""

  def __init__(self, transpose: _Transpose, num_args: int):
    self._transpose, self._num_args = transpose, num_args

  def __call__(self, *operands: Any) -> list[Any]:
    return list(self._transpose(operands[: self._num_args], operands[self._num_args :]))
