"""Recovers functions that were expanded on export (lgamma, erf_inv, igamma, exp of complex numbers, ...).

`jax.export` expands such a function into up to hundreds of arithmetic ops. The derivative of the expansion is NaN or
wrong at some points: that of a complex exp contains `imag == 0 ? 0 : ...`. It does not exist if the expansion contains
a loop of unknown length. The same holds for functions to which JAX gives a derivative of its own (`custom_jvp`), as it
does to relu, xlogy, expi and zeta.

A template is the expression that JAX exports for the function itself. If a module contains exactly the same expression,
it is replaced by a call of the function, which has JAX's derivative.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from graftax.xla_call_module import analysis, ir, mlir
from graftax.xla_call_module.context import Context, Options
from graftax.xla_call_module.patterns.renaming import renamed
from graftax.xla_call_module.patterns.template_functions import (
  CHAIN_ENTRIES,
  COMPLEX_ENTRIES,
  CONSTANT_ENTRIES,
  EXPONENTIAL_ENTRIES,
  Entry,
)
from graftax.xla_call_module.registry import register
from graftax.xla_call_module.survey import Survey, survey

__all__ = ["Index", "operands_of", "recover", "rewritten", "without_empty_conversions"]


@register("graftax.lax", attributes=None)
def _lower(context: Any, op: ir.Op, *operands: Any) -> Any:
  return op.attrs.function("function")(*operands)


def recover(module_ir: ir.ModuleIR, found: Survey | None = None) -> ir.ModuleIR:
  """Returns the module with recognized expansions replaced by `graftax.lax` ops; the same object if there are none.

  Args:
    module_ir: the module.
    found: its survey, if there is one.
  """
  if not _may_contain_expansions(module_ir, survey(module_ir) if found is None else found):
    return module_ir
  replaced: dict[int, ir.Op] = {}
  index = Index(without_empty_conversions(Index(module_ir)))
  for entry, kinds in _candidates(index):
    _replace_all(index, entry, kinds, replaced)
  replaced.update(_powers_of_integers(index))
  return rewritten(index.module_ir, replaced) if replaced else module_ir


_WITH_OPS = (*EXPONENTIAL_ENTRIES, *COMPLEX_ENTRIES)
_CONSTANTS = frozenset(constant for entry in CONSTANT_ENTRIES for constant in entry.constants)


def _may_contain_expansions(module_ir: ir.ModuleIR, found: Survey) -> bool:
  """Returns whether a search is worthwhile, from the names of ops and functions and the constants alone."""
  names = found.names
  return (
    {"stablehlo.power", "stablehlo.convert"} <= names
    or any(entry.ops <= names for entry in _WITH_OPS)
    or any(_has_names(entry.chain, names, module_ir.functions) for entry in CHAIN_ENTRIES)
    or any(_float_constant(op) in _CONSTANTS for op in found.constants)
  )


def _has_names(chain: Sequence[str], ops: Collection[str], functions: Collection[str]) -> bool:
  """Returns whether a module has the ops of a chain, and functions whose names begin as those in it."""
  return all(name in ops if "." in name else any(f.startswith(name) for f in functions) for name in chain)


class Index:
  """The ops of a module, by name and by result."""

  def __init__(self, module_ir: ir.ModuleIR):
    self.module_ir = module_ir
    self.ops = [op for function in module_ir.functions.values() for op in ir.walk(function.body)]
    self.by_name: dict[str, list[ir.Op]] = {}
    for op in self.ops:
      self.by_name.setdefault(op.name, []).append(op)

  def named(self, name: str) -> Sequence[ir.Op]:
    """Returns the ops with this name. If it has no dot, returns the calls of functions whose names begin with it."""
    if "." in name:
      return self.by_name.get(name, ())
    return [op for op in self.by_name.get("func.call", ()) if _is_named(op, name)]

  @functools.cached_property
  def defined(self) -> "_Definitions":
    """The op that computes each value, and the position among its results."""
    return {number: (op, i) for op in self.ops for i, number in enumerate(op.results)}

  @functools.cached_property
  def users(self) -> dict[int, list[ir.Op]]:
    """The ops that have a value as an operand."""
    users: dict[int, list[ir.Op]] = {}
    for op in self.ops:
      for number in op.operands:
        users.setdefault(number, []).append(op)
    return users

  @functools.cached_property
  def _arguments(self) -> dict[int, Any]:
    types: dict[int, Any] = {}
    for function in self.module_ir.functions.values():
      types.update(zip(function.body.args, function.types, strict=True))
    for op in self.ops:
      for region in op.regions:
        types.update(zip(region.args, region.types, strict=True))
    return types

  def type_of(self, number: int) -> Any:
    """Returns the type of a value."""
    if number not in self.defined:
      return self._arguments[number]
    op, i = self.defined[number]
    return op.types[i]


def without_empty_conversions(index: Index) -> ir.ModuleIR:
  """Returns the module without conversions to the same type, which JAX writes for Python's numbers."""
  names: dict[int, int] = {}
  for op in index.named("stablehlo.convert"):
    if index.type_of(op.operands[0]) == op.types[0]:
      names[op.results[0]] = names.get(op.operands[0], op.operands[0])
  return renamed(index.module_ir, names)


