"""`Builder`: adds nodes to the body of a TensorFlow function."""

import ast
import dataclasses
import functools
import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from jax.extend.core import ClosedJaxpr

from graftax.convert.jax2tf.tf_ops import complex_parts, words
from graftax.convert.jax2tf.tf_ops.cpu_kernels import has_kernel
from graftax.convert.jax2tf.tf_ops.missing_ops import missing_ops
from graftax.convert.jax2tf.tf_ops.refusals import Refusals
from graftax.convert.jax2tf.tf_ops.registry import Unsupported
from graftax.convert.jax2tf.tf_ops.symbols import MAX_SIZE, expression
from graftax.convert.jax2tf.tf_ops.tensors import Dim, Shape, Tensor, partial_shape
from graftax.graphdef_ir import (
  AttrValue,
  DType,
  Function,
  FunctionRef,
  Node,
  Parameter,
  Result,
  TensorRef,
  op_signature,
  prune,
)
from graftax.graphdef_ir import Tensor as ConstantTensor
from graftax.graphdef_ir.errors import UnsupportedDTypeError

__all__ = ["VARIANT_DTYPE", "Builder", "Input", "Library"]

Input: TypeAlias = Any
"""An input of a node: a `Tensor`, or a number or array that becomes a constant; for a list argument, a list of them."""


@dataclasses.dataclass(slots=True)
class Library:
  """The functions that the nodes of a program call.

  Attributes:
    prefix: the beginning of their names.
    functions: the functions by name.
    lifted: what primitives without a rule compute, by what that depends on.
    refusals: the equations that have no form in TensorFlow ops.
    consumer: the converter that will read the nodes, one of `CONSUMERS`; None for TensorFlow.
    prefers_cpu: whether code for CPUs is taken rather than code for all platforms, where a function has both.
    has_platform_choice: whether a function had both.
  """

  prefix: str
  refusals: Refusals
  consumer: str | None = None
  prefers_cpu: bool = False
  has_platform_choice: bool = False
  functions: dict[str, Function] = dataclasses.field(default_factory=dict)
  lifted: dict[Hashable, ClosedJaxpr] = dataclasses.field(default_factory=dict)
  num_begun: int = 0
  """How many functions were begun, those that are not finished yet included."""

  def unique_name(self, kind: str) -> str:
    """Returns the name of the next function; `kind` is a word in it."""
    return f"{self.prefix}_{kind}_{len(self.functions)}"

  def next_scope(self) -> str:
    """Returns the beginning of all names in the next function.

    tf2onnx keeps names in the bodies of loops. In ONNX, they must be other names than those of the outer graphs.
    """
    self.num_begun += 1
    return f"function_{self.num_begun}" if self.consumer == "onnx" else ""


_COMPLEX = frozenset({DType.COMPLEX64, DType.COMPLEX128})


