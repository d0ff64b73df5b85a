"""Names of tensors inside a FunctionDef.

A body says "argument" for a parameter and "node:output_arg:index" for an output, where the index counts within that
output argument. Graphs count flat over all outputs. Translating between the two needs the producer's signature and,
if an output argument is a list, the producer's attributes.
"""

from collections.abc import Callable, Mapping

from graftax.graphdef_ir import schema
from graftax.graphdef_ir.attributes import attrs_from_proto
from graftax.graphdef_ir.errors import AttributeValueError, MissingAttributeError, OutputIndexError, ParseError
from graftax.graphdef_ir.graph import UNRESOLVED_OUTPUT, TensorRef
from graftax.graphdef_ir.signatures import OpSignature

_Offsets = Mapping[str, tuple[int, int]]

_MAX_INDEX_DIGITS = 9


class BodyNames:
  """Resolves the names in one function body."""

  def __init__(self, function: schema.FunctionDef, find_signature: Callable[[str], OpSignature | None]) -> None:
    self._parameters = {arg.name for arg in function.signature.input_arg}
    self._nodes = {node.name: node for node in function.node_def}
    self._find_signature = find_signature
    self._offsets_of_node: dict[str, _Offsets | None] = {}
    self._offsets_of_op: dict[str, _Offsets] = {}
    self._resolved: dict[str, tuple[TensorRef, ...]] = {}

  def resolve(self, text: str) -> tuple[TensorRef, ...]:
    """Returns the tensors that a name denotes: one, or a whole list if the index of a list output is left out.

    If the producer's op is unknown, the index is UNRESOLVED_OUTPUT. If the function lacks the node, the index
    is the one in the text.

    Raises:
      ParseError: the name is malformed.
      OutputIndexError: the producer has no such output.
    """
    refs = self._resolved.get(text)
    if refs is None:
      refs = self._resolved[text] = self._resolve(text)
    return refs

  def _resolve(self, text: str) -> tuple[TensorRef, ...]:
    if text in self._parameters:
      return (TensorRef(text),)
    node, *rest = text.split(":")
    if not node or len(rest) > 2:
      raise ParseError(f"input {text!r} is malformed; expected 'argument' or 'node:output_argument:index'.")
    if node in self._parameters:
      return (self._parameter_element(text, node, rest),)
    if not rest:
      return (TensorRef(node),)  # only parameters are named like this, so this one dangles
    index = _parse_index(text, rest[1]) if len(rest) == 2 else None
    if node not in self._nodes:
      return (TensorRef(node, index or 0),)
    offsets = self._offsets(node)
    if offsets is None:
      return (TensorRef(node, UNRESOLVED_OUTPUT),)
    return self._output(text, node, offsets, rest[0], index)

  def _parameter_element(self, text: str, node: str, rest: list[str]) -> TensorRef:
    if len(rest) != 1 or _parse_index(text, rest[0]) != 0:
      raise OutputIndexError(f"input {text!r}: parameter {node!r} is one tensor; expected {node!r}.")
    return TensorRef(node)

  def _output(self, text: str, node: str, offsets: _Offsets, argument: str, index: int | None) -> tuple[TensorRef, ...]:
    if argument not in offsets:
      raise OutputIndexError(
        f"input {text!r}: op {self._nodes[node].op!r} has no output {argument!r}; expected one of {sorted(offsets)}."
      )
    start, size = offsets[argument]
    if index is None:
      return tuple(TensorRef(node, start + i) for i in range(size))
    if index >= size:
      raise OutputIndexError(
        f"input {text!r}: output {argument!r} of {node!r} has {size} tensors; expected an index below that."
      )
    return (TensorRef(node, start + index),)

  def _offsets(self, node: str) -> _Offsets | None:
    """Returns flat position and size of each output argument of a node, or None if its op is unknown."""
    if node not in self._offsets_of_node:
      self._offsets_of_node[node] = self._find_offsets(self._nodes[node])
    return self._offsets_of_node[node]

  def _find_offsets(self, node: schema.NodeDef) -> _Offsets | None:
    known = self._offsets_of_op.get(node.op)
    if known is not None:
      return known
    signature = self._find_signature(node.op)
    if signature is None:
      return None
    if any(output.is_list for output in signature.outputs):
      try:
        return signature.output_offsets(attrs_from_proto(node.attr))
      except (MissingAttributeError, AttributeValueError):
        return None  # for example, a length is an attribute of the function itself
    offsets = self._offsets_of_op[node.op] = signature.output_offsets({})
    return offsets


def _parse_index(text: str, index: str) -> int:
  if not (index.isascii() and index.isdigit()) or len(index) > _MAX_INDEX_DIGITS:
    raise ParseError(f"input {text!r} is malformed; expected an output index of at most 9 digits after the last colon.")
  return int(index)
