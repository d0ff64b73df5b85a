"""Promotes floats whose precision differs from the graph's, as when a float32 model has bfloat16 parameters.

An op of TensorFlow has inputs of one floating-point type. If their actual precisions differ, all are promoted to their
common dtype.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.graphdef_ir import AttrValue, DType, OpSignature
from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.known import canonical_dtype, to_dtype
from graftax.ops_jax._core.stages import Run, flat_sizes
from graftax.ops_jax._core.values import Value, dtype_of

__all__ = ["FLOATS", "PromoteFloats", "float_dtype", "in_one_precision", "promote_floats", "promoted_dtype"]


def float_dtype(value: Value) -> np.dtype[Any] | None:
  """Returns JAX's dtype for an array of real floating-point numbers, or None for any other value.

  A known float64 array counts as float32 if `jax_enable_x64` is off.
  """
  if not isinstance(value, (np.ndarray, np.generic, jax.Array)) or not jnp.issubdtype(value.dtype, jnp.floating):
    return None
  return canonical_dtype(value.dtype)


def promoted_dtype(first: Any, second: Any) -> np.dtype[Any]:
  """Returns the common dtype of two, for example float32 for float16 and bfloat16."""
  return np.dtype(jnp.promote_types(first, second))


def in_one_precision(values: Sequence[Value]) -> list[Value]:
  """Promotes floating-point arrays to their common dtype; returns them unchanged if one is anything else."""
  dtypes = {float_dtype(value) for value in values}
  if None in dtypes or len(dtypes) == 1:
    return list(values)
  common = jnp.result_type(*dtypes)
  return [to_dtype(value, common) for value in values]


@dataclasses.dataclass(frozen=True, slots=True)
class PromoteFloats:
  """Promotes inputs of one declared floating-point type to their common dtype.

  Attributes:
    groups: positions of the inputs that share a type attribute.
  """

  groups: tuple[tuple[int, ...], ...]

  def __str__(self) -> str:
    return f"promote floats: inputs {', '.join(map(str, self.groups))}"

  def wrap(self, run: Run) -> Run:
    """See `Stage`."""
    groups = self.groups

    def promote(context: Context, inputs: Sequence[Value]) -> tuple[Value, ...]:
      for group in groups:
        # The precisions are nearly always equal, so compare the dtypes first.
        first = dtype_of(inputs[group[0]])
        if any(dtype_of(inputs[i]) is not first for i in group[1:]):
          inputs = list(inputs)
          for i, value in zip(group, in_one_precision([inputs[i] for i in group]), strict=True):
            inputs[i] = value
      return run(context, inputs)

    return promote


def promote_floats(signature: OpSignature | None, attrs: Mapping[str, AttrValue]) -> PromoteFloats | None:
  """Returns the stage for an op with several inputs of one floating-point type, or None for any other op."""
  groups = _groups(signature, attrs)
  return PromoteFloats(groups) if groups else None


def _groups(signature: OpSignature | None, attrs: Mapping[str, AttrValue]) -> tuple[tuple[int, ...], ...]:
  """Returns positions of flat inputs that share a type attribute, if that is a floating-point type."""
  if signature is None:
    return ()
  groups: dict[str, list[int]] = {}
  start = 0
  for arg, size in zip(signature.inputs, flat_sizes(signature, attrs), strict=True):
    dtype = attrs.get(arg.type_attr) if arg.type_attr is not None else None
    if isinstance(dtype, DType) and dtype in FLOATS:
      groups.setdefault(str(arg.type_attr), []).extend(range(start, start + size))
    start += size
  return tuple(tuple(group) for group in groups.values() if len(group) > 1)


FLOATS = frozenset(dtype for dtype in DType if dtype.base in (DType.HALF, DType.BFLOAT16, DType.FLOAT, DType.DOUBLE))
