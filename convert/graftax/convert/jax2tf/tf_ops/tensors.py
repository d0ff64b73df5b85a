"""`Tensor`: a value of a JAX function as a tensor of the TensorFlow graph that is being built."""

import dataclasses
from typing import Any, TypeAlias

import jax
import numpy as np

from graftax.convert.jax2tf.tf_ops.registry import Unsupported
from graftax.graphdef_ir import DType, PartialShape, TensorRef, TensorSpec

__all__ = ["MAX_FOLDED_SIZE", "Dim", "Shape", "Tensor", "partial_shape", "physical_spec"]

MAX_FOLDED_SIZE = 1024
"""Known values of up to this many elements are computed while converting."""

Dim: TypeAlias = int
"""The size of a dimension: an int, or a symbolic dimension of `jax.export`, which JAX's types call an int as well."""

Shape: TypeAlias = tuple[Dim, ...]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Tensor:
  """A tensor in the body of a function.

  Attributes:
    shape: its shape; dimensions may be symbolic.
    dtype: its dtype.
    ref: where it is computed; None for a known value that no node has needed yet, and if it has parts.
    value: the value, if it is known.
    narrow: the same values in a shape of the same rank whose size along some axes is 1, if this tensor is a broadcast.
    unrounded: the same values with more bits, if a product was rounded to this dtype.
    parts: the real and imaginary parts of complex numbers, if the consumer has no complex numbers.
  """

  shape: Shape
  dtype: "np.dtype[Any]"
  ref: TensorRef | None = None
  value: "np.ndarray[Any, Any] | None" = None
  narrow: "Tensor | None" = None
  unrounded: "Tensor | None" = None
  parts: "tuple[Tensor, Tensor] | None" = None

  @property
  def rank(self) -> int:
    return len(self.shape)

  @property
  def is_float(self) -> bool:
    """Whether the dtype is real floating point, bfloat16 included."""
    return bool(jax.numpy.issubdtype(self.dtype, np.floating))

  @property
  def is_inexact(self) -> bool:
    return bool(jax.numpy.issubdtype(self.dtype, np.inexact))

  @property
  def is_signed(self) -> bool:
    return self.dtype.kind == "i"

  @property
  def is_integer(self) -> bool:
    return self.dtype.kind in "iu"

  @property
  def spec(self) -> TensorSpec:
    return TensorSpec(partial_shape(self.shape), DType.from_numpy(self.dtype))


def partial_shape(shape: Shape) -> PartialShape:
  """Returns the shape with unknown sizes for symbolic dimensions."""
  return PartialShape(tuple(int(size) if isinstance(size, int) else None for size in shape))


def physical_spec(aval: Any) -> jax.ShapeDtypeStruct:
  """Returns shape and dtype of an abstract value in TensorFlow: random keys are their words, and float0 is bool.

  Raises:
    Unsupported: the dtype is one that a library made. JAX does not say publicly how its values are stored.
  """
  if jax.numpy.issubdtype(aval.dtype, jax.dtypes.prng_key):
    data = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct(aval.shape, aval.dtype))
    return jax.ShapeDtypeStruct(data.shape, data.dtype)
  if jax.numpy.issubdtype(aval.dtype, jax.dtypes.extended):
    raise Unsupported(f"{aval.dtype} is not a dtype of TensorFlow")
  dtype = np.dtype(bool) if aval.dtype == jax.dtypes.float0 else aval.dtype
  return jax.ShapeDtypeStruct(aval.shape, dtype)
