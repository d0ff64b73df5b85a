"""Reads a jaxpr as a `Block`: calls are inlined, and bodies read what is around them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Var, jaxpr_as_fun
from jax.extend.core import Literal as JaxLiteral

from graftax.convert.source_code import derivatives
from graftax.convert.source_code.callbacks import callback_error, check_callbacks, is_callback
from graftax.convert.source_code.comparing import same_block
from graftax.convert.source_code.errors import SourceError
from graftax.convert.source_code.program import (
  INSTANCE,
  Block,
  Equation,
  Literal,
  Operand,
  Rule,
  Settings,
  Value,
  free_values,
  substituted,
)
from graftax.convert.source_code.simplifying import simplify
from graftax.xla_call_module import lax_extras

__all__ = ["Reader", "read"]

# Calls whose function is compiled, differentiated or named by itself, and means no other numbers.
_CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr"}
_RULES = {
  "custom_jvp_call": "jvp",
  "custom_vjp_call": "vjp",
  "graftax_linear_call": "vjp",
  "graftax_call_with_tangents": "jvp",
}
# Arrays of this many elements are written into the text.
_MAX_ELEMENTS = 16
_SCOPE_PARTS = re.compile(r"/(?![^()]*\))")
# In a lifted module: returns its operands, or raises on other platforms. It is left out, so that source runs on all.
_PLATFORM_CHECK = "stablehlo_platform_check"


def read(
  closed: ClosedJaxpr, inputs: Sequence[Value], reader: "Reader | None" = None
) -> tuple[Block, dict[Value, np.ndarray]]:
  """Returns a program as a block, and the constants that are too large for a text.

  Args:
    closed: the program.
    inputs: values for its arguments.
    reader: has read the program before, so that rules are not traced again.

  Raises:
    SourceError: the program calls back to Python, or calls what only graftax can run.
  """
  check_callbacks(closed)
  reader = Reader() if reader is None else reader
  reader.restart()
  block = reader.block(closed, list(inputs), ())
  return simplify(block), reader.constants


class Reader:
  """Reads one program.

  Attributes:
    constants: arrays that are not written into the text.
  """

  def __init__(self) -> None:
    self.constants: dict[Value, np.ndarray] = {}
    self._rules: dict[tuple[str, str], tuple[Rule, dict[int, str]]] = {}
    self._undifferentiated: dict[tuple[str, str, str], Rule] = {}
    self._calls = 0
    self._within_rules = 0
    self._known: dict[int, tuple[object, tuple[Rule, dict[int, str]]]] = {}
    # Calls of rules whose blocks are not read yet.
    self._open_calls: dict[int, list[Equation]] = {}
    self._stored: dict[int, tuple[object, bool]] = {}
    self._seen: dict[int, tuple[object, Operand]] = {}
    # Values that do not depend on arguments.
    self._fixed: set[Operand] = set()
    # Which platforms the branches of a conditional are for that reads the value.
    self._platforms: dict[Operand, Sequence[Sequence[str] | None]] = {}

  def restart(self) -> None:
    """Forgets the values of a program, but not its rules."""
    self.constants = {}
    self._seen = {}
    self._calls = 0

  def block(self, closed: ClosedJaxpr, inputs: Sequence[Operand], scope: tuple[str, ...]) -> Block:
    """Returns a closed jaxpr as a block, with these operands for its inputs."""
    env: dict[Var, Operand] = {}
    equations: list[Equation] = []
    for variable, constant in zip(closed.jaxpr.constvars, closed.consts, strict=True):
      env[variable] = self._constant(constant, equations)
    env.update(zip(closed.jaxpr.invars, inputs, strict=True))
    results = self._equations(closed.jaxpr, env, scope, equations)
    return Block([value for value in inputs if isinstance(value, Value)], equations, results)

  def _equations(
    self, jaxpr: Jaxpr, env: dict[Var, Operand], scope: tuple[str, ...], into: list[Equation]
  ) -> list[Operand]:
    """Appends the equations of a jaxpr, and returns its results."""

    def read(atom: Var | JaxLiteral) -> Operand:
      return self._constant(atom.val, into, atom.aval) if isinstance(atom, JaxLiteral) else env[atom]

    for equation in jaxpr.eqns:
      name = equation.primitive.name
      path = (*scope, *_parts(str(equation.source_info.name_stack)))
      operands = [read(atom) for atom in equation.invars]
      if name == _PLATFORM_CHECK or _puts_nowhere(equation):
        env.update(zip(equation.outvars, operands, strict=True))
        continue
      closed, called = None, ""
      if name in _CALLS:
        closed, called = _closed(equation.params[_CALLS[name]]), str(equation.params.get("name", ""))
      elif name in _RULES and (not derivatives.has_derivative(equation) or derivatives.is_nearly_own(equation)):
        closed, operands = derivatives.primal(equation), _distinct(equation, operands)
      elif name in _RULES and self._within_rules and self._is_stored(equation):
        # A stored gradient has a stored gradient itself, and so on without end. From the second order on, JAX
        # differentiates the code.
        closed, operands = derivatives.primal(equation), _distinct(equation, operands)
      elif name == "call_hi_primitive":
        closed = _expanded(equation)
      if closed is not None:
        inner = dict(zip(closed.jaxpr.invars, operands, strict=True))
        inner.update((v, self._constant(c, into)) for v, c in zip(closed.jaxpr.constvars, closed.consts, strict=True))
        if _is_scope(called, closed):
          self._calls += 1
          path = (*path, f"{called}{INSTANCE}{self._calls}")
        results = self._equations(closed.jaxpr, inner, path, into)
        env.update(zip(equation.outvars, results, strict=True))
        continue
      outputs = [_value(variable.aval) for variable in equation.outvars]
      env.update(zip(equation.outvars, outputs, strict=True))
      if name in _RULES:
        into.append(self._call_of_rule(equation, operands, outputs, path, into))
        continue
      into.append(self._equation(equation, operands, outputs, path))
      if not into[-1].bodies and all(self._is_fixed(operand) for operand in operands):
        self._fixed.update(outputs)
    return [read(atom) for atom in jaxpr.outvars]

  def _equation(
    self, equation: JaxprEqn, operands: list[Operand], outputs: list[Value], path: tuple[str, ...]
  ) -> Equation:
    name, params = equation.primitive.name, dict(equation.params)
    if is_callback(name):
      # Of a rule of derivatives: `check_callbacks` has listed those of the program.
      raise callback_error([f"{name} in scope {'/'.join(path)!r}"])
    refused = _refused(equation)
    if refused is not None:
      raise SourceError(f"{name} in scope {'/'.join(path)!r} is not written: it is {refused}.")
    if name == "scan":
      return self._scan(params, operands, outputs, path)
    if name == "while":
      return self._while(params, operands, outputs, path)
    if name == "cond":
      branches = {f"branch{i}": self._closing(branch, operands[1:], ()) for i, branch in enumerate(params["branches"])}
      if operands[0] in self._platforms:
        return Equation("cond", [], outputs, {"platforms": self._platforms[operands[0]]}, branches, path)
      return Equation("cond", operands[:1], outputs, {}, branches, path)
    if name == "platform_index":
      self._platforms[outputs[0]] = params["platforms"]
    if name in ("remat2", "checkpoint", "remat"):
      inputs = [_like(operand) for operand in operands]
      body = self.block(_closed(params["jaxpr"]), inputs, ())
      settings = {"policy": params["policy"], "prevent_cse": params["prevent_cse"]}
      return Equation("checkpoint", operands, outputs, settings, {"body": body}, path)
    if name in ("reduce", "reduce_window") and "jaxpr" in params:
      return self._reduction(name, params, operands, outputs, path)
    if name == "custom_linear_solve":
      return self._linear_solve(params, operands, outputs, path)
    # Sums of cotangents are sums.
    return Equation("add" if name == "add_any" else name, operands, outputs, _normal(name, params), {}, path)

  def _closing(self, jaxpr: ClosedJaxpr, operands: Sequence[Operand], path: tuple[str, ...]) -> Block:
    """Returns a block without inputs, which reads the operands where it is."""
    block = self.block(_closed(jaxpr), operands, path)
    block.inputs = []
    return block

  def _scan(
    self, params: Mapping[str, Any], operands: list[Operand], outputs: list[Value], path: tuple[str, ...]
  ) -> Equation:
    closed = _closed(params["jaxpr"])
    num_consts, num_carry = lax_extras.scan_sizes(params)
    carried = [_value(v.aval) for v in closed.jaxpr.invars[num_consts:]]
    body = self.block(closed, [*operands[:num_consts], *carried], ())
    body.inputs = carried
    settings: Settings = {
      "num_carry": num_carry,
      "length": params["length"],
      "reverse": params["reverse"],
      "unroll": params["unroll"],
    }
    return Equation("scan", operands[num_consts:], outputs, settings, {"body": body}, path)

  def _while(
    self, params: Mapping[str, Any], operands: list[Operand], outputs: list[Value], path: tuple[str, ...]
  ) -> Equation:
    first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    condition, repeated = _closed(params["cond_jaxpr"]), _closed(params["body_jaxpr"])
    consts_of_body = operands[first:second]
    if condition.out_avals[0].shape:
      repeated = _where_condition_holds(condition, repeated, first, second)
      condition, consts_of_body = _while_any(condition), operands[:second]
    bodies: dict[str, Block] = {}
    for role, closed, consts in (("condition", condition, operands[:first]), ("body", repeated, consts_of_body)):
      carried = [_value(v.aval) for v in closed.jaxpr.invars[len(consts) :]]
      bodies[role] = self.block(closed, [*consts, *carried], ())
      bodies[role].inputs = carried
    return Equation("while", operands[second:], outputs, {}, bodies, path)

  def _reduction(
    self, name: str, params: dict[str, Any], operands: list[Operand], outputs: list[Value], path: tuple[str, ...]
  ) -> Equation:
    """Returns a reduction by a function, whose body takes what is reduced so far and then the next elements."""
    closed = ClosedJaxpr(params.pop("jaxpr"), params.pop("consts", ()))
    params.pop("computation", None)
    body = self.block(closed, [_value(v.aval) for v in closed.jaxpr.invars], ())
    return Equation(name, operands, outputs, _normal(name, params), {"body": body}, path)

  def _linear_solve(
    self, params: Mapping[str, Any], operands: list[Operand], outputs: list[Value], path: tuple[str, ...]
  ) -> Equation:
    given: dict[str, list[Operand]] = {}
    start = 0
    for role in ("matvec", "vecmat", "solve", "transpose_solve"):
      count = getattr(params["const_lengths"], role)
      given[role] = operands[start : start + count]
      start += count

    def body(role: str) -> Block:
      closed = _closed(getattr(params["jaxprs"], role))
      vectors = [_value(v.aval) for v in closed.jaxpr.invars[len(given[role]) :]]
      block = self.block(closed, [*given[role], *vectors], ())
      block.inputs = vectors
      return block

    bodies = {role: body(role) for role in ("matvec", "solve")}
    symmetric = False
    if params["jaxprs"].transpose_solve is not None:
      transposed = body("transpose_solve")
      # JAX keeps no flag: a symmetric solver has the same functions twice.
      symmetric = same_block(bodies["solve"], transposed) and same_block(bodies["matvec"], body("vecmat"))
      if not symmetric:
        bodies["transpose_solve"] = transposed
    settings: Settings = {"symmetric": symmetric}
    return Equation("custom_linear_solve", operands[start:], outputs, settings, bodies, path)

  def _is_stored(self, equation: JaxprEqn) -> bool:
    if id(equation) not in self._stored:
      self._stored[id(equation)] = (equation, derivatives.is_stored(equation))
    return self._stored[id(equation)][1]

  def _call_of_rule(
    self,
    equation: JaxprEqn,
    operands: list[Operand],
    outputs: list[Value],
    path: tuple[str, ...],
    into: list[Equation],
  ) -> Equation:
    # A stored gradient is a gradient of reverse mode only, although its equation may have a rule for forward mode.
    kind = "vjp" if self._is_stored(equation) else _RULES[equation.primitive.name]
    rule, refused = self._rule(equation, kind)
    distinct = _distinct(equation, operands)
    for i, message in refused.items() if not rule.error else ():
      if not self._is_fixed(distinct[i]):
        into.append(self._undifferentiable(distinct[i], message, path))
        distinct[i] = into[-1].outputs[0]
    call = Equation("custom_" + rule.kind, distinct, outputs, {"rule": rule}, {}, path)
    if id(rule) in self._open_calls:
      self._open_calls[id(rule)].append(call)
    call.inputs += [self._constant(array, into) for array in rule.constants]
    return call

  def _is_fixed(self, operand: Operand) -> bool:
    """Returns whether an operand does not depend on arguments, as far as this is known."""
    return not isinstance(operand, Value) or operand in self._fixed or operand in self.constants or operand.is_constant

  def _undifferentiable(self, operand: Operand, message: str, path: tuple[str, ...]) -> Equation:
    """Returns an equation that returns a value, and has an error for its derivative."""
    key = message, str(operand.shape), str(operand.dtype)
    if key not in self._undifferentiated:
      x = _like(operand)
      rule = Rule("jvp", "not_differentiable", Block([x], [], [x]), error=message)
      rule.differentiable = rule.results_differentiable = (True,)
      self._undifferentiated[key] = rule
    return Equation("custom_jvp", [operand], [_like(operand)], {"rule": self._undifferentiated[key]}, {}, path)

  def _rule(self, equation: JaxprEqn, kind: str) -> tuple[Rule, dict[int, str]]:
    """Returns the rule of a call, and the arguments for which the rule raises an error: position -> message."""
    if id(equation) in self._known:
      return self._known[id(equation)][1]
    traced = derivatives.trace(equation, kind)
    key = (traced.key, kind)
    if key in self._rules:
      self._known[id(equation)] = (equation, self._rules[key])
      return self._rules[key]
    rule = Rule(kind, traced.name, Block([], [], []))
    # The rule may call the function itself, so it is known before its blocks are read.
    self._rules[key] = rule, traced.refused
    self._open_calls[id(rule)] = []
    rule.num_residuals = traced.num_residuals
    rule.differentiable, rule.results_differentiable = traced.differentiable, traced.results_differentiable
    rule.primal = self._closed_block(traced.primal)
    if not traced.jaxprs:
      rule.kind, rule.error = "jvp", next(iter(traced.refused.values()))
    elif kind == "jvp":
      rule.jvp = jaxpr_as_fun(traced.jaxprs["jvp"])
    self._within_rules += 1
    for role, jaxpr in traced.jaxprs.items():
      fixed = [role != "bwd" and not moving for moving in traced.differentiable]
      rule.blocks[role] = self._closed_block(jaxpr, fixed)
    self._within_rules -= 1
    self._pass_constants(rule, self._open_calls.pop(id(rule)))
    return self._rules[key]

  def _pass_constants(self, rule: Rule, calls: Sequence[Equation]) -> None:
    """Makes the large constants of a rule arguments of its functions, in place; `calls` are those in its own blocks."""
    blocks = [rule.primal, *rule.blocks.values()]
    constants = list(dict.fromkeys(v for block in blocks for v in free_values(block) if v in self.constants))
    if not constants:
      return
    rule.constants = [self.constants[value] for value in constants]
    for call in calls:
      call.inputs += constants
    num_inputs = len(rule.primal.inputs)
    places = {"jvp": num_inputs, "fwd": num_inputs, "bwd": rule.num_residuals}
    for block, place in [(rule.primal, num_inputs), *((rule.blocks[role], places[role]) for role in rule.blocks)]:
      own = [Value(value.shape, value.dtype) for value in constants]
      substituted(block, dict(zip(constants, own, strict=True)))
      block.inputs[place:place] = own
      if block is rule.blocks.get("fwd"):
        block.results += own
    if rule.kind == "vjp":
      rule.num_residuals += len(constants)
    rule.differentiable += (False,) * len(constants)

  def _closed_block(self, closed: ClosedJaxpr, fixed: Sequence[bool] = ()) -> Block:
    """Returns a jaxpr as a block; `fixed` says which of its first inputs have no derivative around it."""
    inputs = [_value(v.aval) for v in closed.jaxpr.invars]
    self._fixed.update(value for value, is_fixed in zip(inputs, fixed, strict=False) if is_fixed)
    return simplify(self.block(closed, inputs, ()))

  def _constant(self, value: Any, into: list[Equation], aval: Any = None) -> Operand:
    """Returns a constant: a literal, the result of an equation that makes it, or a value if it is large."""
    if isinstance(value, (bool, int, float, complex)) and aval is not None:
      return Literal(np.asarray(value, aval.dtype))
    if id(value) in self._seen:
      return self._seen[id(value)][1]
    if hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jax.dtypes.extended):
      raise SourceError("a random key is a constant of the program; pass keys as arguments.")
    array = np.asarray(value)
    made = _made(array)
    if made is not None:
      into.append(made)
      return made.outputs[0]
    operand: Operand = Literal(array)
    if array.size > _MAX_ELEMENTS:
      operand = Value(array.shape, array.dtype, "constant")
      self.constants[operand] = array
    self._seen[id(value)] = (value, operand)
    return operand


def _while_any(condition: ClosedJaxpr) -> ClosedJaxpr:
  """Returns the condition of a loop over a batch, which runs as long as that of one element holds."""

  def run(*arrays: jax.Array) -> jax.Array:
    return jnp.any(jaxpr_as_fun(condition)(*arrays)[0])

  return jax.make_jaxpr(run)(*_specs(condition.in_avals))


def _where_condition_holds(condition: ClosedJaxpr, body: ClosedJaxpr, first: int, second: int) -> ClosedJaxpr:
  """Returns the body of a loop over a batch, which keeps the elements whose condition does not hold.

  Args:
    condition: reads `first` constants, then what the loop carries.
    body: reads `second - first` constants, then what the loop carries.
    first: how many constants the condition has.
    second: how many both have: the first arguments of the result.
  """

  def run(*arrays: jax.Array) -> list[jax.Array]:
    carried = arrays[second:]
    holds = jaxpr_as_fun(condition)(*arrays[:first], *carried)[0]
    changed = jaxpr_as_fun(body)(*arrays[first:])
    return [
      jnp.where(jax.lax.expand_dims(holds, range(holds.ndim, new.ndim)), new, old)
      for new, old in zip(changed, carried, strict=True)
    ]

  return jax.make_jaxpr(run)(*_specs([*condition.in_avals[:first], *body.in_avals]))


def _specs(avals: Sequence[Any]) -> list[jax.ShapeDtypeStruct]:
  return [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]


def _made(array: np.ndarray) -> Equation | None:
  """Returns the equation that makes an array which is all one number, or counts from 0."""
  out = Value(array.shape, array.dtype, is_constant=True)
  if array.ndim == 0 or array.size == 0:
    return None
  if array.tobytes() == np.full_like(array, array.reshape(-1)[0]).tobytes():
    return Equation(
      "broadcast_in_dim", [Literal(array.reshape(-1)[0].reshape(()))], [out], {"broadcast_dimensions": ()}
    )
  if array.ndim == 1 and array.dtype.kind in "iu" and (array == np.arange(array.size)).all():
    settings: Settings = {"dtype": array.dtype, "shape": array.shape, "dimension": 0}
    return Equation("iota", [], [out], settings)
  return None


def _expanded(equation: JaxprEqn) -> ClosedJaxpr | None:
  """Returns the program of a primitive that JAX expands before lowering; None if it has a function or a derivative."""
  primitive = equation.params["_prim"]
  arrays, *_ = primitive.in_avals
  if type(primitive).__name__ == "SearchSorted" and len(arrays.shape) == 1:
    return None
  if any(derivatives.is_inexact(variable.aval) for variable in equation.outvars):
    return None
  leaves, tree = jax.tree.flatten(primitive.in_avals)

  def function(*arrays: jax.Array) -> list[jax.Array]:
    return jax.tree.leaves(primitive.expand(*jax.tree.unflatten(tree, arrays)))

  return jax.make_jaxpr(function)(*[jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves])


def _refused(equation: JaxprEqn) -> str | None:
  """Returns what an equation is in JAX's public functions and what to do instead, if no source is written for it."""
  name, params = equation.primitive.name, equation.params
  if name == "call_hi_primitive" and type(params.get("_prim")).__name__ == "CustomRoot":
    return "jax.lax.custom_root; give the solver a derivative with jax.custom_jvp or jax.custom_vjp instead"
  update = params.get("update_jaxpr") if name == "scatter" else None
  if update is not None and getattr(update, "jaxpr", update).eqns:
    return "x.at[...].apply(function); use x.at[...].set(function(x[...])) instead"
  return None


