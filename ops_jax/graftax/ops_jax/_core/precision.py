"""Arrays of another precision than the graph declares, as when a float32 model is called with bfloat16 parameters.

TensorFlow's ops take inputs of one type; where they come in several, all are brought to the one that holds them all.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graftax.graphdef_ir import AttrValue, DType, OpSignature
from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.known import canonical_dtype, to_dtype
from graftax.ops_jax._core.values import Value
from graftax.ops_jax.int64_pairs.dispatch import Run

__all__ = ["float_dtype", "in_one_precision", "promoted_dtype", "with_one_precision"]


def float_dtype(value: Value) -> np.dtype[Any] | None:
  """The dtype, as JAX has it, of an array of real floating-point numbers; None for anything else.

  Known values may be of float64 where JAX's arrays are of float32.
  """
  if not isinstance(value, (np.ndarray, np.generic, jax.Array)) or not jnp.issubdtype(value.dtype, jnp.floating):
    return None
  return canonical_dtype(value.dtype)


def promoted_dtype(first: Any, second: Any) -> np.dtype[Any]:
  """The dtype that holds the numbers of both: float32 for float16 and bfloat16."""
  return np.dtype(jnp.promote_types(first, second))


def in_one_precision(values: Sequence[Value]) -> list[Value]:
  """Floating-point arrays in the dtype that holds them all; as they are where one is something else."""
  dtypes = {float_dtype(value) for value in values}
  if None in dtypes or len(dtypes) == 1:
    return list(values)
  common = jnp.result_type(*dtypes)
  return [to_dtype(value, common) for value in values]


def with_one_precision(signature: OpSignature | None, attrs: Mapping[str, AttrValue], run: Run) -> Run:
  """`run`, given inputs that the op declares to be of one floating-point type in one precision."""
  groups = _groups(signature, attrs)
  if not groups:
    return run

  def promoting(context: Context, inputs: Sequence[Value]) -> tuple[Value, ...]:
    for group in groups:
      # Nearly always one look at each type is all.
      first = _dtype(inputs[group[0]])
      if any(_dtype(inputs[i]) is not first for i in group[1:]):
        inputs = list(inputs)
        for i, value in zip(group, in_one_precision([inputs[i] for i in group]), strict=True):
          inputs[i] = value
    return run(context, inputs)

  return promoting


def _dtype(value: Value) -> Any:
  # A tracer finds its dtype in its aval, and takes long to look there.
  return getattr(getattr(value, "aval", value), "dtype", None)


def _groups(signature: OpSignature | None, attrs: Mapping[str, AttrValue]) -> list[list[int]]:
  """Positions of flat inputs that share a type attribute, where that is a floating-point type."""
  if signature is None:
    return []
  groups: dict[str, list[int]] = {}
  start = 0
  for arg, size in zip(signature.inputs, signature.input_sizes(attrs), strict=True):
    dtype = attrs.get(arg.type_attr) if arg.type_attr else None
    if isinstance(dtype, DType) and dtype.base in _FLOATS:
      groups.setdefault(str(arg.type_attr), []).extend(range(start, start + size))
    start += size
  return [group for group in groups.values() if len(group) > 1]


_FLOATS = frozenset({DType.HALF, DType.BFLOAT16, DType.FLOAT, DType.DOUBLE})
