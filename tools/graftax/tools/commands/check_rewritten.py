"""`graftax rewrite --check`: a rewritten model in the installed TensorFlow beside its original in JAX."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from graftax.convert import ConvertOptions, import_tensorflow
from graftax.graphdef_ir import Budget
from graftax.savedmodel_io import load
from graftax.testing.harness.compare import largest_error
from graftax.tools._tensorflow import TensorFlow
from graftax.tools.errors import CommandError
from graftax.tools.inputs.module_files import input_names, is_module_file, read_module
from graftax.tools.pytrees import Leaf
from graftax.xla_call_module import lift

__all__ = ["CheckedSignature", "RewriteCheckError", "check_rewritten"]

# As part of the largest number of a result.
_TOLERANCE = 1e-4
_OPEN_SIZE = 3


class RewriteCheckError(CommandError):
  """A rewritten model computes something else than its original, or TensorFlow does not run it."""


@dataclass(frozen=True, slots=True)
class CheckedSignature:
  """A signature of a rewritten model.

  Attributes:
    name: its name.
    difference: the largest difference between results, as part of the largest number of each; None if it was not run,
      because an input does not hold numbers or has no known rank.
  """

  name: str
  difference: float | None


@dataclass(frozen=True, slots=True)
class _Reference:
  """A signature of the original: shape and dtype of its inputs, and what it computes."""

  name: str
  inputs: Mapping[str, tuple[Sequence[int | None], np.dtype] | None]
  function: Callable[[Mapping[str, np.ndarray]], Mapping[str, Leaf]]


def check_rewritten(
  original: str, copy: str | os.PathLike[str], *, allow_files_in: Sequence[str] = ()
) -> list[CheckedSignature]:
  """Runs each signature of a copy in TensorFlow, on random inputs, and compares it with the original in JAX.

  Open sizes are 3. Signatures with inputs that are not numbers are not run.

  Raises:
    RewriteCheckError: TensorFlow does not run a signature, or its results are others, of another dtype, or differ by
      more than 1e-4 of their size.
    LibraryNotFoundError: TensorFlow is not installed.
  """
  tf = import_tensorflow("checking a rewritten model", instead="rewrite it without --check")
  with tf.device("/cpu:0"), jax.enable_x64(True):
    loaded = tf.saved_model.load(os.fspath(copy))
    return [_checked(tf, loaded, reference) for reference in _references(original, allow_files_in)]


def _references(original: str, allow_files_in: Sequence[str]) -> Iterator[_Reference]:
  if is_module_file(original):
    module = read_module(original)
    names, lifted = input_names(module), lift(module, check_platform=False)
    specs = [(spec.shape, spec.dtype) for spec in module.inputs]
    yield _Reference(
      "serving_default",
      dict(zip(names, specs, strict=True)),
      lambda inputs: {f"output_{i}": value for i, value in enumerate(jax.jit(lifted)(*(inputs[n] for n in names)))},
    )
    return
  model = load(original, allow_files_in=allow_files_in)
  options = ConvertOptions(xlacallmodule_strict_checks=False)  # it may be for another platform
  for name, signature in model.signatures.items():
    inputs = {key: _shape_and_dtype(spec) for key, spec in signature.inputs.items()}

    def run(given: Mapping[str, np.ndarray], entry: Any = signature) -> Mapping[str, Leaf]:
      function, params = model.convert(entry, options=options)
      results: Mapping[str, Leaf] = jax.jit(function)(params, **given)[0]
      return results

    yield _Reference(name, inputs, run)


def _shape_and_dtype(spec: Leaf) -> tuple[Sequence[int | None], np.dtype] | None:
  """Returns shape and dtype of an input that holds numbers and has a known rank, otherwise None."""
  dtype = getattr(getattr(spec, "dtype", None), "numpy", None)
  dims = getattr(getattr(spec, "shape", None), "dims", None)
  is_number = dtype is not None and np.dtype(dtype).kind in "fiubcV"
  return (dims, np.dtype(dtype)) if is_number and dims is not None else None


def _checked(tf: TensorFlow, loaded: Any, reference: _Reference) -> CheckedSignature:
  where = f"signature {reference.name!r}"
  random, budget = np.random.default_rng(0), Budget()
  inputs = {}
  for key, spec in reference.inputs.items():
    if spec is None:
      return CheckedSignature(reference.name, None)
    inputs[key] = _random_array(random, budget, *spec, f"{where}: input {key!r}")
  expected = reference.function(inputs)
  try:
    given = {key: tf.constant(value) for key, value in inputs.items()}
    results = {key: value.numpy() for key, value in loaded.signatures[reference.name](**given).items()}
  except (tf.errors.OpError, TypeError, ValueError, LookupError) as e:
    raise RewriteCheckError(f"{where}: TensorFlow {tf.__version__} does not run the copy: {e}") from e
  if results.keys() != expected.keys():
    raise RewriteCheckError(f"{where}: the copy returns {sorted(results)}, the original {sorted(expected)}")
  return CheckedSignature(
    reference.name,
    max((_difference(f"{where}: {key!r}", results[key], np.asarray(expected[key])) for key in results), default=0.0),
  )


def _difference(where: str, got: np.ndarray, wanted: np.ndarray) -> float:
  if got.dtype != wanted.dtype:
    raise RewriteCheckError(f"{where} is {got.dtype} in the copy, {wanted.dtype} in the original")
  difference = largest_error(got, wanted)
  if not difference <= _TOLERANCE:
    raise RewriteCheckError(f"{where} of the copy differs from the original by {difference:.1e} of its size")
  return difference


def _random_array(
  random: np.random.Generator, budget: Budget, dims: Sequence[int | None], dtype: np.dtype, where: str
) -> np.ndarray:
  shape = [_OPEN_SIZE if dim is None else dim for dim in dims]
  budget.check_array(shape, max(dtype.itemsize, 8), where)
  if dtype.kind == "b":
    return random.integers(0, 2, shape).astype(bool)
  return np.asarray(random.uniform(0, 4, shape)).astype(dtype)
