"""Derives modules from a module: one with plain arguments and static shapes, or one of a single op."""

import re
from collections.abc import Mapping, Sequence

import jax.extend.mlir
import jax.interpreters.mlir as jax_mlir
from jax.extend.mlir import ir as mlir_ir
from jax.extend.mlir.dialects import func, stablehlo

from graftax.xla_call_module import errors
from graftax.xla_call_module.mlir.bindings import MlirValue, function_type, mlir_context, parse, symbol_name
from graftax.xla_call_module.mlir.decoding import Decoder
from graftax.xla_call_module.mlir.sparse_indices import clamp_indices

__all__ = ["extract_op", "specialize"]


def specialize(
  data: bytes | str,
  types: Sequence[str],
  *,
  leading: Sequence[tuple[int, str]] = (),
  kept: Sequence[int] | None = None,
  refine: bool = False,
  clamps_indices: bool = True,
) -> str:
  """Returns the text of the module with a new `main` that calls the original one.

  The new `main` has the plain arguments only. It passes the platform index and the dimension arguments as constants,
  creates tokens, drops unused arguments, converts each argument to the declared type, and does not return tokens.

  Args:
    data: the module.
    types: MLIR spelling of the type of each argument of the new `main`.
    leading: `(value, MLIR type)` of each scalar that precedes them in the original `main`.
    kept: positions of the arguments that the original `main` has; by default all.
    refine: propagate the static shapes of `types` through a polymorphic module.
    clamps_indices: clamp the indices of sparse products; false if the module has no sparse products.

  Raises:
    RefinementError: the module cannot be refined to `types`.
  """
  with mlir_context() as messages:
    module = parse(data, messages)
    old = next(op for op in module.body.operations if symbol_name(op) == "main")
    _add_plain_main(module, old.operation, types, leading, range(len(types)) if kept is None else kept)
    if refine:
      try:
        module = mlir_ir.Module.parse(jax.extend.mlir.refine_polymorphic_shapes(jax_mlir.module_to_bytecode(module)))
      except Exception as error:
        raise errors.RefinementError(
          f"module cannot be refined to argument types {list(types)}: {'; '.join(messages[:3]) or error}"
        ) from None
    if clamps_indices:
      clamp_indices(module)
    return str(module.operation.get_asm(enable_debug_info=True))


def _add_plain_main(
  module: mlir_ir.Module,
  old: mlir_ir.Operation,
  types: Sequence[str],
  leading: Sequence[tuple[int, str]],
  kept: Sequence[int],
) -> None:
  declared, outputs = list(function_type(old).inputs), list(function_type(old).results)
  inner = _fresh_symbol(module)
  old.attributes["sym_name"] = mlir_ir.StringAttr.get(inner)
  old.attributes["sym_visibility"] = mlir_ir.StringAttr.get("private")
  plain = [kind for kind in outputs if str(kind) != "!stablehlo.token"]
  with mlir_ir.InsertionPoint(module.body):
    main = func.FuncOp("main", mlir_ir.FunctionType.get([mlir_ir.Type.parse(text) for text in types], plain))
    main.attributes["sym_visibility"] = mlir_ir.StringAttr.get("public")
    block = main.add_entry_block()
  with mlir_ir.InsertionPoint(block):
    given = iter([block.arguments[i] for i in kept])
    scalars = iter(leading)
    values: list[MlirValue] = []
    for want in declared:
      if str(want) == "!stablehlo.token":
        values.append(stablehlo.create_token())
      elif (scalar := next(scalars, None)) is not None:
        values.append(_scalar_constant(*scalar))
      else:
        value = next(given)
        values.append(value if value.type == want else stablehlo.convert(want, value))
    call = func.CallOp(outputs, mlir_ir.FlatSymbolRefAttr.get(inner), values)
    func.ReturnOp([result for result in call.results if str(result.type) != "!stablehlo.token"])


def _fresh_symbol(module: mlir_ir.Module) -> str:
  """Returns a function name that the module does not use."""
  taken = {symbol_name(op) for op in module.body.operations}
  return next(name for i in range(len(taken) + 1) if (name := f"_inner_main_{i}") not in taken)


def _scalar_constant(value: int, spelling: str) -> MlirValue:
  kind = mlir_ir.RankedTensorType(mlir_ir.Type.parse(spelling))
  return stablehlo.constant(
    mlir_ir.DenseElementsAttr.get_splat(kind, mlir_ir.IntegerAttr.get(kind.element_type, value))
  )


def extract_op(data: bytes | str, number: int) -> tuple[str, tuple[int, ...]]:
  """Returns the text of a module with a single op as its `main`, and the numbers of the values that the op reads.

  Args:
    data: the module.
    number: the number, in the decoded module, of the first result of the op.

  Returns:
    The text, and the numbers of the operands in order, followed by those of the values that the op's regions capture.

  Raises:
    KeyError: no op has that result.
  """
  with mlir_context() as messages:
    module = parse(data, messages)
    decoder = Decoder(keep_ops=True)
    decoder.module_ir(module)
    op, numbers = decoder.kept[number]
    reads = dict.fromkeys([*op.operands, *_captured(op)])
    order = list(reads)
    for view in list(module.body.operations):
      if symbol_name(view) == "main":
        view.operation.attributes["sym_name"] = mlir_ir.StringAttr.get(_fresh_symbol(module))
        view.operation.attributes["sym_visibility"] = mlir_ir.StringAttr.get("private")
    kinds = [result.type for result in op.results]
    with mlir_ir.InsertionPoint(module.body):
      main = func.FuncOp("main", mlir_ir.FunctionType.get([value.type for value in order], kinds))
      block = main.add_entry_block()
    with mlir_ir.InsertionPoint(block):
      clone = op.clone().operation
      _replace_operands(clone, dict(zip(order, block.arguments, strict=True)))
      func.ReturnOp(list(clone.results))
    _erase_unused_functions(module)
    return str(module), tuple(numbers[value] for value in order)


def _erase_unused_functions(module: mlir_ir.Module) -> None:
  """Erases the functions that `main` does not reach, so that they are neither checked nor compiled."""
  functions = {symbol_name(view): view.operation for view in module.body.operations}
  reached, pending = set(), ["main"]
  while pending:
    name = pending.pop()
    if name in reached:
      continue
    reached.add(name)
    text = str(functions[name].get_asm(large_elements_limit=0))
    pending += [quoted or plain for quoted, plain in _SYMBOL.findall(text) if (quoted or plain) in functions]
  for name, operation in functions.items():
    if name not in reached:
      operation.erase()


_SYMBOL = re.compile(r'@(?:"((?:[^"\\\\]|\\\\.)*)"|([\w$.-]+))')


def _captured(op: mlir_ir.Operation) -> list[MlirValue]:
  """Returns the values that the regions of an op capture."""
  inside: set[MlirValue] = set()
  found: list[MlirValue] = []

  def visit(region: mlir_ir.Region) -> None:
    for block in region.blocks:
      inside.update(block.arguments)
      for inner in block.operations:
        found.extend(value for value in inner.operation.operands if value not in inside)
        inside.update(inner.operation.results)
        for nested in inner.operation.regions:
          visit(nested)

  for region in op.regions:
    visit(region)
  return found


def _replace_operands(op: mlir_ir.Operation, replacement: Mapping[MlirValue, MlirValue]) -> None:
  for position, value in enumerate(list(op.operands)):
    if value in replacement:
      op.operands[position] = replacement[value]
  for region in op.regions:
    for block in region.blocks:
      for inner in block.operations:
        _replace_operands(inner.operation, replacement)
