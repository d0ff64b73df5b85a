"""Scans that multiply what they read from a sequence before the loop, for all steps at once.

In each step, a recurrent layer multiplies one row of its input with a matrix, and its state with another one. The first
product does not need the state. For all steps it is one product, and its derivative for the matrix is one, too.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import jax
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun

from graftax.xla_call_module.jax_versions import Operand
from graftax.xla_call_module.jaxprs import array_type, as_closed, bound, evaluated, place_of

__all__ = ["scan_with_products_before"]

Carry = TypeVar("Carry")

# What reads a row of a sequence, and changes its form.
_READS = frozenset(
  {"add", "broadcast_in_dim", "clamp", "convert_element_type", "dynamic_slice", "lt", "max", "min", "reshape"}
  | {"select_n", "squeeze", "sub", "transpose"}
)
_CALLS = ("jit", "pjit")
# What is stored for all steps: rows and products, all together. The other products are computed in the loop.
_MOST_BYTES = 1 << 27
# Elements of what is computed while tracing, such as the numbers of rows.
_FEW_ELEMENTS = 1 << 16


def scan_with_products_before(step: Callable[[Carry, Any], Carry], init: Carry, counters: Any) -> Carry:
  """Returns the last carry of `jax.lax.scan`; products that do not depend on the carry are computed before it.

  Those are matrix products of what a step reads, with the counters, from arrays that are the same in all steps. They
  are stored for all steps, up to 128 MiB.

  Args:
    step: maps a carry and the counters of a step to the next carry, of the same types.
    init: the first carry, a pytree of arrays.
    counters: a pytree of arrays `[num_steps, ...]`. If one is not an array of NumPy, this is `jax.lax.scan` alone.

  Raises:
    TypeError: as for `jax.lax.scan`.

  Example:
    >>> import jax
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> rows, w = jnp.ones((3, 1, 2)), jnp.ones((2, 4))
    >>> def step(carry, i):
    ...   return carry + jax.lax.dynamic_index_in_dim(rows, i, keepdims=False) @ w
    >>> scan_with_products_before(step, jnp.zeros((1, 4)), np.arange(3)).tolist()
    [[6.0, 6.0, 6.0, 6.0]]
  """
  known, structure = jax.tree.leaves(counters), jax.tree.structure(init)
  closed = _traced(step, init, counters) if known and all(isinstance(x, np.ndarray) and len(x) for x in known) else None
  if closed is None:
    carry: Carry = lax.scan(lambda carry, numbers: (step(carry, numbers), None), init, counters)[0]
    return carry
  products = [] if closed.effects else _products(closed.jaxpr, len(known), len(known[0]))
  values = _Reads(closed, known).values(products)

  def body(carry: Carry, xs: tuple[Sequence[Operand], Sequence[Operand]]) -> tuple[Carry, None]:
    numbers, found = xs
    # Otherwise XLA reads the row within the function of the state, which it does not vectorize then.
    before = dict(zip(products, lax.optimization_barrier(found), strict=True))

    def results(equation: JaxprEqn, operands: list[Operand]) -> Sequence[Operand]:
      value = before.get(equation.outvars[0]) if equation.outvars else None
      return bound(equation, operands) if value is None else [value]

    operands = [*jax.tree.leaves(carry), *numbers]
    following = evaluated(closed, operands, results) if products else jaxpr_as_fun(closed)(*operands)
    return jax.tree.unflatten(structure, following), None

  carry = lax.scan(body, init, (known, values))[0]
  return carry


def _traced(step: Callable[[Carry, Any], Carry], init: Carry, counters: Any) -> ClosedJaxpr | None:
  """Returns a step as a program, or None if its carry does not keep its types, which only `jax.lax.scan` can mend."""
  number = jax.tree.map(lambda counter: jax.typeof(counter[0]), counters)
  closed, following = jax.make_jaxpr(step, return_shape=True)(init, number)
  return closed if _types(jax.eval_shape(lambda carry: carry, init)) == _types(following) else None


def _types(avals: Any) -> tuple[Any, ...]:
  leaves, structure = jax.tree.flatten(avals)
  return structure, [(aval.shape, aval.dtype, aval.weak_type) for aval in leaves]


def _products(jaxpr: Jaxpr, num_counters: int, num_steps: int) -> list[Var]:
  """Returns the products of what a step reads with something that is the same in all steps."""
  fixed, read = set(jaxpr.constvars), set(jaxpr.invars[len(jaxpr.invars) - num_counters :])
  makers: dict[Var, JaxprEqn] = {}
  found: list[Var] = []
  num_bytes = 0.0
  for equation in jaxpr.eqns:
    operands = {atom for atom in equation.invars if isinstance(atom, Var)}
    if operands <= fixed:
      fixed.update(equation.outvars)
    elif operands <= fixed | read and _only_reads(equation):
      read.update(equation.outvars)
      makers.update(dict.fromkeys(equation.outvars, equation))
    elif operands <= fixed | read and _is_product(equation, read):
      needed = num_steps * (_num_bytes(equation) + sum(map(_num_bytes, _needed(equation, makers))))
      if num_bytes + needed <= _MOST_BYTES:
        num_bytes += needed
        found += equation.outvars
  return found


def _needed(equation: JaxprEqn, makers: Mapping[Var, JaxprEqn]) -> list[JaxprEqn]:
  """Returns the equations that make the operands of an equation, in any order."""
  found: dict[int, JaxprEqn] = {}
  pending = [equation]
  while pending:
    for atom in pending.pop().invars:
      maker = makers.get(atom) if isinstance(atom, Var) else None
      if maker is not None and id(maker) not in found:
        found[id(maker)] = maker
        pending.append(maker)
  return list(found.values())


def _num_bytes(equation: JaxprEqn) -> float:
  """Returns the size of the results of an equation; infinity if it is not known."""
  avals = [array_type(var) for var in equation.outvars]
  if not all(isinstance(size, int) for aval in avals for size in aval.shape):
    return math.inf
  return sum(math.prod(aval.shape) * aval.dtype.itemsize for aval in avals)


def _only_reads(equation: JaxprEqn) -> bool:
  called = _called(equation)
  return equation.primitive.name in _READS if called is None else all(map(_only_reads, called.jaxpr.eqns))


def _is_product(equation: JaxprEqn, read: set[Var]) -> bool:
  """Returns whether an equation multiplies an array that was read with a fixed one."""
  if equation.primitive.name != "dot_general" or any(equation.params["dimension_numbers"][1]):
    return False
  return [isinstance(atom, Var) and atom in read for atom in equation.invars].count(True) == 1


def _called(equation: JaxprEqn) -> ClosedJaxpr | None:
  return as_closed(equation.params["jaxpr"]) if equation.primitive.name in _CALLS else None


@dataclasses.dataclass(frozen=True)
class _Value:
  """A value of a step: the same for all steps, or `[num_steps, ...]`."""

  value: Operand
  is_row: bool


class _Reads:
  """Computes values of a step for all steps."""

  def __init__(self, closed: ClosedJaxpr, counters: Sequence[np.ndarray]) -> None:
    jaxpr = closed.jaxpr
    self._makers = {var: equation for equation in jaxpr.eqns for var in equation.outvars}
    self._found = {var: _Value(value, False) for var, value in zip(jaxpr.constvars, closed.consts, strict=True)}
    rows = jaxpr.invars[len(jaxpr.invars) - len(counters) :]
    self._found |= {var: _Value(counter, True) for var, counter in zip(rows, counters, strict=True)}

  def values(self, wanted: Sequence[Var]) -> list[Operand]:
    """Returns values `[num_steps, ...]`."""
    needed = {id(maker) for var in wanted for maker in (self._makers[var], *_needed(self._makers[var], self._makers))}
    for equation in self._makers.values():
      if id(equation) in needed and equation.outvars[0] not in self._found:
        operands = [_read(atom, self._found) for atom in equation.invars]
        with place_of(equation):
          results = _results(equation, operands)
        self._found.update(zip(equation.outvars, results, strict=True))
    return [self._found[var].value for var in wanted]


def _read(atom: Var | Literal, found: Mapping[Var, _Value]) -> _Value:
  return _Value(atom.val, False) if isinstance(atom, Literal) else found[atom]


def _results(equation: JaxprEqn, operands: Sequence[_Value]) -> list[_Value]:
  """Returns the results of an equation for all steps."""
  is_row = any(operand.is_row for operand in operands)
  called = _called(equation)
  if called is not None and is_row:
    found = {var: _Value(value, False) for var, value in zip(called.jaxpr.constvars, called.consts, strict=True)}
    found |= dict(zip(called.jaxpr.invars, operands, strict=True))
    for inner in called.jaxpr.eqns:
      found.update(zip(inner.outvars, _results(inner, [_read(atom, found) for atom in inner.invars]), strict=True))
    return [_read(atom, found) for atom in called.jaxpr.outvars]
  values = [operand.value for operand in operands]
  if not is_row:
    return [_Value(value, False) for value in bound(equation, values)]
  if _is_small(equation, operands):
    with jax.ensure_compile_time_eval():
      return _mapped(equation, operands)
  rows = _whole_sequence(equation, operands)
  return _mapped(equation, operands) if rows is None else [_Value(rows, True)]


def _is_small(equation: JaxprEqn, operands: Sequence[_Value]) -> bool:
  """Returns whether operands are known and, with the results for all steps, have few elements."""
  if any(isinstance(operand.value, jax.core.Tracer) for operand in operands):
    return False
  num_steps = next(len(operand.value) for operand in operands if operand.is_row)
  avals = [array_type(var) for var in equation.outvars]
  results = [num_steps * math.prod(aval.shape) for aval in avals]
  return max(*results, *(np.size(operand.value) for operand in operands)) <= _FEW_ELEMENTS


def _mapped(equation: JaxprEqn, operands: Sequence[_Value]) -> list[_Value]:
  axes = [0 if operand.is_row else None for operand in operands]
  results = jax.vmap(lambda *values: bound(equation, values), in_axes=axes)(*(operand.value for operand in operands))
  return [_Value(value, True) for value in results]


def _whole_sequence(equation: JaxprEqn, operands: Sequence[_Value]) -> Operand | None:
  """Returns the rows of a sequence if one is read after the other; None otherwise. A gather would be slower."""
  sequence, *starts = operands
  if equation.primitive.name != "dynamic_slice" or sequence.is_row or not starts[0].is_row:
    return None
  shape, sizes = np.shape(sequence.value), equation.params["slice_sizes"]
  first, *others = (start.value for start in starts)
  is_known = not any(isinstance(start, jax.core.Tracer) for start in (first, *others))
  if (
    not is_known
    or not isinstance(shape[0], int)
    or tuple(sizes) != (1, *shape[1:])
    or np.any([np.any(start) for start in others])
  ):
    return None
  if not np.array_equal(first, np.arange(shape[0])):
    return None
  return lax.reshape(sequence.value, (shape[0], *sizes))
