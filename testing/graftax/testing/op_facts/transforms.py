"""Runs cases of single ops under `vmap` and exported with symbolic shapes, in child processes."""

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence

import jax
import numpy as np

from graftax.graphdef_ir import GraftaxError
from graftax.ops_jax import BoundedArray
from graftax.testing.generated.case import Case, CaseId
from graftax.testing.generated.run import draw_case
from graftax.testing.harness.children import answer_cases, run_in_children
from graftax.testing.harness.errors import error_text
from graftax.testing.op_facts.evidence import Evidence
from graftax.testing.raw_ops import RawOp, raw_op
from graftax.testing.raw_ops.batching import check_vmap
from graftax.testing.raw_ops.compare import compare
from graftax.testing.raw_ops.symbolic import run_exported

__all__ = ["main", "run_transforms"]

_CASES_PER_CHILD = 60
_ENVIRONMENT = {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "1"}
_MAX_DETAIL = 300


def run_transforms(cases: Sequence[CaseId], timeout_s: float) -> Iterator[tuple[CaseId, Evidence]]:
  """Yields what each case shows; nothing of a case in which the process died."""
  request = lambda share: [str(case) for case in share]  # noqa: E731
  for case, answer in run_in_children(__name__, cases, request, _ENVIRONMENT, timeout_s, _CASES_PER_CHILD):
    if answer.result is not None:
      yield case, answer.result


def main() -> None:
  """Runs the child."""
  answer_cases(_run)


def _run(texts: Sequence[str], say: Callable[[str], None]) -> Iterator[Evidence]:
  for text in texts:
    yield _shown(draw_case(CaseId.parse(text)))


def _shown(case: Case) -> Evidence:
  evidence: Evidence = {"passed": [], "refused": {}, "wrong": {}}
  with warnings.catch_warnings(), jax.enable_x64(True), np.errstate(all="ignore"):
    warnings.simplefilter("ignore")
    raw, expected = _concrete(case)
    if raw.dynamic_inputs or not raw.inputs:
      evidence["passed"].append("jit")
    else:
      evidence["refused"]["jit"] = "all inputs must be known"
    for name, check in (("vmap", _check_vmap), ("symbolic", _check_symbolic)):
      try:
        if check(raw, expected):
          evidence["passed"].append(name)
      except GraftaxError as e:
        evidence["refused"][name] = error_text(e, _MAX_DETAIL)
      except AssertionError as e:
        evidence["wrong"][name] = f"{case.id}: {error_text(e, _MAX_DETAIL)}"
      except Exception as e:
        # JAX's own errors, such as those of comparisons of symbolic dimensions.
        evidence["refused"][name] = error_text(e, _MAX_DETAIL)
  return evidence


def _concrete(case: Case) -> tuple[RawOp, list[np.ndarray]]:
  """Returns the op with as few known inputs as it needs, and what it returns for them."""
  integers = frozenset(name for name, x in case.inputs.items() if _first(x).dtype.kind in "iub")
  for known in (frozenset[str](), integers, frozenset(case.inputs)):
    raw = raw_op(case.id.op, case.inputs, case.attrs, static=known, infer_shapes=False)
    try:
      outputs = jax.jit(raw.run)(*raw.dynamic_inputs)
    except GraftaxError:
      if known == frozenset(case.inputs):
        raise
      continue
    return raw, [np.asarray(x) for x in outputs]
  raise AssertionError("internal: unreachable")


def _check_vmap(raw: RawOp, expected: Sequence[np.ndarray]) -> bool:
  if not raw.dynamic_inputs:
    return False
  run = jax.jit(raw.run)
  if any(isinstance(x, BoundedArray) for x in run(*raw.dynamic_inputs)):
    return False  # examples of a batch have different sizes
  check_vmap(raw, run, True, lambda mode, got, want: compare(raw.op, None, mode, got, want))
  return True


def _check_symbolic(raw: RawOp, expected: Sequence[np.ndarray]) -> bool:
  """Tries symbols for all sizes above one, then for leading ones, then for that of the first input."""
  error: Exception | None = None
  for symbols in _symbols(raw):
    try:
      compare(raw.op, None, "symbolic dimensions", run_exported(raw, symbols, expected), expected)
    except AssertionError:
      raise
    except Exception as e:
      error = e
      continue
    return True
  if error is not None:
    raise error
  return False


def _symbols(raw: RawOp) -> Iterator[dict[str, list[str]]]:
  """Yields symbolic shapes, by input: equal sizes are one symbol."""

  def texts(names_of: Callable[[int, tuple[int, ...]], str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    inputs = zip(raw.input_names, raw.inputs, raw.static, strict=True)
    traced = [(name, x.shape) for name, x, static in inputs if not static]
    for position, (name, shape) in enumerate(traced):
      found.setdefault(name, []).append(names_of(position, shape))
    return {name: shapes for name, shapes in found.items() if any(c.isalpha() for shape in shapes for c in shape)}

  def shape_text(shape: Sequence[int], last: int | None) -> str:
    sizes = [f"n{n}" if n > 1 and (last is None or i < last) else str(n) for i, n in enumerate(shape)]
    return ", ".join(sizes)

  choices = [
    texts(lambda _, shape: shape_text(shape, None)),
    texts(lambda _, shape: shape_text(shape, 1)),
    texts(lambda position, shape: shape_text(shape, 0 if position else 1)),
  ]
  for choice, following in itertools.zip_longest(choices, choices[1:]):
    if choice and choice != following:
      yield choice


def _first(value: np.ndarray | list[np.ndarray]) -> np.ndarray:
  return value[0] if isinstance(value, list) else value
