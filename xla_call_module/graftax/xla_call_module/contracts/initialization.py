"""Makes jaxlib register and initialize the kernels that a module calls.

JAX does both when it lowers an operation that needs them. A program that was lowered elsewhere calls the kernels
without that: LAPACK's would jump to address 0.
"""

import functools
from collections.abc import Iterable

import jax
from jax import lax

__all__ = ["initialize"]


def initialize(parts: Iterable[str]) -> None:
  """Initializes the kernels that contracts name in `initializes`, each once per process."""
  for part in parts:
    if part == "lapack":
      _initialize_lapack()
    elif part == "sparse":
      _register_sparse()


@functools.cache
def _initialize_lapack() -> None:
  # Lowering any linear algebra for CPUs initializes all routines. Nothing is compiled.
  jax.jit(lax.linalg.lu).trace(jax.ShapeDtypeStruct((1, 1), "float32")).lower(lowering_platforms=("cpu",))


@functools.cache
def _register_sparse() -> None:
  import jax.experimental.sparse  # noqa: F401  (registers its kernels)
