"""Names values by what a program does with them: gates and states of LSTM cells, and what attention is made of."""

from collections.abc import Mapping, Sequence

from graftax.convert.source_code.program import Block, Equation, Operand, Value

__all__ = ["name_roles"]

_Producers = Mapping[Value, Equation]


def name_roles(block: Block) -> None:
  """Gives the values of LSTM cells and of attention in a block, and in the bodies in it, their names."""
  producers = {value: equation for equation in block.equations for value in equation.outputs}
  for equation in block.equations:
    for body in equation.bodies.values():
      name_roles(body)
    # The new state: sigmoid(output_gate) * tanh(cell).
    gates = _operands(equation, "mul", ("logistic", "tanh"), producers)
    if gates is not None:
      _name_cell(equation.outputs[0], *gates, producers)
    elif equation.op == "dot_general":
      _name_attention(equation, producers)
  for equation in block.equations:
    if equation.op == "scan":
      _name_carry(equation)


def _name_cell(hidden: Value, output_gate: Value, new_cell: Value, producers: _Producers) -> None:
  """Names the values of a cell, if it is sigmoid(forget_gate) * cell + sigmoid(input_gate) * tanh(candidate)."""
  total = producers.get(new_cell)
  parts = [producers.get(o) for o in total.inputs if isinstance(o, Value)] if total is not None else []
  if total is None or total.op != "add" or len(parts) != 2:
    return
  for kept, added in (parts, parts[::-1]):
    new = _operands(added, "mul", ("logistic", "tanh"), producers)
    old = _operands(kept, "mul", ("logistic", ""), producers)
    if new is not None and old is not None:
      names = ("hidden", "output_gate", "cell", "input_gate", "candidate", "forget_gate", "cell")
      _named((hidden, output_gate, new_cell, *new, *old), names)


# Between the product of queries and keys and the softmax.
_SCALING = ("add", "div", "mul", "select_n", "sub")


def _name_attention(product: Equation, producers: _Producers) -> None:
  """Names the values of softmax(query @ key) @ value, if a product is this."""
  for i, operand in enumerate(product.inputs):
    softmax = producers.get(operand) if isinstance(operand, Value) else None
    contracted = product.settings["dimension_numbers"][0][i]
    if softmax is None or softmax.settings.get("text") != "jax.nn.softmax(_0, axis=-1)":
      continue
    if tuple(contracted) != (len(operand.shape) - 1,):
      continue
    mask: list[Operand] = []
    scores = producers.get(_first(softmax.inputs))
    while scores is not None and scores.op in _SCALING:
      mask += scores.inputs[:1] if scores.op == "select_n" else []
      scores = producers.get(_first([o for o in scores.inputs if o.shape == operand.shape and o not in mask]))
    if scores is not None and scores.op == "dot_general":
      _named((*scores.inputs, product.inputs[1 - i], *mask[:1]), ("query", "key", "value", "mask"))


def _first(operands: Sequence[Operand]) -> Value:
  return next((o for o in operands if isinstance(o, Value)), Value((), None))


def _named(operands: Sequence[Operand], names: Sequence[str]) -> None:
  for operand, name in zip(operands, names, strict=False):
    if isinstance(operand, Value) and operand.parameter is None:
      operand.name = operand.name or name


def _name_carry(scan: Equation) -> None:
  """Gives the state before and after each step of a loop the name of the state that the step returns."""
  body = scan.bodies["body"]
  for before, after, result in zip(
    body.inputs, scan.outputs, body.results[: int(scan.settings["num_carry"])], strict=False
  ):
    if isinstance(result, Value) and result.name:
      before.name, after.name = before.name or result.name, after.name or result.name


def _operands(
  equation: Equation | None, op: str, functions: tuple[str, str], producers: _Producers
) -> tuple[Value, Value] | None:
  """Returns the operands of two functions whose results an operation combines, in any order; "" means none."""
  if equation is None or equation.op != op:
    return None
  for operands in (equation.inputs, equation.inputs[::-1]):
    first, second = (_operand(*pair, producers) for pair in zip(operands, functions, strict=True))
    if first is not None and second is not None:
      return first, second
  return None


def _operand(operand: Operand, function: str, producers: _Producers) -> Value | None:
  if not isinstance(operand, Value) or not function:
    return operand if isinstance(operand, Value) else None
  producer = producers.get(operand)
  if producer is None or producer.op != function:
    return None
  return _operand(producer.inputs[0], "", producers)
