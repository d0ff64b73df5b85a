import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from graftax.tools.inputs.open_sizes import open_sizes_advice
from graftax.tools.inputs.shape_options import symbolic_scope

_POSITIONS = np.ones((8, 3), np.float32)


def _with_positions(inputs):
  x = inputs["x"]
  return x + jnp.asarray(_POSITIONS)[: x.shape[1]]


def _with_steps(inputs):
  x = inputs["x"]
  return x + jnp.ones((2, 3))


def _advice(function, *constraints):
  sizes = export.symbolic_shape("batch, length, 3", scope=symbolic_scope(constraints))
  arguments = {"x": jax.ShapeDtypeStruct(sizes, np.float32)}
  try:
    jax.eval_shape(function, arguments)
  except Exception as e:
    return open_sizes_advice(e, lambda inputs: function({"x": inputs["x"][:, :2]}), arguments)
  return None


def test_the_limit_of_a_size_is_a_condition_with_which_the_model_is_traced():
  advice = _advice(_with_positions)
  assert advice.endswith("or say what holds for them, as with --constraint 'length<=8'.")
  assert _advice(_with_positions, "length<=8") is None


def test_numbers_are_advised_where_no_condition_is_known():
  advice = _advice(_with_steps)
  assert advice == (
    "Give numbers in place of the open sizes batch, length, with --batch 8 or --shape NAME=8,224,224,3."
  )


@pytest.mark.parametrize("sizes", [(2, 2, 4), export.symbolic_shape("batch, 2, 4")])
def test_no_advice_if_open_sizes_are_not_the_reason(sizes):
  arguments = {"x": jax.ShapeDtypeStruct(sizes, np.float32)}
  with pytest.raises((TypeError, ValueError)) as error:
    jax.eval_shape(_with_positions, arguments)
  assert not open_sizes_advice(error.value, _with_positions, arguments)