def _candidates(index: Index) -> Iterator[tuple[Entry, tuple[ir.TensorType, ...]]]:
  """Yields functions that a module may contain, with the types that their arguments may have there."""
  names = index.by_name.keys()
  chained = [found for entry in CHAIN_ENTRIES for found in _chained(index, entry)]
  yield from dict.fromkeys(chained)
  exponential = [entry for entry in EXPONENTIAL_ENTRIES if entry.ops <= names]
  for kind in _negated_exponentials(index) if exponential else ():
    yield from ((entry, (kind,) * entry.num_args) for entry in exponential)
  present = _float_constants(index)
  for entry in CONSTANT_ENTRIES:
    numbers = [number for constant in entry.constants for number in present.get(constant, ())]
    if numbers and (not entry.has_loop or "stablehlo.while" in names):
      yield from ((entry, (kind,) * entry.num_args) for kind in _kinds(index, numbers))
  complex_kinds = dict.fromkeys(op.types[0] for op in index.named("stablehlo.complex"))
  for entry in COMPLEX_ENTRIES:
    if entry.ops <= names:
      yield from ((entry, (kind,)) for kind in complex_kinds)


def _chained(index: Index, entry: Entry) -> Iterator[tuple[Entry, tuple[ir.TensorType, ...]]]:
  """Yields the types of arguments where the module contains the ops that an entry names."""
  if not _has_names(entry.chain, index.by_name, index.module_ir.functions):
    return
  for op in index.named(entry.chain[0]):
    if not _has_tensors(op.types):
      continue
    if len(entry.chain) == 1:
      operands = _compared_operands(index.module_ir, op)
      callee = _callee(index.module_ir, op)
      types = tuple(itertools.compress(callee.types, _is_compared(callee)))
      if len(operands) == entry.num_args and _has_tensors(types):
        yield entry, types
    elif (innermost := _end_of_chain(index.defined, op, entry.chain[1:])) is not None and _has_tensors(innermost.types):
      whole, inner = op.types[0], innermost.types[0]
      for types in itertools.product(
        dict.fromkeys((whole, inner, ir.TensorType((), whole.dtype))), repeat=entry.num_args
      ):
        if whole in types or inner in types:
          yield entry, types


def _has_tensors(types: Sequence[ir.Type]) -> bool:
  """Returns whether there is a type, and all are tensors: a function of a known name may return nothing, or tokens."""
  return bool(types) and all(isinstance(kind, ir.TensorType) for kind in types)


def _is_named(op: ir.Op, name: str) -> bool:
  return op.name == name if "." in name else op.name == "func.call" and op.attrs.text("callee").startswith(name)


def _end_of_chain(defined: "_Definitions", op: ir.Op, chain: Sequence[str]) -> ir.Op | None:
  """Returns the last op of a chain of operands that begins at an op, looking through broadcasts."""
  if not chain:
    return op
  for number in op.operands:
    inner = _without_broadcasts(defined, number)
    if inner is not None and _is_named(inner, chain[0]):
      found = _end_of_chain(defined, inner, chain[1:])
      if found is not None:
        return found
  return None


def _without_broadcasts(defined: "_Definitions", number: int) -> ir.Op | None:
  while number in defined:
    op = defined[number][0]
    if op.name not in analysis.BROADCASTS:
      return op
    number = op.operands[0]
  return None


def _powers_of_integers(index: Index) -> dict[int, ir.Op]:
  """Returns ops for `x ** y` of integers `y`, which StableHLO has as floats; their derivative at 0 ** 0 is 0."""
  found = {}
  for op in index.named("stablehlo.power"):
    if _has_tensors(op.types) and jnp.issubdtype(op.types[0].dtype, jnp.inexact):
      convert = _without_numpy_broadcast(index.defined, op.operands[1])
      if convert is not None and convert.name == "stablehlo.convert":
        exponents = convert.operands[0]
        kind = index.type_of(exponents)
        if kind.dtype.kind in "iu" and kind.dtype.itemsize <= 4:
          found[op.results[0]] = dataclasses.replace(
            op, name="graftax.integer_exponents", operands=(op.operands[0], exponents), attrs=ir.Attributes()
          )
  return found


