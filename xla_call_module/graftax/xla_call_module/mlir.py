"""The one file that touches MLIR bindings: bytes or text to our IR, refinement, merging into a lowering, serializing.

Checked on the JAX versions listed in `SUPPORTED_JAX`.
"""

import contextlib
import functools
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax.extend.mlir
import jax.interpreters.mlir as jax_mlir
import numpy as np
from jax.extend.mlir import ir as mlir_ir
from jax.extend.mlir import passmanager
from jax.extend.mlir.dialects import chlo, func, sdy, stablehlo  # noqa: F401  (loading registers the dialects)

from graftax.xla_call_module import attributes, bytecode, errors, ir

__all__ = [
  "SUPPORTED_JAX",
  "decode_bytes",
  "decode_text",
  "deserialize",
  "current_version",
  "from_hlo",
  "inline_into_lowering",
  "extract_op",
  "register_function_lowering",
  "register_lowering",
  "run_passes",
  "specialise",
  "main_result_types",
  "lowering_platforms",
  "serialize",
  "to_text",
]

SUPPORTED_JAX = ("0.10.0", "0.10.2")


@functools.cache
def _register_passes() -> None:
  stablehlo.register_stablehlo_passes()


@contextlib.contextmanager
def _context() -> Iterator[list[str]]:
  """A fresh MLIR context that collects diagnostics instead of printing them."""
  context = jax_mlir.make_ir_context()
  messages: list[str] = []

  def collect(diagnostic: Any) -> bool:
    messages.append(f"{diagnostic.location}: {diagnostic.message}")
    return True

  handler = context.attach_diagnostic_handler(collect)
  try:
    with context, mlir_ir.Location.unknown():
      yield messages
  finally:
    handler.detach()


def current_version() -> tuple[int, ...]:
  """The newest StableHLO version that the installed jaxlib reads."""
  return tuple(int(part) for part in stablehlo.get_current_version().split("."))


def _parse(data: bytes | str, messages: list[str]) -> Any:
  """An MLIR module in the current context from text, MLIR bytecode or a portable artifact."""
  if isinstance(data, bytes) and bytecode.is_portable(data):
    bytecode.check_version(data, current_version())
  try:
    if isinstance(data, bytes) and bytecode.is_portable(data):
      # Until jax>=0.10.2: the binding returned the module as bytecode or text instead of a module.
      found = jax.extend.mlir.deserialize_portable_artifact(data)
      return mlir_ir.Module.parse(found) if isinstance(found, (bytes, str)) else found
    return mlir_ir.Module.parse(data)
  except errors.StableHloError:
    raise
  except Exception as error:  # the bindings raise several unrelated types
    details = "; ".join(messages[:3]) or _diagnostics(error)
    kind = "text" if isinstance(data, str) else f"{len(data)} bytes"
    raise errors.DecodeError(
      f"StableHLO module ({kind}) does not parse: {details}; expected MLIR text, MLIR bytecode, or a StableHLO"
      f" portable artifact of version {'.'.join(map(str, current_version()))} or older."
    ) from None


def _diagnostics(error: Exception) -> str:
  found = getattr(error, "error_diagnostics", None)
  return "; ".join(f"{item.location}: {item.message}" for item in found[:3]) if found else str(error).split("\n")[0]


def decode_text(text: str) -> ir.Program:
  """The program that MLIR text spells.

  Raises:
    DecodeError: the text does not parse or does not verify.
  """
  return _decode(text)


def decode_bytes(data: bytes) -> ir.Program:
  """The program in a StableHLO portable artifact (VHLO) or in MLIR bytecode.

  Raises:
    DecodeError: garbage, a truncated file, or a module that does not verify.
    VersionError: written by a newer StableHLO than the installed jaxlib reads.
  """
  return _decode(data)


