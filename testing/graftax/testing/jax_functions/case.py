"""A row of the table: a JAX function, its arguments, and how its results are compared."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import ml_dtypes
import numpy as np

from graftax.testing import roundtrip_cases
from graftax.testing.pytrees import Leaf, PyTree

__all__ = ["SHARED", "Case", "arguments", "bf16", "c64", "c128", "f32", "f64", "needs_x64"]

SHARED = {case.name: case.function for case in roundtrip_cases.CASES}
"""Functions that are also exported and lifted again, with arguments of their own there."""


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
  """A JAX function to convert.

  Attributes:
    name: unique in its kind.
    function: the function.
    inputs: its positional arguments, nested. A `jax.ShapeDtypeStruct` is drawn at random; an array is taken as it is.
    polymorphic_shapes: one entry for each argument, as `jax2tf.convert` takes them; None if only static shapes make
      sense for this function.
    low, high: bounds of the random numbers.
    gradient: whether the gradient is compared, if there are inputs and outputs of floating point. Otherwise the
      function is converted without a gradient.
    invariants: maps the flat outputs to numbers that do not depend on a choice that an algorithm is free to make, such
      as the sign of an eigenvector. These, and the gradients of these, are compared.
    oracle: a function that computes the same and that JAX can differentiate, if `function` is not differentiable in
      JAX.
    loose: factor on the relative error that `graftax.testing.tolerance` allows, for functions that amplify rounding
      errors. The measured error is in a comment beside it.
    refusal: "" if the function must convert; "may" if raising an error while converting is right too; "must" if
      only that is.
    kind: the name of its module; the catalogue sets it.
  """

  name: str
  function: Callable[..., Any]
  inputs: tuple[PyTree, ...]
  polymorphic_shapes: tuple[PyTree, ...] | None = None
  low: float = -1.0
  high: float = 1.0
  gradient: bool = True
  invariants: Callable[..., Any] | None = None
  oracle: Callable[..., Any] | None = None
  loose: float = 1.0
  refusal: str = ""
  kind: str = ""


def _specs_of(dtype: np.typing.DTypeLike) -> Callable[..., jax.ShapeDtypeStruct]:
  def spec(*shape: int) -> jax.ShapeDtypeStruct:
    """Returns the specification of a random array."""
    with jax.enable_x64(True):
      return jax.ShapeDtypeStruct(shape, dtype)

  return spec


f32, bf16, f64 = map(_specs_of, (np.float32, ml_dtypes.bfloat16, np.float64))
c64, c128 = map(_specs_of, (np.complex64, np.complex128))


def arguments(case: Case, seed: int = 0) -> tuple[PyTree, ...]:
  """Returns the arguments of a case as numpy arrays, nested as the function takes them."""
  rng = np.random.default_rng(seed)

  def draw(leaf: Leaf) -> np.ndarray:
    if not isinstance(leaf, jax.ShapeDtypeStruct):
      return np.asarray(leaf)
    values = rng.uniform(case.low, case.high, leaf.shape)
    if leaf.dtype.kind == "c":
      values = values + 1j * rng.uniform(case.low, case.high, leaf.shape)
    return np.asarray(values).astype(leaf.dtype)

  return jax.tree.map(draw, case.inputs)


def needs_x64(case: Case) -> bool:
  """Returns whether an input has 64 bits, so that the case runs with JAX's 64-bit types on."""
  return any(np.dtype(leaf.dtype) in _WIDE for leaf in jax.tree.leaves(case.inputs))


_WIDE = frozenset(np.dtype(t) for t in (np.float64, np.complex128, np.int64, np.uint64))
