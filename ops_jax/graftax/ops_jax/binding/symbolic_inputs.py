"""Passes symbolic dimensions among the inputs of a node to the lowering, or turns them into traced arrays."""

import dataclasses
from collections.abc import Mapping, Sequence

import jax
import numpy as np

from graftax.graphdef_ir import AttrValue, DType, OpSignature
from graftax.ops_jax._core.context import Context
from graftax.ops_jax._core.known import canonical_dtype, to_dtype
from graftax.ops_jax._core.registry import Lowering
from graftax.ops_jax._core.stages import Run
from graftax.ops_jax._core.values import Value, is_known, is_symbolic

__all__ = ["ResolveSymbols", "resolve_symbols"]

_NEVER_SYMBOLIC = frozenset(
  dtype
  for dtype in DType
  if dtype.base
  in (DType.HALF, DType.BFLOAT16, DType.FLOAT, DType.DOUBLE, DType.COMPLEX64, DType.COMPLEX128, DType.RESOURCE)
)


@dataclasses.dataclass(frozen=True, slots=True)
class ResolveSymbols:
  """Turns inputs with symbolic dimensions into traced arrays, unless the lowering computes on symbolic dimensions.

  Attributes:
    lowering: the lowering; it declares the inputs that may have symbolic dimensions.
    signature: the op's signature, with the dtypes of inputs and results; None if unknown.
    attrs: the node's attributes and the op's defaults.
  """

  lowering: Lowering
  signature: OpSignature | None
  attrs: Mapping[str, AttrValue]

  def __str__(self) -> str:
    return f"symbolic dimensions: {'computed on if all inputs are known' if self.lowering.symbolic else 'as arrays'}"

  def wrap(self, run: Run) -> Run:
    """See `Stage`."""

    def resolve(context: Context, inputs: Sequence[Value]) -> tuple[Value, ...]:
      for value in inputs:
        # Only shape vectors and strings are object arrays, so the cheap type check nearly always suffices.
        if isinstance(value, np.ndarray) and is_symbolic(value):
          return self._conform(run(context, self._materialize(inputs, context)))
      return run(context, inputs)

    return resolve

  def _materialize(self, inputs: Sequence[Value], context: Context) -> Sequence[Value]:
    sizes = [1] * len(inputs) if self.signature is None else self.signature.input_sizes(self.attrs)
    parameters = [p for p, size in zip(self.lowering.inputs, sizes, strict=True) for _ in range(size)]
    free = [i for i, p in enumerate(parameters) if p.static_type is None and not p.unconverted]
    symbolic = [i for i in free if isinstance(inputs[i], np.ndarray) and is_symbolic(inputs[i])]
    if not symbolic or (self.lowering.symbolic and all(is_known(inputs[i]) for i in free)):
      return inputs
    # An object array has no integer dtype, so the arrays get the one that the op declares.
    types = None if self.signature is None else list(self.signature.input_types(self.attrs))
    materialized = list(inputs)
    for i in symbolic:
      dtype = np.dtype(np.int32) if types is None else canonical_dtype(types[i].numpy)
      materialized[i] = context.facts.materialized(inputs[i], dtype)
    return materialized

  def _conform(self, outputs: tuple[Value, ...]) -> tuple[Value, ...]:
    """Casts integer outputs to the dtypes that the op declares; symbolic outputs stay as they are."""
    if self.signature is None:
      return outputs
    types = list(self.signature.output_types(self.attrs))
    return tuple(map(_conformed, outputs, types)) if len(types) == len(outputs) else outputs


def _conformed(value: Value, declared: DType) -> Value:
  is_integer = isinstance(value, (np.ndarray, np.generic, jax.Array)) and value.dtype.kind in "iu"
  if not is_integer or declared.numpy.kind not in "iu" or value.dtype == declared.numpy:
    return value
  return to_dtype(value, declared.numpy)


def resolve_symbols(
  lowering: Lowering, signature: OpSignature | None, attrs: Mapping[str, AttrValue]
) -> ResolveSymbols | None:
  """Returns the stage for a node that may have integer inputs, or None for any other node."""
  if signature is not None and not _may_have_integers(signature, attrs):
    return None
  return ResolveSymbols(lowering, signature, attrs)


def _may_have_integers(signature: OpSignature, attrs: Mapping[str, AttrValue]) -> bool:
  for arg in signature.inputs:
    dtype = attrs.get(arg.type_attr) if arg.type_attr else arg.dtype
    if not isinstance(dtype, DType) or dtype not in _NEVER_SYMBOLIC:
      return True
  return False
