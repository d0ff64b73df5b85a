"""Joins a function with the identity after it that has the function's derivative.

TensorFlow's functions with a gradient of their own, such as `tf.nn.silu`, are stored in a SavedModel as their
operations, followed by an identity of results and arguments whose gradient is the function's.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence

import jax

from graftax.convert.source_code.errors import SourceError
from graftax.convert.source_code.idioms.matching import matched
from graftax.convert.source_code.program import (
  Block,
  Equation,
  Literal,
  Operand,
  Rule,
  Value,
  free_values,
  substituted,
  uses,
)
from graftax.convert.source_code.spelling.choosing import traced

__all__ = ["DERIVATIVES", "join_identities"]

DERIVATIVES: dict[str, Callable[[jax.Array, jax.Array], jax.Array]] = {
  "silu": lambda x, cotangent: cotangent * (jax.nn.sigmoid(x) * (1.0 + x * (1.0 - jax.nn.sigmoid(x))))
}
"""TensorFlow's derivatives of functions of `jax.nn` that differ from JAX's by rounding alone."""


def join_identities(block: Block) -> None:
  """Makes such a function and its identity one function with a rule, in place; its parts may have no reader."""
  counts = Counter(uses(block))
  producers = {value: equation for equation in block.equations for value in equation.outputs}
  for equation in block.equations:
    for body in equation.bodies.values():
      join_identities(body)
    if equation.op == "custom_vjp":
      _join(equation, producers, counts)


def _join(equation: Equation, producers: dict[Value, Equation], counts: Counter[Value]) -> None:
  rule = equation.settings["rule"]
  assert isinstance(rule, Rule)
  read = [i for i, value in enumerate(equation.outputs) if counts[value]]
  if len(read) != 1 or len(equation.inputs) != 2 or rule.primal.equations or not all(rule.differentiable):
    return
  result = rule.primal.results[read[0]]
  if not isinstance(result, Value) or result not in rule.primal.inputs:
    return
  position = rule.primal.inputs.index(result)
  function, x = equation.inputs[position], equation.inputs[1 - position]
  producer = producers.get(function) if isinstance(function, Value) else None
  if producer is None or not isinstance(x, Value) or producer.inputs != [x] or producer.bodies:
    return
  if len(producer.outputs) != 1 or counts[producer.outputs[0]] != 1:
    return
  joined = _joined(rule, producer, position, read[0])
  if joined is not None:
    equation.inputs, equation.outputs = [x], [equation.outputs[read[0]]]
    equation.settings = {"rule": joined}
    if _is_known_derivative(joined):
      equation.op, equation.settings = producer.op, producer.settings


def _is_known_derivative(rule: Rule) -> bool:
  """Returns whether a function of `jax.nn` has the derivative that it has in JAX."""
  derivative, backward = DERIVATIVES.get(rule.name), rule.blocks["bwd"]
  if derivative is None:
    return False
  try:
    pattern = traced(derivative, [Value(value.shape, value.dtype) for value in backward.inputs])
  except SourceError:
    return False
  producers = {value: equation for equation in backward.equations for value in equation.outputs}
  root = producers.get(backward.results[0]) if isinstance(backward.results[0], Value) else None
  match = None if root is None else matched(pattern, root, producers, frozenset())
  return match is not None and [match.operands.get(value) for value in pattern.inputs] == backward.inputs


def _joined(rule: Rule, function: Equation, position: int, output: int) -> Rule | None:
  """Returns the function with the derivative that an identity has; None if the identity's derivative is another one.

  Args:
    rule: the identity.
    function: one operation, of the identity's other argument.
    position: which argument of the identity the function's result is; its derivative must be zero.
    output: which result of the identity that argument is.
  """
  forward, backward = rule.blocks["fwd"], rule.blocks["bwd"]
  made = {value: equation for equation in backward.equations for value in equation.outputs}
  if not _is_zero(backward.results[position], made):
    return None
  residuals = backward.inputs[: rule.num_residuals]
  moving = [i for i, is_moving in enumerate(rule.results_differentiable) if is_moving]
  if output not in moving:
    return None
  cotangent = backward.inputs[rule.num_residuals + moving.index(output)]
  needed = _needed(backward, backward.results[1 - position])
  stored = forward.results[len(rule.primal.results) :]
  kept = [i for i, value in enumerate(residuals) if value in free_values(needed)]
  # All that the derivative reads is the argument, and the cotangent of the one result.
  if any(stored[i] is not forward.inputs[1 - position] for i in kept):
    return None
  if any(value not in (*residuals, cotangent) for value in free_values(needed)):
    return None
  # Derivatives of these are finite, so that what JAX adds for the function, zero times its derivative, is zero.
  name = re.match(r"jax\.nn\.(\w+)\(", str(function.settings.get("text", "")))
  if name is None:
    return None
  primal, (x,), (result,) = _copy(function)
  pushed, (x2,), (result2,) = _copy(function)
  pushed.results = [result2, x2]
  new = Rule("vjp", name[1], primal, {}, 1, (True,), (True,))
  argument = Value(x.shape, x.dtype)
  substituted(needed, dict.fromkeys((residuals[i] for i in kept), argument))
  needed.inputs = [argument, cotangent]
  new.blocks = {"fwd": pushed, "bwd": needed}
  return new


def _is_zero(operand: Operand, made: dict[Value, Equation]) -> bool:
  """Returns whether an operand is an array of zeros."""
  if isinstance(operand, Literal):
    return not operand.array.any()
  producer = made.get(operand)
  return producer is not None and producer.op == "broadcast_in_dim" and _is_zero(producer.inputs[0], made)


def _needed(block: Block, result: Operand) -> Block:
  """Returns copies of the equations that a result of a block depends on."""
  made = {value: equation for equation in block.equations for value in equation.outputs}
  found: set[int] = set()
  waiting: list[Operand] = [result]
  while waiting:
    operand = waiting.pop()
    producer = made.get(operand) if isinstance(operand, Value) else None
    if producer is not None and id(producer) not in found:
      found.add(id(producer))
      waiting += list(uses(Block([], [producer], [])))
  equations = [
    Equation(e.op, list(e.inputs), e.outputs, e.settings, e.bodies, e.scope) for e in block.equations if id(e) in found
  ]
  return Block([], equations, [result])


def _copy(function: Equation) -> tuple[Block, Sequence[Value], Sequence[Value]]:
  """Returns one operation as a function, with its argument and its result."""
  (given,) = function.inputs
  x = Value(given.shape, given.dtype)
  out = Value(function.outputs[0].shape, function.outputs[0].dtype)
  return Block([x], [Equation(function.op, [x], [out], function.settings, {}, ())], [out]), (x,), (out,)
