"""The nodes of a TensorFlow function that runs a StableHLO module, and what TensorFlow differentiates."""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import jax

from graftax.convert.errors import ConversionError
from graftax.graphdef_ir import AttrValue, DType, Function, FunctionRef, Node, PartialShape, TensorRef, TensorSpec
from graftax.graphdef_ir.errors import UnsupportedDTypeError

if TYPE_CHECKING:
  from graftax.xla_call_module.exporting import CallModule

__all__ = [
  "FunctionBody",
  "call_module",
  "function_names",
  "identities",
  "prevent_gradient",
  "register_gradient",
  "tensor_spec",
  "tensor_specs",
]


@dataclasses.dataclass(frozen=True, slots=True)
class FunctionBody:
  """Nodes of a function, and the tensors that they compute.

  Attributes:
    nodes: the nodes, each after those that it reads.
    results: the tensors.
    specs: their shapes and dtypes.
    functions: the functions that the nodes call, by name.
    effects: names of nodes that run even if no result needs them.
  """

  nodes: tuple[Node, ...]
  results: tuple[TensorRef, ...]
  specs: tuple[TensorSpec, ...]
  functions: Mapping[str, Function] = dataclasses.field(default_factory=dict)
  effects: tuple[str, ...] = ()


def call_module(module: "CallModule", operands: Sequence[TensorRef], name: str = "XlaCallModule") -> FunctionBody:
  """Returns the node that runs a module on the tensors for the inputs of its function.

  Args:
    module: the module.
    operands: the tensors.
    name: the name of the node. TensorFlow's error contains it if the node has no gradient.

  Raises:
    ConversionError: TensorFlow does not have the dtype of a result.
  """
  inputs, outputs = tensor_specs(module.inputs, "input"), tensor_specs(module.outputs, "output")
  attributes = dict(module.attributes)
  attrs: dict[str, AttrValue] = {
    "version": attributes.pop("version"),
    "module": bytes(attributes.pop("module")),
    "Tin": tuple(inputs[i].dtype for i in module.kept),
    "Tout": tuple(spec.dtype for spec in outputs),
    "Sout": tuple(spec.shape for spec in outputs),
  }
  attrs.update((name, _attribute(value)) for name, value in attributes.items())
  node = Node(name, "XlaCallModule", tuple(operands[i] for i in module.kept), attrs=attrs)
  return FunctionBody((node,), tuple(TensorRef(node.name, i) for i in range(len(outputs))), outputs)


def register_gradient(
  body: FunctionBody, operands: Sequence[TensorRef], specs: Sequence[TensorSpec], name: str
) -> FunctionBody:
  """Returns the body with a registered gradient.

  It sits on an IdentityN of the results and the operands, as `tf.custom_gradient` writes it. TensorFlow passes the
  gradient function one cotangent for each output of that node.

  Args:
    body: computes the results.
    operands: the tensors that the results are differentiated with respect to.
    specs: their shapes and dtypes.
    name: the registered name of the gradient.
  """
  attrs: dict[str, AttrValue] = {
    "T": tuple(spec.dtype for spec in (*body.specs, *specs)),
    "_gradient_op_type": name.encode(),
  }
  node = Node("IdentityN", "IdentityN", (*body.results, *operands), attrs=attrs)
  results = tuple(TensorRef(node.name, i) for i in range(len(body.results)))
  return dataclasses.replace(body, nodes=(*body.nodes, node), results=results)


def prevent_gradient(body: FunctionBody, message: str) -> FunctionBody:
  """Returns the body with results whose differentiation raises an error with this message."""
  return _each(body, "PreventGradient", {"message": message.encode()})


def identities(body: FunctionBody, *, stop_gradient: bool = False) -> FunctionBody:
  """Returns the body with an Identity of each result; their derivative is zero if `stop_gradient`."""
  return _each(body, "StopGradient" if stop_gradient else "Identity", {})


def _each(body: FunctionBody, op: str, attrs: dict[str, AttrValue]) -> FunctionBody:
  pairs = enumerate(zip(body.results, body.specs, strict=True))
  nodes = [Node(f"{op}_{i}" if i else op, op, (ref,), attrs={"T": spec.dtype, **attrs}) for i, (ref, spec) in pairs]
  return dataclasses.replace(body, nodes=(*body.nodes, *nodes), results=tuple(TensorRef(node.name) for node in nodes))


def tensor_spec(spec: jax.ShapeDtypeStruct, name: str | None = None, *, where: str) -> TensorSpec:
  """Returns a shape and dtype as TensorFlow has it: a symbolic dimension is unknown.

  Raises:
    ConversionError: TensorFlow does not have the dtype; `where` says what has it.
  """
  try:
    dtype = DType.from_numpy(spec.dtype)
  except UnsupportedDTypeError as e:
    raise ConversionError(f"{where} has dtype {spec.dtype}, which TensorFlow does not have; cast it.") from e
  return TensorSpec(PartialShape(tuple(size if isinstance(size, int) else None for size in spec.shape)), dtype, name)


def tensor_specs(specs: Sequence[jax.ShapeDtypeStruct], kind: str) -> tuple[TensorSpec, ...]:
  """Returns the specs as TensorFlow has them; `kind` is what they are, for messages."""
  return tuple(tensor_spec(spec, where=f"{kind} {i}") for i, spec in enumerate(specs))


def function_names(wanted: Iterable[str]) -> tuple[str, ...]:
  """Returns the names as TensorFlow allows them for arguments of functions: lower case, and each only once."""
  names: dict[str, None] = {}
  for text in wanted:
    name = re.sub(r"[^a-z0-9_]", "_", text.lower()).lstrip("_0123456789") or "arg"
    unique, number = name, 0
    while unique in names:
      number += 1
      unique = f"{name}_{number}"
    names[unique] = None
  return tuple(names)


def _attribute(value: object) -> AttrValue:
  if isinstance(value, tuple | list):
    return tuple(_attribute(element) for element in value)
  if isinstance(value, str):
    return value.encode()
  if isinstance(value, bytes | bool | int | float | FunctionRef):
    return value
  raise AssertionError(f"internal: an XlaCallModule node has no attribute like {value!r}.")
