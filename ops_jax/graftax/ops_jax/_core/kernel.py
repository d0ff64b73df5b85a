"""From a node and its lowering to a kernel: attributes decoded, inputs grouped, once per node and not once per call."""

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from graftax.graphdef_ir import AttrValue, DType, FunctionRef, Node, OpSignature, PartialShape, Tensor
from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.errors import StaticInputError, UnsupportedAttrError
from graftax.ops_jax._core.known import canonical_dtype, to_dtype
from graftax.ops_jax._core.precision import with_one_precision
from graftax.ops_jax._core.registry import Lowering
from graftax.ops_jax._core.registry import lowering as registered_lowering
from graftax.ops_jax._core.values import Value, is_known, is_symbolic
from graftax.ops_jax.int64_pairs.dispatch import Run, has_64_bit_integers, with_int64_pairs

__all__ = ["Kernel", "bind", "static_value"]


@dataclasses.dataclass(frozen=True, slots=True)
class Kernel:
  """A lowering made ready for one node.

  Attributes:
    run: `(context, flat inputs) -> tuple of flat outputs`.
    is_pure: false where the lowering asks for the context, and so may read state.
  """

  run: Callable[[Context, Sequence[Value]], tuple[Value, ...]]
  is_pure: bool


def bind(node: Node, signature: OpSignature | None, lowering: Lowering, function_name: str = "") -> Kernel:
  """A kernel for `node`.

  Args:
    node: the node.
    signature: the op's signature, for list inputs and attribute defaults; None for an op that no table knows, whose
      inputs are then passed one by one.
    lowering: what to run.
    function_name: for messages.

  Raises:
    UnsupportedAttrError: the node sets an attribute that the lowering neither takes nor ignores, or to a value that
      the annotated type cannot hold.
  """
  given = dict(node.attrs) if signature is None else signature.with_defaults(node.attrs)
  run = _bind_run(node, given, signature, lowering, function_name)
  if has_64_bit_integers(signature, given):
    run = _bind_pairs(node, given, signature, lowering, function_name, run)
  run = with_one_precision(signature, given, run)
  return Kernel(run, is_pure=not lowering.needs_context)


def _bind_run(
  node: Node, given: Mapping[str, AttrValue], signature: OpSignature | None, lowering: Lowering, function_name: str
) -> Run:
  attrs = _decode_attrs(node, given, signature, lowering, function_name)
  function = functools.partial(lowering.function, **attrs) if attrs else lowering.function
  group = _input_grouping(signature, given)
  prepare = _input_preparation(node, lowering, function_name)

  def run(context: Context, flat_inputs: Sequence[Value]) -> tuple[Value, ...]:
    # Only shape vectors are object arrays, so nearly always one look at each type is all.
    has_symbols = any(isinstance(value, np.ndarray) and is_symbolic(value) for value in flat_inputs)
    if has_symbols:
      flat_inputs = _with_symbols_for(lowering, flat_inputs, signature, given, context)
    inputs = prepare(flat_inputs if group is None else group(flat_inputs))
    if lowering.needs_facts:
      outputs = function(*inputs, facts=context.facts)
    else:
      outputs = function(context, *inputs) if lowering.needs_context else function(*inputs)
    flat = tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)
    return _of_declared_types(flat, signature, given) if has_symbols and signature is not None else flat

  return run


def _bind_pairs(
  node: Node,
  given: Mapping[str, AttrValue],
  signature: OpSignature | None,
  lowering: Lowering,
  function_name: str,
  run: Run,
) -> Run:
  """`run`, and what is to run where 64-bit integers come as words."""
  on_pairs = registered_lowering(node.op, int64_pairs=True)
  if on_pairs is not None and on_pairs.function is lowering.function:
    return run
  run_on_pairs = None
  if on_pairs is not None and signature is not None:
    run_on_pairs = _bind_run(node, given, signature, on_pairs, function_name)
  where = f"{node.op} node {node.name!r} (function {function_name!r})"
  all_bits_count = node.op == "Bitcast" or any(value is DType.UINT64 for value in given.values())
  return with_int64_pairs(
    where,
    run,
    run_on_pairs,
    data_positions=_data_positions(lowering, signature, given),
    reads_shapes_only=lowering.reads_shapes_only,
    all_bits_count=all_bits_count,
  )