class Builder:
  """Adds nodes to the body of one function.

  Attributes:
    nodes: the nodes so far, each after those that it reads.
    library: the functions that they call.
    symbols: name of a symbolic dimension -> its size, an int32 scalar.
    scope: the first part of the names of new nodes.
    is_in_loop: whether the function is the body of a loop, or called in one.
    prefix: the beginning of the names of new nodes, before the scope.
    effects: names of nodes that run even if no result needs them.
  """

  def __init__(self, library: Library, symbols: Mapping[str, Tensor] | None = None):
    self.nodes: list[Node] = []
    self.library = library
    self.symbols: dict[str, Tensor] = dict(symbols or {})
    self.scope = "arguments"
    self.is_in_loop = False
    self.prefix = ""
    self.effects: list[str] = []
    self._names: dict[str, int] = {}
    self._constants: dict[Any, TensorRef] = {}
    self._constant_nodes: set[str] = set()
    self._sizes: dict[str, Tensor] = {}

  def op(self, op: str, *inputs: Input, shape: Shape, **attrs: AttrValue) -> Tensor:
    """Returns the only output of a new node.

    Args:
      op: the TensorFlow op.
      inputs: its input arguments.
      shape: the shape of the output.
      attrs: attributes. Those that follow from the inputs (dtypes and lengths of lists) are filled in.

    Raises:
      Unsupported: TensorFlow has no CPU kernel for the dtype, or the consumer does not have the op.
    """
    if (found := complex_parts.computed(self, op, inputs, shape, attrs)) is not None:
      return found
    if (found := words.computed(self, op, inputs, shape, attrs)) is not None:
      return found
    return self.op_list(op, *inputs, shapes=[shape], **attrs)[0]

  def op_list(self, op: str, *inputs: Input, shapes: Sequence[Shape], **attrs: AttrValue) -> list[Tensor]:
    """Returns all outputs of a new node; see `op`."""
    if self.lacks(op):
      raise Unsupported(f"the converter to {self.library.consumer} does not read the op {op}")
    signature = op_signature(op)
    refs: list[TensorRef] = []
    for argument, given in zip(signature.inputs, inputs, strict=True):
      tensors = self._tensors(argument, given, attrs)
      if any(tensor.parts is not None for tensor in tensors):
        complex_parts.check(self, op)
      if argument.number_attr:
        attrs[argument.number_attr] = len(tensors)
      if argument.type_list_attr:
        attrs[argument.type_list_attr] = tuple(_dtype(tensor.dtype) for tensor in tensors)
      elif argument.type_attr:
        attrs[argument.type_attr] = _dtype(tensors[0].dtype)
      refs += [self.ref(tensor) for tensor in tensors]
    complete = signature.with_defaults(attrs)
    if words.lacks_uint32(self.library.consumer):
      attrs, unsigned = words.signed_attrs(attrs), attrs
      if attrs != unsigned:
        words.check_moves(op, self.library.consumer)
    written = signature.with_defaults(attrs)
    if not has_kernel(op, written):
      given = sorted({str(value) for value in written.values() if isinstance(value, DType)})
      raise Unsupported(f"TensorFlow has no CPU kernel of {op} for {', '.join(given)}")
    name = self._name(op)
    if refs and all(ref.node in self._constant_nodes for ref in refs):
      self._constant_nodes.add(name)
      if op == "Complex":
        complex_parts.check(self, "Const")  # TensorFlow's optimizer makes one of it
    self.nodes.append(Node(name, op, tuple(refs), attrs=attrs))
    dtypes = [_numpy(dtype) for dtype in signature.output_types(complete)]
    if not _COMPLEX.isdisjoint(_dtypes(complete.values())):
      complex_parts.check(self, op)
    return [
      Tensor(tuple(shape), dtype, TensorRef(name, i))
      for i, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True))
    ]

  def between_words(self, tensor: Tensor, *, is_argument: bool) -> Tensor:
    """Returns an argument of uint32 as words, or a result of words as uint32; other tensors are returned unchanged.

    Raises:
      Unsupported: the consumer has no uint32 at all.
    """
    consumer = self.library.consumer
    if tensor.dtype != np.uint32 or not words.lacks_uint32(consumer):
      return tensor
    if self.lacks("Bitcast"):
      raise Unsupported(f"the converter to {consumer} does not have the dtype uint32; pass int32 and cast it")
    name = self._name("Bitcast")
    attrs: dict[str, AttrValue] = {"T": DType.UINT32, "type": DType.INT32}
    if not is_argument:
      attrs = {"T": DType.INT32, "type": DType.UINT32}
    self.nodes.append(Node(name, "Bitcast", (self.ref(tensor),), attrs=attrs))
    return Tensor(tensor.shape, tensor.dtype, TensorRef(name))

  def lacks(self, *ops: str) -> bool:
    """Returns whether the consumer lacks one of the ops, so that a rule must use others."""
    consumer = self.library.consumer
    return consumer is not None and not missing_ops(consumer).isdisjoint(ops)

  def constant(self, value: Any, dtype: Any = None) -> Tensor:
    """Returns a known value as a tensor; its node is added if another node reads it."""
    array = np.asarray(value, dtype)
    return Tensor(array.shape, array.dtype, value=array)

  def ref(self, tensor: Tensor) -> TensorRef:
    """Returns where the value of a tensor is computed, adding a Const node for a known value."""
    if tensor.ref is not None:
      return tensor.ref
    if tensor.parts is not None:
      raise Unsupported(
        f"the converter to {self.library.consumer} does not have complex numbers as arguments or results of functions"
      )
    assert tensor.value is not None, "internal: a tensor has neither a node nor a value."
    # Arrays without copies; a broadcast array is stored in full.
    value = np.ascontiguousarray(tensor.value).reshape(tensor.value.shape)
    if value.dtype == np.uint32 and words.lacks_uint32(self.library.consumer):
      value = value.view(np.int32)
    key = (value.dtype, value.shape, value.tobytes())
    if key not in self._constants:
      if value.dtype.kind == "c":
        complex_parts.check(self, "Const")
      name = self._name("Const")
      dtype = _dtype(value.dtype)
      self.nodes.append(Node(name, "Const", attrs={"dtype": dtype, "value": ConstantTensor.from_numpy(value, dtype)}))
      self._constants[key] = TensorRef(name)
      self._constant_nodes.add(name)
    return self._constants[key]

  def size(self, dim: Dim) -> Tensor:
    """Returns the size of a dimension as an int32 scalar.

    Raises:
      Unsupported: it is symbolic, and the arguments do not tell its size.
    """
    if isinstance(dim, int):
      return self.constant(dim, np.int32)
    text = str(dim)
    if text not in self._sizes:
      self._sizes[text] = self.size_expression(expression(dim), text)
    return self._sizes[text]

  def forget_sizes(self) -> None:
    """Computes sizes again where they are needed, after `symbols` changed."""
    self._sizes.clear()

  def after_all(self, nodes: Sequence[str]) -> str:
    """Returns the name of a node without results that waits for other ones, by their names."""
    name = self._name("NoOp")
    self.nodes.append(Node(name, "NoOp", control_inputs=tuple(nodes)))
    return name

  def after(self, node: str, tensor: Tensor) -> Tensor:
    """Returns a tensor that waits for a node, by its name."""
    if tensor.ref is None:
      return tensor
    name = self._name("Identity")
    attrs: dict[str, AttrValue] = {"T": self._written_dtype(tensor)}
    self.nodes.append(Node(name, "Identity", (tensor.ref,), (node,), attrs))
    return dataclasses.replace(tensor, ref=TensorRef(name))

  def shape(self, shape: Shape) -> Tensor:
    """Returns a shape as an int32 vector."""
    if all(isinstance(size, int) for size in shape):
      return self.constant(np.array(shape, np.int32).reshape(-1))
    return self.op("Pack", [self.size(size) for size in shape], shape=(len(shape),))

  def function(
    self,
    kind: str,
    parameters: Sequence[Tensor],
    body: "Callable[[Builder, list[Tensor]], Sequence[Tensor]]",
    *,
    returns_sizes: bool = False,
  ) -> tuple[FunctionRef, list[Tensor]]:
    """Adds a function to the library and returns it with its results, which are tensors of its body.

    Args:
      kind: a word for its name.
      parameters: shapes and dtypes of its parameters. The sizes of symbolic dimensions come after them.
      body: computes the results from the parameters, with the builder of the function.
      returns_sizes: whether it also returns the sizes of symbolic dimensions.
    """
    symbols = list(self.symbols)
    specs = [*parameters, *(self.symbols[name] for name in symbols)]
    scope = self.library.next_scope()
    names = [f"{scope}_arg_{i}" if scope else f"arg_{i}" for i in range(len(specs))]
    arguments = [Tensor(s.shape, s.dtype, TensorRef(name)) for s, name in zip(specs, names, strict=True)]
    inner = Builder(self.library, dict(zip(symbols, arguments[len(parameters) :], strict=True)))
    inner.is_in_loop = self.is_in_loop or kind == "body"
    inner.prefix = f"{scope}/" if scope else ""
    results = list(body(inner, arguments[: len(parameters)]))
    inner.scope = "results"
    results += inner.symbol_sizes() if returns_sizes else []
    copies = [inner.op("Identity", result, shape=result.shape) for result in results]
    name = self.library.unique_name(kind)
    function = Function(
      name,
      tuple(Parameter(n, self._written_dtype(s), partial_shape(s.shape)) for n, s in zip(names, specs, strict=True)),
      tuple(Result(f"result_{i}", inner.ref(c), self._written_dtype(c)) for i, c in enumerate(copies)),
      tuple(inner.nodes),
    )
    self.library.functions[name] = prune(function)
    return FunctionRef(name), results

  def _written_dtype(self, tensor: Tensor) -> DType:
    return _dtype(words.as_signed(tensor).dtype if words.lacks_uint32(self.library.consumer) else tensor.dtype)

  def symbol_sizes(self) -> list[Tensor]:
    """Returns the operands to pass to a function after those for its parameters."""
    return list(self.symbols.values())

  def _tensors(self, argument: Any, given: Input, attrs: Mapping[str, AttrValue]) -> list[Tensor]:
    items: Iterable[Any] = given if argument.is_list else [given]
    dtype = _numpy(argument.dtype) if argument.dtype is not None else np.dtype(np.int32)
    return [
      item if isinstance(item, Tensor) else self.constant(item, None if _has_dtype(item) else dtype) for item in items
    ]

  def _name(self, op: str) -> str:
    base = f"{self.prefix}{self.scope}/{op}"
    number = self._names.get(base, 0)
    self._names[base] = number + 1
    return f"{base}_{number}" if number else base

  def size_expression(self, tree: ast.expr, text: str) -> Tensor:
    """Returns an expression of symbolic dimensions as an int32 scalar; `text` is for the message.

    Raises:
      Unsupported: the arguments do not tell a size in it, or it has numbers beyond those of sizes.
    """
    evaluate = functools.partial(self.size_expression, text=text)
    match tree:
      case ast.Constant(value=int(value)) if abs(value) <= MAX_SIZE:
        return self.constant(value, np.int32)
      case ast.Name(id=name):
        if name in self.symbols:
          return self.symbols[name]
        raise Unsupported(f"the size of the symbolic dimension {text} cannot be read from the shapes of the arguments")
      case ast.UnaryOp(op=ast.USub(), operand=operand):
        return self._scalar("Sub", self.constant(0, np.int32), evaluate(operand))
      case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(power))) if power <= _MAX_POWER:
        return functools.reduce(functools.partial(self._scalar, "Mul"), [evaluate(left)] * power)
      case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
        return self._scalar(_OPERATORS[type(op)], evaluate(left), evaluate(right))
      case ast.Call(func=ast.Name(id=name), args=[left, right]) if name in _CALLS:
        return self._scalar(_CALLS[name], evaluate(left), evaluate(right))
    raise Unsupported(f"the symbolic dimension {text} has no form in TensorFlow ops")

  def _scalar(self, op: str, x: Tensor, y: Tensor) -> Tensor:
    if x.value is not None and y.value is not None:
      return self.constant(_FOLDED[op](x.value, y.value), np.int32)
    if op in ("FloorDiv", "FloorMod") and self.library.consumer == "onnx":
      return self._rounded_down(op, x, y)
    return self.op_list(op, x, y, shapes=[()])[0]  # sizes have few digits

  def _rounded_down(self, op: str, x: Tensor, y: Tensor) -> Tensor:
    """Returns a quotient or its remainder. tf2onnx writes those of integers so that they round towards zero."""
    wide = [self.op("Cast", size, shape=(), DstT=DType.DOUBLE) for size in (x, y)]
    quotient = self.op("Floor", self.op("RealDiv", *wide, shape=()), shape=())
    quotient = self.op("Cast", quotient, shape=(), DstT=DType.INT32)
    return quotient if op == "FloorDiv" else self.op("Sub", x, self.op("Mul", quotient, y, shape=()), shape=())


