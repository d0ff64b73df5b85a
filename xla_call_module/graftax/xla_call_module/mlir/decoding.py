"""Decodes an MLIR module into `ir.ModuleIR`."""

import io
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend.mlir import ir as mlir_ir

from graftax.xla_call_module import attributes, bytecode, errors, ir
from graftax.xla_call_module.budget import Budget, Limits
from graftax.xla_call_module.mlir.bindings import MlirValue, downcast, function_type, mlir_context, parse

__all__ = ["Decoder", "decode_bytes", "decode_text", "location_text", "main_result_types"]


def decode_text(text: str, limits: Limits | None = None) -> ir.ModuleIR:
  """Returns the decoded module of MLIR text.

  Args:
    text: a module, or a single function, in the syntax that `to_text` writes.
    limits: how deep regions may be inside each other; None is `Limits()`.

  Raises:
    DecodeError: the text does not parse or does not verify.
    LimitExceededError: regions are too deep inside each other.

  Example:
    >>> module = decode_text("func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }")
    >>> module.main.result_types[0].shape
    (3,)
  """
  return _decode(text, limits)


def decode_bytes(data: bytes, limits: Limits | None = None) -> ir.ModuleIR:
  """Returns the decoded module of a StableHLO portable artifact (VHLO) or of MLIR bytecode.

  Args:
    data: the artifact or bytecode; no other form of a module, such as a serialized `HloModuleProto`.
    limits: how deep regions may be inside each other; None is `Limits()`.

  Raises:
    DecodeError: the data is damaged or truncated, or the module does not verify.
    LimitExceededError: regions are too deep inside each other.
    VersionError: the module was written by a newer StableHLO than the installed jaxlib reads.
  """
  return _decode(data, limits)


def main_result_types(text: str) -> tuple[Any, ...]:
  """Returns the result types of `main` in MLIR text.

  Example:
    >>> text = "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }"
    >>> [kind.shape for kind in main_result_types(text)]
    [(3,)]
  """
  return _decode(text).main.result_types


def _decode(data: bytes | str, limits: Limits | None = None) -> ir.ModuleIR:
  with mlir_context() as messages:
    module = parse(data, messages)
    try:
      return Decoder(limits=limits).module_ir(module)
    except errors.StableHloError:
      raise
    except (
      Exception
    ) as error:  # a module that verifies may still have names or attributes that the bindings cannot read
      raise errors.DecodeError(
        f"StableHLO module parses but cannot be read: {type(error).__name__}: {error}. The bytes are damaged, or were"
        " not written by StableHLO."
      ) from error


_TERMINATORS = frozenset({"stablehlo.return", "func.return", "sdy.return"})


