"""An op as a function of flat inputs, in TensorFlow and through its lowering.

The lowering is reached as in a converted model: TensorFlow serializes the op's node, `graphdef_ir` parses it, and
`ops_jax` binds it.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from graftax.graphdef_ir import Node, op_signature, parse_graph
from graftax.ops_jax import Kernel, Lowering, Value, bind
from graftax.ops_jax import lowering as registered_lowering
from graftax.testing._tensorflow import import_tensorflow
from graftax.testing.raw_ops.context import NODE_NAME, NodeContext

__all__ = ["RawOp", "raw_op", "tensorflow_op", "to_numpy"]


@dataclasses.dataclass(frozen=True, slots=True)
class RawOp:
  """A TensorFlow op with concrete inputs, and its lowering bound to the same node.

  Attributes:
    op: the op's name.
    oracle: TensorFlow's op as a function of the flat inputs; returns a list of TensorFlow tensors.
    kernel: our lowering, bound.
    inputs: flat numpy inputs.
    input_names: name of the op argument that each flat input belongs to.
    static: for each flat input, whether the lowering must know it while tracing.
  """

  op: str
  oracle: Callable[[Sequence[Any]], list[Any]]
  kernel: Kernel
  inputs: tuple[np.ndarray, ...]
  input_names: tuple[str, ...]
  static: tuple[bool, ...]

  @property
  def dynamic_inputs(self) -> tuple[np.ndarray, ...]:
    """The inputs that may be traced."""
    return tuple(x for x, static in zip(self.inputs, self.static, strict=True) if not static)

  def run(self, *dynamic_inputs: Value, context: NodeContext | None = None) -> tuple[Value, ...]:
    """Returns the outputs of the lowering, with the static inputs filled in as numpy arrays.

    Args:
      *dynamic_inputs: a value for each of `dynamic_inputs`, in order: arrays, traced or not.
      context: the state and the options of the node; None is an empty `NodeContext`.
    """
    dynamic = iter(dynamic_inputs)
    flat = [x if static else next(dynamic) for x, static in zip(self.inputs, self.static, strict=True)]
    return self.kernel.run(context or NodeContext(), flat)


def raw_op(
  op: str,
  inputs: Mapping[str, Any] | Sequence[Any],
  attrs: Mapping[str, Any] | None = None,
  *,
  static: Collection[str] = (),
  lowering: Lowering | None = None,
  infer_shapes: bool = True,
) -> RawOp:
  """Returns an op that runs both in TensorFlow and through its lowering, for checks that `check_raw_op` does not make.

  Args:
    op: TensorFlow's op name.
    inputs: as for `check_raw_op`.
    attrs: as for `check_raw_op`.
    static: as for `check_raw_op`.
    lowering: as for `check_raw_op`.
    infer_shapes: whether TensorFlow may see the inputs' shapes when it makes the node (and refuse them).

  Raises:
    AssertionError: the op has no lowering.
  """
  oracle, flat, flat_names = tensorflow_op(op, inputs, attrs)
  entry = lowering or _registered(op)
  signature = op_signature(op)
  node = _make_node(oracle, flat, infer_shapes)
  statics = {p.name for p in entry.inputs if p.static_type is not None} | set(static)
  by_position = dict(zip([arg.name for arg in signature.inputs], entry.inputs, strict=True))
  is_static = tuple(name in statics or by_position[name].static_type is not None for name in flat_names)
  return RawOp(op, oracle, bind(node, signature, entry, "test"), flat, flat_names, is_static)


def tensorflow_op(
  op: str, inputs: Mapping[str, Any] | Sequence[Any], attrs: Mapping[str, Any] | None = None
) -> tuple[Callable[[Sequence[Any]], list[Any]], tuple[np.ndarray, ...], tuple[str, ...]]:
  """Returns an op as a function of flat inputs, these inputs, and the argument that each belongs to.

  Args:
    op: TensorFlow's op name.
    inputs: as for `check_raw_op`.
    attrs: as for `check_raw_op`.
  """
  names = [arg.name for arg in op_signature(op).inputs]
  by_name = dict(inputs) if isinstance(inputs, Mapping) else dict(zip(names, inputs, strict=True))
  flat: list[np.ndarray] = []
  flat_names: list[str] = []
  for name in names:
    values = by_name[name] if isinstance(by_name[name], list) else [by_name[name]]
    flat.extend(_as_input(v) for v in values)
    flat_names.extend([name] * len(values))
  lists = {name for name in names if isinstance(by_name[name], list)}
  oracle = functools.partial(_run_tensorflow, op, tuple(flat_names), lists, dict(attrs or {}))
  return oracle, tuple(flat), tuple(flat_names)


def to_numpy(tensor: Any) -> np.ndarray:
  return np.asarray(tensor.numpy(), dtype=object if tensor.dtype.name == "string" else None)


def _registered(op: str) -> Lowering:
  entry = registered_lowering(op)
  if entry is None:
    raise AssertionError(f"{op} has no lowering")
  return entry


def _as_input(value: Any) -> np.ndarray:
  array = np.asarray(value)
  return array.astype(object) if array.dtype.kind in "SU" else array


def _run_tensorflow(
  op: str, names: Sequence[str], lists: Collection[str], attrs: Mapping[str, Any], flat: Sequence[Any]
) -> list[Any]:
  tf = import_tensorflow()
  kwargs: dict[str, Any] = {name: [] for name in lists}
  for name, value in zip(names, flat, strict=True):
    tensor = tf.constant(value, dtype=value.dtype) if isinstance(value, np.ndarray) and value.dtype != object else value
    if name in lists:
      kwargs[name].append(tensor)
    else:
      kwargs[name] = tensor
  function = getattr(tf.raw_ops, op)
  renamed = _renamed_arguments(function, kwargs, attrs)
  result = function(**{renamed.get(name, name): value for name, value in kwargs.items()}, **attrs, name=NODE_NAME)
  if isinstance(result, tf.Tensor):
    return [result]
  return [] if result is None or isinstance(result, tf.Operation) else _flatten(result)


def _renamed_arguments(function: Callable[..., Any], inputs: Collection[str], attrs: Collection[str]) -> dict[str, str]:
  # Python calls some arguments otherwise than the op does (`axis` for `reduction_indices`), in the same order.
  parameters = [name for name in inspect.signature(function).parameters if name not in attrs]
  unmatched = [name for name in inputs if name not in parameters]
  free = [name for name in parameters if name not in inputs]
  return dict(zip(unmatched, free, strict=False))


def _flatten(result: Any) -> list[Any]:
  flat: list[Any] = []
  for item in result:
    flat.extend(item if isinstance(item, (list, tuple)) else [item])
  return flat


def _make_node(oracle: Callable[[Sequence[Any]], list[Any]], flat: Sequence[np.ndarray], infer_shapes: bool) -> Node:
  # Hide the shapes from TensorFlow, which might refuse them; ranks suffice to make the node.
  visible: list[Callable[[np.ndarray], Any]] = [lambda x: x.shape]
  if not infer_shapes:
    visible = [lambda x: [None] * x.ndim, lambda x: None, *visible]
  for last, shape in enumerate(visible, start=1 - len(visible)):
    try:
      return _node_from_tensorflow(oracle, [(x, shape(x)) for x in flat])
    except (TypeError, ValueError):
      if not last:
        raise
  raise AssertionError("internal: unreachable")


def _node_from_tensorflow(
  oracle: Callable[[Sequence[Any]], list[Any]], inputs: Sequence[tuple[np.ndarray, Any]]
) -> Node:
  tf = import_tensorflow()
  with tf.Graph().as_default() as graph:
    oracle(
      [tf.compat.v1.placeholder(tf.string if x.dtype == object else tf.as_dtype(x.dtype), shape) for x, shape in inputs]
    )
  parsed = parse_graph(graph.as_graph_def().SerializeToString())
  return next(node for node in parsed.nodes if node.name == NODE_NAME)