# A higher power of any size from 2 on exceeds int32.
_MAX_POWER = MAX_SIZE.bit_length()
_OPERATORS: dict[type[ast.operator], str] = {ast.Add: "AddV2", ast.Sub: "Sub", ast.Mult: "Mul"}
_CALLS = {"floordiv": "FloorDiv", "mod": "FloorMod", "max": "Maximum", "min": "Minimum"}
_FOLDED: dict[str, Callable[[Any, Any], Any]] = {
  "AddV2": operator.add,
  "FloorDiv": operator.floordiv,
  "FloorMod": operator.mod,
  "Maximum": max,
  "Minimum": min,
  "Mul": operator.mul,
  "Sub": operator.sub,
}


def _dtypes(values: Iterable[AttrValue]) -> Iterator[DType]:
  for value in values:
    yield from (item for item in (value if isinstance(value, tuple) else [value]) if isinstance(item, DType))


def _has_dtype(item: Any) -> bool:
  return isinstance(item, np.ndarray | np.generic)


# The dtype of tensors that numpy does not have, such as lists of tensors.
VARIANT_DTYPE = np.dtype("V1")


def _dtype(dtype: Any) -> DType:
  if dtype == VARIANT_DTYPE:
    return DType.VARIANT
  try:
    return DType.from_numpy(dtype)
  except UnsupportedDTypeError as e:
    raise Unsupported(f"TensorFlow does not have dtype {dtype}") from e


def _numpy(dtype: DType) -> "np.dtype[Any]":
  return VARIANT_DTYPE if dtype == DType.VARIANT else dtype.numpy
