"""Transposes of transposes, as one transpose or none."""

from collections.abc import Mapping

import numpy as np

from graftax.convert.inference.known_parts import KnownParts
from graftax.graphdef_ir import Function, TensorRef

__all__ = ["cancelled_transposes"]


def cancelled_transposes(function: Function, known: KnownParts) -> Mapping[TensorRef, TensorRef]:
  """Returns what replaces the results of transposes that undo the one before them."""
  transposes = {
    node.name: node
    for node in function.nodes
    if node.op == "Transpose" and len(node.inputs) == 2 and known.is_known(node.inputs[1])
  }
  pairs = [(node, transposes[node.inputs[0].node]) for node in transposes.values() if node.inputs[0].node in transposes]
  orders = known.values(node.inputs[1] for pair in pairs for node in pair)
  found = {}
  for outer, inner in pairs:
    first, second = orders[inner.inputs[1]], orders[outer.inputs[1]]
    # Of an order that is not a permutation, TensorFlow says so when the function is called.
    order = np.arange(second.size)
    if np.array_equal(np.sort(second, None), order) and first.shape == order.shape:
      if np.array_equal(first[second], order):
        found[TensorRef(outer.name)] = inner.inputs[0]
  return found
