"""Which dtypes TensorFlow's CPU kernels accept, from `cpu_kernels.txt`."""

import functools
from collections.abc import Mapping
from importlib import resources

from graftax.graphdef_ir import AttrValue, DType

__all__ = ["has_kernel"]


def has_kernel(op: str, attrs: Mapping[str, AttrValue]) -> bool:
  """Returns whether TensorFlow has a CPU kernel for a node with these attributes.

  Raises:
    AssertionError: the table does not have the op.
  """
  constraints = _table().get(op)
  assert constraints is not None, f"internal: cpu_kernels.txt has no line for {op!r}; generate it again."
  return all(attrs.get(name) in allowed for name, allowed in constraints.items() if name in attrs)


@functools.cache
def _table() -> Mapping[str, Mapping[str, frozenset[DType]]]:
  text = resources.files(__package__).joinpath("cpu_kernels.txt").read_text(encoding="utf-8")
  table: dict[str, dict[str, frozenset[DType]]] = {}
  for line in text.splitlines():
    if line and not line.startswith("#"):
      op, *constraints = line.split(" ")
      table[op] = {
        name: frozenset(map(DType.from_name, types.split(",")))
        for name, _, types in (constraint.partition("=") for constraint in constraints)
      }
  return table
