"""What a differential test is made of: a TensorFlow program, its inputs, and what to compare."""

import dataclasses
import importlib
from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np

__all__ = ["CHECKS", "SMOOTH", "Collector", "Program", "integers", "normal", "uniform"]

# Any in this module: inputs are nested Python structures of arrays, and TensorFlow ships no type information.

CHECKS = (
  "value",
  "jit",
  "grad",
  "param_grad",
  "vmap",
  "second_order",
  "state",
  "batch",
  "export",
)
"""Everything that can be compared, in the order in which it is run."""

SMOOTH = ("value", "jit", "grad", "vmap", "second_order", "batch", "export")
"""What a differentiable function without variables, whose inputs all have a batch axis in front, can be checked for."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Program:
  """A TensorFlow program with example inputs.

  Attributes:
    name: what reports call it.
    kind: the group it belongs to in reports.
    build: makes the program: a `tf.function`, a Keras model, or anything callable that TensorFlow can trace, with
      freshly initialised variables.
    inputs: positional arguments: nested structures of numpy arrays.
    checks: what to compare with TensorFlow, out of `CHECKS`:
      value (structure, dtype, shape and value of the result); jit (the same, compiled); grad (derivatives with respect
      to all real inputs); param_grad (with respect to all trainable variables); vmap (two examples at once);
      second_order (derivatives of the sum of the derivatives); state (variables after the call); batch (one conversion
      with an open first axis, called at three sizes); export (the same through `jax.export`, serialized).
    tolerance: `(rtol, atol)` for values; atol counts relative to the largest element. Derivatives get ten times as
      much, second ones a hundred times.
    x64: whether 64-bit types are switched on in JAX.
    batched: for batch and export, positions of the arguments that have a batch axis in front; None for all.
  """

  name: str
  kind: str
  build: Callable[[], Any]
  inputs: tuple[Any, ...]
  checks: tuple[str, ...] = ("value", "jit")
  tolerance: tuple[float, float] = (1e-5, 2e-6)
  x64: bool = False
  batched: tuple[int, ...] | None = None

  def __post_init__(self) -> None:
    unknown = [check for check in self.checks if check not in CHECKS]
    if unknown:
      raise ValueError(f"program {self.name!r}: unknown checks {unknown!r}; expected some of {list(CHECKS)}.")


class Collector:
  """The programs of one kind, each declared by decorating the function that builds it.

  The function takes the `tensorflow` module and returns the program, so that listing programs does not import it.
  """

  def __init__(self, kind: str):
    self.kind = kind
    self.programs: list[Program] = []

  def __call__(
    self,
    *inputs: Any,
    checks: Collection[str] = ("value", "jit"),
    without: Iterable[str] = (),
    name: str | None = None,
    **options: Any,
  ) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """A decorator that adds a program.

    Args:
      *inputs: its arguments.
      checks: what to compare.
      without: what of `checks` to leave out.
      name: of the program; that of the decorated function by default.
      **options: other fields of `Program`.
    """

    def decorate(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
      own = tuple(check for check in checks if check not in without)
      title = name or make.__name__.strip("_")
      build = _Build(make)
      self.programs.append(Program(name=title, kind=self.kind, build=build, inputs=inputs, checks=own, **options))
      return make

    return decorate


@dataclasses.dataclass(frozen=True, slots=True)
class _Build:
  """Calls `make` with TensorFlow, imported when it is needed."""

  make: Callable[[Any], Any]

  def __call__(self) -> Any:
    return self.make(importlib.import_module("tensorflow"))


def normal(*shape: int, seed: int = 0, scale: float = 1.0, dtype: Any = np.float32) -> np.ndarray:
  """Normally distributed numbers, the same on every call."""
  return (np.random.default_rng([seed, *shape]).normal(size=shape) * scale).astype(dtype)


def uniform(*shape: int, low: float = 0.0, high: float = 1.0, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
  """Uniformly distributed numbers in `[low, high)`, the same on every call."""
  return np.random.default_rng([seed, *shape]).uniform(low, high, shape).astype(dtype)


def integers(*shape: int, low: int = 0, high: int = 10, seed: int = 0, dtype: Any = np.int32) -> np.ndarray:
  """Integers in `[low, high)`, the same on every call."""
  return np.random.default_rng([seed, *shape]).integers(low, high, shape).astype(dtype)
