"""Walks a jaxpr and adds the nodes of each equation; what has no form is collected for one error."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from jax.typing import DTypeLike

from graftax.convert.jax2tf.tf_ops import registry
from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.lifted_primitives import lifted, lifting_key
from graftax.convert.jax2tf.tf_ops.registry import Unsupported
from graftax.convert.jax2tf.tf_ops.tensors import MAX_FOLDED_SIZE, Tensor, physical_spec
from graftax.graphdef_ir import TensorRef

__all__ = ["run_jaxpr", "run_open_jaxpr"]

# Results of an equation without a form; no graph is made of them.
_NO_REF = TensorRef("unsupported")


def run_jaxpr(b: Builder, closed: ClosedJaxpr, operands: Sequence[Tensor]) -> list[Tensor]:
  """Returns the results of a jaxpr for tensors, computed by new nodes."""
  return run_open_jaxpr(b, closed.jaxpr, [_known(b, const, const.dtype) for const in closed.consts], operands)


def run_open_jaxpr(b: Builder, jaxpr: Jaxpr, consts: Sequence[Tensor], operands: Sequence[Tensor]) -> list[Tensor]:
  """Returns the results of a jaxpr for tensors and constants, computed by new nodes."""
  values: dict[Var, Tensor] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *operands), strict=True))

  def read(atom: Var | Literal) -> Tensor:
    if not isinstance(atom, Literal):
      return values[atom]
    aval: Any = atom.aval  # the class that JAX declares has no dtype
    return _known(b, atom.val, aval.dtype)

  for eqn in jaxpr.eqns:
    outer, b.scope = b.scope, eqn.primitive.name
    values.update(zip(eqn.outvars, _run_equation(b, eqn, [read(atom) for atom in eqn.invars]), strict=True))
    b.scope = outer
  return [read(atom) for atom in jaxpr.outvars]


def _run_equation(b: Builder, eqn: JaxprEqn, operands: list[Tensor]) -> list[Tensor]:
  rule = registry.find(eqn.primitive.name)
  try:
    outs = tuple(physical_spec(variable.aval) for variable in eqn.outvars)
    if _are_empty(outs) and not eqn.effects:
      return [b.constant(np.zeros(out.shape, out.dtype)) for out in outs]
    if rule is None:
      return run_jaxpr(b, _lifted(b, eqn), operands)
    if rule.folds and _can_fold(eqn, operands, outs):
      return _folded(b, eqn, operands)
    found = rule.function(b, *operands, **rule.arguments(eqn, outs))
  except Unsupported as e:
    b.library.refusals.add(eqn, str(e))
    return [_stand_in(variable.aval) for variable in eqn.outvars]
  results = [found] if isinstance(found, Tensor) else list(found)
  for result, out in zip(results, outs, strict=True):
    assert result.dtype == out.dtype and len(result.shape) == len(out.shape), (
      f"internal: the rule of {eqn.primitive.name} returns {result.dtype}{result.shape} for {out.dtype}{out.shape}."
    )
  return [dataclasses.replace(result, shape=out.shape) for result, out in zip(results, outs, strict=True)]


def _lifted(b: Builder, eqn: JaxprEqn) -> ClosedJaxpr:
  """Returns what an equation computes. Equal equations, of which diffrax has hundreds, are lifted once."""
  key = lifting_key(eqn)
  if key is None:
    return lifted(eqn)
  if key not in b.library.lifted:
    b.library.lifted[key] = lifted(eqn)
  return b.library.lifted[key]


def _stand_in(aval: Any) -> Tensor:
  """Returns a tensor for the result of an equation that is refused, so that the ones after it are checked as well."""
  try:
    spec = physical_spec(aval)
  except Unsupported:
    spec = jax.ShapeDtypeStruct(aval.shape, np.float32)
  return Tensor(spec.shape, spec.dtype, _NO_REF)


def _are_empty(outs: Sequence[jax.ShapeDtypeStruct]) -> bool:
  """Returns whether all results are known to have no elements. Some kernels and rules take at least one."""
  return bool(outs) and all(0 in out.shape and all(isinstance(size, int) for size in out.shape) for out in outs)


def _can_fold(eqn: JaxprEqn, operands: Sequence[Tensor], outs: Sequence[jax.ShapeDtypeStruct]) -> bool:
  """Returns whether all operands and results are known and small, and numbers."""
  specs: list[Tensor | jax.ShapeDtypeStruct] = [*operands, *outs]
  # Any: the type that JAX declares for `aval` has no dtype.
  variables: list[Any] = [*eqn.invars, *eqn.outvars]
  return (
    not any(jax.numpy.issubdtype(v.aval.dtype, jax.dtypes.extended) for v in variables)
    and all(operand.value is not None for operand in operands)
    and all(isinstance(size, int) for spec in specs for size in spec.shape)
    and all(np.prod(spec.shape) <= MAX_FOLDED_SIZE for spec in specs)
  )


def _folded(b: Builder, eqn: JaxprEqn, operands: Sequence[Tensor]) -> list[Tensor]:
  found = eqn.primitive.bind(*(jax.numpy.asarray(operand.value) for operand in operands), **eqn.params)
  return [b.constant(np.asarray(x)) for x in (found if eqn.primitive.multiple_results else [found])]


def _known(b: Builder, value: Any, dtype: DTypeLike) -> Tensor:
  """Returns a constant of a jaxpr with the dtype that `physical_spec` gives it."""
  if jax.numpy.issubdtype(dtype, jax.dtypes.prng_key):
    return b.constant(np.asarray(jax.random.key_data(value)))
  if dtype == jax.dtypes.float0:
    return b.constant(np.zeros(np.shape(value), bool))
  return b.constant(value, dtype)
