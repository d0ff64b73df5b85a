"""What JAX computes for a case, and how far other numbers are from that."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from graftax.testing.cotangents import is_inexact, random_like
from graftax.testing.harness.compare import Difference, largest_error
from graftax.testing.jax_functions.case import Case
from graftax.testing.pytrees import Leaf
from graftax.testing.tolerance import tolerance

__all__ = ["Oracle"]


class Oracle:
  """JAX's values and gradients of a case.

  Attributes:
    dtypes: of the flat results.
    values: what is compared: the flat results, or their invariants.
    gradients: of the compared numbers of floating point, weighted at random, one for each input of floating point;
      None if the case has none.
  """

  def __init__(self, case: Case, flat: Sequence[np.ndarray]):
    structure = jax.tree.structure(case.inputs)
    function = case.oracle or case.function

    def outputs(*flat: Leaf) -> list[Leaf]:
      return jax.tree.leaves(function(*jax.tree.unflatten(structure, flat)))

    def compared(*flat: Leaf) -> list[Leaf]:
      found = outputs(*flat)
      return jax.tree.leaves(case.invariants(*found)) if case.invariants else found

    self._loose = case.loose
    self._invariants = case.invariants
    self.dtypes = [jnp.result_type(out) for out in jax.eval_shape(outputs, *flat)]
    self.values = [np.asarray(x) for x in jax.jit(compared)(*flat)]
    self._weights = _weights(self.values)
    moving = [i for i, x in enumerate(flat) if is_inexact(x)]
    self.gradients: list[np.ndarray] | None = None
    if case.gradient and moving and self._weights:
      self.gradients = [np.asarray(g) for g in jax.jit(_pulled_back(compared, moving))(list(flat), self._weights)]

  def compare_values(self, outputs: Sequence[np.ndarray]) -> float:
    """Returns the largest relative difference of TensorFlow's flat outputs.

    Raises:
      Difference: it is above the tolerance, or the number of results, dtypes or shapes differ.
    """
    dtypes = [y.dtype for y in outputs]
    if dtypes != self.dtypes:
      raise Difference(f"results of types {list(map(str, dtypes))} instead of {list(map(str, self.dtypes))}")
    found = jax.tree.leaves(self._invariants(*outputs)) if self._invariants else outputs
    return _compare([np.asarray(x) for x in found], self.values, self._loose)

  def compare_gradients(self, found: Sequence[np.ndarray]) -> float:
    """Returns the largest relative difference of TensorFlow's gradients.

    Raises:
      Difference: as for `compare_values`.
    """
    assert self.gradients is not None, "internal: there is no gradient to compare with"
    return _compare(found, self.gradients, self._loose)

  def cotangents(self, outputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Returns cotangents of TensorFlow's own outputs, so that the gradient is that of the compared numbers."""
    invariants = self._invariants
    if invariants is None:
      return self._weights
    _, pull = jax.vjp(lambda *ys: jax.tree.leaves(invariants(*ys)), *map(jnp.asarray, outputs))
    return [np.asarray(g) for g in pull([jnp.asarray(w) for w in self._weights])]


def _pulled_back(function: Callable[..., list[Leaf]], moving: Sequence[int]) -> Callable[..., list[Leaf]]:
  """Returns the vjp of the outputs of floating point with respect to the inputs at `moving`."""

  def run(flat: Sequence[Leaf], cotangents: Sequence[Leaf]) -> list[Leaf]:
    def inexact_outputs(*points: Leaf) -> list[Leaf]:
      full = list(flat)
      for i, x in zip(moving, points, strict=True):
        full[i] = x
      return [y for y in function(*full) if jnp.issubdtype(jnp.result_type(y), jnp.inexact)]

    _, pull = jax.vjp(inexact_outputs, *(flat[i] for i in moving))
    return list(pull(list(cotangents)))

  return run


def _weights(values: Sequence[np.ndarray]) -> list[np.ndarray]:
  """Returns a random cotangent for each value of floating point."""
  rng = np.random.default_rng(1)
  return [random_like(rng, x) for x in values if is_inexact(x)]


def _compare(found: Sequence[np.ndarray], expected: Sequence[np.ndarray], loose: float) -> float:
  if len(found) != len(expected):
    raise Difference(f"{len(found)} results instead of {len(expected)}")
  worst = 0.0
  for i, (got, want) in enumerate(zip(found, expected, strict=True)):
    if got.shape != want.shape:
      raise Difference(f"result {i} has shape {got.shape} instead of {want.shape}")
    error = largest_error(got, want)
    if not error <= loose * tolerance(want.dtype)[0]:  # 0 for integers
      raise Difference(f"result {i} is off by {error:.2g} of its largest value, or of 1")
    worst = max(worst, error)
  return worst
