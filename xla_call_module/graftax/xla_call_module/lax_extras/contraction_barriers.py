"""Programs whose contractions XLA joins only with what it joins correctly.

XLA replaces a contraction (a matrix product or convolution) and the elementwise operations after it by one call of
oneDNN. Until XLA is mended (jaxlib 0.12 is not; a test here fails when it is), its patterns have three errors:

- For `gelu`, `silu` and `elu` it does not check whether others read the value before the activation, and hands them the
  value after it.
- It adds a vector along any axis of a convolution's result along the channels, if there are as many channels. Arrays of
  which it finds out that they repeat a vector are vectors, too.
- A batch of products of a vector with a matrix, and a bias, end the process.

So what leaves a contraction here is hidden behind an optimization barrier, and before it are only a bias along the last
axis, an array of the same shape that comes out of a barrier itself, and `relu` or `relu6`; or a bias and `silu`, if
nothing else reads the value between them. jaxlib 0.11 leaves barriers out before it looks for patterns, so there oneDNN
must not be used at all.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

from graftax.xla_call_module.jax_versions import Operand
from graftax.xla_call_module.jaxprs import bound, evaluated
from graftax.xla_call_module.lax_extras.inlined_contractions import (
  CONTRACTIONS,
  holds_contractions,
  inlined,
  run_inlined,
)

__all__ = ["with_contraction_barriers"]

P = ParamSpec("P")
T = TypeVar("T")

# What they compute is not told by a jaxpr.
_OPAQUE = ("graftax_linear_call", "ragged_dot_general", "stablehlo_embed")
# Between a number and an array that repeats it.
_FEW_EQUATIONS = 6
_CONTROL_FLOW = ("cond", "scan", "while")


def with_contraction_barriers(function: Callable[P, T]) -> Callable[P, T]:
  """Returns the function with barriers after its contractions. It cannot be differentiated.

  Args:
    function: a function of pytrees of arrays.

  Raises:
    NotImplementedError: when the result is called, if a contraction is inside of an operation that is not known here.

  Example:
    >>> import jax
    >>> import jax.numpy as jnp
    >>> from graftax.xla_call_module.lax_extras import with_contraction_barriers
    >>> dense = with_contraction_barriers(lambda w, x: jax.nn.silu(x @ w))
    >>> [equation.primitive.name for equation in jax.make_jaxpr(dense)(jnp.ones((2, 3)), jnp.ones((1, 2))).eqns]
    ['dot_general', 'optimization_barrier', 'logistic', 'mul']
  """

  return run_inlined(function, _run)


def _run(closed: ClosedJaxpr, operands: Sequence[Operand]) -> list[Operand]:
  """Returns the results of a program without calls, with barriers."""
  found = _Joined.of(closed.jaxpr)

  def results(equation: JaxprEqn, operands: list[Operand]) -> Sequence[Operand]:
    name, params = equation.primitive.name, equation.params
    if name in _CONTROL_FLOW:
      params = {key: _with_barriers_inside(value) for key, value in params.items()}
    elif name in _OPAQUE or holds_contractions(equation):
      raise NotImplementedError(f"{name}: whether it has contractions is not known, or they have no barriers.")
    elif not found.alone.isdisjoint(equation.outvars):
      operands = [lax.optimization_barrier(operands[0]), *operands[1:]]
    pairs = zip(equation.invars, operands, strict=True)
    hidden = [lax.optimization_barrier(x) if atom in found.addends.get(id(equation), ()) else x for atom, x in pairs]
    values = bound(equation, hidden, params)
    return values if found.ends.isdisjoint(equation.outvars) else lax.optimization_barrier(values)

  return evaluated(closed, operands, results)


def _with_barriers_inside(value: Any) -> Any:
  if isinstance(value, tuple):
    return tuple(map(_with_barriers_inside, value))
  if not isinstance(value, ClosedJaxpr):
    return value
  program = inlined(value)
  return jax.make_jaxpr(lambda *operands: _run(program, operands))(*value.in_avals)


_Makers = dict[Var, JaxprEqn]
# None is the result of the program.
_Readers = dict[Var, list[JaxprEqn | None]]


@dataclasses.dataclass
class _Joined:
  """What XLA may join with the contractions of a program.

  Attributes:
    ends: the values that leave them together with what is joined.
    addends: `id` of an equation -> the array that it adds to a contraction.
    alone: the values of contractions that XLA must not merge with equal ones, which have other readers.
  """

  ends: set[Var] = dataclasses.field(default_factory=set)
  addends: dict[int, tuple[Var | Literal]] = dataclasses.field(default_factory=dict)
  alone: set[Var] = dataclasses.field(default_factory=set)

  @classmethod
  def of(cls, jaxpr: Jaxpr) -> "_Joined":
    """Returns what may be joined in a program without calls."""
    readers, found, joined = _readers(jaxpr), cls(), set[Var]()
    makers = {var: equation for equation in jaxpr.eqns for var in equation.outvars}
    for equation in jaxpr.eqns:
      if equation.primitive.name in CONTRACTIONS:
        found._add(equation, readers, makers, joined)
    return found

  def _add(self, contraction: JaxprEqn, readers: _Readers, makers: _Makers, joined: set[Var]) -> None:
    (value,) = contraction.outvars
    for fits in _STEPS if _can_be_joined(contraction) else ():
      (reader, *others) = readers.get(value, [None])
      if reader is not None and not others and joined.isdisjoint(reader.outvars) and fits(reader, value, makers):
        if fits is _is_sum:
          self.addends[id(reader)] = (_other(reader, value),)
        (value,) = reader.outvars
        joined.add(value)
    # Those of different vectors may be merged: then their sums are not joined.
    end = _silu(value, readers) if _is_only_bias(contraction, value, makers) else None
    if end is not None:
      self.alone.update(contraction.outvars)
      joined.add(end)
      value = end
    self.ends.add(value)


def _readers(jaxpr: Jaxpr) -> _Readers:
  """Returns the equations that read each value, once for each operand."""
  found: _Readers = {}
  pairs = [(atom, equation) for equation in jaxpr.eqns for atom in equation.invars]
  for atom, reader in [*pairs, *((atom, None) for atom in jaxpr.outvars)]:
    if isinstance(atom, Var):
      found.setdefault(atom, []).append(reader)
  return found


def _is_only_bias(contraction: JaxprEqn, value: Var, makers: _Makers) -> bool:
  """Returns whether a value that was joined with a contraction is its sum with a bias."""
  adds, (product,) = makers[value], contraction.outvars
  return adds is not contraction and product in adds.invars and _is_bias(adds, product, makers)


def _silu(value: Var, readers: _Readers) -> Var | None:
  """Returns `value * logistic(value)` if nothing else reads the value or its logistic function."""
  found = readers.get(value, [])
  by_name = {reader.primitive.name: reader for reader in found if reader is not None}
  if len(found) != 2 or by_name.keys() != {"logistic", "mul"}:
    return None
  (gate,) = by_name["logistic"].outvars
  product = by_name["mul"]
  return product.outvars[0] if readers.get(gate) == [product] and gate in product.invars else None


def _can_be_joined(contraction: JaxprEqn) -> bool:
  """Returns whether XLA joins a contraction correctly with a bias along its last axis."""
  numbers = contraction.params["dimension_numbers"]
  if contraction.primitive.name == "dot_general":
    pairs = zip(contraction.invars, *numbers, strict=True)
    return all(len(_shape(atom)) > len(contracted) + len(batch) for atom, contracted, batch in pairs)
  return bool(numbers.out_spec[1] == len(numbers.out_spec) - 1)


def _is_bias(equation: JaxprEqn, value: Var, makers: _Makers) -> bool:
  """Returns whether an equation adds a vector to the value, along its last axis."""
  if equation.primitive.name != "add":
    return False
  other, rank = _other(equation, value), len(_shape(value))
  maker = _maker(other, makers)
  if maker is not None and maker.primitive.name == "broadcast_in_dim":
    sizes = zip(maker.params["broadcast_dimensions"], _shape(maker.invars[0]), strict=True)
  else:
    sizes = zip(range(rank - len(_shape(other)), rank), _shape(other), strict=True)
  return [axis for axis, size in sizes if not (isinstance(size, int) and size == 1)] == [rank - 1]


def _is_sum(equation: JaxprEqn, value: Var, makers: _Makers) -> bool:
  """Returns whether an equation adds an array of the same shape."""
  return equation.primitive.name == "add" and _shape(_other(equation, value)) == _shape(value)


def _is_relu(equation: JaxprEqn, value: Var, makers: _Makers) -> bool:
  """Returns whether an equation is `max(value, 0)` or `clamp(0, value, 6)`."""
  if equation.primitive.name == "clamp":
    low, x, high = equation.invars
    return x is value and _number(low, makers) == 0 and _number(high, makers) == 6
  return equation.primitive.name == "max" and _number(_other(equation, value), makers) == 0


def _is_six(equation: JaxprEqn, value: Var, makers: _Makers) -> bool:
  """Returns whether an equation is `min(value, 6)` and its value is `max(..., 0)`, which together are `relu6`."""
  return (
    makers[value].primitive.name == "max"
    and equation.primitive.name == "min"
    and _number(_other(equation, value), makers) == 6
  )


_STEPS = (_is_bias, _is_sum, _is_relu, _is_six)


def _other(equation: JaxprEqn, value: Var) -> Var | Literal:
  left, right = equation.invars
  return right if left is value else left


def _shape(atom: Var | Literal) -> tuple[Any, ...]:
  shape: tuple[Any, ...] = getattr(atom.aval, "shape", ())
  return shape


def _maker(atom: Var | Literal, makers: _Makers) -> JaxprEqn | None:
  return makers.get(atom) if isinstance(atom, Var) else None


def _number(atom: Var | Literal, makers: _Makers) -> Any:
  """Returns the number that all elements of a value are, or None if that is not known after a few equations."""
  for _ in range(_FEW_EQUATIONS):
    maker = _maker(atom, makers)
    if maker is None or maker.primitive.name not in ("broadcast_in_dim", "convert_element_type"):
      break
    atom = maker.invars[0]
  return atom.val if isinstance(atom, Literal) and np.ndim(atom.val) == 0 else None
