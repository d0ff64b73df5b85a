"""Writes the op signature table of graftax.graphdef_ir from the TensorFlow that is installed.

    python -m graftax.tools.codegen.generate_op_table            # rewrite the table
    python -m graftax.tools.codegen.generate_op_table --check    # exit 1 if it is out of date

The format is described in graftax/graphdef_ir/_op_table.py, which reads it.
"""

import argparse
import base64
import json
import pathlib
import sys
from typing import Any

from graftax.graphdef_ir import (
  AttrValue,
  DType,
  OpArg,
  OpAttr,
  OpSignature,
  PartialShape,
  Tensor,
  schema,
  signature_from_op_def,
)

_REPOSITORY = pathlib.Path(__file__).resolve().parents[4]
_TARGET = _REPOSITORY / "graphdef_ir" / "graftax" / "graphdef_ir" / "op_signatures.txt"


def registered_ops() -> tuple[str, schema.OpList]:
  """Returns the version of the installed TensorFlow, and every op that it registers."""
  import tensorflow as tf

  # The one door to the C++ registry: tf.raw_ops lacks internal ops, and op_def_registry looks up one name at a time.
  from tensorflow.python.client import pywrap_tf_session

  data = pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList())
  return tf.__version__, schema.OpList.FromString(data)


def format_table(version: str, ops: schema.OpList) -> str:
  """Returns the text of the table, sorted by op name."""
  lines = [f"# Generated from TensorFlow {version} by graftax/tools/codegen/generate_op_table.py; do not edit."]
  lines += sorted(format_signature(signature_from_op_def(op)) for op in ops.op)
  return "\n".join(lines) + "\n"


def format_signature(signature: OpSignature) -> str:
  """Returns one line of the table."""
  marks = "s" * signature.is_stateful + "c" * signature.is_commutative
  columns = [
    signature.name,
    marks,
    ", ".join(_format_arg(arg, signature) for arg in signature.inputs),
    ", ".join(_format_arg(arg, signature) for arg in signature.outputs),
    *(_format_attr(attr) for attr in signature.attrs.values()),
  ]
  return "\t".join(columns)


def _format_arg(arg: OpArg, signature: OpSignature) -> str:
  if arg.dtype is not None and str(arg.dtype) in signature.attrs:
    raise AssertionError(f"internal: {signature.name} has an attribute named like the type {arg.dtype}")
  return str(arg)


def _format_attr(attr: OpAttr) -> str:
  text = f"{attr.name}: {attr.type}"
  if attr.minimum is not None:
    text += f" >= {attr.minimum}"
  if attr.allowed is not None:
    text += f" in {_to_json(attr.allowed)}"
  if attr.default is not None:
    text += f" = {_to_json(attr.default)}"
  return text


def _to_json(value: AttrValue) -> str:
  return json.dumps(_plain(value), separators=(",", ":"))


def _plain(value: AttrValue) -> Any:
  match value:
    case tuple():
      return [_plain(element) for element in value]
    case DType():
      return value.tf_name
    case bytes():
      return value.decode("latin-1")
    case PartialShape():
      return None if value.dims is None else list(value.dims)
    case Tensor():
      return base64.b64encode(value.to_proto().SerializeToString(deterministic=True)).decode()
    case bool() | int() | float():
      return value
  raise AssertionError(f"internal: no table form for {value!r}")


def main(argv: list[str] | None = None) -> int:
  parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
  parser.add_argument("--check", action="store_true", help="compare with the checked-in table; write nothing")
  options = parser.parse_args(argv)
  text = format_table(*registered_ops())
  if _TARGET.exists() and _TARGET.read_text(encoding="utf-8") == text:
    return 0
  if options.check:
    print(f"{_TARGET.relative_to(_REPOSITORY)} is out of date; run {pathlib.Path(__file__).name}", file=sys.stderr)
    return 1
  _TARGET.write_text(text, encoding="utf-8")
  print(f"wrote {_TARGET.relative_to(_REPOSITORY)} ({len(text)} bytes)")
  return 0


if __name__ == "__main__":
  sys.exit(main())
