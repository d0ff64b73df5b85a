"""Compares the results of a TensorFlow function with the shapes and dtypes that its caller declared."""

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from graftax.convert.errors import InputError
from graftax.convert.jax2tf.tf_ops.tensors import Dim
from graftax.convert.pytrees import Leaf, PyTree

__all__ = ["DeclaredResults", "UnspecifiedOutputShapeDtype"]


@dataclasses.dataclass(frozen=True, slots=True)
class UnspecifiedOutputShapeDtype:
  """Says that the shapes and dtypes of results are not declared."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class DeclaredResults:
  """The declared shapes and dtypes of a function's results.

  Attributes:
    specs: shape and dtype of each flat result.
    structure: the structure of the result.
  """

  specs: tuple[Leaf, ...]
  structure: PyTree

  @staticmethod
  def of(nested: PyTree) -> "DeclaredResults | None":
    """Returns the declaration, or None if it is unspecified.

    Raises:
      InputError: a leaf has no shape or no dtype.
    """
    if isinstance(nested, UnspecifiedOutputShapeDtype):
      return None
    leaves, structure = jax.tree.flatten(nested)
    for leaf in leaves:
      if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
        raise InputError(
          f"call_tf: output_shape_dtype has the leaf {leaf!r:.80}; expected a pytree of objects with shape and dtype, "
          f"such as jax.ShapeDtypeStruct((2, 3), jax.numpy.float32)."
        )
    return DeclaredResults(tuple(leaves), structure)

  def check(self, results: Sequence[Leaf], structure: object, name: str) -> None:
    """Raises InputError if the flat results of a call, or their structure, differ from the declaration."""
    if structure != self.structure:
      raise InputError(
        f"call_tf: {name}: output_shape_dtype has the structure {self.structure}, but the function returns "
        f"{structure}. Leave output_shape_dtype out, and shapes and dtypes are inferred."
      )
    for position, (result, spec) in enumerate(zip(results, self.specs, strict=True)):
      dtype = jax.dtypes.canonicalize_dtype(np.dtype(spec.dtype))
      if tuple(result.shape) != tuple(spec.shape) or result.dtype != dtype:
        raise InputError(
          f"call_tf: {name}: result {position} is {result.dtype}{_text(result.shape)}, but output_shape_dtype declares "
          f"{dtype}{_text(spec.shape)}. Correct it, or leave output_shape_dtype out."
        )


def _text(shape: Sequence[Dim]) -> str:
  return f"[{', '.join(map(str, shape))}]"