def _data_positions(
  lowering: Lowering, signature: OpSignature | None, attrs: Mapping[str, AttrValue]
) -> frozenset[int]:
  """Positions of the flat inputs that `data_inputs` names."""
  sizes = [1] * len(lowering.inputs) if signature is None else signature.input_sizes(attrs)
  names = [parameter.name for parameter, size in zip(lowering.inputs, sizes, strict=True) for _ in range(size)]
  return frozenset(position for position, name in enumerate(names) if name in lowering.data_inputs)


def static_value(value: Value, static_type: Any, what: str) -> Any:
  """`value` as a Python or numpy value of `static_type`.

  Args:
    value: known, or a JAX array that is not being traced.
    static_type: `int`, `float`, `bool`, `str`, `bytes`, `np.ndarray` or `tuple[T, ...]` of these; the entries of
      `tuple[int, ...]` may be symbolic dimensions.
    what: which input this is, for messages.

  Raises:
    StaticInputError: the value is traced.
  """
  traced = [leaf for leaf in jax.tree.leaves(value) if isinstance(leaf, jax.core.Tracer)]
  if traced:
    raise StaticInputError(
      f"{what} must be known while tracing, but depends on traced data ({', '.join(str(t.aval) for t in traced)}). "
      f"Pass it as a constant or a static argument, or compute it from shapes."
    )
  try:
    return _decode_static(_as_array(value), static_type, what)
  except (TypeError, ValueError) as e:
    raise StaticInputError(f"{what} must be known while tracing, as {static_type}; got {value!r}: {e}") from e


def _decode_static(array: np.ndarray, static_type: Any, what: str) -> Any:
  if static_type is np.ndarray:
    return array
  if typing.get_origin(static_type) is tuple:
    (item_type, _) = typing.get_args(static_type)
    return tuple(_static_item(item, item_type) for item in array.reshape(-1))
  if array.size != 1:
    raise StaticInputError(f"{what} must be a scalar; got shape {array.shape}.")
  return _static_item(array.reshape(-1)[0], static_type)


def _as_array(value: Value) -> np.ndarray:
  """An array of a value, or of a list of values, some of which may hold symbolic dimensions."""
  if not isinstance(value, (list, tuple)):
    return np.asarray(value)
  items = [_as_array(item) for item in value]
  dtype = object if any(item.dtype == object for item in items) else None
  return np.stack([item.astype(dtype) if dtype else item for item in items]) if items else np.zeros(0, np.int64)


def _static_item(item: Any, item_type: Any) -> Any:
  if item_type is int:
    return item if jax.export.is_symbolic_dim(item) else int(item)
  if item_type is str:
    return item.decode() if isinstance(item, bytes) else str(item)
  return item_type(item)


def _decode_attrs(
  node: Node, given: Mapping[str, AttrValue], signature: OpSignature | None, lowering: Lowering, function_name: str
) -> dict[str, Any]:
  # What the op itself does not declare, TensorFlow does not read either: notes of whoever wrote the graph.
  declared = node.attrs.keys() if signature is None else node.attrs.keys() & signature.attrs.keys()
  unknown = [
    name for name in declared if name not in lowering.attrs and name not in lowering.ignores and name[0] != "_"
  ]
  if unknown:
    raise UnsupportedAttrError(
      f"{node.op} node {node.name!r} (function {function_name!r}): attributes {sorted(unknown)!r} are not supported; "
      f"the lowering takes {sorted(lowering.attrs)!r}. Register one that takes them with "
      f"@register({node.op!r}, override=True)."
    )
  decoded = {}
  for name, annotation in lowering.attrs.items():
    if name in given:
      try:
        decoded[name] = _decode_attr(given[name], annotation)
      except (TypeError, ValueError) as e:
        raise UnsupportedAttrError(
          f"{node.op} node {node.name!r} (function {function_name!r}): attribute {name}={given[name]!r} does not "
          f"decode to {annotation}: {e}"
        ) from e
  return decoded


def _decode_attr(value: AttrValue, annotation: Any) -> Any:
  origin = typing.get_origin(annotation)
  if origin in (typing.Union, types.UnionType):
    annotation = next(option for option in typing.get_args(annotation) if option is not type(None))
    origin = typing.get_origin(annotation)
  if origin is tuple:
    item_type = typing.get_args(annotation)[0]
    if not isinstance(value, tuple):
      raise TypeError(f"expected a list, got {type(value).__name__}")
    return tuple(_decode_attr(item, item_type) for item in value)
  return _decode_scalar(value, annotation)


