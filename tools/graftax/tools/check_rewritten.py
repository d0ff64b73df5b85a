"""`graftax rewrite --check`: a rewritten model in the installed TensorFlow beside its original in JAX."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from graftax.convert import ConvertOptions, import_tensorflow
from graftax.savedmodel_io import load
from graftax.testing.harness.compare import largest_error
from graftax.tools.errors import CommandError

__all__ = ["CheckedSignature", "RewriteCheckError", "check_rewritten"]

# As part of the largest number of a result.
_TOLERANCE = 1e-4
_OPEN_SIZE = 3


class RewriteCheckError(CommandError):
  """A rewritten model computes something else than its original, or TensorFlow does not run it."""


@dataclass(frozen=True, slots=True)
class CheckedSignature:
  """A signature that TensorFlow ran.

  Attributes:
    name: its name.
    difference: the largest difference between results, as part of the largest number of each.
  """

  name: str
  difference: float


def check_rewritten(original: str, copy: str | os.PathLike[str]) -> list[CheckedSignature]:
  """Runs each signature of a copy in TensorFlow, on random inputs, and compares it with the original in JAX.

  Open sizes are 3. Signatures with inputs that are not numbers are left out.

  Raises:
    RewriteCheckError: TensorFlow does not run a signature, or its results differ by more than 1e-4 of their size.
    LibraryNotFoundError: TensorFlow is not installed.
  """
  tf = import_tensorflow("checking a rewritten model", instead="rewrite it without --check")
  with tf.device("/cpu:0"):
    loaded = tf.saved_model.load(os.fspath(copy))
    return list(_checked(tf, loaded, original))


def _checked(tf: Any, loaded: Any, original: str) -> Iterator[CheckedSignature]:
  model = load(original)
  options = ConvertOptions(xlacallmodule_strict_checks=False)  # it may be for another platform
  for name, signature in model.signatures.items():
    inputs = {key: _array(spec) for key, spec in signature.inputs.items()}
    if any(value is None for value in inputs.values()):
      continue
    function, params = model.convert(signature, options=options)
    expected, _ = jax.jit(function)(params, **inputs)
    try:
      results = loaded.signatures[name](**{key: tf.constant(value) for key, value in inputs.items()})
    except (tf.errors.OpError, TypeError, ValueError, LookupError) as e:
      raise RewriteCheckError(f"signature {name!r}: TensorFlow {tf.__version__} does not run the copy: {e}") from e
    difference = max(
      (largest_error(results[key].numpy(), np.asarray(value)) for key, value in expected.items()), default=0.0
    )
    if not difference <= _TOLERANCE:
      raise RewriteCheckError(
        f"signature {name!r}: results of the copy differ from the original by {difference:.1e} of their size"
      )
    yield CheckedSignature(name, difference)


def _array(spec: Any) -> np.ndarray | None:
  """Returns random numbers for an input; None if it does not hold numbers or has any rank."""
  dtype = getattr(getattr(spec, "dtype", None), "numpy", None)
  dims = getattr(getattr(spec, "shape", None), "dims", None)
  if dtype is None or dims is None or np.dtype(dtype).kind not in "fiubcV":
    return None
  shape = [_OPEN_SIZE if dim is None else dim for dim in dims]
  return np.asarray(np.random.default_rng(0).uniform(0, 2, shape)).astype(dtype)
