"""What the scopes of a traced function compute and move: operations and bytes, from its jaxpr."""

import dataclasses
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

__all__ = ["ScopeCost", "scope_costs"]

# Primitives that move numbers and compute none.
_MOVES = frozenset(
  "bitcast_convert_type broadcast_in_dim concatenate convert_element_type copy copy_p device_put dynamic_slice "
  "dynamic_update_slice gather iota pad reshape rev select_n slice split squeeze stop_gradient transpose".split()
)
# The function that runs, among the jaxprs of a call; the others are its derivatives.
_BODIES = ("call_jaxpr", "jaxpr", "fun_jaxpr", "body_jaxpr")


@dataclasses.dataclass(frozen=True, slots=True)
class ScopeCost:
  """What a scope costs, with all scopes in it.

  Attributes:
    scope: its path; "" is the whole function.
    flops: floating-point and other operations; a multiplication and an addition of a matrix product are two, and
      products with padding count.
    size_bytes: what its operations read and write, without fusion.
  """

  scope: str
  flops: int
  size_bytes: int


def scope_costs(closed: ClosedJaxpr) -> tuple[ScopeCost, ...]:
  """Returns the cost of each scope of a jaxpr, sorted by scope.

  A `scan` counts all of its iterations, a `while_loop` one, and a conditional its most expensive branch.
  """
  totals: dict[str, list[int]] = defaultdict(lambda: [0, 0], {"": [0, 0]})
  for scope, flops, size_bytes in _costs(closed.jaxpr, ""):
    parts = scope.split("/") if scope else []
    for depth in range(len(parts) + 1):
      total = totals["/".join(parts[:depth])]
      total[0] += flops
      total[1] += size_bytes
  return tuple(ScopeCost(scope, *total) for scope, total in sorted(totals.items()))


def _costs(jaxpr: Jaxpr, outer: str) -> Iterator[tuple[str, int, int]]:
  for equation in jaxpr.eqns:
    scope = "/".join(filter(None, (outer, str(equation.source_info.name_stack))))
    bodies = _bodies(equation)
    if not bodies:
      yield scope, _flops(equation), _size_bytes([*equation.invars, *equation.outvars])
      continue
    times = equation.params["length"] if equation.primitive.name == "scan" else 1
    costs = [[(s, flops * times, size * times) for s, flops, size in _costs(body, scope)] for body in bodies]
    yield from max(costs, key=lambda cost: sum(flops for _, flops, _ in cost))


def _bodies(equation: JaxprEqn) -> list[Jaxpr]:
  """Returns the jaxprs of an equation; a call runs one of them."""
  params = equation.params
  if "branches" in params:
    return [branch.jaxpr for branch in params["branches"]]
  for name in _BODIES:
    if name in params:
      body = params[name]
      return [getattr(body, "jaxpr", body)]
  return []


def _flops(equation: JaxprEqn) -> int:
  name, params = equation.primitive.name, equation.params
  results = sum(_num_elements(variable) for variable in equation.outvars)
  if name == "dot_general":
    ((contracted, _), _) = params["dimension_numbers"]
    shape = _shape(equation.invars[0])
    return 2 * results * math.prod(shape[axis] for axis in contracted)
  if name == "conv_general_dilated":
    kernel = _shape(equation.invars[1])
    return 2 * results * math.prod(kernel) // max(kernel[params["dimension_numbers"].rhs_spec[0]], 1)
  if name in _MOVES:
    return 0
  if name.startswith(("reduce", "arg", "cum", "sort")):
    return sum(_num_elements(variable) for variable in equation.invars)
  return results


def _size_bytes(variables: Sequence[Var | Literal]) -> int:
  return sum(_num_elements(v) * getattr(getattr(v.aval, "dtype", None), "itemsize", 0) for v in variables)


def _num_elements(variable: Var | Literal) -> int:
  return math.prod(_shape(variable))


def _shape(variable: Var | Literal) -> tuple[int, ...]:
  """Returns the shape of an array; () for what has none, such as a token."""
  found: tuple[int, ...] = getattr(variable.aval, "shape", ())
  return found