@register("graftax.integer_exponents", attributes=None)
def _integer_exponents(context: Any, op: ir.Op, x: Any, y: Any) -> Any:
  return lax.pow(x, jnp.broadcast_to(y, jnp.shape(x)))


def _without_numpy_broadcast(defined: "_Definitions", number: int) -> ir.Op | None:
  """Returns the op that computes a value, or what it broadcasts, if that keeps the axes or begins with a scalar."""
  op = defined[number][0] if number in defined else None
  if op is None or op.name != "stablehlo.broadcast_in_dim":
    return op
  dims = op.attrs.integers("broadcast_dimensions")
  keeps = not dims or dims == tuple(range(op.types[0].rank))
  return defined[op.operands[0]][0] if keeps and op.operands[0] in defined else None


def _negated_exponentials(index: Index) -> list[ir.TensorType]:
  """Returns the real types for which exp(-x) is computed."""
  negated = {op.results[0] for op in index.named("stablehlo.negate")}
  exponentials = (op for op in index.named("stablehlo.exponential") if op.operands[0] in negated)
  kinds = dict.fromkeys(op.types[0] for op in exponentials if _has_tensors(op.types))
  return [kind for kind in kinds if jnp.issubdtype(kind.dtype, jnp.floating)]


def _float_constants(index: Index) -> dict[float, list[int]]:
  """Returns, for each constant of a template, the numbers of the values that equal it in all entries."""
  found: dict[float, list[int]] = {}
  for op in index.named("stablehlo.constant"):
    scalar = _float_constant(op)
    if scalar in _CONSTANTS:
      found.setdefault(scalar, []).append(op.results[0])
  return found


def _float_constant(op: ir.Op) -> float:
  """Returns the number that all entries of a constant equal; NaN if they differ or are not floats."""
  value = op.attrs.maybe_array("value")
  if value is None or value.dtype.kind != "f" or not value.size or any(value.strides):
    return math.nan
  return float(value[(0,) * value.ndim])


def _kinds(index: Index, numbers: list[int]) -> list[ir.TensorType]:
  """Returns the types an expansion may have: those of the constant's users, and 16-bit floats of the same shapes."""
  users = [op for number in numbers for op in index.users.get(number, ()) if op.types]
  kinds = [kind for kind in dict.fromkeys(op.types[0] for op in users) if isinstance(kind, ir.TensorType)]
  kinds = [kind for kind in kinds if kind.dtype.kind == "f"]
  converted = dict.fromkeys(op.types[0] for op in index.named("stablehlo.convert") if kinds)
  narrow = dict.fromkeys(kind.dtype for kind in converted if _is_narrow(kind))
  return kinds + [ir.TensorType(kind.shape, dtype) for kind in kinds for dtype in narrow]


def _is_narrow(kind: ir.Type) -> bool:
  return isinstance(kind, ir.TensorType) and kind.dtype.name in ("float16", "bfloat16")


_Definitions = Mapping[int, tuple[ir.Op, int]]


@dataclasses.dataclass(frozen=True, slots=True)
class _Template:
  module_ir: ir.ModuleIR
  defined: Mapping[int, tuple[ir.Op, int]]
  arguments: tuple[int, ...]
  root: int


@functools.lru_cache(maxsize=256)
def _template(entry: Entry, kinds: tuple[ir.TensorType, ...], x64: bool) -> _Template | None:
  try:
    with jax.enable_x64(x64):
      scope = jax.export.SymbolicScope()
      specs = [jax.ShapeDtypeStruct(_sizes(kind.shape, scope), kind.dtype) for kind in kinds]
      exported = jax.export.export(jax.jit(entry.function))(*specs)
  except (AttributeError, TypeError, ValueError, NotImplementedError):  # the first if this JAX lacks the function
    return None
  index = Index(without_empty_conversions(Index(mlir.decode_bytes(exported.mlir_module_serialized))))
  module_ir, defined = index.module_ir, index.defined
  # With open dimensions, `main` only checks its arguments and calls this function with the dimensions prepended.
  body = module_ir.functions.get("_wrapped_jax_export_main", module_ir.main).body
  root = body.returns[0]
  if root not in defined or defined[root][0].name == "stablehlo.composite":
    return None
  return _Template(module_ir, defined, body.args[-entry.num_args :], root)


