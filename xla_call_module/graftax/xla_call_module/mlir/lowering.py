"""How primitives of ours lower, and a whole module merged into the one that is being lowered."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.interpreters.mlir as jax_mlir
from jax.extend.mlir import ir as mlir_ir
from jax.extend.mlir.dialects import func, stablehlo

from graftax.xla_call_module import attributes
from graftax.xla_call_module.mlir.bindings import function_type, symbol_name

__all__ = ["inline_into_lowering", "lowering_platforms", "register_function_lowering", "register_lowering"]


def register_lowering(primitive: Any, rule: Callable[..., Any], platform: str | None = None) -> None:
  """Registers how a primitive lowers; see `jax.interpreters.mlir.register_lowering`."""
  jax_mlir.register_lowering(primitive, rule, platform=platform)


def register_function_lowering(primitive: Any, function: Callable[..., Any]) -> None:
  """Lowers a primitive with several results as the JAX function `function(*operands, **params)`."""
  jax_mlir.register_lowering(primitive, jax_mlir.lower_fun(function, multiple_results=True))


def lowering_platforms(context: Any) -> tuple[str, ...]:
  """The platforms that a lowering rule is asked to lower for."""
  return tuple(context.module_context.platforms)


def inline_into_lowering(context: Any, data: bytes | str, name: str, operands: Sequence[Any]) -> Sequence[Any]:
  """Calls a whole module from the module that is being lowered; returns the values of its results."""
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