def _decode(data: bytes | str) -> ir.Program:
  with _context() as messages:
    module = _parse(data, messages)
    try:
      return _Decoder().program(module)
    except errors.StableHloError:
      raise
    except Exception as error:  # what verifies may still hold names or attributes that cannot be read
      raise errors.DecodeError(
        f"StableHLO module parses but cannot be read: {type(error).__name__}: {error}. The bytes are damaged, or were"
        " not written by StableHLO."
      ) from error


def deserialize(data: bytes | str) -> str:
  """The module as text; large constants included."""
  with _context() as messages:
    return str(_parse(data, messages))


def to_text(data: bytes | str) -> str:
  """The module as text with source locations."""
  with _context() as messages:
    return _parse(data, messages).operation.get_asm(enable_debug_info=True)


def serialize(data: bytes | str, *, version: str | None = None) -> bytes:
  """The module as a StableHLO portable artifact that readers of `version` (default: the newest) understand."""
  with _context() as messages:
    module = _parse(data, messages)
    try:
      return _serialize(module, version or stablehlo.get_current_version())
    except Exception as error:
      raise errors.VersionError(
        f"module cannot be written as StableHLO {version}: {'; '.join(messages[:3]) or error}"
      ) from None


def _serialize(module: Any, version: str) -> bytes:
  try:
    return jax.extend.mlir.serialize_portable_artifact(module, version)
  except TypeError:  # Until jax>=0.10.2: the binding took bytecode instead of a module.
    return jax.extend.mlir.serialize_portable_artifact(jax_mlir.module_to_bytecode(module), version)


def from_hlo(hlo: bytes) -> bytes:
  """MLIR bytecode of the StableHLO of a serialized `HloModuleProto`."""
  try:
    return jax.extend.mlir.hlo_to_stablehlo(hlo)
  except Exception as error:
    raise errors.DecodeError(f"HLO module of {len(hlo)} bytes does not convert to StableHLO: {error}") from None


def run_passes(data: bytes | str, pipeline: str) -> str:
  """The module as text after an MLIR pass pipeline such as `builtin.module(inline)`."""
  _register_passes()
  with _context() as messages:
    module = _parse(data, messages)
    try:
      passmanager.PassManager.parse(pipeline).run(module.operation)
    except Exception as error:
      raise errors.RefinementError(f"pipeline {pipeline!r} failed: {'; '.join(messages[:3]) or error}") from None
    return module.operation.get_asm(enable_debug_info=True)


# ----------------------------------------------------------------------------------------------------------- decoding