def _sizes(shape: tuple[int | None, ...], scope: jax.export.SymbolicScope) -> Sequence[Any]:
  """Returns a shape for `jax.export`, with a symbol for each open dimension."""
  names = [f"d{axis}" if size is None else str(size) for axis, size in enumerate(shape)]
  return jax.export.symbolic_shape(", ".join(names), scope=scope) if None in shape else shape


def _replace_all(index: Index, entry: Entry, kinds: tuple[ir.TensorType, ...], replaced: dict[int, ir.Op]) -> None:
  for x64 in _modes(entry, kinds):
    template = _template(entry, kinds, x64)
    if template is not None:
      _replace_matches(index, entry, template, replaced)


def _modes(entry: Entry, kinds: Sequence[ir.TensorType]) -> tuple[bool, ...]:
  """Returns the values of `jax_enable_x64` with which the module may have been exported.

  It may differ from the current setting. The exported code of a 32-bit function depends on it only through the counters
  of loops and the indices inside functions that are called.
  """
  if any(kind.dtype.name in ("float64", "complex128", "int64", "uint64") for kind in kinds):
    return (True,)
  if entry.has_loop or entry.chain or entry.name.startswith("scipy"):
    return (False, True)
  template = _template(entry, kinds, False)
  return (False, True) if template is not None and _calls_functions(template) else (False,)


def _calls_functions(template: _Template) -> bool:
  return any(op.name == "func.call" for op, _ in template.defined.values())


def _replace_matches(index: Index, entry: Entry, template: _Template, replaced: dict[int, ir.Op]) -> None:
  root, _ = template.defined[template.root]
  for op in index.named(root.name):
    if op.types != root.types or op.results[0] in replaced:
      continue
    matcher = _Matcher(template, index.module_ir, index.defined)
    if matcher.match(template.root, op.results[0]):
      operands = tuple(matcher.bound[number] for number in template.arguments)
      replaced[op.results[0]] = ir.Op(
        "graftax.lax", operands, op.results, op.types, ir.Attributes(function=entry.replacement), (), op.location
      )


def operands_of(index: Index, entry: Entry, kinds: tuple[ir.TensorType, ...], root: int) -> tuple[int, ...] | None:
  """Returns the values to which a function is applied if a value is exactly what JAX exports for it, else None."""
  for x64 in _modes(entry, kinds):
    template = _template(entry, kinds, x64)
    if template is None:
      continue
    template = _inside_of_call(template)
    matcher = _Matcher(template, index.module_ir, index.defined)
    if matcher.match(template.root, root):
      return tuple(matcher.bound[number] for number in template.arguments)
  return None


def _inside_of_call(template: _Template) -> _Template:
  """Returns the template of the body, if JAX exports a function as a call of a function with the same arguments."""
  op = template.defined[template.root][0]
  if op.name != "func.call" or tuple(_compared_operands(template.module_ir, op)) != template.arguments:
    return template
  callee = _callee(template.module_ir, op)
  arguments = tuple(itertools.compress(callee.body.args, _is_compared(callee)))
  return dataclasses.replace(template, arguments=arguments, root=callee.body.returns[0])


def _splat(defined: Mapping[int, tuple[ir.Op, int]], number: int) -> Any:
  """Returns the type and the bytes of a constant with equal entries, looking through broadcasts; None for others."""
  if number not in defined:
    return None
  outermost = op = defined[number][0]
  while op.name in analysis.BROADCASTS and op.operands[0] in defined:
    op = defined[op.operands[0]][0]
  value = op.attrs.maybe_array("value") if op.name == "stablehlo.constant" else None
  if value is None or not value.size or any(value.strides):
    return None
  return outermost.types, value[(0,) * value.ndim].tobytes()


def _callee(module_ir: ir.ModuleIR, op: ir.Op) -> ir.Function:
  return module_ir.functions[op.attrs.text("callee" if op.name == "func.call" else "decomposition")]


def _is_compared(function: ir.Function) -> list[bool]:
  """Returns for each argument of a function whether it is something else than the size of an open dimension.

  JAX passes all sizes of a module to each function. Those of the template may be fewer than those of the module.
  """
  return ["jax.global_constant" not in attrs for attrs in function.attrs]


