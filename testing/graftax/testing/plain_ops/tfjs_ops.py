"""The TensorFlow ops that the TF.js converter takes, from `tfjs_ops.txt`, which says its version and source."""

import functools
from importlib import resources

from graftax.convert import Program
from graftax.graphdef_ir import reachable_functions

__all__ = ["ops_of", "tfjs_ops"]

# The converter replaces variables by constants before it looks at ops.
_FROZEN = frozenset({"ReadVariableOp"})


@functools.cache
def tfjs_ops() -> frozenset[str]:
  """Returns the names of the ops."""
  text = resources.files(__package__).joinpath("tfjs_ops.txt").read_text(encoding="utf-8")
  return frozenset(line for line in text.splitlines() if line and not line.startswith("#"))


def ops_of(program: Program) -> frozenset[str]:
  """Returns the ops of a program and of the functions that it calls, without those that read variables."""
  called = reachable_functions(program.function, program.library)
  functions = [program.function, *(program.library[name] for name in called)]
  return frozenset(node.op for function in functions for node in function.nodes) - _FROZEN
