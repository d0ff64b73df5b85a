"""Prints a block as statements of a function, as trees of Python's syntax with names that are not chosen yet."""

import ast
import copy
import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Callable, Sequence

import jax

from graftax.convert.source_code.errors import SourceError
from graftax.convert.source_code.grouping import Loop, WrittenFunction
from graftax.convert.source_code.program import ASSIGN, Block, Equation, Literal, Operand, Rule, Value, uses
from graftax.convert.source_code.spelling.choosing import Speller
from graftax.convert.source_code.spelling.texts import array_text, dim_names, text

__all__ = ["Printed", "Printer", "expression", "indexed", "marked", "width"]

# Names in trees that are chosen later: `marked("value", 3)` is the fourth value.
_MARK = "§"
_MAX_INLINE = 60
# Values that a function defines. Their marks hold numbers, which are not what is written.
_VALUES = re.compile(rf"{_MARK}value{_MARK}\d+{_MARK}\d+")


def marked(kind: str, *parts: object) -> str:
  """Returns a placeholder for a name; Python has no such names, so it cannot be mistaken for one."""
  return _MARK.join(["", kind, *map(str, parts)])


def expression(source: str) -> ast.expr:
  """Returns the tree of an expression."""
  return ast.parse(source, mode="eval").body


def width(tree: ast.AST, value_width: int = 24) -> int:
  """Returns about how many characters a tree has; values, whose names are not chosen yet, have `value_width` each."""
  return len(_VALUES.sub("x" * value_width, ast.unparse(tree)))


def indexed(name: str, key: Sequence[str]) -> ast.expr:
  """Returns the tree of `name[key[0]][key[1]]` and so on."""
  found: ast.expr = ast.Name(name)
  for part in key:
    found = ast.Subscript(found, ast.Constant(part))
  return found


@dataclasses.dataclass(eq=False, slots=True)
class Printed:
  """A function of the text.

  Attributes:
    tree: its definition. `§value§i` are values, `§leaf§i` its parameters, `§sub§i` the parameters of its calls, and
      `§function§i` other functions.
    leaves: its own parameters, in the order of their numbers.
    subs: the functions it calls that have parameters; a list is a loop over calls.
    hints: what values may be called.
    callees: what it calls.
    dims: sizes that it is given.
    extras: further definitions that follow it, such as rules of its derivative.
    has_parameters: whether its first argument holds parameters.
  """

  tree: ast.FunctionDef
  leaves: list[Value]
  subs: list["WrittenFunction | Loop"]
  hints: dict[str, str]
  callees: list[object]
  dims: list[str]
  names: tuple[str, ...]
  extras: list[ast.stmt] = dataclasses.field(default_factory=list)
  has_parameters: bool = False


Resolve = Callable[[object], "Printed"]