class _Decoder:
  """Walks one MLIR module. Types and attributes are uniqued by MLIR, so each is decoded once."""

  def __init__(self, *, keep_ops: bool = False) -> None:
    self.kept: dict[int, tuple[Any, dict[Any, int]]] = {}
    self._keep_ops = keep_ops
    self._types: dict[Any, ir.Type] = {}
    self._attributes: dict[Any, Any] = {}
    self._locations: dict[Any, str] = {}
    self._next = 0

  def program(self, module: Any) -> ir.Program:
    functions, meshes = {}, {}
    for view in module.body.operations:
      op = view.operation
      attrs = self.attrs(op)
      if op.name == "func.func":
        functions[attrs["sym_name"]] = self.function(op, attrs)
      elif op.name == "sdy.mesh":
        meshes[attrs["sym_name"]] = attrs["mesh"]
      else:
        raise errors.UnsupportedModuleError(
          f"module {module.operation.name!r}: top-level op {op.name!r} is not supported; expected func.func or"
          " sdy.mesh."
        )
    top = self.attrs(module.operation)
    return ir.Program(top.pop("sym_name", ""), functions, top, meshes)

  def function(self, op: Any, attrs: Mapping[str, Any]) -> ir.Function:
    blocks = list(op.regions[0].blocks)
    if len(blocks) != 1:
      what = "is only declared" if not blocks else f"has {len(blocks)} blocks"
      raise errors.UnsupportedModuleError(f"function {attrs['sym_name']!r} {what}; expected one block.")
    body = self.region(op.regions[0], {})
    nothing: Mapping[str, Any] = {}
    result_types = tuple(self.type(t) for t in _function_type(op).results)
    return ir.Function(
        name=attrs["sym_name"], body=body,
        attrs=attrs.get("arg_attrs") or (nothing,) * len(body.args),
        result_types=result_types,
        result_attrs=attrs.get("res_attrs") or (nothing,) * len(result_types),
        is_public=attrs.get("sym_visibility", "public") == "public",
    )  # fmt: skip

  def region(self, region: Any, numbers: dict[Any, int]) -> ir.Region:
    """Decodes a single-block region; `numbers` holds every value of the function seen so far."""
    blocks = list(region.blocks)
    if not blocks:
      return ir.Region((), (), (), (), ())
    if len(blocks) != 1:
      raise errors.UnsupportedModuleError(f"a region has {len(blocks)} blocks; StableHLO regions have one.")
    arguments = list(blocks[0].arguments)
    own = self.number(arguments, numbers)
    inside, ops = set(own), []
    captures: dict[int, None] = {}
    returns: tuple[int, ...] = ()
    for view in blocks[0].operations:
      op = view.operation
      operands = tuple([numbers[value] for value in op.operands])
      regions = tuple([self.region(inner, numbers) for inner in op.regions]) if len(op.regions) else ()
      for number in (*operands, *(number for inner in regions for number in inner.captures)):
        if number not in inside:
          captures[number] = None
      name = op.name
      if name in _TERMINATORS:
        returns = operands
        continue
      results = list(op.results)
      numbered = self.number(results, numbers)
      inside.update(numbered)
      if self._keep_ops and numbered:
        self.kept[numbered[0]] = (op, numbers)
      types = tuple([self.type(result.type) for result in results])
      ops.append(ir.Op(name, operands, numbered, types, self.attrs(op), regions, self.location(op.location)))
    types = tuple([self.type(argument.type) for argument in arguments])
    return ir.Region(own, types, tuple(ops), returns, tuple(captures))

  def number(self, values: Sequence[Any], numbers: dict[Any, int]) -> tuple[int, ...]:
    """Numbers values in order; a number is unique in the program."""
    first = self._next
    self._next = first + len(values)
    fresh = tuple(range(first, self._next))
    numbers.update(zip(values, fresh, strict=True))
    return fresh

  def type(self, mlir_type: Any) -> ir.Type:
    found = self._types.get(mlir_type)
    if found is None:
      found = self._types[mlir_type] = attributes.parse_type(str(mlir_type))
    return found

  def location(self, location: Any) -> str:
    found = self._locations.get(location)
    if found is None:
      found = self._locations[location] = _location_text(str(location))
    return found

  def attrs(self, op: Any) -> dict[str, Any]:
    if op.name == "stablehlo.constant":
      return {"value": self.constant(op)}
    try:
      items = [(item.name, item.attr) if hasattr(item, "attr") else item for item in _items(op.attributes)]
    except TypeError as error:
      raise errors.UnsupportedModuleError(f"op {op.name!r} has an attribute that cannot be read: {error}") from None
    return {name: self.attribute(attr) for name, attr in items}

  def constant(self, op: Any) -> Any:
    result = self.type(op.results[0].type)
    if not isinstance(result, ir.TensorType):
      return None  # the op itself raises when it is lowered, with its location
    try:
      attr = op.attributes["value"]
    except TypeError:  # complex elements have no binding
      return _dense_from_bytecode(op, result)
    found = self._attributes.get(attr)
    if found is None:
      found = self._attributes[attr] = _dense(op, attr, result)
    return found

  def attribute(self, attr: Any) -> Any:
    attr = _value(attr)
    found = self._attributes.get(attr, self)
    if found is self:
      found = self._attributes[attr] = self._decode_attribute(attr)
    return found

  def _decode_attribute(self, attr: Any) -> Any:
    kind = type(attr).__name__
    if kind in ("BoolAttr", "IntegerAttr", "FloatAttr"):
      return attr.value
    if kind == "StringAttr":
      return _string(attr)
    if kind == "FlatSymbolRefAttr":
      return ir.Symbol(attr.value)
    if kind == "ArrayAttr":
      return tuple(self.attribute(item) for item in attr)
    if kind == "DictAttr":
      return {item.name: self.attribute(item.attr) for item in _dict_items(attr)}
    if kind == "UnitAttr":
      return True
    if kind == "TypeAttr":
      return self.type(attr.value) if not isinstance(attr.value, mlir_ir.FunctionType) else str(attr.value)
    if kind.startswith("Dense") and kind.endswith("ArrayAttr"):
      return tuple(attr)
    if kind.startswith("Dense"):
      return np.array(attr)
    return attributes.parse_attribute(str(attr))