def _compared_operands(module_ir: ir.ModuleIR, op: ir.Op) -> Sequence[int]:
  """Returns the operands of an op without the sizes of open dimensions: the ops that use the result determine these."""
  if op.name == "stablehlo.dynamic_broadcast_in_dim":
    return op.operands[:1]
  if op.name == "func.call":
    return tuple(itertools.compress(op.operands, _is_compared(_callee(module_ir, op))))
  return op.operands


class _Matcher:
  """Unifies the expression of a template with one of a module; `bound` maps the template's values to the module's."""

  def __init__(self, template: _Template, module_ir: ir.ModuleIR, defined: Mapping[int, tuple[ir.Op, int]]):
    self._template, self._ir, self._defined = template, module_ir, defined
    self.bound: dict[int, int] = {}

  def match(self, wanted: int, found: int) -> bool:
    constant = _splat(self._template.defined, wanted)
    if constant is not None:
      return constant == _splat(self._defined, found)
    if wanted in self.bound:
      bound = self.bound[wanted]
      return bound == found or (
        (same := _splat(self._defined, found)) is not None and same == _splat(self._defined, bound)
      )
    if wanted in self._template.arguments:
      self.bound[wanted] = found
      return True
    if wanted not in self._template.defined or found not in self._defined:
      return False
    (left, i), (right, j) = self._template.defined[wanted], self._defined[found]
    if i != j or left.name != right.name or left.types != right.types or not self._same_attributes(left, right):
      return False
    operands = _compared_operands(self._template.module_ir, left), _compared_operands(self._ir, right)
    if not self._match_all(*operands) or not all(map(self._match_regions, left.regions, right.regions)):
      return False
    self.bound.update(zip(left.results, right.results, strict=True))
    return True

  def _match_all(self, wanted: Sequence[int], found: Sequence[int]) -> bool:
    return len(wanted) == len(found) and all(map(self.match, wanted, found))

  def _match_regions(self, left: ir.Region, right: ir.Region) -> bool:
    if left.types != right.types:
      return False
    self.bound.update(zip(left.args, right.args, strict=True))
    return self._match_all(left.returns, right.returns)

  def _match_callees(self, left: ir.Function, right: ir.Function) -> bool:
    compared = _is_compared(left), _is_compared(right)
    types = [tuple(itertools.compress(f.types, kept)) for f, kept in zip((left, right), compared, strict=True)]
    if types[0] != types[1]:
      return False
    args = [itertools.compress(f.body.args, kept) for f, kept in zip((left, right), compared, strict=True)]
    self.bound.update(zip(*args, strict=True))
    return self._match_all(left.body.returns, right.body.returns)

  def _same_attributes(self, left: ir.Op, right: ir.Op) -> bool:
    if left.name == "stablehlo.constant":
      values = left.attrs.maybe_array("value"), right.attrs.maybe_array("value")
      return values[0] is not None and values[1] is not None and values[0].tobytes() == values[1].tobytes()
    if left.name in ("func.call", "stablehlo.composite"):
      return self._match_callees(_callee(self._template.module_ir, left), _callee(self._ir, right))
    return {k: str(v) for k, v in left.attrs.items()} == {k: str(v) for k, v in right.attrs.items()}


def rewritten(module_ir: ir.ModuleIR, replaced: Mapping[int, ir.Op]) -> ir.ModuleIR:
  """Returns the module with other ops in the place of those with these first results, and without unused ops."""
  context = Context(module_ir, Options())
  functions = {
    name: dataclasses.replace(function, body=_rewritten_region(context, function.body, replaced))
    for name, function in module_ir.functions.items()
  }
  return dataclasses.replace(module_ir, functions=functions)


def _rewritten_region(context: Context, region: ir.Region, replaced: Mapping[int, ir.Op]) -> ir.Region:
  """Inserts the replacement ops and removes ops whose results are no longer used."""
  ops = []
  needed = set(region.returns)
  for op in reversed(region.ops):
    op = replaced.get(op.results[0], op) if op.results else op
    if op.results and not needed.intersection(op.results) and not analysis.has_effect(context, op):
      continue
    if op.regions:
      op = dataclasses.replace(op, regions=tuple(_rewritten_region(context, inner, replaced) for inner in op.regions))
    needed.update(op.operands)
    needed.update(capture for inner in op.regions for capture in inner.captures)
    ops.append(op)
  # A replacement op may capture an outer value that only a nested op of its expansion captured before.
  outer = needed - {*region.args, *(number for op in ops for number in op.results)}
  captures = tuple(dict.fromkeys(number for number in (*region.captures, *sorted(outer)) if number in outer))
  return dataclasses.replace(region, ops=tuple(reversed(ops)), captures=captures)