class Printer:
  """Prints the functions of one program.

  Attributes:
    speller: chooses expressions.
    resolve: returns the function that is written for a `WrittenFunction` or a `Rule`.
    writers: gives each writer of a function a number.
  """

  def __init__(self, speller: Speller, resolve: Resolve) -> None:
    self.speller, self.resolve = speller, resolve
    self.writers = itertools.count()

  def function(
    self, function: WrittenFunction, prelude: dict[Value, ast.expr] | None = None, arguments: list[str] | None = None
  ) -> Printed:
    """Returns a function without a name.

    Args:
      function: the function.
      prelude: expressions of tensors, for the outermost function.
      arguments: its arguments besides parameters, if `prelude` is given.
    """
    writer = _Writer(self, function.block)
    if prelude is None or arguments is None:
      arguments = [writer.define(value) for value in function.block.inputs[: function.num_tensors]]
    else:
      writer.env.update(prelude)
    for i, value in enumerate(function.parameters):
      writer.env[value] = ast.Name(marked("leaf", i))
      writer.leaves.append(value)
    body = writer.body(function.block)
    return writer.printed(arguments, body, function.block.inputs, function.names)

  def rule(self, rule: Rule) -> Printed:
    """Returns a function with the rule of its derivative."""
    printed = self._plain(rule.primal, rule)
    printed.tree.decorator_list = [expression(f"jax.custom_{rule.kind}")]
    own = marked("self")
    count = len(rule.primal.inputs)
    if rule.error:
      error = ast.Raise(ast.Call(ast.Name("NotImplementedError"), [ast.Constant(rule.error)], []))
      printed.extras = [_defjvp(_definition("", ["primals", "tangents"], [error]))]
      return printed
    if rule.kind == "jvp":
      block = rule.blocks["jvp"]
      inner = _Writer(self, block)
      primals = [inner.define(value) for value in block.inputs[:count]]
      given = iter([inner.define(value) for value in block.inputs[count:]])
      tangents = [next(given) if moving else "_" for moving in rule.differentiable]
      unpack = [
        _assign([_target(primals, always=True)], ast.Name("primals")),
        _assign([_target(tangents, always=True)], ast.Name("tangents")),
      ]
      num_results = len(rule.primal.results)
      statements = inner.statements(block)
      results = inner.operands(block.results[:num_results])
      moved = iter(inner.operands(block.results[num_results:]))
      zeros = [
        next(moved) if moving else expression(f"np.zeros({text(value.shape)}, jax.dtypes.float0)")
        for moving, value in zip(rule.results_differentiable, rule.primal.results, strict=True)
      ]
      statements.append(ast.Return(ast.Tuple([_packed(results), _packed(zeros)])))
      given_names = ["primals", "tangents"]
      whole = inner.printed(given_names, [*unpack, *statements], block.inputs, (rule.name,), len(unpack))
      printed.extras = [_defjvp(whole.tree)]
      inner.finish(printed)
      return printed
    forward = self._plain(rule.blocks["fwd"], rule, num_results=len(rule.primal.results))
    forward.tree.name = marked("self", "fwd")
    backward = self._backward(rule)
    backward.tree.name = marked("self", "bwd")
    defined = ast.Expr(expression("x.defvjp(f, b)"))
    _rename(defined, {"x": own, "f": forward.tree.name, "b": backward.tree.name})
    printed.extras = [forward.tree, backward.tree, defined]
    for other in (forward, backward):
      printed.callees += other.callees
      printed.hints.update(other.hints)
    return printed

  def _plain(self, block: Block, rule: Rule, num_results: int | None = None) -> Printed:
    writer = _Writer(self, block)
    arguments = [writer.define(value) for value in block.inputs]
    statements = writer.statements(block)
    results = writer.operands(block.results)
    if num_results is None:
      statements = _returned(statements, _packed(results))
    else:
      statements.append(ast.Return(ast.Tuple([_packed(results[:num_results]), ast.Tuple(results[num_results:])])))
    return writer.printed(arguments, statements, block.inputs, (rule.name,))

  def _backward(self, rule: Rule) -> Printed:
    block = rule.blocks["bwd"]
    writer = _Writer(self, block)
    residuals = [writer.define(value) for value in block.inputs[: rule.num_residuals]]
    given = iter([writer.define(value) for value in block.inputs[rule.num_residuals :]])
    cotangents = [next(given) if moving else "_" for moving in rule.results_differentiable]
    arguments = ["residuals", "cotangents"]
    unpack: list[ast.stmt] = []
    if residuals:
      unpack.append(_assign([_target(residuals, always=True)], ast.Name("residuals")))
    if len(cotangents) == 1:
      arguments[1] = cotangents[0]
    else:
      unpack.append(_assign([_target(cotangents)], ast.Name("cotangents")))
    statements = [*unpack, *writer.statements(block)]
    found = iter(writer.operands(block.results))
    results = [next(found) if moving else ast.Constant(None) for moving in rule.differentiable]
    statements.append(ast.Return(ast.Tuple(results)))
    return writer.printed(arguments, statements, block.inputs, (rule.name,), len(unpack))


