"""Leaves out what a scan carries, reads and makes without use, and lets it read rows that it indexed itself."""

from collections import Counter

from graftax.convert.source_code.program import Block, Equation, Operand, Value, uses

__all__ = ["direct_rows", "prune_scan", "shorter_carry"]


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


_ROW = "lax.dynamic_index_in_dim(_0, _1, 0, keepdims=False)"


def direct_rows(equation: Equation, producers: dict[Value, Equation]) -> None:
  """Lets a scan over 0, 1, 2 and so on that only indexes arrays with these scan over the arrays, in place.

  If the number is also read for something else, the scan would compute both, and the program would be longer.
  """
  body = equation.bodies["body"]
  num_carry = int(equation.settings["num_carry"])
  counted = {
    inner
    for inner, outer in zip(body.inputs[num_carry:], equation.inputs[num_carry:], strict=True)
    if isinstance(outer, Value) and outer in producers and producers[outer].op == "iota"
  }
  inside = {value for e in body.equations for value in e.outputs} | set(body.inputs)
  found: list[tuple[Equation, Value, Value]] = []
  for e in body.equations:
    if e.op == "idiom" and e.settings["text"] == _ROW and isinstance(e.inputs[1], Value) and e.inputs[1] in counted:
      array = e.inputs[0]
      if isinstance(array, Value) and array not in inside and array.shape[0] == equation.settings["length"]:
        found.append((e, array, e.inputs[1]))
  others = Counter(uses(body))
  others.subtract(number for _, _, number in found)
  rows: dict[Value, Value] = {}
  for e, array, number in found:
    if others[number]:
      continue
    body.equations.remove(e)
    row = e.outputs[0]
    if array in rows:
      _replace_reads(body, row, rows[array])
    else:
      rows[array] = row
      body.inputs.append(row)
      equation.inputs.append(array)


def _replace_reads(block: Block, old: Value, new: Value) -> None:
  for equation in block.equations:
    equation.inputs = [new if operand is old else operand for operand in equation.inputs]
    for body in equation.bodies.values():
      _replace_reads(body, old, new)
  block.results = [new if operand is old else operand for operand in block.results]


def shorter_carry(equation: Equation) -> list[Equation]:
  """Leaves out values that are carried only to be returned, if they are another carried value with another shape.

  Returns:
    The equations after the scan that compute them instead.
  """
  body = equation.bodies["body"]
  num_carry = int(equation.settings["num_carry"])
  length = equation.settings["length"]
  if not isinstance(length, int) or length < 1:
    return []
  made = {value: e for e in body.equations for value in e.outputs}
  read = Counter(uses(body))
  after: list[Equation] = []
  for i in range(num_carry):
    result = body.results[i]
    producer = made.get(result) if isinstance(result, Value) else None
    if read[body.inputs[i]] or producer is None or producer.op != "reshape" or producer.settings:
      continue
    for j in range(num_carry):
      if j != i and body.results[j] is producer.inputs[0]:
        after.append(Equation("reshape", [equation.outputs[j]], [equation.outputs[i]], {}, {}, equation.scope))
        equation.outputs[i] = Value(equation.outputs[i].shape, equation.outputs[i].dtype)
        break
  return after
