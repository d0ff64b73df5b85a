import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.tools.inputs.numeric_examples import numeric_examples

_IDS = jax.ShapeDtypeStruct((4, 16), np.int32)


@pytest.mark.parametrize(("rows", "least", "limit"), [(2000, 100, 1000), (150, 10, 100), (12, 2, 10), (3, 0, 2)])
def test_integers_are_rows_that_a_table_has(rows, least, limit):
  table = jnp.ones((rows, 2))
  examples, results = numeric_examples({"ids": _IDS}, lambda inputs: {"y": jnp.take(table, inputs["ids"], axis=0)})
  assert least <= examples["ids"].max() < limit and examples["ids"].dtype == np.int32
  assert jnp.isfinite(results["y"]).all()


def test_each_input_has_a_range_of_its_own_and_small_types_are_not_exceeded():
  tables = jnp.ones((2000, 2)), jnp.ones((3, 2))

  def run(inputs):
    return [jnp.take(table, inputs[name], axis=0) for name, table in zip(("words", "kinds"), tables, strict=True)]

  arguments = {"words": _IDS, "kinds": _IDS, "bytes": jax.ShapeDtypeStruct((64,), np.uint8)}
  examples, _ = numeric_examples(arguments, run)
  assert examples["words"].max() > 100 and examples["kinds"].max() == 1 and 10 < examples["bytes"].max() <= 255


def test_integers_stay_small_if_results_are_not_finite_anyway_and_scalars_always():
  arguments = {"ids": _IDS, "steps": jax.ShapeDtypeStruct((), np.int32)}
  examples, _ = numeric_examples(arguments, lambda inputs: jnp.full(3, jnp.nan))
  assert examples["ids"].max() == 1
  examples, _ = numeric_examples(arguments, lambda inputs: jnp.ones(3))
  assert examples["ids"].max() > 100 and examples["steps"] < 2
