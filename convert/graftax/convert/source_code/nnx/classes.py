"""Makes classes of flax.nnx of functions with parameters."""

import ast
import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence

from graftax.convert.source_code.folding import Folded
from graftax.convert.source_code.grouping import Loop, WrittenFunction
from graftax.convert.source_code.naming import free_key, identifier, plural, unique
from graftax.convert.source_code.printing import Printed, expression, indexed, marked
from graftax.convert.source_code.program import path_parts

__all__ = ["Members", "as_class", "class_name", "members_of", "module_keys", "with_calls"]

Key = tuple[str, ...]

# Attributes that `nnx.Module` has in some versions of flax, and `self`.
_TAKEN = (
  "eval",
  "iter_children",
  "iter_modules",
  "perturb",
  "self",
  "set_attributes",
  "set_mode",
  "sow",
  "train",
  "view",
)


def class_name(name: str) -> str:
  """Returns the name of a class: `lstm_cell` is `LstmCell`."""
  return identifier("".join(part[:1].upper() + part[1:] for part in name.split("_")), "Layer")


@dataclasses.dataclass(frozen=True, slots=True)
class Members:
  """The attributes of a class.

  Attributes:
    leaves: names of variables, in the order of `Printed.leaves`.
    subs: names of modules and of lists of modules, in the order of `Printed.subs`.
    constants: names of constants, by the names of their attributes; only the outermost class has constants.
    statements: the body of `__init__`.
  """

  leaves: list[str]
  subs: list[str]
  constants: dict[str, str]
  statements: list[ast.stmt]

  def expressions(self) -> dict[str, ast.expr]:
    """Returns expressions of the marks in a function; those of variables are their values."""
    out: dict[str, ast.expr] = {}
    for i, attribute in enumerate(self.leaves):
      out[marked("leaf", i)] = _value(attribute)
    for i, attribute in enumerate(self.subs):
      out[marked("sub", i)] = _attribute(attribute)
    for attribute, constant in self.constants.items():
      out[marked("constant", constant)] = _value(attribute)
    return out


def module_keys(printed: Printed, folded: Folded, names: Sequence[str]) -> tuple[list[Key], list[Key]]:
  """Returns where `params` holds a class's own parameters, and where those of the modules in it.

  Args:
    printed: the function.
    folded: all functions.
    names: their names.
  """
  taken: set[Key] = set()
  paths = [path_parts(leaf.parameter or ()) for leaf in printed.leaves]
  common = min((len(path) - 1 for path in paths), default=0)
  while any(path[:common] != paths[0][:common] for path in paths):
    common -= 1
  leaves = [free_key(path[common:], taken) for path in paths]
  subs: list[Key] = []
  for sub in printed.subs:
    function = sub.functions[0] if isinstance(sub, Loop) else sub
    name = names[folded.index(function)]
    key = plural(name) if isinstance(sub, Loop) else _shown(function, printed.names) or name
    subs.append(free_key((key,), taken))
  return leaves, subs


def _shown(function: WrittenFunction, around: Sequence[str]) -> str:
  """Returns what a module is called within another one: `block_1_conv` is `conv` in `block_1`."""
  title = function.title
  inner = function.names[len(around) :] if function.names[: len(around)] == tuple(around) else ()
  if inner and title.endswith("_" + "_".join(inner)):
    title = "_".join(inner)
  return identifier(re.sub(r"^(\d+)_(.+)$", r"\2_\1", title), "layer") if title else ""


