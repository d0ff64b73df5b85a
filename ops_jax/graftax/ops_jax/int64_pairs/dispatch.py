"""Chooses between an op's ordinary lowering, its lowering for pairs, and one run per half.

Most nodes have no 64-bit integers among their types, and their kernels do not have this stage.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence

import jax
import numpy as np

from graftax.graphdef_ir import AttrValue, DType, Node, OpSignature, UnsupportedError
from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.registry import Lowering
from graftax.ops_jax._core.stages import Run
from graftax.ops_jax._core.values import Value, is_known
from graftax.ops_jax.int64_pairs.pairs import NOT_EXACT, Int64Pair, fits_jax_dtype, map_halves, to_jax_array

__all__ = ["DispatchInt64Pairs", "data_positions", "exact_positions", "has_int64", "needs_all_bits"]

_INT64_TYPES = frozenset({DType.INT64, DType.UINT64, DType.INT64_REF, DType.UINT64_REF})


@dataclasses.dataclass(frozen=True, slots=True)
class DispatchInt64Pairs:
  """Chooses how to run an op whose types include 64-bit integers.

  Attributes:
    where: description of the node, for messages.
    run_on_pairs: the kernel of the lowering for pairs, or None if the op has none.
    pair_lowering: the name of that lowering, for printing.
    data_positions: positions of the flat inputs whose elements the lowering only rearranges.
    reads_shapes_only: whether the op reads only the shapes of its inputs.
    needs_all_bits: whether traced 64-bit integers are pairs even if no input is one.
    exact_positions: returns the positions of the flat inputs that the lowering reads as Python values or in NumPy,
      which hold all integers; asked only if there are such integers.
  """

  where: str
  run_on_pairs: Run | None
  pair_lowering: str
  data_positions: frozenset[int]
  reads_shapes_only: bool
  needs_all_bits: bool
  exact_positions: Callable[[], frozenset[int]] = dataclasses.field(repr=False)

  def __str__(self) -> str:
    if self.run_on_pairs is not None:
      how = self.pair_lowering
    elif self.data_positions:
      how = f"once per half of inputs {sorted(self.data_positions)}"
    else:
      how = "by shapes" if self.reads_shapes_only else "refused"
    return f"64-bit pairs: {how}"

  def wrap(self, run: Run) -> Run:
    """See `Stage`.

    Raises:
      UnsupportedError: from the returned function, if a pair reaches an op that cannot handle it exactly.
    """
    run_on_pairs = self.run_on_pairs

    def dispatch(context: Context, inputs: Sequence[Value]) -> tuple[Value, ...]:
      has_pairs = any(isinstance(value, Int64Pair) for value in inputs)
      if jax.config.jax_enable_x64:
        return run(context, [to_jax_array(value) for value in inputs] if has_pairs else inputs)
      moves_wide = not has_pairs and run_on_pairs is None and _moves_wide_integers(inputs, self.data_positions)
      if not has_pairs and not moves_wide and (run_on_pairs is None or not _needs_pairs(inputs, self.needs_all_bits)):
        outputs = run(context, inputs)
        if (outputs and all(map(is_known, outputs))) or self.reads_shapes_only or not self._wide_positions(inputs):
          return outputs
        # NumPy has the integers beyond 32 bits, but the lowering made JAX arrays of them, or wrote to a variable.
      return self._on_pairs(run, context, inputs)

    return dispatch

  def _wide_positions(self, inputs: Sequence[Value]) -> set[int]:
    """Returns the positions of known integers beyond 32 bits that the lowering may convert to JAX arrays."""
    wide = {i for i, value in enumerate(inputs) if isinstance(value, np.ndarray) and not fits_jax_dtype(value)}
    return wide - self.exact_positions() if wide else wide

  def _on_pairs(self, run: Run, context: Context, inputs: Sequence[Value]) -> tuple[Value, ...]:
    if self.run_on_pairs is not None:
      return self.run_on_pairs(context, inputs)
    if self.data_positions and not self._is_elsewhere(inputs):
      return _run_per_half(run, context, inputs, self.data_positions)
    if self.reads_shapes_only:  # the low halves have the same shapes
      return run(context, [value.truncated() if isinstance(value, Int64Pair) else value for value in inputs])
    raise UnsupportedError(f"{self.where}: {NOT_EXACT}")

  def _is_elsewhere(self, inputs: Sequence[Value]) -> bool:
    """Returns whether an input that is not among the data holds integers beyond 32 bits."""
    pairs = {i for i, value in enumerate(inputs) if isinstance(value, Int64Pair)}
    return not (pairs | self._wide_positions(inputs)) <= self.data_positions


def has_int64(signature: OpSignature | None, attrs: Mapping[str, AttrValue]) -> bool:
  """Returns whether a node's types include 64-bit integers, so that pairs may reach it."""
  if signature is None or any(map(_is_int64, attrs.values())):
    return True
  for arg in (*signature.inputs, *signature.outputs):
    if arg.dtype is not None and arg.dtype in _INT64_TYPES:
      return True
  return False


