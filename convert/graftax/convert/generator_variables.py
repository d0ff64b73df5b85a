"""Finds the variables that hold states of random generators; no bit of their 64-bit integers may be lost."""

import numpy as np

from graftax.convert.planning.parameter_uses import parameter_uses
from graftax.convert.program import Program
from graftax.convert.variable import variable_name
from graftax.graphdef_ir import Node, TensorRef, traits_of
from graftax.ops_jax import ResourceHandle

__all__ = ["generator_variables"]

_STATE_SHAPE = (3,)


def generator_variables(program: Program) -> frozenset[str]:
  """Returns the names of the variables that `program` draws random numbers from."""
  candidates = {
    name for name, value in program.variables.items() if value.dtype == np.int64 and tuple(value.shape) == _STATE_SHAPE
  }
  return frozenset(_captured(program, candidates) | _in_graph(program, candidates)) if candidates else frozenset()


def _captured(program: Program, candidates: set[str]) -> set[str]:
  function = program.function
  start = len(function.parameters) - len(program.captures)
  names = {
    start + i: capture.name
    for i, capture in enumerate(program.captures)
    if isinstance(capture, ResourceHandle) and capture.name in candidates
  }
  uses = parameter_uses(function, program.library, program.signatures, names)
  return {names[position] for position, readers in uses.items() if any(_draws(node) for node, _ in readers)}


def _in_graph(program: Program, candidates: set[str]) -> set[str]:
  """Returns the candidates that the graph creates itself, as TF1 graphs do, and passes directly to a random op."""
  names = {TensorRef(node.name): variable_name(node) for node in program.function.nodes if node.op == "VarHandleOp"}
  return {
    names[node.inputs[0]] for node in program.function.nodes if _draws(node) and node.inputs[0] in names
  } & candidates


def _draws(node: Node) -> bool:
  return traits_of(node.op).draws_from_variable
