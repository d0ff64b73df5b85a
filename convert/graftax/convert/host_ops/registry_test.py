"""Which nodes have strings, and which lowerings threads find that ask at the same time."""

import subprocess
import sys

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


_LOOKUPS_BY_THREADS = """
import sys, threading
from graftax.convert.host_ops.registry import host_lowering
from graftax.graphdef_ir import op_signature
from graftax.ops_jax import lowering
from graftax.testing.graph_builders import node

sys.setswitchinterval(1e-5)
barrier, missing = threading.Barrier(8), []
hosts = {op: (node(op, op, "x"), op_signature(op)) for op in ("StringLower", "RegexFullMatch")}

def look_up():
  barrier.wait()
  missing.extend(op for op in ("Svd", "TopKV2", "AddV2") if lowering(op) is None)
  missing.extend(op for op, arguments in hosts.items() if host_lowering(*arguments) is None)

threads = [threading.Thread(target=look_up) for _ in range(8)]
for thread in threads:
  thread.start()
for thread in threads:
  thread.join()
assert not missing, missing
"""


def test_threads_that_are_the_first_to_look_up_ops_find_them():
  child = subprocess.run([sys.executable, "-c", _LOOKUPS_BY_THREADS], capture_output=True, text=True)
  assert child.returncode == 0, child.stderr
