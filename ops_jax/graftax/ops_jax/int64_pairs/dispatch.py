"""What a kernel does when 64-bit integers reach it as words (`wide.Int64Pair`): chosen once per node.

Most nodes have no 64-bit integers among their types, and run untouched.
"""

from collections.abc import Callable, Mapping, Sequence

import jax
import numpy as np

from graftax.graphdef_ir import AttrValue, DType, OpSignature, UnsupportedError
from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.values import Value, is_known
from graftax.ops_jax.int64_pairs.pairs import Int64Pair, fits_jax_dtype, map_halves, to_jax_array

__all__ = ["Run", "has_64_bit_integers", "with_int64_pairs"]

# `(context, flat inputs) -> flat outputs`, as in `Kernel`.
Run = Callable[[Context, Sequence[Value]], tuple[Value, ...]]

_INT64_TYPES = frozenset({DType.INT64, DType.UINT64, DType.INT64_REF, DType.UINT64_REF})


def has_64_bit_integers(signature: OpSignature | None, attrs: Mapping[str, AttrValue]) -> bool:
  """Whether a node has 64-bit integers among its types, so that words may reach it."""
  if signature is None:
    return True
  return any(map(_is_int64, attrs.values())) or any(
    arg.dtype in _INT64_TYPES for arg in (*signature.inputs, *signature.outputs)
  )


def _is_int64(value: AttrValue) -> bool:
  if isinstance(value, tuple):
    return any(isinstance(item, DType) and item in _INT64_TYPES for item in value)
  return isinstance(value, DType) and value in _INT64_TYPES


def with_int64_pairs(
  where: str,
  run: Run,
  run_on_pairs: Run | None,
  *,
  data_positions: frozenset[int],
  reads_shapes_only: bool,
  all_bits_count: bool,
) -> Run:
  """`run` for ordinary inputs, and what is exact for wide ones.

  Args:
    where: the node, for messages.
    run: the op on ordinary inputs.
    run_on_pairs: the op when 64-bit integers are given as words, or None.
    data_positions: positions of the flat inputs whose elements the op moves without looking at them.
    reads_shapes_only: whether the op looks at shapes alone.
    all_bits_count: whether 64-bit integers are words from the start while 64-bit types are off: where uint64 is among
      the node's types, which unlike int64 is hardly ever a size or a position, and where bits are asked for.

  Raises:
    UnsupportedError: from the result, where words reach an op that would need them as numbers.
  """

  def choose(context: Context, inputs: Sequence[Value]) -> tuple[Value, ...]:
    has_pairs = any(isinstance(value, Int64Pair) for value in inputs)
    if jax.config.jax_enable_x64:
      return run(context, [to_jax_array(value) for value in inputs] if has_pairs else inputs)
    if not has_pairs and (run_on_pairs is None or not _needs_pairs(inputs, all_bits_count)):
      return run(context, inputs)
    if run_on_pairs is not None:
      return run_on_pairs(context, inputs)
    if data_positions and not _is_elsewhere(inputs, data_positions):
      return _map_halves(run, context, inputs, data_positions)
    if reads_shapes_only:  # the low words have the same
      return run(context, [value.truncated() if isinstance(value, Int64Pair) else value for value in inputs])
    raise UnsupportedError(
      f"{where}: an input holds 64-bit integers beyond 32 bits, and JAX's 64-bit types are off, so that it cannot be "
      f"computed exactly. Enable them: jax.config.update('jax_enable_x64', True), or the environment's "
      f"JAX_ENABLE_X64=1."
    )

  return choose


def _needs_pairs(inputs: Sequence[Value], all_bits_count: bool) -> bool:
  if all(map(is_known, inputs)):
    return False
  return all_bits_count or not all(fits_jax_dtype(value) for value in inputs if is_known(value))


def _is_elsewhere(inputs: Sequence[Value], data_positions: frozenset[int]) -> bool:
  return any(isinstance(value, Int64Pair) and i not in data_positions for i, value in enumerate(inputs))


def _map_halves(
  run: Run, context: Context, inputs: Sequence[Value], data_positions: frozenset[int]
) -> tuple[Value, ...]:
  positions = sorted(data_positions)
  dtype: np.dtype = next(value.dtype for value in inputs if isinstance(value, Int64Pair))

  def move(*words: Value) -> tuple[Value, ...]:
    replaced = list(inputs)
    for position, word in zip(positions, words, strict=True):
      replaced[position] = word
    return run(context, replaced)

  return map_halves(move, [inputs[i] for i in positions], dtype)
