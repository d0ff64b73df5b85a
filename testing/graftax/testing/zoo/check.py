"""Compares one model with TensorFlow: one row of the table."""

import collections
import dataclasses
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import jax
import numpy as np

from graftax.convert import preflight
from graftax.graphdef_ir import GraftaxError
from graftax.savedmodel_io import SavedModel
from graftax.testing.differential.compare import compare, without_padding
from graftax.testing.differential.converters import CONVERTERS
from graftax.testing.differential.oracle import Oracle
from graftax.testing.differential.runner import run_case
from graftax.testing.harness.compare import largest_error
from graftax.testing.harness.conversion_case import ConversionCase
from graftax.testing.harness.results import CheckResult
from graftax.testing.tensorflow_programs.layers import HOST
from graftax.testing.zoo.saving import ENTRY, SavedCopies, saved_copies

__all__ = ["CHECKS", "Row", "check_model"]

CHECKS = ("value", "jit", "batch", "grad", "param_grad")
"""The checks of the differential suite that a row shows."""


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
  """What was found out about one model.

  Attributes:
    name: the model's name.
    domain: its domain.
    num_ops: number of nodes that a call runs.
    missing: ops without a lowering, which the host would have to run.
    results: results of the checks, by name.
    difference: largest difference from TensorFlow, relative to the largest value or 1; None if nothing ran.
    split: whether the parts of the model, split, compute TensorFlow's values; None if it needs no host.
    trace: what `graftax inspect --trace` says: "" if the model can be traced; None if it was not asked.
    others: results of other converters, by converter and check.
  """

  name: str
  domain: str
  num_ops: int
  missing: tuple[str, ...]
  results: Mapping[str, CheckResult]
  difference: float | None
  split: CheckResult | None
  trace: str | None
  others: Mapping[str, Mapping[str, CheckResult]]

  @property
  def trace_agrees(self) -> bool:
    """Whether the model can be traced if, and only if, `jit` works."""
    jit = self.results.get("jit")
    return self.trace is None or (not self.trace) == (jit is not None and jit.passed)


def check_model(model: ConversionCase, *, trace: bool = False, against: tuple[str, ...] = ()) -> Row:
  """Saves, loads and checks one model.

  Args:
    model: the model.
    trace: whether to run `graftax inspect --trace`, which takes seconds.
    against: other converters, keys of `CONVERTERS`.
  """
  checks = [check for check in CHECKS if check in model.checks]
  with saved_copies() as copies:
    results = {result.check: result for result in run_case(model, copies.converter, checks=checks)}
    others = {
      name: {result.check: result for result in run_case(model, CONVERTERS[name], checks=checks)} for name in against
    }
    counts, missing = _ops(copies) if copies.loaded else ({}, ())
    return Row(
      model.name,
      model.kind,
      sum(counts.values()),
      missing,
      results,
      _difference(model, copies),
      _split(model, copies.loaded[0]) if model.checks == HOST and copies.loaded else None,
      _trace(copies.path(0)) if trace and copies.loaded else None,
      others,
    )


def _ops(copies: SavedCopies) -> tuple[Mapping[str, int], tuple[str, ...]]:
  """Returns the counts of the ops that a call runs, and those without a lowering."""
  model = copies.loaded[0]
  try:
    found = preflight(model.program_from_trace(model.functions[ENTRY], 0))
  except GraftaxError as e:
    return {}, (f"{type(e).__name__}",)
  library = found.program.library
  counts = collections.Counter(node.op for _, nodes in found.functions for node in nodes if node.op not in library)
  return counts, tuple(sorted(found.unsupported_ops))


def _difference(model: ConversionCase, copies: SavedCopies) -> float | None:
  """Returns the largest difference from TensorFlow, under `jit` if that is one of the checks."""
  if not copies.loaded:
    return None
  try:
    function, params = copies.loaded[0].convert(ENTRY)
    call = jax.jit(function) if "jit" in model.checks else function
    outputs = jax.tree.leaves(without_padding(call(params, *model.inputs)[0]))
  except Exception:  # the results of the checks say why
    return None
  expected = jax.tree.leaves(Oracle(model).value(model.inputs))
  differences = [
    largest_error(np.asarray(got), want) for got, want in zip(outputs, expected, strict=True) if want.dtype != object
  ]
  return max(differences, default=0.0)


def _split(model: ConversionCase, loaded: SavedModel) -> CheckResult:
  """Returns whether the parts of a split model, one after the other, compute TensorFlow's values."""
  detail = ""
  try:
    head, body, params, tail = loaded.split(ENTRY)
    outputs = tail(jax.jit(body)(params, *head(*model.inputs)))
    compare(outputs, Oracle(model).value(model.inputs), model.tolerance)
  except Exception as e:
    detail = f"{type(e).__name__}: {e}"
  return CheckResult(model.name, model.kind, "split", not detail, detail)


def _trace(path: Path) -> str:
  """Returns what keeps the model from being traced, as the command says it; "" if nothing does."""
  command = [sys.executable, "-m", "graftax", "inspect", str(path), "--trace", "--json"]
  done = subprocess.run(command, capture_output=True, text=True, check=False)
  if done.returncode:
    return done.stderr.strip() or f"exit status {done.returncode}"
  (function,) = [f for f in json.loads(done.stdout)["functions"] if f["path"] == ENTRY]
  ((_, verdict),) = function["traces"]
  if verdict["unsupported_ops"] or verdict["problem"]:
    return verdict["problem"] or f"no lowering: {', '.join(verdict['unsupported_ops'])}"
  trace = verdict["trace"]
  return "" if trace["problem"] is None or trace["example_sizes"] else trace["problem"]