class _Writer:
  """Prints one function, with the bodies in it."""

  def __init__(self, printer: Printer, block: Block) -> None:
    self._printer = printer
    # Not its `id`, which a later writer of the same function may have again.
    self._id = next(printer.writers)
    self.env: dict[Value, ast.expr] = {}
    self.leaves: list[Value] = []
    self._subs: list[WrittenFunction | Loop] = []
    self._hints: dict[str, str] = {}
    self._callees: list[object] = []
    self._count = Counter(uses(block))
    self._numbers = 0
    self._here: set[Operand] = set()
    # Expressions that are not in a statement yet, and what is returned.
    self._pending: dict[Value, ast.expr] = {}
    self._results = block.results

  # --- the finished function

  def printed(
    self, arguments: list[str], body: list[ast.stmt], inputs: Sequence[Value], names: tuple[str, ...], unpacked: int = 0
  ) -> Printed:
    """Returns the function; sizes that its body names are read from its inputs, or become arguments.

    Args:
      arguments: names.
      body: statements.
      inputs: values that the arguments hold.
      names: the scope.
      unpacked: how many statements take arguments apart.
    """
    tree = _definition("", arguments, body)
    dims: dict[str, None] = {}
    missing: list[str] = []
    prelude: list[ast.stmt] = []
    for node in ast.walk(tree):
      if isinstance(node, ast.Name) and node.id.startswith(marked("dim", "")):
        dims.setdefault(node.id)
    for mark in dims:
      name = mark.removeprefix(marked("dim", ""))
      where = self._where(name, inputs)
      if where is None:
        missing.append(name)
      else:
        prelude.append(_assign([ast.Name(mark)], where))
    tree.body = [*tree.body[:unpacked], *prelude, *tree.body[unpacked:]]
    tree.args.args += [ast.arg(marked("dim", name)) for name in missing]
    leaves = _numbered_leaves(tree, self.leaves)
    printed = Printed(tree, leaves, self._subs, self._hints, self._callees, missing, names)
    printed.has_parameters = bool(leaves or self._subs)
    return printed

  def finish(self, into: Printed) -> None:
    """Adds what this writer found to another function."""
    into.callees += self._callees
    into.hints.update(self._hints)

  def _where(self, name: str, inputs: Sequence[Value]) -> ast.expr | None:
    """Returns where a size can be read."""
    for value in inputs:
      for d, size in enumerate(value.shape):
        if dim_names(size) == {name} and str(size) == name and value in self.env:
          return ast.Subscript(ast.Attribute(self.env[value], "shape"), ast.Constant(d))
    return None

  # --- values

  def define(self, value: Value, hint: str = "") -> str:
    """Returns a new name of a value."""
    name = marked("value", self._id, self._numbers)
    self._numbers += 1
    self._pending.pop(value, None)
    self.env[value] = ast.Name(name)
    self._hints[name] = value.name or hint
    return name

  def operands(self, operands: Sequence[Operand]) -> list[ast.expr]:
    """Returns expressions of operands."""
    return [self.operand(operand) for operand in operands]

  def operand(self, operand: Operand) -> ast.expr:
    if isinstance(operand, Literal):
      return _dims_marked(expression(array_text(operand)), set())
    found = self.env.get(operand)
    self._pending.pop(operand, None)
    if found is None:
      raise AssertionError(f"internal: {operand} is read before it is defined")
    return copy.deepcopy(found)

  # --- statements

  def body(self, block: Block) -> list[ast.stmt]:
    """Returns the statements of a block, with the one that returns its results."""
    statements = self.statements(block)
    return _returned(statements, _packed(self.operands(block.results)))

  def statements(self, block: Block) -> list[ast.stmt]:
    """Returns the statements of a block."""
    out: list[ast.stmt] = []
    around, self._here = self._here, set(block.inputs)
    for equation in block.equations:
      self._here.update(equation.outputs)
    here = Counter(o for e in block.equations for o in e.inputs if isinstance(o, Value))
    here.update(o for o in block.results if isinstance(o, Value))
    rows = Counter(o for e in block.equations if e.op == "scan" for o in e.inputs[int(e.settings["num_carry"]) :])
    for equation in block.equations:
      if equation.op in _CONTROL:
        out.extend(_CONTROL[equation.op](self, equation))
        continue
      if equation.op == "iota" and (value := equation.outputs[0]).is_constant and rows[value] == self._count[value]:
        # XLA computes fewer instructions in the loop if the numbers are a constant of the program.
        self.env[value] = expression(f"np.arange({text(value.shape[0])}, dtype=np.{value.dtype})")
        continue
      tree = self._spelled(equation, out)
      if len(equation.outputs) == 1:
        value = equation.outputs[0]
        if self._count[value] == 1 and here[value] == 1 and width(tree) <= _MAX_INLINE:
          self.env[value] = self._pending[value] = tree
          continue
        out.append(_assign([ast.Name(self.define(value, _hint(equation)))], tree))
      else:
        out.append(_assign([self._targets(equation.outputs, _hint(equation))], tree))
    self._here = around
    return out

  def _spelled(self, equation: Equation, before: list[ast.stmt]) -> ast.expr:
    tree = _dims_marked(self._printer.speller.spell(equation), _names_of(equation))
    placeholders = Counter(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id.startswith("_"))
    for i, operand in enumerate(equation.inputs):
      if isinstance(operand, Value) and placeholders[f"_{i}"] > 1 and not _is_name(self.env[operand]):
        value = self.env[operand]
        before.append(_assign([ast.Name(self.define(operand))], value))
    given = {
      f"_{i}": self.operand(o) for i, o in enumerate(equation.inputs) if isinstance(o, Value) and placeholders[f"_{i}"]
    }
    return _Replaced(given).visit(tree)

  def _targets(self, outputs: Sequence[Value], hint: str = "") -> ast.expr:
    names = [self.define(v, hint) if self._count[v] else "_" for v in outputs]
    if not any(name != "_" for name in names):
      return ast.Name("_")
    return _target(names)

  def nested(self, name: str, block: Block, arguments: list[ast.stmt], parameters: list[str]) -> ast.FunctionDef:
    """Returns the definition of a body."""
    return _definition(name, parameters, [*arguments, *self.statements(block)])

  # --- control flow

  def scan(self, e: Equation) -> list[ast.stmt]:
    count = int(e.settings["num_carry"])
    body = e.bodies["body"]
    name = self._local("step")
    carry, xs = body.inputs[:count], body.inputs[count:]
    unpack: list[ast.stmt] = []
    first = self._argument(carry, "carry", unpack)
    second = self._argument(xs, "row", unpack)
    definition = self.nested(name, body, unpack, [first, second])
    results = self.operands(body.results)
    definition.body.append(ast.Return(ast.Tuple([_packed(results[:count]), _packed(results[count:])])))
    operands = self.operands(e.inputs)
    keywords: list[ast.keyword] = []
    if not xs:
      keywords.append(ast.keyword("length", self._size(e.settings["length"])))
    if e.settings["reverse"]:
      keywords.append(ast.keyword("reverse", ast.Constant(True)))
    if e.settings["unroll"] != 1:
      keywords.append(ast.keyword("unroll", expression(text(e.settings["unroll"]))))
    call = ast.Call(
      expression("lax.scan"), [ast.Name(name), _packed(operands[:count]), _packed(operands[count:])], keywords
    )
    targets = ast.Tuple([self._targets(e.outputs[:count], "carry"), self._targets(e.outputs[count:], "rows")])
    return [definition, _assign([targets], call)]

  def loop(self, e: Equation) -> list[ast.stmt]:
    statements: list[ast.stmt] = []
    names: dict[str, str] = {}
    for role in ("condition", "body"):
      block = e.bodies[role]
      unpack: list[ast.stmt] = []
      names[role] = self._local(role)
      argument = self._argument(block.inputs, "carry", unpack)
      definition = self.nested(names[role], block, unpack, [argument])
      definition.body = _returned(definition.body, _packed(self.operands(block.results)))
      statements.append(definition)
    init = _packed(self.operands(e.inputs))
    call = ast.Call(expression("lax.while_loop"), [ast.Name(names["condition"]), ast.Name(names["body"]), init], [])
    return [*statements, _assign([self._targets(e.outputs, "carry")], call)]

  def reduction(self, e: Equation) -> list[ast.stmt]:
    """Calls a reduction by a function."""
    body = e.bodies["body"]
    count = len(e.outputs)
    name = self._local("combined")
    unpack: list[ast.stmt] = []
    first = self._argument(body.inputs[:count], "total", unpack)
    second = self._argument(body.inputs[count:], "item", unpack)
    definition = self.nested(name, body, unpack, [first, second])
    definition.body = _returned(definition.body, _packed(self.operands(body.results)))
    operands = self.operands(e.inputs)
    arguments = [_packed(operands[:count]), _packed(operands[count:]), ast.Name(name)]
    if e.op == "reduce":
      arguments.append(expression(text(e.settings["dimensions"])))
      keywords: list[ast.keyword] = []
    else:
      arguments += [expression(text(e.settings[key])) for key in ("window_dimensions", "window_strides", "padding")]
      keywords = [
        ast.keyword(key, expression(text(e.settings[key])))
        for key in ("base_dilation", "window_dilation")
        if any(size != 1 for size in e.settings[key])
      ]
    call = ast.Call(expression(f"lax.{e.op}"), arguments, keywords)
    return [definition, _assign([self._targets(e.outputs)], call)]

  def cond(self, e: Equation) -> list[ast.stmt]:
    statements: list[ast.stmt] = []
    branches: list[ast.expr] = []
    for role, block in e.bodies.items():
      inner = self.statements(block)
      result = _packed(self.operands(block.results))
      if not inner and width(result) <= _MAX_INLINE:
        branches.append(ast.Lambda(_arguments([]), result))
        continue
      name = self._local(role)
      statements.append(_definition(name, [], _returned(inner, result)))
      branches.append(ast.Name(name))
    if "platforms" in e.settings:
      choice = ast.Call(expression("lax.platform_dependent"), [], _platforms(e.settings["platforms"], branches))
      return [*statements, _assign([self._targets(e.outputs)], choice)]
    index = self.operand(e.inputs[0])
    predicate = _predicate(index) if len(branches) == 2 else None
    if predicate is not None:
      call = ast.Call(expression("lax.cond"), [predicate, branches[1], branches[0]], [])
    else:
      call = ast.Call(expression("lax.switch"), [index, ast.List(branches)], [])
    return [*statements, _assign([self._targets(e.outputs)], call)]

  def linear_solve(self, e: Equation) -> list[ast.stmt]:
    statements: list[ast.stmt] = []
    names: dict[str, ast.expr] = {}
    for role, block in e.bodies.items():
      name = self._local(role)
      unpack: list[ast.stmt] = []
      given = self._argument(block.inputs, "vector", unpack)
      definition = self.nested(name, block, unpack, [given] if role == "matvec" else ["_", given])
      definition.body = _returned(definition.body, _packed(self.operands(block.results)))
      statements.append(definition)
      names[role] = ast.Name(name)
    arguments = [names["matvec"], _packed(self.operands(e.inputs)), names["solve"]]
    keywords = [ast.keyword("symmetric", ast.Constant(True))] if e.settings["symmetric"] else []
    if "transpose_solve" in names:
      arguments.append(names["transpose_solve"])
    call = ast.Call(expression("lax.custom_linear_solve"), arguments, keywords)
    return [*statements, _assign([self._targets(e.outputs)], call)]

  def checkpoint(self, e: Equation) -> list[ast.stmt]:
    block = e.bodies["body"]
    name = self._local("block")
    arguments = [self.define(value) for value in block.inputs]
    definition = self.nested(name, block, [], arguments)
    definition.body = _returned(definition.body, _packed(self.operands(block.results)))
    keywords: list[ast.keyword] = []
    if e.settings.get("policy") is not None:
      keywords.append(ast.keyword("policy", expression(_policy(e))))
    if not e.settings.get("prevent_cse", True):
      keywords.append(ast.keyword("prevent_cse", ast.Constant(False)))
    call = ast.Call(ast.Call(expression("jax.checkpoint"), [ast.Name(name)], keywords), self.operands(e.inputs), [])
    return [definition, _assign([self._targets(e.outputs)], call)]

  def rule(self, e: Equation) -> list[ast.stmt]:
    rule = e.settings["rule"]
    self._callees.append(rule)
    call = ast.Call(ast.Name(marked("function", id(rule))), self.operands(e.inputs), [])
    return [_assign([self._targets(e.outputs)], call)]

  def call(self, e: Equation) -> list[ast.stmt]:
    callee = e.settings["function"]
    assert isinstance(callee, WrittenFunction)
    self._callees.append(callee)
    tensors = self.operands(e.inputs[: callee.num_tensors])
    call = ast.Call(
      ast.Name(marked("function", id(callee))), [*self._sub(callee), *tensors, *self._given_dims(callee)], []
    )
    return [_assign([self._targets(e.outputs)], call)]

  def repeated(self, e: Equation) -> list[ast.stmt]:
    loop = e.settings["loop"]
    assert isinstance(loop, Loop)
    first = loop.functions[0]
    self._callees.extend(loop.functions)
    operands = self.operands(e.inputs)
    statements: list[ast.stmt] = []
    targets: dict[int, ast.expr] = {}
    for position, output in loop.carried:
      given, value = operands[position], e.inputs[position]
      if isinstance(given, ast.Name) and isinstance(value, Value) and self._count[value] == 1 and value in self._here:
        # Nothing else reads the value, so the loop may change it.
        name = given.id
        self.env[e.outputs[output]] = given
      else:
        name = self.define(e.outputs[output])
        statements.append(_assign([ast.Name(name)], given))
      targets[output] = operands[position] = ast.Name(name)
    rest = [targets.get(i, ast.Name("_")) for i in range(len(e.outputs))]
    printed = self._printer.resolve(first)
    arguments = [*operands[: first.num_tensors], *self._given_dims(first)]
    over: ast.expr
    if printed.has_parameters:
      self._subs.append(loop)
      over, item = ast.Name(marked("sub", len(self._subs) - 1)), marked("item", len(self._subs) - 1)
      arguments = [ast.Name(item), *arguments]
    else:
      over, item = expression(f"range({len(loop.functions)})"), "_"
    call = ast.Call(ast.Name(marked("function", id(first))), arguments, [])
    step = _assign([rest[0] if len(rest) == 1 else ast.Tuple(rest)], call)
    return [*statements, ast.For(ast.Name(item), over, [step], [], lineno=0)]

  def assign(self, e: Equation) -> list[ast.stmt]:
    """Assigns a parameter, after all that reads its old value."""
    parameter, leaf = e.inputs[0], self.operand(e.inputs[0])
    assert isinstance(parameter, Value) and isinstance(leaf, ast.Name)
    value = self.operand(e.inputs[1])
    reading = [
      v for v, tree in self._pending.items() if leaf.id in (n.id for n in ast.walk(tree) if isinstance(n, ast.Name))
    ]
    if parameter in self._results:
      reading.append(parameter)
    before: list[ast.stmt] = []
    for v in reading:
      tree = self.env[v]
      before.append(_assign([ast.Name(self.define(v))], tree))
    return [*before, _assign([ast.Subscript(leaf, ast.Constant(...))], value)]

  def _sub(self, callee: WrittenFunction) -> list[ast.expr]:
    if not self._printer.resolve(callee).has_parameters:
      return []
    self._subs.append(callee)
    return [ast.Name(marked("sub", len(self._subs) - 1))]

  def _given_dims(self, callee: WrittenFunction) -> list[ast.expr]:
    return [ast.Name(marked("dim", name)) for name in self._printer.resolve(callee).dims]

  def _argument(self, values: Sequence[Value], name: str, unpack: list[ast.stmt]) -> str:
    """Returns the argument that holds values, and adds the statement that takes it apart."""
    if not values:
      return "_"
    names = [self.define(value) if self._count[value] else "_" for value in values]
    if len(values) == 1:
      return names[0]
    argument = marked("value", self._id, self._numbers)
    self._numbers += 1
    self._hints[argument] = name
    unpack.append(_assign([_target(names)], ast.Name(argument)))
    return argument

  def _local(self, name: str) -> str:
    mark = marked("local", self._id, self._numbers)
    self._numbers += 1
    self._hints[mark] = name
    return mark

  def _size(self, size: object) -> ast.expr:
    return _dims_marked(expression(text(size)), dim_names(size))


