"""A model of Keras beside a model that somebody else wrote."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import jax
import numpy as np

__all__ = ["Pair"]


@dataclass(frozen=True)
class Pair:
  """Two models that compute the same if the second one has the parameters of the first.

  Attributes:
    fn: the converted function of Keras's model.
    params: its parameters.
    target: the other model: a module, or variables.
    target_fn: `target_fn(target, *args)`.
    args: data for both.
    tolerance: the largest difference that counts as none; larger if the two differ by design.
  """

  fn: Callable[..., object]
  params: Mapping[str, np.ndarray | jax.Array]
  target: object
  target_fn: Callable[..., object]
  args: tuple[np.ndarray, ...]
  tolerance: float = 2e-5
