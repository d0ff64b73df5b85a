"""Nodes that check the sizes of arguments against their symbolic dimensions."""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from graftax.convert.jax2tf.tf_ops.builder import Builder
from graftax.convert.jax2tf.tf_ops.registry import Unsupported
from graftax.convert.jax2tf.tf_ops.symbols import SizeCheck, SizeSource, names_in, size_checks
from graftax.convert.jax2tf.tf_ops.tensors import Tensor
from graftax.graphdef_ir import DType

__all__ = ["check_sizes", "size_of_axis"]

# What names of nodes say for the signs in a condition.
_WORDS = {"==": " is ", ">=": " at least ", "<=": " at most ", "+": " plus ", "-": " minus ", "*": " times "}


def check_sizes(
  b: Builder, function: str, tensors: Sequence[Tensor], names: Sequence[str], sources: Mapping[str, SizeSource]
) -> list[Tensor]:
  """Returns the arguments, which wait for nodes that check their sizes.

  The sizes in `b.symbols` are replaced in the same way. As with StableHLO, JAX's assumptions are checked: that a size
  is at least 1, that equal dimensions have equal sizes, and the constraints of the scope.

  Args:
    b: the body.
    function: the name of the function, for messages.
    tensors: the arguments.
    names: their names.
    sources: where the sizes of symbolic dimensions are read.
  """
  checks: list[str] = []
  for check in size_checks([tensor.shape for tensor in tensors], names, sources):
    try:
      checks.append(_check(b, function, tensors, check))
    except Unsupported:  # sizes that cannot be read are refused where the function needs them
      continue
  b.scope = "arguments"
  if not checks:
    return list(tensors)
  # One node that waits for all of them, as tensors and checks may be many.
  checked = b.after_all(checks)
  b.effects.append(checked)
  b.symbols = {name: b.after(checked, size) for name, size in b.symbols.items()}
  b.forget_sizes()
  return [b.after(checked, x) if any(not isinstance(n, int) for n in x.shape) else x for x in tensors]


def size_of_axis(b: Builder, tensor: Tensor, axis: int) -> Tensor:
  """Returns the size of an axis as an int32 scalar."""
  shape = b.op("Shape", tensor, shape=(tensor.rank,))
  position = np.array([axis], np.int32)
  return b.op("StridedSlice", shape, position, position + 1, np.ones(1, np.int32), shape=(), shrink_axis_mask=1)


def _check(b: Builder, function: str, tensors: Sequence[Tensor], check: SizeCheck) -> str:
  """Adds the nodes of one check, and returns the name of the last, which waits for the others."""
  # Shape inference and XLA name only the node that fails.
  words = re.sub("[=<>]=|[-+*]", lambda sign: _WORDS[sign[0]], check.text)
  b.scope = "expected_" + re.sub("[^A-Za-z0-9_]+", "_", words)
  right = b.size_expression(check.right, check.text)
  if check.axis is not None:
    position, axis = check.axis
    left = size_of_axis(b, tensors[position], axis)
  else:
    assert check.left is not None, "internal: a check without a left side."
    left = b.size_expression(check.left, check.text)
  holds = b.op(check.op, left, right, shape=())
  read = names_in(check.right) | (set() if check.left is None else names_in(check.left))
  sizes = [item for name in sorted(read) for item in (_text(f", {name} is"), b.symbols[name])]
  message = _text(f"{function}: sizes of arguments do not fit their symbolic shapes: expected {check.text}; found")
  b.op_list("Assert", holds, [message, left, *sizes], shapes=[])
  assertion = b.nodes[-1].name
  # XLA leaves assertions out, and cannot make an array of a negative size. Elsewhere the assertion, whose message says
  # more, fails first.
  as_number = b.after(assertion, b.op("Cast", holds, shape=(), DstT=DType.INT32))
  b.op("Fill", b.op("Pack", [b.op("Sub", as_number, np.int32(1), shape=())], shape=(1,)), np.int32(0), shape=(0,))
  return b.nodes[-1].name


def _text(text: str) -> np.ndarray:
  return np.array(text.encode())