_CONTROL: dict[str, Callable[[_Writer, Equation], list[ast.stmt]]] = {
  "scan": _Writer.scan,
  "while": _Writer.loop,
  "cond": _Writer.cond,
  "checkpoint": _Writer.checkpoint,
  "custom_linear_solve": _Writer.linear_solve,
  "reduce": _Writer.reduction,
  "reduce_window": _Writer.reduction,
  "custom_jvp": _Writer.rule,
  "custom_vjp": _Writer.rule,
  "call": _Writer.call,
  "loop": _Writer.repeated,
  ASSIGN: _Writer.assign,
}

_HINTS = {
  "reduce_max": "maximum",
  "reduce_min": "minimum",
  "reduce_sum": "total",
  "iota": "positions",
  "lt": "mask",
  "le": "mask",
  "gt": "mask",
  "ge": "mask",
  "eq": "mask",
  "ne": "mask",
  "argmax": "best",
  "argmin": "best",
  "random_split": "keys",
}


def _hint(equation: Equation) -> str:
  return _HINTS.get(equation.op, "")


def _names_of(equation: Equation) -> set[str]:
  shapes = [o.shape for o in [*equation.inputs, *equation.outputs]]
  sizes = [size for shape in shapes for size in shape] + [equation.settings.get("dim")]
  return {name for size in sizes for name in dim_names(size)}


