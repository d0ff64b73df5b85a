"""Puts recovered calls in the place of their parts."""

import ast
import inspect
import re
from collections.abc import Callable

from graftax.convert.source_code.comparing import same_block
from graftax.convert.source_code.contractions import join_products
from graftax.convert.source_code.errors import SourceError
from graftax.convert.source_code.idioms import helpers
from graftax.convert.source_code.idioms.identities import join_identities
from graftax.convert.source_code.idioms.matching import Match, matched
from graftax.convert.source_code.idioms.rule_checks import same_rule
from graftax.convert.source_code.idioms.table import IDIOMS, Candidate, Idiom
from graftax.convert.source_code.loops import direct_rows, shorter_carry
from graftax.convert.source_code.program import INSTANCE, Block, Equation, Literal, Value, num_equations
from graftax.convert.source_code.simplifying import same_shape, simplify
from graftax.convert.source_code.spelling.choosing import dims_of, namespace, traced
from graftax.convert.source_code.spelling.texts import number_text, text

__all__ = ["Recovery", "helper_definition"]

# Open numbers stand in patterns as these, which no program has.
_NUMBERS = (0.0123456, 0.0234567)


class Recovery:
  """Recovers calls in a program.

  Attributes:
    found: `(name, number of equations)` of each call in the last program.
  """

  def __init__(self) -> None:
    self.found: list[tuple[str, int]] = []
    self._rules: dict[tuple[int, str], bool] = {}
    self._patterns: dict[tuple[object, ...], Block | None] = {}

  def recover(self, block: Block) -> Block:
    """Returns the block with calls, in place."""
    self.found = []
    self._helpers(block)
    self._averages(block)
    join_products(block)
    simplify(block)
    for idiom in IDIOMS:
      self._visit(block, idiom, {})
      simplify(block)
    join_identities(block)
    _shorter_loops(block, {})
    return simplify(block)

  def _helpers(self, block: Block) -> None:
    """Puts calls of helpers in the place of choices between platforms that are the same program."""
    for equation in block.equations:
      candidate = _helper(equation)
      pattern = None if candidate is None else self._pattern(candidate, equation)
      if candidate is not None and pattern is not None:
        operands = list(candidate.operands)
        if same_block(pattern, Block(operands, [equation], list(equation.outputs))):
          name = candidate.text.partition("(")[0]
          self.found.append((name, num_equations(Block([], [equation], []))))
          equation.op, equation.bodies, equation.inputs = "idiom", {}, [*operands]
          equation.settings = {"text": candidate.text, "name": name}
      for body in equation.bodies.values():
        self._helpers(body)

  def _averages(self, block: Block) -> None:
    """Puts calls of `avg_pool` in the place of sums of windows that are divided by the sizes of the windows."""
    producers = {value: equation for equation in block.equations for value in equation.outputs}
    for equation in block.equations:
      for body in equation.bodies.values():
        self._averages(body)
      if equation.op == "div":
        total, size = (producers.get(o) if isinstance(o, Value) else None for o in equation.inputs)
        if total is not None and size is not None and _is_average(total, size, producers):
          self.found.append(("avg_pool", 1))
          equation.op, equation.inputs = "idiom", list(total.inputs)
          equation.settings = {"text": f"avg_{total.settings['text'].removeprefix('sum_')}", "name": "avg_pool"}

  def _visit(self, block: Block, idiom: Idiom, around: dict[Value, Equation]) -> None:
    producers = dict(around)
    for equation in block.equations:
      producers.update((value, equation) for value in equation.outputs)
    for equation in reversed(block.equations):
      for body in equation.bodies.values():
        self._visit(body, idiom, producers)
      if equation.op in idiom.roots and len(equation.outputs) == 1:
        self._replace(equation, idiom, producers)

  def _replace(self, equation: Equation, idiom: Idiom, producers: dict[Value, Equation]) -> None:
    for candidate in idiom.propose(equation, producers):
      pattern = self._pattern(candidate, equation)
      if pattern is None:
        continue
      match = matched(pattern, equation, producers, frozenset(_NUMBERS))
      if match is None and "rule" in equation.settings and self._same_rule(pattern, equation, candidate):
        match = Match(dict(zip(pattern.inputs, equation.inputs, strict=True)))
      if match is None or any(value not in match.operands for value in pattern.inputs):
        continue
      self.found.append((idiom.name, len(pattern.equations)))
      if candidate.scope:
        _scoped(match, pattern, producers, f"{candidate.scope}{INSTANCE}{len(self.found)}")
        return
      equation.op, equation.bodies = "idiom", {}
      equation.settings = {"text": _with_numbers(candidate.text, match), "name": idiom.name}
      equation.inputs = [match.operands[value] for value in pattern.inputs]
      return

  def _same_rule(self, pattern: Block, equation: Equation, candidate: Candidate) -> bool:
    """Returns whether a call has the values and derivatives of a function with a rule; equal ones are run once."""
    key = (id(equation.settings["rule"]), candidate.text)
    if key not in self._rules:
      self._rules[key] = same_rule(pattern, equation, _function(candidate, equation))
    return self._rules[key]

  def _pattern(self, candidate: Candidate, equation: Equation) -> Block | None:
    """Returns the program of a call; None if there is none, or if it is only one operation."""
    key = (candidate.text, *((str(v.shape), str(v.dtype)) for v in candidate.operands))
    if key not in self._patterns:
      try:
        block = traced(_function(candidate, equation), list(candidate.operands))
      except SourceError:
        block = None
      except Exception:  # JAX refuses a call that does not fit.
        block = None
      if block is not None and (len(block.results) != 1 or not _worth(block)):
        block = None
      self._patterns[key] = block
    return self._patterns[key]


