"""Recovers functions that were expanded on export (lgamma, erf_inv, igamma, exp of complex numbers, ...).

`jax.export` expands such a function into up to hundreds of arithmetic ops. The derivative of the expansion is NaN or
wrong at some points: that of a complex exp contains `imag == 0 ? 0 : ...`. It does not exist if the expansion contains
a loop of unknown length.

A template is the expression that JAX exports for the function itself. If a module contains exactly the same expression,
it is replaced by a call of the `lax` function, which has JAX's derivative.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graftax.xla_call_module import analysis, ir, mlir
from graftax.xla_call_module.context import Context, Options
from graftax.xla_call_module.registry import register

__all__ = ["recover"]


@dataclasses.dataclass(frozen=True, slots=True)
class _Entry:
  """A function, and what a module must contain for a search for its expansion to be worthwhile.

  Attributes:
    name: the function in `jax.lax`.
    num_args: number of its arguments.
    constants: a constant of the expansion in float32 and one in float64, of each of JAX's algorithms; the module must
      contain one of them.
    has_loop: whether the expansion contains a loop.
    ops: ops that the module must contain.
  """

  name: str
  num_args: int
  constants: tuple[float, ...] = ()
  has_loop: bool = False
  ops: frozenset[str] = frozenset()

  @property
  def function(self) -> Callable[..., Any]:
    return _function(self.name)


# For lgamma: the logarithm of pi, and the constant term of the polynomial that JAX 0.12 evaluates in float32.
_LGAMMA = (1.1447298526763916, 1.1447298858494002, -0.21417342126369476)
_TWELFTH = (0.0833333358168602, 0.08333333333333333)

# A function precedes those that its expansion contains.
_ENTRIES = (
  _Entry("betainc", 3, _LGAMMA, True),
  _Entry("igamma_grad_a", 2, _LGAMMA, True),
  _Entry("igamma", 2, _LGAMMA, True),
  _Entry("igammac", 2, _LGAMMA, True),
  _Entry("polygamma", 2, _TWELFTH),
  _Entry("zeta", 2, _TWELFTH),
  _Entry("lgamma", 1, _LGAMMA),
  _Entry("digamma", 1, (2.0149030685424805, 2.0149030205422647)),
  _Entry("erfc", 1, (1.1283791065216064, 49267.39426086359)),
  _Entry("erf_inv", 1, (2.832976818084717, 1.6536545626831027)),
  _Entry("bessel_i0e", 1, (0.8044903874397278, 0.8044904110141088)),
  _Entry("bessel_i1e", 1, (0.7785762548446655, 0.7785762350182801)),
)
_COMPLEX_ENTRIES = tuple(
  _Entry(name, 1, ops=frozenset(f"stablehlo.{op}" for op in ("complex", *ops)))
  for name, *ops in (
    ("log1p", "log_plus_one", "atan2"),
    ("log", "log_plus_one", "atan2"),
    ("atan", "log_plus_one", "atan2"),
    ("sqrt", "sqrt", "maximum"),
    ("cos", "exponential_minus_one", "cosine"),
    ("sin", "exponential_minus_one", "sine"),
    ("square", "is_finite"),
    ("logistic", "exponential", "cosine", "divide"),
    ("exp", "exponential", "cosine"),
  )
)
# Functions whose expansion contains exp(-x).
_EXPONENTIAL_ENTRIES = (
  _Entry("logistic", 1, ops=frozenset(f"stablehlo.{op}" for op in ("negate", "exponential", "divide"))),
  _Entry("logaddexp", 2, ops=frozenset(f"stablehlo.{op}" for op in ("negate", "exponential", "log_plus_one"))),
)


@register("graftax.lax", attributes=None)
def _lower(context: Any, op: ir.Op, *operands: Any) -> Any:
  return _function(op.attrs["function"])(*operands)


def _function(name: str) -> Callable[..., Any]:
  return jnp.logaddexp if name == "logaddexp" else getattr(lax, name)


def recover(module_ir: ir.ModuleIR) -> ir.ModuleIR:
  """Returns the module with recognized expansions replaced by `graftax.lax` ops; the same object if there are none."""
  present = _float_constants(module_ir)
  names = {op.name for op in _all_ops(module_ir)}
  wanted = [
    e for e in _ENTRIES if (not e.has_loop or "stablehlo.while" in names) and not present.keys().isdisjoint(e.constants)
  ]
  wanted_complex = [e for e in _COMPLEX_ENTRIES if e.ops <= names]
  wanted_exponential = [e for e in _EXPONENTIAL_ENTRIES if e.ops <= names]
  if not wanted and not wanted_complex and not wanted_exponential:
    return module_ir
  replaced: dict[int, ir.Op] = {}
  defined = _definitions(module_ir)
  for kind in _negated_exponentials(module_ir) if wanted_exponential else ():
    for entry in wanted_exponential:
      _replace_all(module_ir, defined, entry, kind, replaced)
  for entry in wanted:
    for kind in _kinds(module_ir, [number for c in entry.constants for number in present.get(c, ())]):
      _replace_all(module_ir, defined, entry, kind, replaced)
  complex_kinds = dict.fromkeys(op.types[0] for op in _all_ops(module_ir) if op.name == "stablehlo.complex")
  for entry in wanted_complex:
    for kind in complex_kinds:
      _replace_all(module_ir, defined, entry, kind, replaced)
  return _rewritten(module_ir, replaced) if replaced else module_ir


def _negated_exponentials(module_ir: ir.ModuleIR) -> list[ir.TensorType]:
  """Returns the real types for which exp(-x) is computed."""
  negated = {op.results[0] for op in _all_ops(module_ir) if op.name == "stablehlo.negate"}
  exponentials = (op for op in _all_ops(module_ir) if op.name == "stablehlo.exponential" and op.operands[0] in negated)
  return list(dict.fromkeys(op.types[0] for op in exponentials if jnp.issubdtype(op.types[0].dtype, jnp.floating)))


def _definitions(module_ir: ir.ModuleIR) -> dict[int, tuple[ir.Op, int]]:
  return {number: (op, i) for op in _all_ops(module_ir) for i, number in enumerate(op.results)}


def _all_ops(module_ir: ir.ModuleIR) -> Iterator[ir.Op]:
  for function in module_ir.functions.values():
    yield from ir.walk(function.body)


def _float_constants(module_ir: ir.ModuleIR) -> dict[float, list[int]]:
  """Returns, for each constant of a template, the numbers of the values that equal it in all entries."""
  asked = {constant for entry in _ENTRIES for constant in entry.constants}
  found: dict[float, list[int]] = {}
  for op in _all_ops(module_ir):
    if op.name == "stablehlo.constant":
      value = op.attrs["value"]
      if value is not None and value.dtype.kind == "f" and value.size and not any(value.strides):
        scalar = float(value[(0,) * value.ndim])
        if scalar in asked:
          found.setdefault(scalar, []).append(op.results[0])
  return found


def _kinds(module_ir: ir.ModuleIR, numbers: list[int]) -> list[ir.TensorType]:
  """Returns the types an expansion may have: those of the constant's users, and 16-bit floats of the same shapes."""
  shapes: dict[Any, None] = {}
  watched = set(numbers)
  for op in _all_ops(module_ir):
    if watched.intersection(op.operands):
      shapes[op.types[0]] = None
  narrow = {
    op.types[0].dtype for op in _all_ops(module_ir) if op.name == "stablehlo.convert" and _is_narrow(op.types[0])
  }
  kinds = [kind for kind in shapes if isinstance(kind, ir.TensorType) and kind.dtype.kind == "f"]
  return kinds + [ir.TensorType(kind.shape, dtype) for kind in kinds for dtype in narrow]


