"""Tells in about 2 us a node which nodes surely fit their op, so that `validation` looks closely only at the others.

Most nodes of a graph are an op with the same few attributes many times. What depends on op and attributes alone is
found once for each combination (`_Form`), by the checks of `validation`; for each node, the types of its inputs are
compared.
"""

import dataclasses
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from graftax.graphdef_ir.dtypes import DType
from graftax.graphdef_ir.graph import Node
from graftax.graphdef_ir.signatures import OpSignature, table_signature

__all__ = ["doubtful_nodes"]

# A node with more tensors than this is looked at closely.
_MAX_TENSORS = 64

# Forms of TensorFlow's own ops that were found before.
_KNOWN: dict[tuple[Any, ...], "_Form"] = {}
_MAX_KNOWN = 4096


@dataclasses.dataclass(frozen=True, slots=True)
class _Form:
  """An op with some attributes.

  Attributes:
    inputs: types of the inputs.
    outputs: types of the outputs.
  """

  inputs: tuple[DType, ...]
  outputs: tuple[DType, ...]


def doubtful_nodes(
  nodes: Sequence[Node],
  names: Container[str],
  parameters: Mapping[str, DType],
  find_signature: Callable[[str], OpSignature | None],
  is_valid: Callable[[Node, OpSignature], bool],
) -> list[Node]:
  """Returns the nodes that have to be checked one by one; all others are correct, apart from names and cycles.

  Args:
    nodes: the nodes.
    names: their names.
    parameters: types of the parameters by name.
    find_signature: returns the signature of an op, or None.
    is_valid: whether all attributes of a node are as the signature declares.
  """
  forms: dict[Any, _Form | None] = {}
  deciding: dict[str, tuple[tuple[str, ...], tuple[str, ...]] | None] = {}
  outputs: dict[str, tuple[DType, ...]] = {name: (dtype.base,) for name, dtype in parameters.items()}
  found: list[_Form | None] = []
  for node in nodes:
    op, attrs = node.op, node.attrs
    try:
      used = deciding[op]
    except KeyError:
      used = deciding[op] = _deciding_attrs(find_signature(op))
    form = None
    if used is not None:
      # The classes too, because 1, 1.0, True and DType.FLOAT are equal.
      by_value, by_type = used
      values = [attrs.get(name) for name in by_value]
      key = (op, *values, *map(type, values))
      if by_type:
        key += tuple([type(attrs.get(name)) for name in by_type])
      try:
        form = forms[key]
      except KeyError:
        form = forms[key] = _known_form(key, node, find_signature(op), is_valid)
      if form is not None:
        outputs[node.name] = form.outputs
    found.append(form)
  return [
    node for node, form in zip(nodes, found, strict=True) if form is None or not _fits(node, form, outputs, names)
  ]


def _fits(node: Node, form: _Form, outputs: Mapping[str, tuple[DType, ...]], names: Container[str]) -> bool:
  inputs = node.inputs
  if len(inputs) != len(form.inputs):
    return False
  for name in node.control_inputs:
    if name not in names:
      return False
  try:
    for (name, index), wanted in zip(inputs, form.inputs, strict=True):
      if index < 0 or outputs[name][index] is not wanted:
        return False
  except LookupError:  # no such node, or no such output
    return False
  return True


def _deciding_attrs(signature: OpSignature | None) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
  """Returns attributes whose values, and others whose classes, decide; None if each node of the op must be checked."""
  if signature is None or any("func" in attr.type for attr in signature.attrs.values()):
    return None
  used = {
    name
    for arg in (*signature.inputs, *signature.outputs)
    for name in (arg.type_attr, arg.number_attr, arg.type_list_attr)
    if name is not None
  }
  by_value = [
    attr.name
    for attr in signature.attrs.values()
    if attr.name in used or attr.allowed is not None or attr.minimum is not None or attr.type.startswith("list")
  ]
  return tuple(by_value), tuple(name for name in signature.attrs if name not in by_value)


def _known_form(
  key: tuple[Any, ...], node: Node, signature: OpSignature | None, is_valid: Callable[[Node, OpSignature], bool]
) -> _Form | None:
  """Returns what `_form` returns, and remembers it for other graphs if the op is one of TensorFlow's."""
  if signature is None or signature is not table_signature(node.op):
    return _form(node, signature, is_valid)
  form = _KNOWN.get(key)  # one look, since another thread may clear the table after it
  if form is not None:
    return form
  form = _form(node, signature, is_valid)
  if form is not None and all(len(value) <= _MAX_TENSORS for value in key if isinstance(value, (bytes, tuple))):
    if len(_KNOWN) >= _MAX_KNOWN:
      _KNOWN.clear()
    _KNOWN[key] = form
  return form


def _form(node: Node, signature: OpSignature | None, is_valid: Callable[[Node, OpSignature], bool]) -> _Form | None:
  if signature is None or not is_valid(node, signature):
    return None
  inputs, outputs = signature.input_types(node.attrs), signature.output_types(node.attrs)
  if len(inputs) + len(outputs) > _MAX_TENSORS:
    return None
  return _Form(tuple(inputs), tuple(outputs))