def _decode_scalar(value: AttrValue, annotation: Any) -> Any:
  match value:
    case bytes() if annotation is str:
      return value.decode()
    case DType() if annotation is np.dtype:
      return value.base.numpy
    case Tensor() if annotation is np.ndarray:
      return value.numpy()
    case bool() | int() | float() | bytes() | DType() | PartialShape() | Tensor() | FunctionRef():
      if annotation is Any or isinstance(value, annotation):
        return value
      if annotation is float and isinstance(value, int):
        return float(value)
  raise TypeError(f"got {type(value).__name__}")


def _input_grouping(
  signature: OpSignature | None, attrs: Mapping[str, AttrValue]
) -> Callable[[Sequence[Value]], Sequence[Value]] | None:
  """From flat inputs to one per argument, lists where the op has them; None where that is the same."""
  if signature is None or not any(arg.is_list for arg in signature.inputs):
    return None
  slices: list[int | slice] = []
  start = 0
  for arg, size in zip(signature.inputs, signature.input_sizes(attrs), strict=True):
    slices.append(slice(start, start + size) if arg.is_list else start)
    start += size
  return lambda flat: [list(flat[s]) if isinstance(s, slice) else flat[s] for s in slices]


def _input_preparation(
  node: Node, lowering: Lowering, function_name: str
) -> Callable[[Sequence[Value]], Sequence[Value]]:
  """Decodes static inputs."""
  num_inputs = len(lowering.inputs)
  statics = [
    (
      position,
      parameter.static_type,
      f"{node.op} node {node.name!r} (function {function_name!r}): input {parameter.name!r}",
    )
    for position, parameter in enumerate(lowering.inputs)
    if parameter.static_type is not None
  ]

  def prepare(inputs: Sequence[Value]) -> Sequence[Value]:
    if len(inputs) != num_inputs:
      raise AssertionError(
        f"internal: {node.op} node {node.name!r} has {len(inputs)} inputs; its lowering takes {num_inputs}."
      )
    prepared = list(inputs)
    for position, static_type, what in statics:
      prepared[position] = static_value(inputs[position], static_type, what)
    return prepared

  return prepare


def _with_symbols_for(
  lowering: Lowering,
  flat_inputs: Sequence[Value],
  signature: OpSignature | None,
  attrs: Mapping[str, AttrValue],
  context: Context,
) -> Sequence[Value]:
  """Flat inputs with symbolic dimensions made arrays where the lowering computes on arrays, or they meet traced ones.

  Known values keep no element type beside symbolic dimensions, so the arrays get the one that the op declares.
  """
  sizes = [1] * len(flat_inputs) if signature is None else signature.input_sizes(attrs)
  parameters = [p for p, size in zip(lowering.inputs, sizes, strict=True) for _ in range(size)]
  free = [i for i, parameter in enumerate(parameters) if parameter.static_type is None and not parameter.takes_symbolic]
  symbolic = [i for i in free if isinstance(flat_inputs[i], np.ndarray) and is_symbolic(flat_inputs[i])]
  if not symbolic or (lowering.takes_symbols and all(is_known(flat_inputs[i]) for i in free)):
    return flat_inputs
  types = None if signature is None else list(signature.input_types(attrs))
  materialized = list(flat_inputs)
  for i in symbolic:
    dtype = np.dtype(np.int32) if types is None else canonical_dtype(types[i].numpy)
    materialized[i] = context.facts.materialized(flat_inputs[i], dtype)
  return materialized


def _of_declared_types(
  outputs: tuple[Value, ...], signature: OpSignature, attrs: Mapping[str, AttrValue]
) -> tuple[Value, ...]:
  """Outputs that symbolic dimensions went into, integers as the op declares them, symbolic ones as they are."""

  def conformed(value: Value, declared: DType) -> Value:
    is_integer = isinstance(value, (np.ndarray, np.generic, jax.Array)) and value.dtype.kind in "iu"
    if not is_integer or declared.numpy.kind not in "iu" or value.dtype == declared.numpy:
      return value
    return to_dtype(value, declared.numpy)

  types = list(signature.output_types(attrs))
  return tuple(map(conformed, outputs, types)) if len(types) == len(outputs) else outputs
