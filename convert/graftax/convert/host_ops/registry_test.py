"""Which nodes have strings."""

import pytest

from graftax.convert.host_ops.registry import handles_strings
from graftax.graphdef_ir import DType, op_signature
from graftax.testing.graph_builders import node


@pytest.mark.parametrize("number", list(map(int, DType)))
def test_numbers_in_attributes_are_not_dtypes(number):
  # A loop lists the positions of the variables that it only reads: the number of DType.STRING is 7.
  loop = node("loop", "While", "x", T=(DType.INT32,), _read_only_resource_inputs=(number,), parallel_iterations=number)
  assert not handles_strings(loop, op_signature("While"))
  assert not handles_strings(loop, None)


@pytest.mark.parametrize("dtype", [DType.STRING, DType.STRING_REF])
def test_strings_are_found_among_other_types(dtype):
  assert handles_strings(node("loop", "While", "x", T=(DType.INT32, dtype)), op_signature("While"))
  assert handles_strings(node("identity", "Identity", "x", T=dtype), None)
  assert handles_strings(node("upper", "StringUpper", "x"), op_signature("StringUpper"))