def _numbered_leaves(tree: ast.AST, leaves: list[Value]) -> list[Value]:
  """Returns the parameters that a function reads itself, and gives them numbers in this order."""
  names = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id.startswith(marked("leaf", ""))]
  nodes = {id(node): node for node in names}.values()  # a node can be in several places of the tree
  read = sorted({int(node.id.split(_MARK)[-1]) for node in nodes})
  for node in nodes:
    node.id = marked("leaf", read.index(int(node.id.split(_MARK)[-1])))
  return [leaves[i] for i in read]


class _Marked(ast.NodeTransformer):
  def __init__(self, names: set[str]) -> None:
    self._names = names

  def visit_Name(self, node: ast.Name) -> ast.expr:
    return ast.Name(marked("dim", node.id)) if node.id in self._names else node


def _dims_marked(tree: ast.expr, names: set[str]) -> ast.expr:
  found: ast.expr = _Marked(names).visit(tree)
  return found


class _Replaced(ast.NodeTransformer):
  """Puts expressions in the place of names."""

  def __init__(self, expressions: dict[str, ast.expr]) -> None:
    self._expressions = expressions

  def visit_Name(self, node: ast.Name) -> ast.expr:
    return self._expressions.get(node.id, node)


def _rename(tree: ast.AST, names: dict[str, str]) -> None:
  for node in ast.walk(tree):
    if isinstance(node, ast.Name) and node.id in names:
      node.id = names[node.id]


