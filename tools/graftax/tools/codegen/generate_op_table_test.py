"""The op table generator, on ops of every shape and on the installed TensorFlow."""

import subprocess
import sys

import tensorflow as tf

from graftax.graphdef_ir import op_signature, schema, signature_from_op_def
from graftax.tools.codegen.generate_op_table import format_signature, format_table, registered_ops


def test_a_line_reads_like_a_declaration():
  assert format_signature(op_signature("ConcatV2")).split("\t") == [
    "ConcatV2",
    "",
    "values: N * T, axis: Tidx",
    "output: T",
    "N: int >= 2",
    "T: type",
    'Tidx: type in ["int32","int64"] = "int32"',
  ]
  assert format_signature(op_signature("Assign")).split("\t")[2] == "ref: Ref(T), value: T"
  assert format_signature(op_signature("RandomUniform")).split("\t")[1] == "s"


def test_lines_are_sorted_and_say_where_they_come_from():
  ops = schema.OpList(op=[schema.OpDef(name="B"), schema.OpDef(name="A")])
  header, *lines = format_table("9.9", ops).splitlines()
  assert "TensorFlow 9.9" in header
  assert [line.partition("\t")[0] for line in lines] == ["A", "B"]


def test_every_registered_op_can_be_written():
  version, ops = registered_ops()
  assert version == tf.__version__
  assert len({format_signature(signature_from_op_def(op)) for op in ops.op}) == len(ops.op)


def test_the_checked_in_table_is_current():
  if tf.__version__.startswith("2.21."):
    # In a process of its own, because TensorFlow's extensions, which other tests import, register ops too.
    command = [sys.executable, "-m", "graftax.tools.codegen.generate_op_table", "--check"]
    assert subprocess.run(command).returncode == 0, "run generate_op_table.py"
