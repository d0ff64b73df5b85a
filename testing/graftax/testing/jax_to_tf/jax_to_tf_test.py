"""A part of the table of JAX functions in TensorFlow; `python -m graftax.testing.jax_to_tf` runs all of it."""

import collections
import itertools

import pytest

from graftax.testing.jax_to_tf.catalogue import KINDS, all_cases
from graftax.testing.jax_to_tf.check import FORMS, Result, check_case
from graftax.testing.jax_to_tf.report import failures, functions_table, kinds_table, routes_table
from graftax.testing.jax_to_tf.routes import ROUTES
from graftax.testing.jax_to_tf.worker import run_isolated

pytestmark = pytest.mark.tensorflow


# One function of each kind, and those that jax2tf fails on.
_REPRESENTATIVE = (
  "arrays/top_k",
  "control_flow/while_then_custom_rule",
  "custom_rules/custom_vjp_of_integers",
  "elementwise/asin",
  "elementwise/complex",
  "linear_algebra/cholesky",
  "networks/causal_attention",
  "random/bernoulli_dropout",
  "reductions/argmax_argmin",
  "signal/rfft_irfft",
  "structures/integers_and_floats",
)


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
  found: dict[str, dict[str, list[Result]]] = {"jax2tf": dict(run_isolated(names, "jax2tf", ["graph"], FORMS))}
  by_name = {name: [r.outcome for r in results] for name, results in found["jax2tf"].items()}
  assert by_name["elementwise/sin"] == ["equal"] * 4
  assert by_name["linear_algebra/cholesky"] == ["raised"] * 4
  assert by_name["refused/psum"] == ["raised"]  # by TensorFlow, when it runs
  assert "| elementwise | 2 | 1 (4 of 8 checks) |" in kinds_table(found)
  assert "| static | graph | value | 1 of 4 |" in routes_table(found)
  assert "| elementwise/sin | yes, yes | yes, yes |" in functions_table(found)
  assert failures(found["jax2tf"]).count("\n") == 4


@pytest.mark.parametrize("name", _REPRESENTATIVE)
def test_converted_functions_equal_jax(name):
  case = all_cases()[name]
  form = "static" if case.polymorphic_shapes is None else "symbolic"
  results = list(check_case(case, "graftax", ("eager", "written"), (form,)))
  assert len(results) == 4
  assert not failures({name: results})


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_fourth_function_equals_jax_along_one_route(kind):
  # The command runs every function along every route, which takes longer than all other tests together.
  ways = list(itertools.product(FORMS, ROUTES))
  found: dict[str, list[Result]] = {}
  for position, (name, case) in enumerate(list(all_cases([kind]).items())[::4]):
    form, route = ways[position % len(ways)]
    form = "static" if case.polymorphic_shapes is None else form
    found[name] = list(check_case(case, "graftax", (route,), (form,)))
  assert not failures(found)
