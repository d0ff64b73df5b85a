"""Scans that multiply what they read from a sequence before the loop, for all steps at once.

In each step, a recurrent layer multiplies one row of its input with a matrix, and its state with another one. The first
product does not need the state. For all steps it is one product, and its derivative for the matrix is one, too.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Var, jaxpr_as_fun

from graftax.xla_call_module.jax_versions import Operand
from graftax.xla_call_module.jaxprs import array_type, as_closed, bound, evaluated

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
  are stored for all steps, up to 128 MiB with the rows; within `jax.vmap` for each example.

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
  values = _for_all_steps(closed, known, products)

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
  """Returns the size of what an equation computes; infinity if it is not known."""
  called = _called(equation)
  if called is not None:
    return sum(map(_num_bytes, called.jaxpr.eqns))
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


class _Rows(NamedTuple):
  """The values of something in all steps, `[num_steps, ...]`."""

  value: Operand


def _for_all_steps(closed: ClosedJaxpr, counters: Sequence[np.ndarray], wanted: Sequence[Var]) -> list[Operand]:
  """Returns values of a step in all steps, which do not depend on the carry, `[num_steps, ...]`."""
  makers = {var: equation for equation in closed.jaxpr.eqns for var in equation.outvars}
  needed = {id(maker) for var in wanted for maker in (makers[var], *_needed(makers[var], makers))}
  found: dict[Var, Operand] = {}

  def results(equation: JaxprEqn, operands: list[Operand]) -> Sequence[Operand]:
    if id(equation) not in needed:
      return [None] * len(equation.outvars)
    values = _results(equation, operands)
    found.update(zip(equation.outvars, values, strict=True))
    return values

  num_carried = len(closed.in_avals) - len(counters)
  evaluated(closed, [None] * num_carried + list(map(_Rows, counters)), results)
  return [found[var].value for var in wanted]


def _results(equation: JaxprEqn, operands: list[Operand]) -> Sequence[Operand]:
  """Returns the results of an equation, as rows if an operand is rows."""
  if not any(isinstance(operand, _Rows) for operand in operands):
    return bound(equation, operands)
  called = _called(equation)
  if called is not None:
    return evaluated(called, operands, _results)
  if _is_small(equation, operands):
    with jax.ensure_compile_time_eval():
      return _mapped(equation, operands)
  sequence = _whole_sequence(equation, operands)
  return _mapped(equation, operands) if sequence is None else [_Rows(sequence)]


def _value(operand: Operand) -> Operand:
  return operand.value if isinstance(operand, _Rows) else operand


def _is_small(equation: JaxprEqn, operands: Sequence[Operand]) -> bool:
  """Returns whether operands are known and, with the results in all steps, have few elements."""
  values = list(map(_value, operands))
  if any(isinstance(value, jax.core.Tracer) for value in values):
    return False
  num_steps = next(len(operand.value) for operand in operands if isinstance(operand, _Rows))
  results = [num_steps * math.prod(array_type(var).shape) for var in equation.outvars]
  return max(*results, *map(np.size, values)) <= _FEW_ELEMENTS


def _mapped(equation: JaxprEqn, operands: Sequence[Operand]) -> list[Operand]:
  axes = [0 if isinstance(operand, _Rows) else None for operand in operands]
  results = jax.vmap(lambda *values: bound(equation, values), in_axes=axes)(*map(_value, operands))
  return list(map(_Rows, results))


def _whole_sequence(equation: JaxprEqn, operands: Sequence[Operand]) -> Operand | None:
  """Returns the rows of a sequence if one is read after the other; None otherwise. A gather would be slower."""
  sequence, *starts = operands
  if equation.primitive.name != "dynamic_slice" or isinstance(sequence, _Rows) or not isinstance(starts[0], _Rows):
    return None
  shape, sizes = np.shape(sequence), tuple(equation.params["slice_sizes"])
  first, *others = map(_value, starts)
  if any(isinstance(start, jax.core.Tracer) for start in (first, *others)) or any(map(np.any, others)):
    return None
  if not isinstance(shape[0], int) or sizes != (1, *shape[1:]) or not np.array_equal(first, np.arange(shape[0])):
    return None
  return lax.reshape(sequence, (shape[0], *sizes))
