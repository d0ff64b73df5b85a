"""Runs all checks of a case and describes each failure."""

import time
from collections.abc import Callable, Sequence

import jax

from graftax.testing._tensorflow import TfFunction
from graftax.testing.differential.checks import RUN_CHECK, Subject
from graftax.testing.differential.converters import CONVERTERS, Converter
from graftax.testing.differential.oracle import Oracle
from graftax.testing.harness.compare import Difference
from graftax.testing.harness.conversion_case import CHECKS, ConversionCase
from graftax.testing.harness.results import CheckResult
from graftax.testing.pytrees import PyTree

__all__ = ["ConversionMismatchError", "check_conversion", "run_case"]

_MAX_DETAIL = 400


class ConversionMismatchError(AssertionError):
  """Raised if a converted program differs from the original; the message lists every check that failed."""


def check_conversion(
  function: TfFunction,
  *inputs: PyTree,
  checks: Sequence[str] = ("value", "jit"),
  name: str = "program",
  tolerance: tuple[float, float] = (1e-5, 2e-6),
  x64: bool = False,
  batched: tuple[int, ...] | None = None,
) -> None:
  """Checks that a TensorFlow function and its conversion agree.

      >>> import numpy as np
      >>> import tensorflow as tf
      >>> x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
      >>> check_conversion(tf.nn.softmax, x, checks=["value", "jit", "grad", "vmap", "batch"])

  Args:
    function: a `tf.function`, a Keras model, or any callable that TensorFlow can trace.
    *inputs: example arguments, which are NumPy arrays or nested structures of them.
    checks: what to compare, a subset of `CHECKS`; see `ConversionCase`.
    name: name of the function in messages.
    tolerance: `(rtol, atol)` for values; atol is relative to the largest element.
    x64: whether to enable `jax_enable_x64`.
    batched: for batch and export, positions of the arguments with a leading batch axis; None for all.

  Raises:
    ConversionMismatchError: a check failed; the message lists every failed check with its difference.
  """
  case = ConversionCase(
    name=name,
    kind="user",
    build=lambda: function,
    inputs=inputs,
    checks=tuple(checks),
    tolerance=tolerance,
    x64=x64,
    batched=batched,
  )
  failed = [result for result in run_case(case) if not result.passed]
  if failed:
    listed = "\n".join(f"  {result.check}: {result.detail}" for result in failed)
    raise ConversionMismatchError(f"{name}: {len(failed)} of {len(checks)} checks failed:\n{listed}")


def run_case(
  case: ConversionCase,
  converter: Converter = CONVERTERS["graftax"],
  on_start: Callable[[str], None] | None = None,
  checks: Sequence[str] | None = None,
) -> list[CheckResult]:
  """Returns the results of the checks of a case; an error in a check is a failed result.

  Args:
    case: the case to check.
    converter: the converter to test.
    on_start: called with the name of each check before it begins.
    checks: the checks to run, by default those that the case lists.

  Raises:
    Exception: TensorFlow cannot build or trace the program.
  """
  oracle = Oracle(case)
  wanted = [check for check in CHECKS if check in (case.checks if checks is None else checks)]
  with jax.enable_x64(case.x64):
    if on_start is not None:
      on_start(wanted[0])
    try:
      subject = Subject.convert(case, oracle, converter)
    except Exception as e:
      return [CheckResult(case.name, case.kind, check, False, f"convert: {_describe(e)}") for check in wanted]
    results = []
    for check in wanted:
      if on_start is not None:
        on_start(check)
      results.append(_run_check(subject, check))
  return results


def _run_check(subject: Subject, check: str) -> CheckResult:
  start = time.perf_counter()
  try:
    RUN_CHECK[check](subject)
    detail = ""
  except Difference as e:
    detail = str(e)
  except Exception as e:
    detail = _describe(e)
  seconds = round(time.perf_counter() - start, 3)
  case = subject.case
  return CheckResult(case.name, case.kind, check, not detail, detail[:_MAX_DETAIL], seconds)


def _describe(e: Exception) -> str:
  notes = "; ".join(getattr(e, "__notes__", ()))
  text = " ".join(f"{type(e).__name__}: {e}{f' [{notes}]' if notes else ''}".split())
  return text if len(text) <= _MAX_DETAIL else f"{text[: _MAX_DETAIL // 2]} ... {text[-_MAX_DETAIL // 2 :]}"