_TERMINATORS = frozenset({"stablehlo.return", "func.return", "sdy.return"})


def _value(attr: Any) -> Any:
  """The attribute itself, downcast where the bindings hand out the base class."""
  return attr.maybe_downcast() if type(attr).__name__ == "Attribute" and hasattr(attr, "maybe_downcast") else attr


def _function_type(op: Any) -> Any:
  return _value(op.attributes["function_type"]).value


def _items(op_attributes: Any) -> list[Any]:
  if hasattr(op_attributes, "items"):
    return list(op_attributes.items())
  return [op_attributes[index] for index in range(len(op_attributes))]


def _dict_items(attr: Any) -> list[Any]:
  return [attr[index] for index in range(len(attr))]


def _string(attr: Any) -> str | bytes:
  data = attr.value_bytes
  try:
    return data.decode()
  except UnicodeDecodeError:
    return data


def _location_text(text: str) -> str:
  """`loc("jit(f)/sin"("f.py":3:4))` as `jit(f)/sin (f.py:3:4)`; long call chains keep their first frame."""
  name = re.search(r'"([^"]*)"', text)
  frame = re.search(r'"([^"]+)":(\d+):(\d+)', text)
  if not name:
    return ""
  place = f"{frame[1]}:{frame[2]}:{frame[3]}" if frame else ""
  return place if frame and name[1] == frame[1] else f"{name[1]} ({place})" if place else name[1]


def _dense(op: Any, attr: Any, result: ir.TensorType) -> np.ndarray:
  """The elements of a constant: read-only, one copy at most, and a splat stays one element with zero strides."""
  shape = tuple(0 if dim is None else dim for dim in result.shape)
  is_splat = getattr(attr, "is_splat", False)
  try:
    if is_splat:
      view = np.asarray(memoryview(attr))
      scalar = np.array(view[(0,) * view.ndim] if view.ndim else view[()], dtype=result.dtype)
      return np.broadcast_to(scalar, shape)
    elements = np.array(memoryview(attr), copy=True)
  except (TypeError, BufferError, ValueError, SystemError):
    return _dense_from_bytecode(op, result)
  elements = elements if elements.dtype == result.dtype else elements.view(result.dtype)
  elements = elements.reshape(shape)
  elements.flags.writeable = False
  return elements


def _dense_from_bytecode(op: Any, result: ir.TensorType) -> np.ndarray:
  """Elements of the types that the bindings do not hand out (bfloat16, 4-bit, complex), from one op's bytecode."""
  stream = io.BytesIO()
  # A detached clone has no uses; writing an op whose users lie outside what is written crashes in the MLIR writer.
  op.clone().operation.write_bytecode(stream)
  return bytecode.dense_elements(stream.getbuffer(), result)


# --------------------------------------------------------------------------------------------- refinement and lowering


