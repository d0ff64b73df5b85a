"""Where a JAX function uses its parameters: in which order, for what, and what comes out there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from graftax.savedmodel_io.matching.layouts import Array

__all__ = ["Use", "UsedFunction", "nearest_followers", "trace_uses"]

# Primitives that call a function whose equations take their place, and the names of the function in their parameters.
_CALLS = frozenset(
  ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "checkpoint", "remat", "remat2")
)
# Equations after the last parameter of a layer within which its result is looked for.
_LONGEST_LAYER = 60
_FUNCTIONS = ("jaxpr", "call_jaxpr", "fun_jaxpr")


@dataclass(frozen=True, slots=True)
class Use:
  """The first time that a parameter meets data.

  Attributes:
    position: the number of the equation.
    primitive: its primitive, such as "dot_general".
  """

  position: int
  primitive: str


@dataclass(frozen=True, slots=True)
class UsedFunction:
  """A function of parameters and data as a list of equations.

  Attributes:
    uses: name of a parameter -> its first use; parameters without use are left out.
  """

  uses: Mapping[str, Use]
  _equations: tuple["_Equation", ...] = field(repr=False)
  _inputs: Mapping[str, int] = field(repr=False)
  _data: tuple[int, ...] = field(repr=False)
  _constants: Mapping[int, Array] = field(repr=False)
  _outputs: tuple[int, ...] = field(repr=False)
  _last_uses: Mapping[int, int] = field(repr=False)

  def result(self, names: Sequence[str]) -> int | None:
    """Returns the number of the value through which all that depends on some parameters goes on; None without use.

    A layer may be computed in several forms, as `(x - mean) * (scale * rsqrt(variance)) + bias` or with the bias and
    the mean combined first. The value after which only one is left is the same in all of them.
    """
    used = {self.uses[name].position for name in names if name in self.uses}
    if not used:
      return None
    first, last = min(used), max(used)
    alive: set[int] = set()
    for position in range(first, min(len(self._equations), last + _LONGEST_LAYER)):
      equation = self._equations[position]
      if position in used or not alive.isdisjoint(equation.inputs):
        alive.update(equation.outputs)
      alive = {number for number in alive if self._last_uses.get(number, -1) > position}
      if position >= last and len(alive) == 1:
        return alive.pop()
    return self._equations[last].outputs[0]

  def followers(self, layers: Sequence[Sequence[str]]) -> list[frozenset[int]]:
    """Returns which layers the results of layers go to directly; `len(layers)` stands for the outputs.

    Args:
      layers: the names of each layer's parameters.
    """
    of_position: dict[int, set[int]] = {}
    for index, names in enumerate(layers):
      for name in names:
        if name in self.uses:
          of_position.setdefault(self.uses[name].position, set()).add(index)
    return [self._followers(index, self.result(names), of_position, len(layers)) for index, names in enumerate(layers)]

  def _followers(self, layer: int, start: int | None, of_position: Mapping[int, set[int]], end: int) -> frozenset[int]:
    if start is None:
      return frozenset()
    alive, found = {start}, set[int]()
    if start in self._outputs:
      found.add(end)
    for position, equation in enumerate(self._equations):
      if alive.isdisjoint(equation.inputs):
        continue
      reached = of_position.get(position, set()) - {layer}
      found |= reached
      if not reached:
        alive.update(equation.outputs)
        if not set(equation.outputs).isdisjoint(self._outputs):
          found.add(end)
      if max(self._last_uses.get(number, -1) for number in alive) <= position:
        break
    return frozenset(found)

  def run(self, params: Mapping[str, Array], args: object, wanted: Sequence[int]) -> tuple[list[Array], list[Array]]:
    """Returns the outputs and the values of some numbers. It can be traced."""
    values: dict[int, Array] = dict(self._constants)
    values.update({number: params[name] for name, number in self._inputs.items()})
    values.update(zip(self._data, jax.tree.leaves(args), strict=True))
    for equation in self._equations:
      inputs = [values[operand] for operand in equation.inputs]
      results = equation.eqn.primitive.bind(*inputs, **equation.eqn.params)
      several = equation.eqn.primitive.multiple_results
      values.update(zip(equation.outputs, results if several else [results], strict=True))
    return [values[number] for number in self._outputs], [values[number] for number in wanted]


@dataclass(frozen=True, slots=True)
class _Equation:
  eqn: JaxprEqn
  inputs: tuple[int, ...]
  outputs: tuple[int, ...]


@dataclass(slots=True)
class _Flattening:
  equations: list[_Equation] = field(default_factory=list)
  constants: dict[int, Array] = field(default_factory=dict)
  count: int = 0

  def new(self) -> int:
    self.count += 1
    return self.count - 1

  def constant(self, value: Array) -> int:
    number = self.new()
    self.constants[number] = value
    return number

  def inline(self, jaxpr: Jaxpr | ClosedJaxpr, arguments: Sequence[int]) -> list[int]:
    """Appends the equations of a function; returns the numbers of its results."""
    consts: list[int] = []
    if isinstance(jaxpr, ClosedJaxpr):
      consts = [self.constant(value) for value in jaxpr.consts]
      jaxpr = jaxpr.jaxpr
    numbers = dict(zip(jaxpr.constvars, consts, strict=True))
    numbers.update(zip(jaxpr.invars, arguments, strict=True))

    def read(atom: object) -> int:
      return self.constant(atom.val) if isinstance(atom, Literal) else numbers[atom]  # type: ignore[index]

    for eqn in jaxpr.eqns:
      inputs = [read(atom) for atom in eqn.invars]
      function = _called(eqn)
      if function is not None:
        outputs = self.inline(function, inputs)
      else:
        outputs = [self.new() for _ in eqn.outvars]
        self.equations.append(_Equation(eqn, tuple(inputs), tuple(outputs)))
      numbers.update(zip(eqn.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _called(eqn: JaxprEqn) -> Jaxpr | ClosedJaxpr | None:
  if eqn.primitive.name not in _CALLS:
    return None
  function = next((eqn.params[name] for name in _FUNCTIONS if name in eqn.params), None)
  return function if isinstance(function, Jaxpr | ClosedJaxpr) else None


def trace_uses(function: Callable[..., object], params: Mapping[str, Array], args: Sequence[object]) -> UsedFunction:
  """Traces `function(params, *args)`, whose result may be any pytree, and finds where it uses parameters."""
  names = list(params)
  jaxpr = jax.make_jaxpr(function)(dict(params), *args)
  flattening = _Flattening()
  leaves = jax.tree.leaves(dict(params))
  order = jax.tree.leaves(jax.tree.unflatten(jax.tree.structure(dict(params)), range(len(leaves))))
  assert order == list(range(len(leaves)))  # one leaf for each name
  inputs = {name: flattening.new() for name in sorted(names)}
  data = tuple(flattening.new() for _ in jax.tree.leaves(tuple(args)))
  outputs = flattening.inline(jaxpr, [*inputs.values(), *data])
  return UsedFunction(
    uses=_first_uses(flattening.equations, inputs, data),
    _equations=tuple(flattening.equations),
    _inputs=inputs,
    _data=data,
    _constants=flattening.constants,
    _outputs=tuple(outputs),
    _last_uses=_last_uses(flattening.equations, outputs),
  )


def nearest_followers(followers: Sequence[frozenset[int]]) -> tuple[list[frozenset[int]], list[frozenset[int]]]:
  """Returns all layers that each layer's result reaches, and those of them that it reaches through no other layer.

  Args:
    followers: what `UsedFunction.followers` returns for layers in the order of use.
  """
  reached: list[frozenset[int]] = [frozenset()] * len(followers)
  for k in reversed(range(len(followers))):
    later = [j for j in followers[k] if k < j < len(followers)]
    reached[k] = followers[k].union(*(reached[j] for j in later))
  nearest = [
    frozenset(j for j in found if not any(j in reached[other] for other in found if other not in (j, len(followers))))
    for found in followers
  ]
  return reached, nearest


def _last_uses(equations: Sequence[_Equation], outputs: Sequence[int]) -> dict[int, int]:
  """Returns number of a value -> position of the last equation that reads it; results are read after all."""
  found = {number: position for position, equation in enumerate(equations) for number in equation.inputs}
  return {**found, **dict.fromkeys(outputs, len(equations))}


def _first_uses(equations: Sequence[_Equation], inputs: Mapping[str, int], data: Sequence[int]) -> dict[str, Use]:
  of_params: dict[int, frozenset[str]] = {number: frozenset([name]) for name, number in inputs.items()}
  of_data = set(data)
  uses: dict[str, Use] = {}
  for position, equation in enumerate(equations):
    params = frozenset[str]().union(*(of_params.get(number, frozenset()) for number in equation.inputs))
    if of_data.isdisjoint(equation.inputs):
      if params:
        of_params.update(dict.fromkeys(equation.outputs, params))
      continue
    of_data.update(equation.outputs)
    use = Use(position, equation.eqn.primitive.name)
    for name in params:
      uses.setdefault(name, use)
  return uses
