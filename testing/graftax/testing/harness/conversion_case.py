"""Programs of the differential suite: a TensorFlow function, its inputs, and what to compare."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np
from jax.typing import DTypeLike

from graftax.testing._tensorflow import TensorFlow, TfFunction, import_tensorflow
from graftax.testing.pytrees import PyTree

__all__ = ["CHECKS", "SMOOTH", "Collector", "ConversionCase", "integers", "normal", "uniform"]

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
  "circle",
)
"""All checks, in the order in which they run."""

SMOOTH = ("value", "jit", "grad", "vmap", "second_order", "batch", "export")
"""Checks for a differentiable function without variables whose inputs all have a leading batch axis."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConversionCase:
  """A TensorFlow program with example inputs.

  Attributes:
    name: its name in reports.
    kind: the group it belongs to in reports.
    build: returns the program with freshly initialized variables: a `tf.function`, a Keras model, or any callable that
      TensorFlow can trace.
    inputs: positional arguments, which are nested structures of NumPy arrays.
    checks: what to compare with TensorFlow, a subset of `CHECKS`:
      value (structure, dtype, shape and value of the result); jit (the same under `jit`); grad (derivatives with
      respect to all real inputs); param_grad (derivatives with respect to all trainable variables); vmap (two examples
      at once); second_order (derivatives of the sum of the derivatives);
      state (variables after the call); batch (one conversion
      with an unknown leading dimension, called at three sizes); export (the same through a serialized `jax.export`);
      circle (value, and gradients if `grad` and `param_grad` are among the checks, after `jax2tf.convert`,
      `tf.saved_model.save` and conversion of what was saved).
    tolerance: `(rtol, atol)` for values; atol is relative to the largest element. It is multiplied by 10 for first
      derivatives and by 100 for second derivatives.
    x64: whether `jax_enable_x64` is on.
    batched: for batch and export, positions of the arguments with a leading batch axis; None for all.
  """

  name: str
  kind: str
  build: Callable[[], TfFunction]
  inputs: tuple[PyTree, ...]
  checks: tuple[str, ...] = ("value", "jit")
  tolerance: tuple[float, float] = (1e-5, 2e-6)
  x64: bool = False
  batched: tuple[int, ...] | None = None

  def __post_init__(self) -> None:
    unknown = [check for check in self.checks if check not in CHECKS]
    if unknown:
      raise ValueError(f"case {self.name!r}: unknown checks {unknown!r}; expected some of {list(CHECKS)}.")


def _with_tensorflow(tf: TensorFlow, function: Callable[..., Any], inputs: tuple[PyTree, ...]) -> TfFunction:
  del inputs
  return functools.partial(function, tf)


class Collector:
  """Collects the cases of one kind: a decorator for functions that are programs, or that build them.

  The first argument of a function is the `tensorflow` module, so that listing the cases does not import TensorFlow. If
  it is the only one, the function builds the program and returns it, for example with variables. Otherwise the function
  is the program, and its other arguments are the inputs.
  """

  def __init__(
    self,
    kind: str,
    traced: Callable[[TensorFlow, Callable[..., Any], tuple[PyTree, ...]], TfFunction] = _with_tensorflow,
  ):
    """Makes a collector without cases.

    Args:
      kind: the kind of its cases.
      traced: returns the program, given the `tensorflow` module, a function that is one, and its inputs.
    """
    self.kind = kind
    self._traced = traced
    self.cases: list[ConversionCase] = []

  def __call__(
    self,
    *inputs: PyTree,
    checks: Collection[str] = ("value", "jit"),
    without: Iterable[str] = (),
    name: str | None = None,
    **options: Any,
  ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns a decorator that adds a case.

    Args:
      *inputs: arguments of the program.
      checks: what to compare.
      without: checks to leave out of `checks`.
      name: name of the case; the name of the decorated function by default.
      **options: other fields of `ConversionCase`.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
      is_program = len(inspect.signature(function).parameters) > 1

      def build() -> TfFunction:
        tf = import_tensorflow()
        return self._traced(tf, function, inputs) if is_program else function(tf)

      own = tuple(check for check in checks if check not in without)
      title = name or function.__name__.strip("_")
      self.cases.append(ConversionCase(name=title, kind=self.kind, build=build, inputs=inputs, checks=own, **options))
      return function

    return decorate

  def table(self, *inputs: PyTree, programs: Mapping[str, Callable[..., Any]], **options: Any) -> None:
    """Adds a case for each function of a table by name, with the same inputs and options."""
    for name, function in programs.items():
      self(*inputs, name=name, **options)(function)


def normal(*shape: int, seed: int = 0, scale: float = 1.0, dtype: DTypeLike = np.float32) -> np.ndarray:
  """Returns normally distributed numbers, the same on every call."""
  return (np.random.default_rng([seed, *shape]).normal(size=shape) * scale).astype(dtype)


def uniform(
  *shape: int, low: float = 0.0, high: float = 1.0, seed: int = 0, dtype: DTypeLike = np.float32
) -> np.ndarray:
  """Returns uniformly distributed numbers in `[low, high)`, the same on every call."""
  return np.random.default_rng([seed, *shape]).uniform(low, high, shape).astype(dtype)


def integers(*shape: int, low: int = 0, high: int = 10, seed: int = 0, dtype: DTypeLike = np.int32) -> np.ndarray:
  """Returns integers in `[low, high)`, the same on every call."""
  return np.random.default_rng([seed, *shape]).integers(low, high, shape).astype(dtype)
