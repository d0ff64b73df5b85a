"""JAX's options for the promotion of dtypes and ranks, which are for the code of those who set them."""

import contextlib
from collections.abc import Iterator

import jax

__all__ = ["default_promotion"]


@contextlib.contextmanager
def default_promotion() -> Iterator[None]:
  """Lets `jax.numpy` promote dtypes and ranks as it does by default, as a context or as a decorator.

  `jax_numpy_dtype_promotion="strict"` and `jax_numpy_rank_promotion="raise"` find mistakes in code that is written for
  them. What a converted program computes is given by its graph. JAX runs rules of derivatives and forms for platforms
  after the call of a program, so these have the decorator.

  Example:
    >>> import jax.numpy as jnp
    >>> with jax.numpy_rank_promotion("raise"):
    ...   with default_promotion():
    ...     total = jnp.ones([2, 3]) + jnp.ones(3)
    >>> total.shape
    (2, 3)
  """
  if jax.config.jax_numpy_dtype_promotion == "standard" and jax.config.jax_numpy_rank_promotion == "allow":
    yield
    return
  with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
    yield