def _is_narrow(kind: ir.Type) -> bool:
  return isinstance(kind, ir.TensorType) and kind.dtype.name in ("float16", "bfloat16")


@dataclasses.dataclass(frozen=True, slots=True)
class _Template:
  module_ir: ir.ModuleIR
  defined: Mapping[int, tuple[ir.Op, int]]
  arguments: tuple[int, ...]
  root: int


@functools.lru_cache(maxsize=256)
def _template(entry: _Entry, shape: tuple[int | None, ...], dtype: np.dtype, x64: bool) -> _Template | None:
  try:
    with jax.enable_x64(x64):
      specs = [jax.ShapeDtypeStruct(_sizes(shape), dtype)] * entry.num_args
      exported = jax.export.export(jax.jit(entry.function))(*specs)
  except (TypeError, ValueError, NotImplementedError):
    return None
  module_ir = mlir.decode_bytes(exported.mlir_module_serialized)
  # With open dimensions, `main` only checks its arguments and calls this function with the dimensions prepended.
  body = module_ir.functions.get("_wrapped_jax_export_main", module_ir.main).body
  defined = _definitions(module_ir)
  root = body.returns[0]
  if root not in defined or defined[root][0].name == "stablehlo.composite":
    return None
  return _Template(module_ir, defined, body.args[-entry.num_args :], root)