def _predicate(index: ast.expr) -> ast.expr | None:
  """Returns the truth value that an index of two branches was made of."""
  match index:
    case ast.Call(ast.Attribute(value, "astype"), [ast.Attribute(ast.Name("jnp"), "int32")]):
      return value
  return None


def _platforms(platforms: Sequence[Sequence[str] | None], branches: Sequence[ast.expr]) -> list[ast.keyword]:
  """Returns branches by the platforms that they are for; None is any other platform."""
  found: list[ast.keyword] = []
  for names, branch in zip(platforms, branches, strict=True):
    for name in ["default"] if names is None else names:
      found.append(ast.keyword(str(name), branch))
  return found


def _policy(e: Equation) -> str:
  for name in dir(jax.checkpoint_policies):
    if getattr(jax.checkpoint_policies, name) is e.settings["policy"]:
      return f"jax.checkpoint_policies.{name}"
  raise SourceError(
    f"checkpoint in scope {'/'.join(e.scope)!r} has the policy {e.settings['policy']!r}, a function of Python; "
    "policies that jax.checkpoint_policies names can be written."
  )


def _returned(statements: list[ast.stmt], value: ast.expr) -> list[ast.stmt]:
  """Returns statements and the return of a value; one that the last statement defines is returned at once."""
  match statements, value:
    case [*before, ast.Assign([ast.Name(target)], expression)], ast.Name(name) if target == name:
      return [*before, ast.Return(expression)]
  return [*statements, ast.Return(value)]