class Decoder:
  """Decodes one MLIR module. Each type and attribute is decoded once, because MLIR uniques them."""

  def __init__(self, *, keep_ops: bool = False, limits: Limits | None = None) -> None:
    self._budget = Budget(limits or Limits())
    self._depth = 0
    self.kept: dict[int, tuple[mlir_ir.Operation, dict[MlirValue, int]]] = {}
    self._keep_ops = keep_ops
    self._types: dict[mlir_ir.Type, ir.Type] = {}
    self._attributes: dict[mlir_ir.Attribute, ir.Attribute] = {}
    self._locations: dict[mlir_ir.Location, str] = {}
    self._next = 0

  def module_ir(self, module: mlir_ir.Module) -> ir.ModuleIR:
    functions: dict[str, ir.Function] = {}
    meshes: dict[str, ir.Attribute] = {}
    for view in module.body.operations:
      op = view.operation
      attrs = self.attrs(op)
      if op.name == "func.func":
        functions[attrs.text("sym_name")] = self.function(op, attrs)
      elif op.name == "sdy.mesh":
        meshes[attrs.text("sym_name")] = attrs["mesh"]
      else:
        raise errors.UnsupportedModuleError(
          f"module {module.operation.name!r}: top-level op {op.name!r} is not supported; expected func.func or"
          " sdy.mesh."
        )
    top = self.attrs(module.operation)
    return ir.ModuleIR(str(top.pop("sym_name", "")), functions, top, meshes)

  def function(self, op: mlir_ir.Operation, attrs: ir.Attributes) -> ir.Function:
    blocks = list(op.regions[0].blocks)
    if len(blocks) != 1:
      what = "is only declared" if not blocks else f"has {len(blocks)} blocks"
      raise errors.UnsupportedModuleError(f"function {attrs['sym_name']!r} {what}; expected one block.")
    body = self.region(op.regions[0], {})
    result_types: tuple[Any, ...] = tuple(self.type(t) for t in function_type(op).results)
    return ir.Function(
      name=attrs.text("sym_name"),
      body=body,
      attrs=attrs.all_fields("arg_attrs", len(body.args)),
      result_types=result_types,
      result_attrs=attrs.all_fields("res_attrs", len(result_types)),
      is_public=attrs.text("sym_visibility", "public") == "public",
    )

  def region(self, region: mlir_ir.Region, numbers: dict[MlirValue, int]) -> ir.Region:
    """Decodes a single-block region; `numbers` maps the values of the function seen so far to their numbers."""
    self._depth += 1
    self._budget.check_depth(self._depth, "a region")
    found = self._region(region, numbers)
    self._depth -= 1
    return found

  def _region(self, region: mlir_ir.Region, numbers: dict[MlirValue, int]) -> ir.Region:
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
      kinds: tuple[Any, ...] = tuple([self.type(result.type) for result in results])
      ops.append(ir.Op(name, operands, numbered, kinds, self.attrs(op), regions, self.location(op.location)))
    types: tuple[Any, ...] = tuple([self.type(argument.type) for argument in arguments])
    return ir.Region(own, types, tuple(ops), returns, tuple(captures))

  def number(self, values: Sequence[MlirValue], numbers: dict[MlirValue, int]) -> tuple[int, ...]:
    """Numbers values in order; each number is unique in the module."""
    first = self._next
    self._next = first + len(values)
    fresh = tuple(range(first, self._next))
    numbers.update(zip(values, fresh, strict=True))
    return fresh

  def type(self, mlir_type: mlir_ir.Type) -> ir.Type:
    found = self._types.get(mlir_type)
    if found is None:
      found = self._types[mlir_type] = attributes.parse_type(str(mlir_type))
    return found

  def location(self, location: mlir_ir.Location) -> str:
    found = self._locations.get(location)
    if found is None:
      found = self._locations[location] = location_text(str(location))
    return found

  def attrs(self, op: mlir_ir.Operation) -> ir.Attributes:
    if op.name == "stablehlo.constant":
      return ir.Attributes(value=self.constant(op))
    try:
      return ir.Attributes({name: self.attribute(attr) for name, attr in op.attributes.items()})
    except (AttributeError, TypeError):  # an attribute without a binding, or a map without `items`
      return self.named_attributes(op.attributes, f"op {op.name!r}")

  def named_attributes(self, found: Any, owner: str) -> ir.Attributes:
    """Decodes an op's attributes or a `DictAttr` one by one.

    `NamedAttribute.attr` aborts the process if the attribute has no binding; looking its name up raises instead.
    """
    decoded = ir.Attributes()
    for index in range(len(found)):
      item = found[index]
      try:
        attr = found[item.name]
      except TypeError:
        decoded[item.name] = _from_text(repr(item)[len(f"NamedAttribute({item.name}=") : -1], owner)
      else:
        decoded[item.name] = self.attribute(attr)
    return decoded

  def constant(self, op: mlir_ir.Operation) -> ir.Attribute:
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

  def attribute(self, attr: Any) -> ir.Attribute:
    attr = downcast(attr)
    found = self._attributes.get(attr)
    if found is None:
      found = self._attributes[attr] = self._decode_attribute(attr)
    return found

  def array(self, attr: Any) -> tuple[ir.Attribute, ...]:
    try:
      items = list(attr)
    except TypeError:
      raise errors.UnsupportedModuleError(
        f"the array attribute {_shortened(str(attr))} has an element that JAX's bindings cannot read."
      ) from None
    return tuple([self.attribute(item) for item in items])

  def _decode_attribute(self, attr: Any) -> ir.Attribute:
    kind = type(attr).__name__
    if kind in ("BoolAttr", "IntegerAttr", "FloatAttr"):
      return attr.value
    if kind == "StringAttr":
      return _string(attr)
    if kind == "FlatSymbolRefAttr":
      return ir.Symbol(attr.value)
    if kind == "ArrayAttr":
      return self.array(attr)
    if kind == "DictAttr":
      named = self.named_attributes(attr, "a dictionary").items()
      return ir.Attributes(
        {
          name: _typed(value, attr[name]) if type(value) is int or type(value) is float else value
          for name, value in named
        }
      )
    if kind == "UnitAttr":
      return True
    if kind == "TypeAttr":
      return self.type(attr.value) if not isinstance(attr.value, mlir_ir.FunctionType) else str(attr.value)
    if kind.startswith("Dense") and kind.endswith("ArrayAttr"):
      return tuple(attr)
    if kind.startswith("Dense"):
      return np.array(attr)
    return attributes.parse_attribute(str(attr))


