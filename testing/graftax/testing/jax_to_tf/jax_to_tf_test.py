"""A part of the table of JAX functions in TensorFlow; `python -m graftax.testing.jax_to_tf` runs all of it."""

import collections
import itertools

import jax
import jax.numpy as jnp
import pytest

from graftax.testing.harness.results import counts_table, failures, signs_table
from graftax.testing.jax_functions.case import Case, f32
from graftax.testing.jax_functions.catalogue import KINDS, all_cases
from graftax.testing.jax_to_tf.check import FORMS, check_case
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


def test_the_table_has_functions_of_every_kind_and_many_with_symbolic_shapes():
  cases = all_cases()
  assert len(cases) >= 120
  assert collections.Counter(name.partition("/")[0] for name in cases).keys() == set(KINDS)
  assert sum(case.polymorphic_shapes is not None for case in cases.values()) >= 120


def test_an_unknown_kind_is_an_error():
  with pytest.raises(ValueError, match="'tensors'"):
    all_cases(["tensors"])


def test_the_runner_tells_right_from_rejected_from_failed():
  names = ["elementwise/sin", "linear_algebra/cholesky", "refused/psum"]
  # Of symbolic shapes, jax2tf of JAX 0.12 writes modules that TensorFlow 2.21 refuses.
  results = dict(run_isolated(names, "jax2tf", ["graph"], ["static"]))
  by_name = {name: [r.outcome for r in own] for name, own in results.items()}
  assert by_name["elementwise/sin"] == ["equal"] * 2
  assert by_name["linear_algebra/cholesky"] == ["raised"] * 2
  assert by_name["refused/psum"] == ["raised"]  # by TensorFlow, when it runs
  found = {"jax2tf": [result for own in results.values() for result in own]}
  assert "| elementwise | 1 | 2 of 2 |" in counts_table(found)
  assert "| static graph value | 3 | 1 of 3 |" in counts_table(found, "check")
  assert "| elementwise/sin | yes | yes |" in signs_table(found)
  assert failures(found["jax2tf"]).count("\n") == 1  # a line for each of two functions


def _outcomes(case: Case) -> tuple[list[str], str]:
  results = list(check_case(case, "graftax", ("eager",), ("static",)))
  return [result.outcome for result in results], failures(results)


def test_wrong_values_gradients_and_dtypes_and_missing_errors_fail():
  x = (f32(3),)
  assert _outcomes(Case("right", jnp.sin, x)) == (["equal", "equal"], "")
  outcomes, text = _outcomes(Case("value", jnp.sin, x, oracle=lambda x: jnp.sin(x) + 2e-5))
  assert outcomes == ["wrong", "equal"]
  assert "value static eager value: wrong: Difference: result 0 is off by 2e-05 of its largest value" in text
  outcomes, _ = _outcomes(Case("gradient", lambda x: jax.lax.stop_gradient(jnp.sin(x)), x, oracle=jnp.sin))
  assert outcomes == ["equal", "wrong"]
  outcomes, text = _outcomes(Case("dtype", lambda x: x.astype(jnp.float16), x, oracle=lambda x: x))
  assert outcomes[0] == "wrong"
  assert "instead of ['float32']" in text
  outcomes, text = _outcomes(Case("accepted", jnp.sin, x, refusal="must"))
  assert outcomes == ["accepted"]
  assert "should have raised" in text


def _one_way_each() -> list[tuple[str, tuple[str, str]]]:
  """Returns every fourth function of each kind, each with shapes and a route; routes take turns."""
  ways = list(itertools.product(FORMS, ROUTES))
  chosen = [name for kind in KINDS if kind != "refused" for name in list(all_cases([kind]))[::4]]
  return [(name, ways[position % len(ways)]) for position, name in enumerate(chosen)]


@pytest.mark.parametrize("name", _REPRESENTATIVE)
def test_converted_functions_equal_jax(name):
  case = all_cases()[name]
  form = "static" if case.polymorphic_shapes is None else "symbolic"
  results = list(check_case(case, "graftax", ("eager", "written"), (form,)))
  assert len(results) == 4
  assert not failures(results)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "way"), _one_way_each())
def test_every_fourth_function_equals_jax_along_one_route(name, way):
  # The command runs every function along every route, which takes longer than all other tests together.
  case, (form, route) = all_cases()[name], way
  form = "static" if case.polymorphic_shapes is None else form
  assert not failures(check_case(case, "graftax", (route,), (form,)))


@pytest.mark.slow
def test_functions_that_no_graph_can_hold_raise_while_converting():
  # In a process of its own, which has two devices.
  found = [
    result for _, own in run_isolated(list(all_cases(["refused"])), "graftax", ["eager"], FORMS) for result in own
  ]
  assert not failures(found)
  assert {result.outcome for result in found} == {"refused"}
