"""Both functions on the same data: what comes out after each layer, on TensorFlow's side and on the other."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import jax
import numpy as np

from graftax.convert import AnnotatedFunction
from graftax.savedmodel_io.matching.layers import Layer
from graftax.savedmodel_io.matching.layouts import Array
from graftax.savedmodel_io.matching.targets import Target
from graftax.savedmodel_io.matching.uses import UsedFunction, trace_uses

__all__ = ["Functions", "Runner", "Side", "difference", "parameter_names", "perturbed", "trace_functions"]


Runner = Callable[[Mapping[str, Array]], tuple[list[np.ndarray], dict[int, np.ndarray]]]


@dataclass(frozen=True, slots=True)
class Side:
  """A function, and the numbers of the values that its layers return."""

  function: UsedFunction

  def position(self, layer: Layer) -> int | None:
    """Returns where a layer is first used, or None."""
    used = [self.function.uses[name].position for name in parameter_names(layer) if name in self.function.uses]
    return min(used, default=None)

  def result(self, layer: Layer) -> int | None:
    """Returns the number of what a layer returns, or None."""
    return self.function.result(parameter_names(layer))

  def runner(self, args: object, wanted: Sequence[int]) -> "Runner":
    """Returns what `run` does as a function of parameters alone, which is compiled once."""
    numbers = tuple(dict.fromkeys(wanted))
    compiled = jax.jit(lambda p, a: self.function.run(p, a, numbers))

    def run(params: Mapping[str, Array]) -> tuple[list[np.ndarray], dict[int, np.ndarray]]:
      outputs, values = compiled(dict(params), args)
      return [np.asarray(value) for value in outputs], dict(zip(numbers, map(np.asarray, values), strict=True))

    return run


def parameter_names(layer: Layer) -> list[str]:
  return [name for leaf in layer.leaves.values() for name in leaf.recipe.names]


@dataclass(frozen=True, slots=True)
class Functions:
  """Both functions, traced for the same data."""

  source: Side
  target: Side
  args: tuple[object, ...]


def trace_functions(
  fn: Callable[..., object],
  params: Mapping[str, Array],
  target_fn: Callable[..., object],
  target: Target,
  args: Sequence[object],
) -> Functions:
  """Traces both functions."""

  def source_outputs(values: Mapping[str, Array], *data: object) -> object:
    result = fn(values, *data)
    return result[0] if isinstance(fn, AnnotatedFunction) and isinstance(result, tuple) else result

  def target_outputs(values: Mapping[str, Array], *data: object) -> object:
    return target_fn(target.rebuild(values), *data)

  return Functions(
    Side(trace_uses(source_outputs, params, args)),
    Side(trace_uses(target_outputs, target.arrays, args)),
    tuple(args),
  )


def perturbed(params: Mapping[str, Array], roles: Mapping[str, str]) -> dict[str, np.ndarray]:
  """Returns parameters with some noise: no two are equal, no bias is 0 and no scale is 1.

  Args:
    params: name -> array.
    roles: name -> role; variances stay positive.
  """
  found = {}
  for name, value in params.items():
    array = np.asarray(value)
    if not jax.numpy.issubdtype(array.dtype, np.floating):
      found[name] = array
      continue
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    single = array.astype(np.float32)
    size = float(np.sqrt(np.mean(np.square(single)))) if single.size else 0.0
    # Biases are often 0, and the scales of some residual branches 1e-6: with little noise they would have no effect.
    noise = rng.uniform(-1, 1, array.shape).astype(np.float32) * (0.3 * size if size > 1e-3 else 0.2)
    changed = single + noise
    found[name] = (np.abs(changed) + 1e-3 if roles.get(name) == "variance" else changed).astype(array.dtype)
  return found


def difference(one: np.ndarray, other: np.ndarray, *, ordered: bool = False) -> float | None:
  """Returns the largest difference of two arrays relative to the largest number; None if they cannot be compared.

  Args:
    one, other: the arrays. Those of different shapes but the same size hold the same numbers in another order.
    ordered: whether each number has to be at its place if the shapes are the same.
  """
  if one.size != other.size or not one.size or one.dtype.kind in "bOUS" or other.dtype.kind in "bOUS":
    return None
  first, second = one.astype(np.float64).ravel(), other.astype(np.float64).ravel()
  if not (ordered and one.shape == other.shape):
    first, second = np.sort(first), np.sort(second)
  scale = float(np.max(np.abs(first)))
  gap = float(np.max(np.abs(first - second)))
  if not np.isfinite(gap):
    return float("inf")
  return gap / scale if scale else gap
