"""A part of the table of JAX functions in TensorFlow; `python -m graftax.testing.jax_to_tf` runs all of it."""

import collections

import pytest

from graftax.testing.jax_to_tf.catalogue import KINDS, all_cases
from graftax.testing.jax_to_tf.check import FORMS, Result
from graftax.testing.jax_to_tf.report import failures, functions_table, kinds_table, routes_table
from graftax.testing.jax_to_tf.worker import run_isolated

pytestmark = pytest.mark.tensorflow


def _run(names: list[str], converter: str, routes: list[str]) -> dict[str, list[Result]]:
  return dict(run_isolated(names, converter, routes, FORMS))


def test_the_table_has_at_least_120_functions_of_every_kind():
  cases = all_cases()
  assert len(cases) >= 120
  assert collections.Counter(name.partition("/")[0] for name in cases).keys() == set(KINDS)
  assert sum(case.polymorphic_shapes is not None for case in cases.values()) >= 120


def test_an_unknown_kind_is_an_error():
  with pytest.raises(ValueError, match="'tensors'"):
    all_cases(["tensors"])


def test_the_runner_tells_right_from_rejected_from_failed():
  names = ["elementwise/sin", "elementwise/asin", "linear_algebra/cholesky", "refused/psum"]
  found = {"jax2tf": _run(names, "jax2tf", ["graph"])}
  by_name = {name: [r.outcome for r in results] for name, results in found["jax2tf"].items()}
  assert by_name["elementwise/sin"] == ["equal"] * 4
  assert by_name["linear_algebra/cholesky"] == ["raised"] * 4
  assert by_name["refused/psum"] == ["raised"]  # by TensorFlow, when it runs
  assert "| elementwise | 2 | 1 (4 of 8 checks) |" in kinds_table(found)
  assert "| static | graph | value | 1 of 4 |" in routes_table(found)
  assert "| elementwise/sin | yes, yes | yes, yes |" in functions_table(found)
  assert failures(found["jax2tf"]).count("\n") == 4