def _sizes(shape: tuple[int | None, ...]) -> tuple[Any, ...]:
  """Returns a shape for `jax.export`, with a symbol for each open dimension."""
  names = [f"d{axis}" if size is None else str(size) for axis, size in enumerate(shape)]
  return jax.export.symbolic_shape(", ".join(names)) if None in shape else shape


def _replace_all(
  module_ir: ir.ModuleIR, defined: Any, entry: _Entry, kind: ir.TensorType, replaced: dict[int, ir.Op]
) -> None:
  for x64 in _modes(entry, kind.dtype):
    template = _template(entry, kind.shape, kind.dtype, x64)
    if template is not None:
      _replace_matches(module_ir, defined, entry, template, replaced)


def _modes(entry: _Entry, dtype: np.dtype) -> tuple[bool, ...]:
  """Returns the values of `jax_enable_x64` with which the module may have been exported.

  It may differ from the current setting. The exported code of a 32-bit function depends on it only through the counters
  of loops.
  """
  if dtype.name in ("float64", "complex128"):
    return (True,)
  return (False, True) if entry.has_loop else (False,)


def _replace_matches(
  module_ir: ir.ModuleIR, defined: Any, entry: _Entry, template: _Template, replaced: dict[int, ir.Op]
) -> None:
  root, _ = template.defined[template.root]
  for op in _all_ops(module_ir):
    if op.name != root.name or op.types != root.types or op.results[0] in replaced:
      continue
    matcher = _Matcher(template, module_ir, defined)
    if matcher.match(template.root, op.results[0]):
      operands = tuple(matcher.bound[number] for number in template.arguments)
      replaced[op.results[0]] = ir.Op(
        "graftax.lax", operands, op.results, op.types, {"function": entry.name}, (), op.location
      )


def _splat(defined: Mapping[int, tuple[ir.Op, int]], number: int) -> Any:
  """Returns the type and the bytes of a constant with equal entries, looking through broadcasts; None for others."""
  if number not in defined:
    return None
  outermost = op = defined[number][0]
  while op.name in analysis.BROADCASTS and op.operands[0] in defined:
    op = defined[op.operands[0]][0]
  if op.name != "stablehlo.constant" or not op.attrs["value"].size or any(op.attrs["value"].strides):
    return None
  value = op.attrs["value"]
  return outermost.types, value[(0,) * value.ndim].tobytes()


def _callee(module_ir: ir.ModuleIR, op: ir.Op) -> ir.Function:
  return module_ir.functions[op.attrs["callee" if op.name == "func.call" else "decomposition"]]


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
      return left.attrs["value"].tobytes() == right.attrs["value"].tobytes()
    if left.name in ("func.call", "stablehlo.composite"):
      return self._match_callees(_callee(self._template.module_ir, left), _callee(self._ir, right))
    return {k: str(v) for k, v in left.attrs.items()} == {k: str(v) for k, v in right.attrs.items()}


def _rewritten(module_ir: ir.ModuleIR, replaced: Mapping[int, ir.Op]) -> ir.ModuleIR:
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
  own = {*region.args, *(number for op in ops for number in op.results)}
  captures = tuple(dict.fromkeys(number for number in (*region.captures, *sorted(needed)) if number in needed - own))
  return dataclasses.replace(region, ops=tuple(reversed(ops)), captures=captures)
