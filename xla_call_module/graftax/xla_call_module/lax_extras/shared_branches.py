"""Branches that JAX traces once for all equal operations of a program."""

import functools
from collections.abc import Callable, Hashable
from typing import TypeVar

__all__ = ["traced_once"]

T = TypeVar("T")

# JAX's own cache of traced functions ends with the function.
_NUM_FUNCTIONS = 1024


@functools.lru_cache(maxsize=_NUM_FUNCTIONS)
def traced_once(function: Callable[..., T], **settings: Hashable) -> Callable[..., T]:
  """Returns `functools.partial(function, **settings)`, the same object for equal settings.

  `lax.platform_dependent` and `lax.cond` trace a function that they have seen only for new shapes and dtypes. A network
  repeats most of its convolutions.

  Args:
    function: a function that keeps no traced arrays.
    **settings: keyword arguments, without symbolic sizes: those of different programs cannot be compared.

  Example:
    >>> from jax import lax
    >>> traced_once(lax.cumsum, axis=1) is traced_once(lax.cumsum, axis=1)
    True
  """
  return functools.partial(function, **settings)