def _shorter_loops(block: Block, around: dict[Value, Equation]) -> None:
  producers = {**around, **{value: equation for equation in block.equations for value in equation.outputs}}
  equations: list[Equation] = []
  for equation in block.equations:
    for body in equation.bodies.values():
      _shorter_loops(body, producers)
    equations.append(equation)
    if equation.op == "scan":
      direct_rows(equation, producers)
      equations.extend(shorter_carry(equation))
  block.equations = equations


def _scoped(match: Match, pattern: Block, producers: dict[Value, Equation], name: str) -> None:
  """Gives the parts of a call a scope of their own."""
  inputs = set(pattern.inputs)
  found = [producers[v] for p, v in match.operands.items() if p not in inputs and isinstance(v, Value)]
  paths = [equation.scope for equation in found]
  common = 0
  while all(len(path) > common for path in paths) and len({path[common] for path in paths}) == 1:
    common += 1
  for equation in found:
    equation.scope = (*paths[0][:common], name)


def _worth(block: Block) -> bool:
  simple = ("reduce_window_max",)
  return len(block.equations) > 1 or any(
    "rule" in e.settings or "platforms" in e.settings or e.op in simple for e in block.equations
  )


def _function(candidate: Candidate, equation: Equation) -> Callable[..., object]:
  numbers = {f"_k{i}": number for i, number in enumerate(_NUMBERS)}
  known = {**namespace(), **vars(helpers), **numbers, **dims_of(equation)}
  code = compile(candidate.text, "<idiom>", "eval")
  return lambda *arrays: eval(code, {**known, **{f"_{i}": array for i, array in enumerate(arrays)}})


def _with_numbers(text: str, match: Match) -> str:
  for i, number in enumerate(_NUMBERS):
    if number in match.numbers:
      literal = match.numbers[number]
      text = re.sub(rf"\b_k{i}\b", number_text(literal.array[()], literal.dtype), text)
  return text


def _helper(equation: Equation) -> Candidate | None:
  """Returns a call of a helper that may be the same program as a choice between platforms; None if there is none.

  The form for the platforms that the choice does not name tells which helper.
  """
  for body in equation.bodies.values() if "platforms" in equation.settings else ():
    match body.equations:
      case [Equation(op="reshape", inputs=[Value() as kernel]) as reshape, Equation(op="conv_general_dilated") as conv]:
        if conv.inputs[1:] == reshape.outputs:
          return _depthwise(conv, kernel)
      case [Equation(op="conv_general_dilated", inputs=[_, Value() as kernel]) as conv]:
        is_depthwise = conv.settings["feature_group_count"] == conv.inputs[0].shape[-1] > 1
        return _depthwise(conv, kernel) if is_depthwise else _dense(conv, kernel)
      case [Equation(op="reduce_window_sum", inputs=[Value() as x]) as pool] if len(x.shape) == 4:
        names = ("window_dimensions", "window_strides", "padding")
        settings = ", ".join(text(tuple(pool.settings[name])[1:3]) for name in names)
        return Candidate(f"sum_pool(_0, {settings})", (x,))
  return None


def _is_average(total: Equation, size: Equation, producers: dict[Value, Equation]) -> bool:
  """Returns whether two sums of windows are those of images and of ones, one for each position."""
  if any(e.settings.get("name") != "sum_pool" for e in (total, size)) or total.settings != size.settings:
    return False
  (x,), (ones,) = total.inputs, size.inputs
  made = producers.get(ones) if isinstance(ones, Value) else None
  if made is None or made.op != "broadcast_in_dim" or not isinstance(made.inputs[0], Literal):
    return False
  is_one = made.inputs[0].shape == () and bool(made.inputs[0].array == 1)
  return is_one and ones.dtype == x.dtype and same_shape(ones.shape, (1, *x.shape[1:3], 1))


def _depthwise(conv: Equation, kernel: Value) -> Candidate | None:
  """Returns the call of a convolution of each channel by itself."""
  x = conv.inputs[0]
  if not isinstance(x, Value) or not len(kernel.shape) == len(x.shape) == 4:
    return None
  settings = ", ".join(text(tuple(conv.settings[name])) for name in ("window_strides", "padding"))
  return Candidate(f"depthwise_conv(_0, _1, {settings})", (x, kernel))


def _dense(conv: Equation, kernel: Value) -> Candidate | None:
  """Returns the call of a convolution that is a product on CPUs, or one for each group."""
  x = conv.inputs[0]
  if not isinstance(x, Value) or not len(kernel.shape) == len(x.shape) == 4:
    return None
  strides, padding = (tuple(conv.settings[name]) for name in ("window_strides", "padding"))
  groups = conv.settings["feature_group_count"]
  if groups > 1:
    call = f"grouped_conv(_0, _1, {groups}, {text(strides)}, {text(padding)})"
  elif kernel.shape[:2] == (1, 1):
    call = f"conv2d_1x1(_0, _1, {text(strides)})"
  elif kernel.shape[:2] == strides:
    call = "conv2d_of_patches(_0, _1)"
  else:
    call = f"conv2d_as_product(_0, _1, {text(strides)}, {text(padding)})"
  return Candidate(call, (x, kernel))


def helper_definition(name: str) -> ast.FunctionDef:
  """Returns the definition of a helper without annotations."""
  (definition,) = ast.parse(inspect.getsource(getattr(helpers, name))).body
  assert isinstance(definition, ast.FunctionDef)
  for node in ast.walk(definition):
    if isinstance(node, ast.FunctionDef):
      node.returns = None
    elif isinstance(node, ast.arg):
      node.annotation = None
  return definition
