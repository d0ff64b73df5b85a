import jax
import jax.numpy as jnp
import pytest

from graftax.savedmodel_io import load
from graftax.tools.examples.digits import model_path
from graftax.tools.inspection.model_report import report_model
from graftax.tools.inspection.scope_costs import scope_costs


def _by_scope(f, *args):
  return {cost.scope: cost for cost in scope_costs(jax.make_jaxpr(f)(*args))}


def test_products_and_convolutions_are_counted_in_their_scopes():
  def f(x, w, image, kernel):
    with jax.named_scope("a"):
      y = x @ w
    with jax.named_scope("b/c"):
      z = jax.lax.conv_general_dilated(image, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y, z

  found = _by_scope(f, jnp.ones((2, 3)), jnp.ones((3, 5)), jnp.ones((1, 4, 4, 2)), jnp.ones((3, 3, 2, 7)))
  assert found["a"].flops == 2 * 2 * 3 * 5
  assert found["a"].size_bytes == 4 * (6 + 15 + 10)
  assert found["b/c"].flops == found["b"].flops == 2 * (4 * 4 * 7) * (3 * 3 * 2)
  assert found[""].flops == found["a"].flops + found["b"].flops


def test_a_function_without_operations_costs_nothing():
  (whole,) = _by_scope(lambda x: x, jnp.ones(3)).values()
  assert (whole.scope, whole.flops, whole.size_bytes) == ("", 0, 0)


def test_a_scan_counts_each_iteration_and_a_conditional_one_branch():
  def f(x):
    x, _ = jax.lax.scan(lambda c, _: (jnp.sin(c), None), x, None, length=5)
    return jax.lax.cond(x[0] > 0, lambda x: x, lambda x: x * x + x, x)

  assert _by_scope(f, jnp.ones(10))[""].flops in range(5 * 10 + 2 * 10, 5 * 10 + 2 * 10 + 10)


def test_the_cost_of_a_model_is_what_xla_counts():
  fn, params = load(model_path(), verify=False).convert("serving_default")
  images = jax.ShapeDtypeStruct((8, 8, 8, 1), jnp.float32)
  counted = jax.jit(lambda params, x: fn(params, images=x)[0]).lower(params, images).cost_analysis()["flops"]
  found = _by_scope(lambda params, x: fn(params, images=x)[0], params, images)
  # XLA does not count products with the padding of convolutions, which are 13% here.
  assert found[""].flops == pytest.approx(counted, rel=0.15)
  assert found["digits_1/conv2_1"].flops == 2 * 8 * 4 * 4 * 32 * 3 * 3 * 16


def test_a_traced_report_has_the_costs_of_scopes():
  report = report_model(load(model_path(), verify=False), trace=True)
  trace = report.signatures[0].verdict.trace
  assert trace is not None
  costs = {cost.scope: cost.flops for cost in trace.costs}
  assert costs["digits_1/conv2_1"] == 2 * trace.cost_sizes[0] * 4 * 4 * 32 * 3 * 3 * 16
