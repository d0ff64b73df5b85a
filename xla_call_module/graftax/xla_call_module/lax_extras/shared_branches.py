"""Branches that JAX traces once for all equal operations of a program."""

import functools
from collections.abc import Callable, Hashable
from typing import TypeVar

__all__ = ["traced_once"]

T = TypeVar("T")

# JAX forgets the trace of a function together with the function, so these are kept.
_NUM_FUNCTIONS = 1024


@functools.lru_cache(maxsize=_NUM_FUNCTIONS)
def traced_once(function: Callable[..., T], **settings: Hashable) -> Callable[..., T]:
  """Returns `functools.partial(function, **settings)`: for equal settings the same object.

  `lax.platform_dependent` and `lax.cond` trace each function once for each set of shapes and dtypes. A network repeats
  most of its convolutions, and lambdas that do the same are other functions.

  Args:
    function: a function that does not store the arrays that it gets.
    **settings: keyword arguments, without symbolic sizes: those of different programs cannot be compared.

  Example:
    >>> from jax import lax
    >>> traced_once(lax.cumsum, axis=1) is traced_once(lax.cumsum, axis=1)
    True
  """
  return functools.partial(function, **settings)
