"""Replaces convolutions of spatial blocks by convolutions with dilations.

`tf.nn.convolution` and Keras write a convolution with dilations as three nodes: SpaceToBatchND moves each phase of the
input into a batch of its own, a convolution without dilations follows, and BatchToSpaceND moves the results back. One
convolution with dilations computes the same without rearranging its input and its result.
"""

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np

from graftax.graphdef_ir._unique_names import unique_name
from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.graph import Function, Node, TensorRef
from graftax.graphdef_ir.signatures import OpSignatures
from graftax.graphdef_ir.tensors import Tensor

__all__ = ["restore_dilations"]

# The layouts of the convolutions whose spatial dimensions follow the batch, as SpaceToBatchND takes them.
_LAYOUTS = {"Conv2D": b"NHWC", "DepthwiseConv2dNative": b"NHWC", "Conv3D": b"NDHWC"}
# Those between ExpandDims and Squeeze convolve over one dimension.
_OPS_IN_1D = ("Conv2D", "DepthwiseConv2dNative")
_NO_PADDING = (0, 0)


def restore_dilations(function: Function) -> Function:
  """Returns the function with dilations in place of blocks around a convolution.

  A convolution is replaced if block, paddings and crops are constants, so not where they are computed from a size that
  is unknown. Nodes that nothing needs any more stay; see `prune`. A function with variables of TensorFlow 1 that are
  passed by reference stays as it is: its convolution would read them at another time.

  The result also accepts inputs whose padded size is no multiple of the block, which SpaceToBatchND refuses.

  Args:
    function: the function; returned itself if there is nothing to replace.

  Example:
    >>> def const(name, value):
    ...   return Node(name, "Const", attrs={"value": Tensor.from_numpy(np.array(value))})
    >>> def ref(*names):
    ...   return tuple(TensorRef(name) for name in names)
    >>> attrs = {"strides": (1, 1, 1, 1), "padding": b"VALID"}
    >>> nodes = (
    ...   const("block", [2, 2]),
    ...   const("paddings", [[2, 3], [2, 3]]),
    ...   const("crops", [[0, 1], [0, 1]]),
    ...   Node("phases", "SpaceToBatchND", ref("x", "block", "paddings")),
    ...   Node("conv", "Conv2D", ref("phases", "kernel"), attrs=attrs),
    ...   Node("y", "BatchToSpaceND", ref("conv", "block", "crops")),
    ... )
    >>> restored = restore_dilations(Function("f", (), (), nodes)).node("y")
    >>> restored.op, restored.attrs["dilations"], restored.attrs["explicit_paddings"]
    ('Conv2D', (1, 2, 2, 1), (0, 0, 2, 2, 2, 2, 0, 0))
  """
  if all(node.op != "BatchToSpaceND" for node in function.nodes) or _has_references(function):
    return function
  nodes = {node.name: node for node in function.nodes}
  names = _Names({*nodes, *(parameter.name for parameter in function.parameters)})
  replaced = {
    node.name: tuple(found.dilated(names))
    for node in function.nodes
    if node.op == "BatchToSpaceND" and (found := _find(node, nodes)) is not None
  }
  if not replaced:
    return function
  after = tuple(new for node in function.nodes for new in replaced.get(node.name, (node,)))
  return dataclasses.replace(function, nodes=after)


def _has_references(function: Function) -> bool:
  """Returns whether a function takes or makes references to variables, as those of TensorFlow 1."""
  signatures = map(OpSignatures().get, {node.op for node in function.nodes})
  return any(parameter.dtype.is_ref for parameter in function.parameters) or any(
    arg.is_ref for signature in signatures if signature is not None for arg in signature.outputs
  )


class _Names:
  """The names of a function's nodes and parameters, and new ones."""

  def __init__(self, taken: set[str]):
    self._taken = taken
    self._numbers: dict[str, int] = {}

  def new(self, wanted: str) -> str:
    """Returns the name if nothing has it, or else one that starts like it."""
    return unique_name(wanted, self._taken, self._numbers)


@dataclasses.dataclass(frozen=True, slots=True)
class _Blocks:
  """A convolution between SpaceToBatchND and BatchToSpaceND.

  Attributes:
    last: the BatchToSpaceND node.
    conv: the convolution.
    around: the nodes that are replaced, apart from the last one: SpaceToBatchND, the convolution, and for a 1-D
      convolution the ExpandDims and Squeeze nodes beside it.
    expand: the ExpandDims node, if there is one.
    x: the input of SpaceToBatchND.
    dilations: one entry per spatial dimension of the convolution.
    padding: cells before and after, likewise.
  """

  last: Node
  conv: Node
  around: tuple[Node, ...]
  expand: Node | None
  x: TensorRef
  dilations: tuple[int, ...]
  padding: tuple[tuple[int, int], ...]

  def dilated(self, names: _Names) -> Iterator[Node]:
    """Yields the nodes in place of the last one. The last of them has its name."""
    x, result = self.x, self.last.name
    controls = tuple(dict.fromkeys(c for node in (*self.around, self.last) for c in node.control_inputs))
    if self.expand is not None:
      name, result = (names.new(f"{self.last.name}/{part}") for part in ("expanded", "dilated"))
      yield dataclasses.replace(self.expand, name=name, inputs=(x, self.expand.inputs[1]), control_inputs=())
      x = TensorRef(name)
    padding = (_NO_PADDING, *self.padding, _NO_PADDING)
    attrs = {**self.conv.attrs, "dilations": (1, *self.dilations, 1)}
    if self.conv.op == "Conv3D" and any(map(any, padding)):  # which has no attribute for numbers of cells
      cells, padded = (names.new(f"{self.last.name}/{part}") for part in ("paddings", "padded"))
      yield Node(cells, "Const", attrs={"dtype": DType.INT32, "value": Tensor.from_numpy(np.array(padding, np.int32))})
      attrs_of_pad = {"Tpaddings": DType.INT32} | ({"T": attrs["T"]} if "T" in attrs else {})
      yield Node(padded, "Pad", (x, TensorRef(cells)), attrs=attrs_of_pad)
      x = TensorRef(padded)
    elif any(map(any, padding)):
      attrs |= {"padding": b"EXPLICIT", "explicit_paddings": tuple(n for pair in padding for n in pair)}
    inputs = (x, *self.conv.inputs[1:])
    yield dataclasses.replace(self.conv, name=result, inputs=inputs, control_inputs=controls, attrs=attrs)
    if self.expand is not None:
      squeeze = next(node for node in self.around if node.op == "Squeeze")
      yield dataclasses.replace(squeeze, name=self.last.name, inputs=(TensorRef(result),), control_inputs=())


