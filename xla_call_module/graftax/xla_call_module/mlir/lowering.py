"""Registers lowering rules of our primitives, and merges a module into the one that is being lowered."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.interpreters.mlir as jax_mlir
from jax.extend.mlir import ir as mlir_ir
from jax.extend.mlir.dialects import func, stablehlo

from graftax.xla_call_module import attributes
from graftax.xla_call_module.mlir.bindings import function_type, symbol_name

__all__ = [
  "inline_into_lowering",
  "lower_bitcast",
  "lower_cholesky",
  "lower_triangular_solve",
  "lowering_of",
  "lowering_platforms",
  "lowers_for_export",
  "register_function_lowering",
  "register_lowering",
]


def register_lowering(primitive: Any, rule: Callable[..., Any], platform: str | None = None) -> None:
  """Registers the lowering rule of a primitive; see `jax.interpreters.mlir.register_lowering`.

  Args:
    primitive: a `jax.extend.core.Primitive`. A rule that it has already is replaced.
    rule: `rule(context, *operands, **params)` returns the MLIR values of the results.
    platform: "cpu", "cuda", "rocm" or "tpu"; None for all platforms without a rule of their own.
  """
  jax_mlir.register_lowering(primitive, rule, platform=platform)


def register_function_lowering(primitive: Any, function: Callable[..., Any]) -> None:
  """Registers `function(*operands, **params)` as the lowering of a primitive with several results.

  Args:
    primitive: a `jax.extend.core.Primitive` with `multiple_results = True`.
    function: returns a list of arrays. It is the lowering for all platforms without a rule of their own.
  """
  jax_mlir.register_lowering(primitive, jax_mlir.lower_fun(function, multiple_results=True))


def lowering_of(function: Callable[..., Any], *, multiple_results: bool = True) -> Any:
  """Returns `function(*operands, **params)` as a lowering rule.

  Args:
    function: traced anew for each use of the primitive, with the primitive's parameters as keyword arguments.
    multiple_results: whether `function` returns a list of arrays; otherwise a single array.
  """
  return jax_mlir.lower_fun(function, multiple_results=multiple_results)


def lower_bitcast(context: Any, x: Any) -> Any:
  """Lowers to `stablehlo.bitcast_convert`.

  Args:
    context: the first argument of a lowering rule; its only result has the shape and dtype to cast to, where a narrower
      dtype adds a last axis and a wider one removes it.
    x: the MLIR value of the operand.
  """
  (result,) = context.avals_out
  sizes = ["?" if jax.export.is_symbolic_dim(size) else size for size in result.shape]
  return [stablehlo.bitcast_convert(mlir_ir.Type.parse(attributes.type_spelling(sizes, result.dtype)), x)]


def lower_cholesky(context: Any, a: Any) -> Any:
  """Lowers to `stablehlo.cholesky`, the lower factor.

  Args:
    context: the first argument of a lowering rule; not used.
    a: the MLIR value of the operand, `[..., n, n]`, floating-point or complex. Only its lower triangle is read.
  """
  return [stablehlo.cholesky(a, lower=mlir_ir.BoolAttr.get(True))]


def lower_triangular_solve(
  context: Any, a: Any, b: Any, *, left_side: bool, lower: bool, unit_diagonal: bool, transpose: str
) -> Any:
  """Lowers to `stablehlo.triangular_solve`.

  Args:
    context: the first argument of a lowering rule; not used.
    a: the MLIR value of the triangular matrices, `[..., n, n]`.
    b: that of the right-hand sides, `[..., n, m]`, or `[..., m, n]` if `left_side` is false.
    left_side: solve `a x = b`; otherwise `x a = b`.
    lower: read the lower triangle of `a`; otherwise the upper one.
    unit_diagonal: take the diagonal of `a` as ones without reading it.
    transpose: "NO_TRANSPOSE", "TRANSPOSE" or "ADJOINT", applied to `a`.
  """
  on_left, is_lower, has_units = map(mlir_ir.BoolAttr.get, (left_side, lower, unit_diagonal))
  return [stablehlo.triangular_solve(a, b, on_left, is_lower, has_units, stablehlo.TransposeAttr.get(transpose))]


def lowering_platforms(context: Any) -> tuple[str, ...]:
  """Returns the platforms for which a lowering rule is called."""
  return tuple(context.module_context.platforms)


def lowers_for_export(context: Any) -> bool:
  """Returns whether a lowering rule is called by `jax.export`."""
  return bool(context.module_context.lowering_parameters.for_export)


def inline_into_lowering(context: Any, data: bytes | str, name: str, operands: Sequence[Any]) -> Sequence[Any]:
  """Merges a module into the one that is being lowered, calls it, and returns the values of its results.

  Args:
    context: the first argument of a lowering rule, `LoweringRuleContext`. Its `avals_out` are the types of the results.
    data: MLIR bytecode or text of a module whose `main` has one argument per operand.
    name: the name of the merged function, which is changed if it is taken.
    operands: the MLIR values of the arguments. They are converted to the types that `main` declares.
  """
  module = mlir_ir.Module.parse(data)
  target = context.module_context.module
  merged = jax_mlir.merge_mlir_modules(target, name, module)
  outputs = [mlir_ir.Type.parse(attributes.type_spelling(aval.shape, aval.dtype)) for aval in context.avals_out]
  symbol = next(op for op in target.body.operations if symbol_name(op) == merged)
  declared = function_type(symbol.operation)
  values = [_convert(value, want) for value, want in zip(operands, declared.inputs, strict=True)]
  call = func.CallOp(list(declared.results), mlir_ir.FlatSymbolRefAttr.get(merged), values)
  return [_convert(value, want) for value, want in zip(call.results, outputs, strict=True)]


def _convert(value: Any, want: Any) -> Any:
  return value if value.type == want else stablehlo.convert(want, value)
