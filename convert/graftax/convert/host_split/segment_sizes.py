"""Gives segment reductions their number of segments as an input, so that only this number has to be known.

Without it, the number is that of the last segment plus one, and all segment numbers would have to be known under `jit`.
"""

import dataclasses

import numpy as np

from graftax.convert.program import Program
from graftax.graphdef_ir import DType, GraphError, Node, Tensor, TensorRef

__all__ = ["with_segment_sizes"]

# With the suffix these are ops whose last input is the number of segments.
_SEGMENT_REDUCTIONS = ("SparseSegmentMean", "SparseSegmentSqrtN", "SparseSegmentSum")
_SUFFIX = "WithNumSegments"
_SEGMENT_IDS = 2


def with_segment_sizes(program: Program) -> Program:
  """Returns the program, whose calls are inlined, with such ops replaced."""
  nodes: list[Node] = []
  for node in program.function.nodes:
    if node.op in _SEGMENT_REDUCTIONS:
      nodes += _with_size(node)
    else:
      nodes.append(node)
  return dataclasses.replace(program, function=dataclasses.replace(program.function, nodes=tuple(nodes)))


def _with_size(node: Node) -> list[Node]:
  segments = node.inputs[_SEGMENT_IDS]
  dtype = node.attrs.get("Tsegmentids", DType.INT32)
  if not isinstance(dtype, DType):
    raise GraphError(f"{node.op} node {node.name!r}: Tsegmentids is {dtype!r}; expected a dtype.")
  prefix = f"{node.name}/num_segments"

  def const(name: str, value: np.ndarray) -> Node:
    tensor = Tensor.from_numpy(value)
    return Node(f"{prefix}/{name}", "Const", attrs={"value": tensor, "dtype": tensor.dtype})

  def computed(name: str, op: str, *inputs: TensorRef, **attrs: object) -> Node:
    return Node(f"{prefix}/{name}", op, inputs, attrs=attrs)  # type: ignore[arg-type]  # dtypes and numbers

  def ref(name: str) -> TensorRef:
    return TensorRef(f"{prefix}/{name}")

  number = dtype.numpy.type
  # Without entries there are no segments.
  return [
    const("before_first", np.array([-1], number)),
    const("axis", np.array(0, np.int32)),
    const("one", np.array(1, number)),
    computed("all", "ConcatV2", ref("before_first"), segments, ref("axis"), N=2, T=dtype, Tidx=DType.INT32),
    computed("last", "Max", ref("all"), ref("axis"), T=dtype, Tidx=DType.INT32, keep_dims=False),
    computed("size", "AddV2", ref("last"), ref("one"), T=dtype),
    dataclasses.replace(
      node,
      op=node.op + _SUFFIX,
      inputs=(*node.inputs, ref("size")),
      attrs={**node.attrs, "Tnumsegments": dtype},
    ),
  ]
