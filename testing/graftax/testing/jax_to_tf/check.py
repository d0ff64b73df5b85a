"""Checks one function along every route: its value and its gradient."""

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence

import jax
import numpy as np

from graftax.convert import UnsupportedPrimitiveError
from graftax.graphdef_ir import GraftaxError
from graftax.testing._tensorflow import import_tensorflow
from graftax.testing.harness.compare import Difference
from graftax.testing.harness.errors import error_text
from graftax.testing.harness.results import CheckResult
from graftax.testing.jax_functions.case import Case, arguments, needs_x64
from graftax.testing.jax_to_tf.converters import CONVERTERS
from graftax.testing.jax_to_tf.oracle import Oracle
from graftax.testing.jax_to_tf.routes import ROUTES, Conversion, Runnable

__all__ = ["CHECKS", "FORMS", "check_case"]

CHECKS = ("value", "gradient")
FORMS = ("static", "symbolic")

_MAX_DETAIL = 400


def check_case(
  case: Case,
  converter: str,
  routes: Sequence[str] = tuple(ROUTES),
  forms: Sequence[str] = FORMS,
  on_start: Callable[[str], None] = lambda what: None,
) -> Iterator[CheckResult]:
  """Yields the results of a case in every form that it has, along every route; "static eager value" is one check.

  Args:
    case: the function.
    converter: a key of `CONVERTERS`.
    routes: keys of `ROUTES`.
    forms: some of `FORMS`.
    on_start: called with the name of each check before it runs.
  """
  with jax.enable_x64(needs_x64(case)):
    flat = jax.tree.leaves(arguments(case))
    oracle = None if case.refusal == "must" else Oracle(case, flat)
    for form in forms:
      if form == "symbolic" and case.polymorphic_shapes is None:
        continue
      for route in routes:
        on_start(f"{form} {route}")
        yield from _check_route(case, converter, form, route, oracle, flat)


def _check_route(
  case: Case, converter: str, form: str, route: str, oracle: Oracle | None, flat: Sequence[np.ndarray]
) -> Iterator[CheckResult]:
  shapes = case.polymorphic_shapes if form == "symbolic" else None
  conversion = Conversion(converter, case.function, arguments(case), shapes, case.gradient)
  state: dict[str, Runnable] = {}
  outputs: list[np.ndarray] = []

  def value() -> float:
    state["runnable"] = ROUTES[route].prepare(conversion)
    outputs.extend(_arrays(state["runnable"].value(_tensors(flat))))
    return oracle.compare_values(outputs) if oracle else 0.0

  def gradient() -> float:
    assert oracle is not None, "internal: a gradient is compared with JAX's alone"
    cotangents = _in_convention_of(converter, oracle.cotangents(outputs))
    found = _arrays(state["runnable"].gradient(_tensors(flat), _tensors(cotangents)))
    return oracle.compare_gradients(_in_convention_of(converter, found))

  first = _result(case, converter, f"{form} {route} value", value)
  yield first
  if oracle is not None and oracle.gradients is not None:
    if first.outcome in ("refused", "raised"):  # there is nothing to differentiate
      yield dataclasses.replace(first, check=f"{form} {route} gradient", detail="", seconds=0.0)
    else:
      yield _result(case, converter, f"{form} {route} gradient", gradient)


def _result(case: Case, converter: str, name: str, check: Callable[[], float]) -> CheckResult:
  start = time.perf_counter()
  try:
    error, failure = check(), None
  except Exception as e:
    error, failure = 0.0, e
  outcome = _outcome(case, converter, failure)
  passed, detail = outcome in ("equal", "refused"), _detail(outcome, failure)
  return CheckResult(case.name, case.kind, name, passed, detail, time.perf_counter() - start, outcome, error)


def _detail(outcome: str, failure: Exception | None) -> str:
  if failure is None:
    return "converted, but should have raised an error" if outcome == "accepted" else ""
  return error_text(failure, _MAX_DETAIL)


def _outcome(case: Case, converter: str, failure: Exception | None) -> str:
  if failure is None:
    return "accepted" if case.refusal == "must" else "equal"
  if isinstance(failure, Difference):
    return "wrong"
  if isinstance(failure, UnsupportedPrimitiveError):  # plain ops do not have every function
    return "refused"
  return "refused" if case.refusal and _is_refusal(converter, failure) else "raised"


def _is_refusal(converter: str, failure: Exception) -> bool:
  """Returns whether the error was raised on purpose, and before TensorFlow ran anything."""
  if converter.startswith("graftax"):
    return isinstance(failure, GraftaxError)
  return not isinstance(failure, import_tensorflow().errors.OpError)


def _in_convention_of(converter: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
  """Returns cotangents in JAX's convention as the converter's, and the other way round."""
  conjugates = CONVERTERS[converter].conjugates
  return [np.conj(x) if conjugates and x.dtype.kind == "c" else x for x in arrays]


def _tensors(arrays: Sequence[np.ndarray]) -> list[object]:
  tf = import_tensorflow()
  return [tf.constant(x, dtype=x.dtype) for x in arrays]


def _arrays(tensors: Sequence[object]) -> list[np.ndarray]:
  return [np.asarray(x) for x in tensors]