def _arguments(names: list[str]) -> ast.arguments:
  return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


def _definition(name: str, arguments: list[str], body: list[ast.stmt]) -> ast.FunctionDef:
  definition = ast.FunctionDef(name, _arguments(arguments), body, [])
  # Python 3.12 needs the field, and others ignore it.
  setattr(definition, "type_params", [])  # noqa: B010
  return definition


def _defjvp(definition: ast.FunctionDef) -> ast.FunctionDef:
  """Makes a function the rule of the function before it, in place."""
  definition.name = marked("self", "jvp")
  definition.decorator_list = [expression("x.defjvp")]
  _rename(definition.decorator_list[0], {"x": marked("self")})
  return definition


def _assign(targets: list[ast.expr], value: ast.expr) -> ast.stmt:
  return ast.Assign(targets, value, lineno=0)


def _target(names: list[str], always: bool = False) -> ast.expr:
  if len(names) == 1 and not always:
    return ast.Name(names[0])
  return ast.Tuple([ast.Name(name) for name in names])


def _is_name(tree: ast.expr) -> bool:
  """Returns whether an expression is a name, or a parameter."""
  while isinstance(tree, ast.Subscript):
    tree = tree.value
  return isinstance(tree, ast.Name)


def _packed(values: Sequence[ast.expr]) -> ast.expr:
  """Returns one value as it is, several as a tuple, and none as None."""
  if not values:
    return ast.Constant(None)
  return values[0] if len(values) == 1 else ast.Tuple(list(values))
