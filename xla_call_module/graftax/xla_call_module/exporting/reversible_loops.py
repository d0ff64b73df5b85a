"""`reversible`: reverse mode for functions with loops of unknown length.

JAX does not differentiate `jax.lax.while_loop` in reverse mode. Here each such loop is replaced by one that does
(`lax_extras.while_loops`), wherever it is differentiated as it stands: also in branches, in other loops, and in
functions under `jit` and `checkpoint`. Functions with a derivative of their own (`custom_jvp`, `custom_vjp`,
`custom_linear_solve`, ...) stay as they are, with the loops in them, because JAX uses their rules.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, jaxpr_as_fun, primitives

from graftax.xla_call_module import jax_versions, lax_extras
from graftax.xla_call_module.jaxprs import place_of
from graftax.xla_call_module.lax_extras.arrays import ArrayFunction

__all__ = ["reversible"]


def reversible(function: ArrayFunction) -> ArrayFunction:
  """Returns the same function, with reverse-mode derivatives through `jax.lax.while_loop`.

  Args:
    function: a JAX function of pytrees of arrays. It is traced when the result is called.

  Example:
    >>> def root(x):
    ...   return jax.lax.while_loop(lambda y: abs(y * y - x) > 1e-3, lambda y: (y + x / y) / 2, x)
    >>> print(f"{jax.grad(reversible(root))(9.0):.4f}")
    0.1667
  """

  @functools.wraps(function)
  def call(*args: Any, **kwargs: Any) -> Any:
    jaxpr, result = jax.make_jaxpr(function, return_shape=True)(*args, **kwargs)
    leaves = jax.tree.leaves((args, kwargs))
    return jax.tree.unflatten(jax.tree.structure(result), _run(jaxpr, *leaves))

  return call


def _run(closed: ClosedJaxpr, *args: Array) -> list[Array]:
  """Evaluates a jaxpr with its loops replaced."""
  if not _has_loop(closed.jaxpr):
    return list(jaxpr_as_fun(closed)(*args))
  jaxpr = closed.jaxpr
  values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *args), strict=True))

  def read(atom: Any) -> Any:
    return atom.val if isinstance(atom, Literal) else values[atom]

  for eqn, unused in zip(jaxpr.eqns, _last_uses(jaxpr), strict=True):
    with place_of(eqn):
      results = _run_equation(eqn, [read(atom) for atom in eqn.invars])
    values.update(zip(eqn.outvars, results, strict=True))
    for variable in unused:
      values.pop(variable, None)
  return [read(atom) for atom in jaxpr.outvars]


def _last_uses(jaxpr: Jaxpr) -> list[list[Any]]:
  """Returns the variables that no later equation reads, for each equation."""
  seen = {atom for atom in jaxpr.outvars if not isinstance(atom, Literal)}
  found: list[list[Any]] = []
  for eqn in reversed(jaxpr.eqns):
    variables = {atom for atom in (*eqn.invars, *eqn.outvars) if not isinstance(atom, Literal)}
    found.append(list(variables - seen))
    seen |= variables
  return found[::-1]


def _run_equation(eqn: JaxprEqn, operands: Sequence[Array]) -> Sequence[Array]:
  if _is_replaced(eqn):
    return list(_RULES[eqn.primitive](operands, **eqn.params))
  results = jax_versions.bind_equation(eqn.primitive, operands, eqn.params)
  return list(results) if eqn.primitive.multiple_results else [results]


def _run_while(
  operands: Sequence[Array],
  *,
  cond_nconsts: int,
  body_nconsts: int,
  cond_jaxpr: ClosedJaxpr,
  body_jaxpr: ClosedJaxpr,
  **_: Any,
) -> Any:
  of_test = operands[:cond_nconsts]
  of_body = operands[cond_nconsts : cond_nconsts + body_nconsts]

  # Under vmap, there is a condition for each element of the batch, and finished ones keep their values.
  def runs(carry: Sequence[Array]) -> Any:
    return jaxpr_as_fun(cond_jaxpr)(*of_test, *carry)[0]

  def test(carry: Sequence[Array]) -> Any:
    return jnp.any(runs(carry))

  def step(carry: Sequence[Array]) -> Any:
    after = _run(body_jaxpr, *of_body, *carry)
    if not cond_jaxpr.out_avals[0].ndim:
      return after
    is_running = runs(carry)
    return [_where(is_running, new, old) for new, old in zip(after, carry, strict=True)]

  return lax_extras.while_loop(test, step, list(operands[cond_nconsts + body_nconsts :]))


def _where(condition: Array, x: Array, y: Array) -> Array:
  """Returns `x` or `y` for each element along the first axes, which are those of `condition`."""
  return jax.lax.select(jax.lax.broadcast_in_dim(condition, x.shape, range(condition.ndim)), x, y)


def _run_scan(
  operands: Sequence[Array],
  *,
  jaxpr: ClosedJaxpr,
  length: Any,
  reverse: bool,
  unroll: Any,
  **others: Any,
) -> Any:
  num_consts, num_carry = lax_extras.scan_sizes(others)
  consts, init = operands[:num_consts], list(operands[num_consts : num_consts + num_carry])

  def step(carry: Sequence[Array], row: Any) -> Any:
    results = _run(jaxpr, *consts, *carry, *row)
    return results[:num_carry], results[num_carry:]

  rows = list(operands[num_consts + num_carry :])
  final, stacked = jax.lax.scan(step, init, rows, length=length, reverse=reverse, unroll=unroll)
  return [*final, *stacked]


def _run_cond(operands: Sequence[Array], *, branches: Sequence[ClosedJaxpr], **_: Any) -> Any:
  index, *rest = operands
  return jax.lax.switch(index, [functools.partial(_run, branch) for branch in branches], *rest)


def _run_jit(operands: Sequence[Array], *, jaxpr: ClosedJaxpr, name: str, **_: Any) -> Any:
  def call(*args: Array) -> list[Array]:
    return _run(jaxpr, *args)

  call.__name__ = name
  return jax.jit(call)(*operands)


def _run_checkpoint(operands: Sequence[Array], *, jaxpr: Any, prevent_cse: Any, policy: Any, **_: Any) -> Any:
  closed = jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, [])
  return jax.checkpoint(functools.partial(_run, closed), prevent_cse=prevent_cse, policy=policy)(*operands)


def _run_call(operands: Sequence[Array], *, call_jaxpr: Any, **_: Any) -> Any:
  return _run(call_jaxpr if isinstance(call_jaxpr, ClosedJaxpr) else ClosedJaxpr(call_jaxpr, []), *operands)


_RULES: dict[Any, Callable[..., Any]] = {
  primitives.call_p: _run_call,
  primitives.closed_call_p: _run_call,
  primitives.cond_p: _run_cond,
  primitives.jit_p: _run_jit,
  primitives.remat_p: _run_checkpoint,
  primitives.scan_p: _run_scan,
  primitives.while_p: _run_while,
}


def _has_loop(jaxpr: Jaxpr) -> bool:
  """Returns whether a loop is found that has to be replaced."""
  return any(map(_is_replaced, jaxpr.eqns))


def _is_replaced(eqn: JaxprEqn) -> bool:
  return eqn.primitive is primitives.while_p or (eqn.primitive in _RULES and any(map(_has_loop, _parts(eqn))))


def _parts(eqn: JaxprEqn) -> list[Jaxpr]:
  """Returns the jaxprs among the parameters of an equation."""
  values = [item for value in eqn.params.values() for item in (value if isinstance(value, tuple) else (value,))]
  return [value.jaxpr if isinstance(value, ClosedJaxpr) else value for value in values if _is_jaxpr(value)]


def _is_jaxpr(value: object) -> bool:
  return isinstance(value, (ClosedJaxpr, Jaxpr))
