import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.convert import compiled, compiler_options, jit


def _counting(params, x):
  """Assigns one of two parameters, as a converted function does: the other one comes back as it was passed."""
  return {"y": params["w"] @ x}, {**params, "calls": params["calls"] + 1}


@pytest.fixture
def params():
  return jax.device_put({"w": np.arange(6, dtype=np.float32).reshape(2, 3), "calls": np.int32(0)})


_X = np.array([1, 2, 3], np.float32)


def test_parameters_that_are_not_assigned_are_the_arrays_that_were_passed(params):
  counting = jit(_counting)
  outputs, new_params = counting(params, _X)
  outputs, new_params = counting(new_params, x=_X)
  np.testing.assert_array_equal(outputs["y"], [8, 26])
  assert list(new_params) == list(params) and new_params["calls"] == 2
  assert new_params["w"] is params["w"]
  # jax.jit copies it.
  assert jax.jit(_counting)(params, _X)[1]["w"].unsafe_buffer_pointer() != params["w"].unsafe_buffer_pointer()


def test_it_can_be_transformed_and_called_within_another_jit(params):
  counting = jit(_counting, compiler_options=compiler_options())

  def loss(w, x):
    return counting({**params, "w": w}, x)[0]["y"].sum()

  expected = np.broadcast_to(_X, (2, 3))
  np.testing.assert_array_equal(jax.grad(loss)(params["w"], _X), expected)
  np.testing.assert_array_equal(jax.jit(jax.grad(loss))(params["w"], _X), expected)
  rows = jax.vmap(counting, (None, 0))(params, jnp.stack([_X, 2 * _X]))
  np.testing.assert_array_equal(rows[0]["y"], [[8, 26], [16, 52]])
  np.testing.assert_array_equal(jax.jit(counting)(params, _X)[0]["y"], [8, 26])


def test_it_compiles_with_the_options_for_its_program_or_those_that_are_passed(params, monkeypatch):
  given = []
  known = {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"}

  def options(*, program=None):
    given.extend([] if program is None else [program])
    return known

  monkeypatch.setattr(compiled.xla_options, "compiler_options", options)
  counting = jit(_counting)
  counting(params, _X)
  counting(params, _X)
  (program,) = given
  assert any(equation.primitive.name == "dot_general" for equation in program.eqns)
  np.testing.assert_array_equal(jit(_counting, compiler_options={})(params, _X)[0]["y"], [8, 26])
  assert len(given) == 1
  with pytest.raises(jax.errors.JaxRuntimeError, match="xla_no_such_option"):
    jit(_counting, compiler_options={"xla_no_such_option": "1"})(params, _X)


def test_what_is_not_a_converted_function_raises(params):
  with pytest.raises(TypeError, match=r"jit: got 3; expected a function \(params, ...\) -> \(outputs, new_params\)"):
    jit(3)
  for result, what in ((_X, "ndarray"), ((_X, _X), r"\(ndarray, ndarray\)"), (({}, {}, {}), r"\(dict, dict, dict\)")):
    with pytest.raises(TypeError, match=f"jit: <function .* returned {what}; expected .* jax.jit"):
      jit(lambda params, result=result: result)(params)
  with pytest.raises(TypeError, match="jit: got parameters of type .*; expected a dict of arrays by name"):
    jit(_counting)(_X, _X)


def test_first_calls_of_several_threads_may_overlap(params, monkeypatch):
  started = []

  def options(*, program=None):
    if program is not None and not started:
      started.append(threading.Thread(target=counting, args=(params, _X)))
      started[0].start()
      started[0].join()
    return {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"}

  monkeypatch.setattr(compiled.xla_options, "compiler_options", options)
  counting = jit(_counting)
  for _ in range(2):
    np.testing.assert_array_equal(counting(params, _X)[0]["y"], [8, 26])
  assert started