def _puts_nowhere(equation: JaxprEqn) -> bool:
  """Returns whether an equation is a `jax.device_put` that names no device, as those in `jax.scipy.sparse.linalg`."""
  return equation.primitive.name == "device_put" and all(place is None for place in equation.params["devices"])


def _distinct(equation: JaxprEqn, operands: Sequence[Operand]) -> list[Operand]:
  """Returns the operands without literals and without repetitions."""
  distinct = dict.fromkeys(v for v in equation.invars if not isinstance(v, JaxLiteral))
  return [operands[equation.invars.index(v)] for v in distinct]


def _closed(jaxpr: ClosedJaxpr) -> ClosedJaxpr:
  return jaxpr if hasattr(jaxpr, "jaxpr") and hasattr(jaxpr, "consts") else ClosedJaxpr(jaxpr, ())


def _value(aval: Any) -> Value:
  return Value(tuple(aval.shape), aval.dtype)


def _like(operand: Operand) -> Value:
  return Value(operand.shape, operand.dtype)


def _parts(stack: str) -> list[str]:
  return [part for part in _SCOPE_PARTS.split(stack) if part]


def _is_scope(name: str, closed: ClosedJaxpr) -> bool:
  """Returns whether a compiled function is a level of its own: helpers of jnp are not."""
  return len(closed.jaxpr.eqns) > 8 and not name.startswith("_")


def _is_trivial(sharding: Any) -> bool:
  """Returns whether a sharding says nothing: casts in derivatives have one over no axes at all."""
  return sharding is None or bool(getattr(getattr(sharding, "mesh", None), "empty", False))


_IGNORED = frozenset(("sharding", "out_sharding", "weak_type", "algorithm"))
# Operations whose result depends on the algorithm by more than rounding.
_DEPENDS_ON_ALGORITHM = frozenset(("rng_bit_generator",))


def _normal(name: str, params: Mapping[str, Any]) -> dict[str, object]:
  """Returns the parameters of a primitive without what says nothing: None, and shardings that are not set."""
  for setting in ("sharding", "out_sharding"):
    if not _is_trivial(params.get(setting)):
      raise SourceError(f"a {setting} of an operation is not written; remove sharding constraints first.")
  ignored = _IGNORED - {"algorithm"} if name in _DEPENDS_ON_ALGORITHM else _IGNORED
  return {setting: value for setting, value in sorted(params.items()) if setting not in ignored and value is not None}
