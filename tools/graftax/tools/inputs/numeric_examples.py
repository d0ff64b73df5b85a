"""Example inputs of numbers, made up, for models that are written as source."""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np

from graftax.tools.inputs.host_examples import check_made_up
from graftax.tools.inputs.shape_options import example_size
from graftax.tools.pytrees import PyTree

__all__ = ["numeric_examples"]

# Integers are below one of these numbers.
_FEW = 2
_LIMITS = (1000, 100, 10)


def numeric_examples(
  arguments: Mapping[str, jax.ShapeDtypeStruct], run: Callable[[Mapping[str, np.ndarray]], PyTree]
) -> tuple[dict[str, np.ndarray], PyTree]:
  """Returns an array for each argument, and what a model computes of them.

  In most models integers are rows of a table. Of an array of them each input has as many different ones as still give
  finite results: rows that a table does not have are NaN.

  Args:
    arguments: a shape and dtype for each input; open sizes are small in the examples.
    run: the model.

  Raises:
    ArrayFileError: an example would be too large.
  """
  examples = {name: _made_up(name, spec, seed, _FEW) for seed, (name, spec) in enumerate(arguments.items())}
  results = run(examples)
  if not _is_finite(results):
    return examples, results
  for seed, (name, spec) in enumerate(arguments.items()):
    if spec.dtype.kind not in "iu" or not spec.shape:
      continue
    for limit in _LIMITS:
      tried = examples | {name: _made_up(name, spec, seed, limit)}
      found = run(tried)
      if _is_finite(found):
        examples, results = tried, found
        break
  return examples, results


def _is_finite(results: PyTree) -> bool:
  leaves = [leaf for leaf in jax.tree.leaves(results) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
  return all(bool(jnp.isfinite(leaf).all()) for leaf in leaves)


def _made_up(name: str, spec: jax.ShapeDtypeStruct, seed: int, limit: int) -> np.ndarray:
  rng = np.random.default_rng(seed)
  shape = [size if isinstance(size, int) else example_size(str(size)) for size in spec.shape]
  check_made_up(name, shape)
  if spec.dtype.kind == "b":
    return rng.integers(0, 2, shape).astype(bool)
  if spec.dtype.kind in "iu":
    return rng.integers(0, min(limit, int(jnp.iinfo(spec.dtype).max) + 1), shape).astype(spec.dtype)
  return rng.normal(size=shape).astype(spec.dtype)
