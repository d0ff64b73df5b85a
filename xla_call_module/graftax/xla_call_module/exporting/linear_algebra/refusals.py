"""Errors for what has no expansion."""

from collections.abc import Callable
from typing import Any

from graftax.xla_call_module import errors

__all__ = ["refusal"]


def refusal(name: str, advice: str) -> Callable[..., Any]:
  """Returns a function that raises LiftError for the primitive `name`."""

  def refuse(*args: Any, **params: object) -> Any:
    shapes = ", ".join(f"{x.dtype}{list(x.shape)}" for x in args)
    raise errors.LiftError(
      f"{name} of {shapes} cannot be exported: on CPU JAX calls LAPACK for it, which TensorFlow's XLA does not have."
      f" {advice}",
      op=name,
      reason="TensorFlow's XLA has no such op",
    )

  return refuse
