"""What one check showed about one op, as a line of JSON."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypedDict

import numpy as np

from graftax.graphdef_ir import op_signature

__all__ = ["Evidence", "append", "dtypes_of_inputs", "evidence_in"]


class Evidence(TypedDict, total=False):
  """What one check showed.

  Attributes:
    op: the op.
    source: `raw_op` (a check of a single op in a test), `generated` (a generated case) or `program` (a check of a whole
      program that contains the op).
    dtypes: the dtype of each type attribute.
    passed: what was compared with TensorFlow and agreed, of `value`, `jit`, `gradient`, `vmap`, `symbolic`; of these
      `vmap` is compared with a loop, and `symbolic` is a run of the exported function.
    refused: errors of graftax, by what was tried.
    wrong: differences and errors that are not typed, by what was tried. These are faults.
    no_gradient: whether TensorFlow has no gradient of floating-point inputs.
    deviations: reasons of known differences from TensorFlow.
  """

  op: str
  source: str
  dtypes: dict[str, str]
  passed: list[str]
  refused: dict[str, str]
  wrong: dict[str, str]
  no_gradient: bool
  deviations: list[str]


def dtypes_of_inputs(op: str, arrays: Mapping[str, object], attrs: Mapping[str, object]) -> dict[str, str]:
  """Returns the dtype of each type attribute of an op, by TensorFlow's names.

  Args:
    op: the op.
    arrays: arrays by argument, or lists of them.
    attrs: attributes as `tf.raw_ops` takes them.
  """
  found: dict[str, str] = {}
  signature = op_signature(op)
  for argument in signature.inputs:
    value = arrays[argument.name]
    first = value[0] if isinstance(value, list) and value else value
    if argument.type_attr and not isinstance(first, list):
      found[argument.type_attr] = _name(np.asarray(first).dtype)
  for name, attr in signature.attrs.items():
    if attr.type == "type" and name in attrs:
      try:
        found[name] = _name(np.dtype(attrs[name]))  # type: ignore[call-overload]  # a dtype in one of its spellings
      except TypeError:
        continue
  return found


def _name(dtype: np.dtype) -> str:
  if dtype.kind in "OSU":
    return "string"
  return str(dtype)


def append(path: Path, evidence: Iterable[Evidence]) -> None:
  """Adds lines to a file."""
  with path.open("a", encoding="utf-8") as file:
    for line in evidence:
      file.write(json.dumps(line, sort_keys=True) + "\n")


def evidence_in(folder: Path) -> Iterator[Evidence]:
  """Yields the lines of all files in a folder."""
  for path in sorted(folder.glob("*.jsonl")):
    for line in path.read_text(encoding="utf-8").splitlines():
      yield json.loads(line)