def needs_all_bits(node: Node, attrs: Mapping[str, AttrValue]) -> bool:
  """Returns whether a node computes on all 64 bits of ordinary inputs: on uint64, or on the bits themselves.

  int64 is excluded, because it is mostly used for sizes and positions. uint64 hardly ever is.
  """
  return node.op == "Bitcast" or any(value is DType.UINT64 for value in attrs.values())


def data_positions(lowering: Lowering, signature: OpSignature | None, attrs: Mapping[str, AttrValue]) -> frozenset[int]:
  """Returns the positions of the flat inputs that are among the lowering's `data_inputs`."""
  return _positions(lowering, signature, attrs, lowering.data_inputs)


def exact_positions(
  lowering: Lowering, signature: OpSignature | None, attrs: Mapping[str, AttrValue]
) -> frozenset[int]:
  """Returns the positions of the flat inputs that are `Static[...]`, or among the lowering's `known_inputs`."""
  names = {parameter.name for parameter in lowering.inputs if parameter.static_type is not None}
  return _positions(lowering, signature, attrs, names | lowering.known_inputs)


def _positions(
  lowering: Lowering, signature: OpSignature | None, attrs: Mapping[str, AttrValue], wanted: Collection[str]
) -> frozenset[int]:
  sizes = [1] * len(lowering.inputs) if signature is None else signature.input_sizes(attrs)
  names = [parameter.name for parameter, size in zip(lowering.inputs, sizes, strict=True) for _ in range(size)]
  return frozenset(position for position, name in enumerate(names) if name in wanted)


def _is_int64(value: AttrValue) -> bool:
  if isinstance(value, tuple):
    return any(isinstance(item, DType) and item in _INT64_TYPES for item in value)
  return isinstance(value, DType) and value in _INT64_TYPES


def _needs_pairs(inputs: Sequence[Value], all_bits: bool) -> bool:
  if all(map(is_known, inputs)):
    return False
  return all_bits or not all(fits_jax_dtype(value) for value in inputs if is_known(value))


def _moves_wide_integers(inputs: Sequence[Value], positions: frozenset[int]) -> bool:
  """Returns whether known integers beyond 32 bits are rearranged by what is traced, such as a gather of a constant."""
  moved = [inputs[position] for position in positions]
  return (
    not all(map(fits_jax_dtype, moved))
    and not all(map(is_known, inputs))
    and all(np.issubdtype(value.dtype, np.integer) for value in moved)
  )


def _run_per_half(run: Run, context: Context, inputs: Sequence[Value], positions: frozenset[int]) -> tuple[Value, ...]:
  order = sorted(positions)
  dtype: np.dtype = next(inputs[i].dtype for i in order if not fits_jax_dtype(inputs[i]))

  def run_on_half(*halves: Value) -> tuple[Value, ...]:
    replaced = list(inputs)
    for position, half in zip(order, halves, strict=True):
      replaced[position] = half
    return run(context, replaced)

  return map_halves(run_on_half, [inputs[i] for i in order], dtype)