def specialise(
  data: bytes | str,
  types: Sequence[str],
  *,
  leading: Sequence[tuple[int, str]] = (),
  kept: Sequence[int] | None = None,
  refine: bool = False,
) -> str:
  """Text of the module with a `main` of plain arguments and results put before its own.

  The new `main` supplies the platform index and the dimension arguments as constants and every token, leaves out
  arguments that the old one does not take, converts each argument to the declared type, and returns what is no token.

  Args:
    types: MLIR spelling of each argument type that a caller passes.
    leading: (value, MLIR type) of each scalar that comes before them.
    kept: which of the arguments the old `main` takes; by default all.
    refine: propagate the static shapes of `types` through a polymorphic module.
  """
  with _context() as messages:
    module = _parse(data, messages)
    old = next(op for op in module.body.operations if _symbol_name(op) == "main")
    _add_plain_main(module, old.operation, types, leading, range(len(types)) if kept is None else kept)
    if refine:
      try:
        module = mlir_ir.Module.parse(jax.extend.mlir.refine_polymorphic_shapes(jax_mlir.module_to_bytecode(module)))
      except Exception as error:
        raise errors.RefinementError(
          f"module does not refine to argument types {list(types)}: {'; '.join(messages[:3]) or error}"
        ) from None
    return module.operation.get_asm(enable_debug_info=True)


def _add_plain_main(module: Any, old: Any, types: Sequence[str], leading: Any, kept: Sequence[int]) -> None:
  declared, outputs = list(_function_type(old).inputs), list(_function_type(old).results)
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
    values = []
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


def _fresh_symbol(module: Any) -> str:
  """A function name that the module does not use."""
  taken = {_symbol_name(op) for op in module.body.operations}
  return next(name for i in range(len(taken) + 1) if (name := f"_inner_main_{i}") not in taken)


def _scalar_constant(value: int, spelling: str) -> Any:
  kind = mlir_ir.Type.parse(spelling)
  return stablehlo.constant(
    mlir_ir.DenseElementsAttr.get_splat(kind, mlir_ir.IntegerAttr.get(kind.element_type, value))
  )


def extract_op(data: bytes | str, number: int) -> tuple[str, tuple[int, ...]]:
  """Text of a module whose `main` is the one op that defines a value, and the numbers of the values it reads.

  The numbers are those of the decoded program: operands in order, then what the op's regions capture.
  """
  with _context() as messages:
    module = _parse(data, messages)
    decoder = _Decoder(keep_ops=True)
    decoder.program(module)
    op, numbers = decoder.kept[number]
    reads = dict.fromkeys([*op.operands, *_captured(op)])
    order = list(reads)
    for view in list(module.body.operations):
      if _symbol_name(view) == "main":
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
    return str(module), tuple(numbers[value] for value in order)


def _captured(op: Any) -> list[Any]:
  """Values that the regions of an op read from around it."""
  inside: set[Any] = set()
  found: list[Any] = []

  def visit(region: Any) -> None:
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


def _replace_operands(op: Any, replacement: Mapping[Any, Any]) -> None:
  for position, value in enumerate(list(op.operands)):
    if value in replacement:
      op.operands[position] = replacement[value]
  for region in op.regions:
    for block in region.blocks:
      for inner in block.operations:
        _replace_operands(inner.operation, replacement)


def main_result_types(text: str) -> tuple[Any, ...]:
  """The result types of `main` in MLIR text."""
  return _decode(text).main.result_types


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
  symbol = next(op for op in target.body.operations if _symbol_name(op) == merged)
  declared = _function_type(symbol.operation)
  values = [_convert(value, want) for value, want in zip(operands, declared.inputs, strict=True)]
  call = func.CallOp(list(declared.results), mlir_ir.FlatSymbolRefAttr.get(merged), values)
  return [_convert(value, want) for value, want in zip(call.results, outputs, strict=True)]


def _symbol_name(op: Any) -> str:
  names = op.operation.attributes
  return _value(names["sym_name"]).value if "sym_name" in names else ""


def _convert(value: Any, want: Any) -> Any:
  return value if value.type == want else stablehlo.convert(want, value)
