"""Leaves out what a scan carries, reads and makes without use."""

from collections import Counter

from graftax.convert.source_code.program import Equation, Operand, Value, uses

__all__ = ["prune_scan"]


def prune_scan(equation: Equation, counts: Counter[Value]) -> bool:
  """Drops inputs and results of a scan that nothing needs, in place, and returns whether there were some.

  Args:
    equation: the scan.
    counts: how often each value is read around it.
  """
  body = equation.bodies["body"]
  num_carry = int(equation.settings["num_carry"])
  read = Counter(v for e in body.equations for v in uses_of(e))
  results = Counter(o for o in body.results if isinstance(o, Value))
  carry = [
    i
    for i in range(num_carry)
    if counts[equation.outputs[i]] or read[body.inputs[i]] or _read_by_others(body.results, i, body.inputs[i])
  ]
  xs = [i for i in range(num_carry, len(body.inputs)) if read[body.inputs[i]] or results[body.inputs[i]]]
  ys = [i for i in range(num_carry, len(body.results)) if counts[equation.outputs[i]]]
  kept_inputs, kept_results = [*carry, *xs], [*carry, *ys]
  if len(kept_inputs) == len(body.inputs) and len(kept_results) == len(body.results):
    return False
  if not xs and len(body.inputs) > num_carry and equation.settings["length"] is None:
    return False
  equation.inputs = [equation.inputs[i] for i in kept_inputs]
  body.inputs = [body.inputs[i] for i in kept_inputs]
  equation.outputs = [equation.outputs[i] for i in kept_results]
  body.results = [body.results[i] for i in kept_results]
  equation.settings = {**equation.settings, "num_carry": len(carry)}
  return True


def uses_of(equation: Equation) -> list[Value]:
  """Returns the values that an equation reads, also in its bodies."""
  found = [operand for operand in equation.inputs if isinstance(operand, Value)]
  for body in equation.bodies.values():
    found += list(uses(body))
  return found


def _read_by_others(results: list[Operand], index: int, value: Value) -> bool:
  """Returns whether a carried value is also another result."""
  return any(result is value for i, result in enumerate(results) if i != index)