def members_of(
  printed: Printed,
  keys: tuple[Sequence[Key], Sequence[Key]],
  kinds: Sequence[str],
  class_of: Callable[[object], str],
  constants: Iterable[str] = (),
) -> Members:
  """Returns the attributes of a class.

  Args:
    printed: the function.
    keys: where `params` holds its own parameters, and where those of the functions that it calls.
    kinds: "Param", "BatchStat" or "Variable" for each of its own parameters: the class in `flax.nnx`.
    class_of: returns the name of the class of a function that it calls.
    constants: names of constants, which only the outermost function has.
  """
  taken: list[str] = [*_TAKEN]

  def attribute(key: Key) -> str:
    # Names have no underscore in front, so that Python does not mangle them.
    taken.append(unique(identifier("_".join(key), "w"), taken))
    return taken[-1]

  leaves: list[str] = []
  subs: list[str] = []
  statements: list[ast.stmt] = []
  for key, kind in zip(keys[0], kinds, strict=True):
    leaves.append(attribute(key))
    statements.append(_assigned(leaves[-1], _call(f"nnx.{kind}", indexed("params", key))))
  for key, sub in zip(keys[1], printed.subs, strict=True):
    subs.append(attribute(key))
    if isinstance(sub, Loop):
      each = ast.ListComp(
        _call(class_of(sub.functions[0]), ast.Name("p")),
        [ast.comprehension(ast.Name("p"), indexed("params", key), [], 0)],
      )
      statements.append(_assigned(subs[-1], _call("nnx.List", each)))
    else:
      statements.append(_assigned(subs[-1], _call(class_of(sub), indexed("params", key))))
  named: dict[str, str] = {}
  for constant in constants:
    name = attribute((constant,))
    named[name] = constant
    statements.append(_assigned(name, _call("nnx.Variable", indexed("constants", (constant,)))))
  return Members(leaves, subs, named, statements)


def as_class(function: ast.FunctionDef, name: str, members: Members, is_outermost: bool) -> ast.ClassDef:
  """Returns a class whose `__call__` is a function. The outermost one converts what it is given to arrays of JAX."""
  body: list[ast.stmt] = []
  if members.statements:
    given = ["params"] * bool(members.leaves or members.subs) + ["constants"] * bool(members.constants)
    arrays = [ast.parse(f"{tree} = jax.tree.map(jnp.asarray, {tree})").body[0] for tree in given if is_outermost]
    body.append(_method("__init__", given, [*arrays, *members.statements]))
  function.name = "__call__"
  function.args.args.insert(0, ast.arg("self"))
  body.append(_Direct().visit(function))
  found = ast.ClassDef(name, [expression("nnx.Module")], [], body, [])
  setattr(found, "type_params", [])  # noqa: B010
  return found


def with_calls(tree: ast.FunctionDef) -> ast.FunctionDef:
  """Returns a function in which calls with parameters of their own are calls of modules."""
  found: ast.FunctionDef = _Calls().visit(tree)
  return found


class _Calls(ast.NodeTransformer):
  def visit_Call(self, node: ast.Call) -> ast.expr:
    self.generic_visit(node)
    match node:
      case ast.Call(ast.Name(function), [ast.Name(first), *rest]) if function.startswith(marked("function", "")):
        if first.startswith((marked("sub", ""), marked("item", ""))):
          return ast.Call(ast.Name(first), rest, node.keywords)
    return node


class _Direct(ast.NodeTransformer):
  """Leaves out `[...]` of variables in arithmetic and before attributes of arrays: flax reads their values there."""

  def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
    self.generic_visit(node)
    if isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div | ast.MatMult):
      return ast.BinOp(_variable(node.left), node.op, _variable(node.right))
    return node

  def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
    self.generic_visit(node)
    if node.attr in ("T", "astype", "reshape", "shape", "squeeze", "transpose"):
      return ast.Attribute(_variable(node.value), node.attr)
    return node

  def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
    self.generic_visit(node)
    match node:
      case ast.Subscript(ast.Subscript() as inner, ast.Constant(value)) if (
        value is ... and _variable(inner) is not inner
      ):
        return inner
    return node


def _variable(tree: ast.expr) -> ast.expr:
  match tree:
    case ast.Subscript(ast.Attribute(ast.Name("self")), ast.Constant(value)) if value is ...:
      return tree.value
  return tree


def _value(attribute: str) -> ast.expr:
  return ast.Subscript(_attribute(attribute), ast.Constant(...))


def _attribute(name: str) -> ast.expr:
  return ast.Attribute(ast.Name("self"), name)


def _assigned(attribute: str, value: ast.expr) -> ast.stmt:
  return ast.Assign([_attribute(attribute)], value, lineno=0)


def _call(function: str, argument: ast.expr) -> ast.expr:
  return ast.Call(expression(function), [argument], [])


def _method(name: str, arguments: Sequence[str], body: list[ast.stmt]) -> ast.FunctionDef:
  given = [ast.arg(argument) for argument in ("self", *arguments)]
  definition = ast.FunctionDef(name, ast.arguments([], given, None, [], [], None, []), body, [])
  setattr(definition, "type_params", [])  # noqa: B010
  return definition