def _typed(value: float, attr: Any) -> ir.TypedInt | ir.TypedFloat:
  """Returns a number of a dictionary with its type, which a custom call passes on."""
  typed = ir.TypedInt(value) if isinstance(value, int) else ir.TypedFloat(value)
  typed.spelling = str(downcast(attr).type)
  return typed


def _from_text(text: str, owner: str) -> np.ndarray:
  """Returns the elements of a dense attribute without a binding (complex), given its text.

  Raises:
    UnsupportedModuleError: it is another kind of attribute.
  """
  kind = text.rpartition(" : ")[2]
  if not text.startswith("dense<"):
    raise errors.UnsupportedModuleError(
      f"{owner} has the attribute {_shortened(text)}, which JAX's bindings cannot read."
    )
  module = mlir_ir.Module.parse(f"func.func @f() {{ %0 = stablehlo.constant {text}\nreturn }}")
  op = module.body.operations[0].regions[0].blocks[0].operations[0].operation
  result = attributes.parse_type(kind)
  assert isinstance(result, ir.TensorType), f"internal: a dense attribute of type {kind}"
  return _dense_from_bytecode(op, result)


def _shortened(text: str) -> str:
  return text if len(text) <= 100 else f"{text[:100]}..."


def _string(attr: Any) -> str | bytes:
  data = attr.value_bytes
  try:
    return data.decode()
  except UnicodeDecodeError:
    return data


def location_text(text: str) -> str:
  """Returns `loc("jit(f)/sin"("f.py":3:4))` as `jit(f)/sin (f.py:3:4)`; keeps the first frame of a call chain."""
  name = re.search(r'"([^"]*)"', text)
  frame = re.search(r'"([^"]+)":(\d+):(\d+)', text)
  if not name:
    return ""
  place = f"{frame[1]}:{frame[2]}:{frame[3]}" if frame else ""
  return place if frame and name[1] == frame[1] else f"{name[1]} ({place})" if place else name[1]


def _dense(op: mlir_ir.Operation, attr: Any, result: ir.TensorType) -> np.ndarray:
  """Returns the elements of a constant, read-only. Copies at most once; a splat is one element with zero strides."""
  shape = tuple(0 if dim is None else dim for dim in result.shape)
  if 0 in shape:  # MLIR calls `dense<1.0> : tensor<0x4xf32>` a splat, whose buffer has no element to read
    return np.broadcast_to(np.zeros((), result.dtype), shape)
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


def _dense_from_bytecode(op: mlir_ir.Operation, result: ir.TensorType) -> np.ndarray:
  """Returns elements of types that the bindings do not expose (bfloat16, 4-bit, complex), from one op's bytecode."""
  stream = io.BytesIO()
  # Write a detached clone, which has no users: MLIR's writer crashes if an op has users outside the written part.
  op.clone().operation.write_bytecode(stream)
  try:
    return bytecode.dense_elements(stream.getbuffer(), result)
  except AssertionError:
    text = str(op.attributes["value"])
    if not text.startswith("dense_resource<"):
      raise
    raise errors.UnsupportedModuleError(
      f"a constant of type {result} is {text.split(' ')[0]}, stored in a resource section, which neither"
      " MLIR's bindings nor XLA read. Write the module with its constants as dense elements."
    ) from None