def _find(last: Node, nodes: Mapping[str, Node]) -> _Blocks | None:
  """Returns the blocks that end with a BatchToSpaceND node; None for other nodes before it."""
  before = _producer(last, nodes)
  squeeze = before if before is not None and _is_squeeze(before) else None
  conv = before if squeeze is None else _producer(squeeze, nodes)
  if conv is None or not _is_plain(conv) or (squeeze is not None and conv.op not in _OPS_IN_1D):
    return None
  first = _producer(conv, nodes)
  expand = first if squeeze is not None else None
  if expand is not None:
    first = _producer(expand, nodes) if _is_expand(expand, nodes) else None
  if first is None or first.op != "SpaceToBatchND" or not len(first.inputs) == len(last.inputs) == 3:
    return None
  numbers = [_number(ref, nodes) for ref in (*first.inputs[1:], *last.inputs[1:])]
  num_space = len(_LAYOUTS[conv.op]) - 2 - (expand is not None)
  fits = _fit(numbers, num_space)
  if fits is None:
    return None
  dilations, padding = fits
  if expand is not None:
    dilations, padding = (1, *dilations), (_NO_PADDING, *padding)
  around = tuple(node for node in (first, expand, conv, squeeze) if node is not None)
  return _Blocks(last, conv, around, expand, first.inputs[0], dilations, padding)


def _producer(node: Node, nodes: Mapping[str, Node]) -> Node | None:
  """Returns the node whose first output is the first input of another one; None if there is none."""
  return nodes.get(node.inputs[0].node) if node.inputs and node.inputs[0].index == 0 else None


def _is_plain(conv: Node) -> bool:
  """Returns whether a node is a convolution with the channels last and without strides, padding and dilations."""
  layout = _LAYOUTS.get(conv.op)
  if layout is None:
    return False
  ones = (1,) * len(layout)
  wanted = {"data_format": layout, "strides": ones, "dilations": ones, "padding": b"VALID"}
  has_paddings = bool(conv.attrs.get("explicit_paddings"))
  return (
    len(conv.inputs) == 2
    and not has_paddings
    and all(conv.attrs.get(name, value) == value for name, value in wanted.items())
  )


def _is_squeeze(node: Node) -> bool:
  """Returns whether a node removes the first spatial dimension of a 2-D convolution."""
  return node.op == "Squeeze" and node.attrs.get("squeeze_dims") in ((1,), (-3,))


def _is_expand(node: Node, nodes: Mapping[str, Node]) -> bool:
  """Returns whether a node adds the first spatial dimension of a 2-D convolution."""
  axis = _number(node.inputs[1], nodes) if node.op == "ExpandDims" and len(node.inputs) == 2 else None
  return axis is not None and axis.size == 1 and int(axis.reshape(())) in (1, -3)


def _number(ref: TensorRef, nodes: Mapping[str, Node]) -> np.ndarray | None:
  """Returns the value of a constant of integers; None for other tensors."""
  node = nodes.get(ref.node)
  value = node.attrs.get("value") if node is not None and node.op == "Const" else None
  is_number = isinstance(value, Tensor) and value.dtype in (DType.INT32, DType.INT64) and value.size <= _MOST_NUMBERS
  return value.numpy() if isinstance(value, Tensor) and is_number else None


# Paddings of three spatial dimensions are six numbers.
_MOST_NUMBERS = 6
# Of attributes and paddings of 32 bits.
_LARGEST_NUMBER = 2**31 - 1


def _fit(
  numbers: list[np.ndarray | None], num_space: int
) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]] | None:
  """Returns dilations and padding for `[block, paddings, block, crops]`, or None if no dilations do the same."""
  known = [number for number in numbers if number is not None]
  if len(known) != 4:
    return None
  block, paddings, other_block, crops = known
  if block.shape != (num_space,) or paddings.shape != (num_space, 2) or crops.shape != paddings.shape:
    return None
  if not np.array_equal(block, other_block) or block.min() < 1 or min(crops.min(), paddings.min()) < 0:
    return None
  if max(number.max() for number in known) > _LARGEST_NUMBER:
    return None
  padding = paddings.astype(np.int64) - crops
  if padding.min() < 0:
    return None
  return tuple(map(int, block)), tuple((int(low), int(high)) for low, high in padding)
