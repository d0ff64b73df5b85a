"""Tests that the suite detects errors: broken lowerings make its checks fail."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

from graftax.ops_jax import lowering, register
from graftax.testing import ConversionCase, ConversionMismatchError, check_conversion, run_case
from graftax.testing.differential.__main__ import main
from graftax.testing.tensorflow_programs.catalogue import all_cases

_X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


@contextlib.contextmanager
def _broken(op: str, function: Callable[..., Any]) -> Iterator[None]:
  """Replaces the lowering of `op` within the context."""
  original = lowering(op)
  assert original is not None
  register(op, ignores=("T",), override=True)(function)
  try:
    yield
  finally:
    register(op, ignores=original.ignores, override=True)(original.function)


def _run(kind: str, name: str) -> dict[str, str]:
  (case,) = [case for case in all_cases([kind]) if case.name == name]
  return {result.check: result.detail for result in run_case(case)}


def test_a_wrong_value_fails_every_check():
  assert not any(_run("control_flow", "counted_while").values())
  with _broken("Sin", lambda x: jnp.sin(x) * 1.001):
    details = _run("control_flow", "counted_while")
  assert all("off by" in detail for detail in details.values())
  assert not any(_run("control_flow", "counted_while").values())


def test_a_wrong_derivative_fails_checks_of_derivatives():
  @jax.custom_jvp
  def tanh(x):
    return jnp.tanh(x)

  tanh.defjvp(lambda primals, tangents: (tanh(*primals), tangents[0]))
  with _broken("Tanh", lambda x: tanh(x)):
    details = _run("control_flow", "loop_in_cond")
  assert {check for check, detail in details.items() if detail} == {"grad"}


def test_a_lowering_that_cannot_be_batched_fails_vmap():
  def exp(x):
    return jax.pure_callback(np.exp, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

  with _broken("Exp", exp):
    details = {r.check: r.detail for r in run_case(_case(tf.exp, ("value", "jit", "vmap")))}
  assert {check for check, detail in details.items() if detail} == {"vmap"}


def test_a_wrong_assignment_fails_state():
  original = lowering("AssignAddVariableOp")
  assert original is not None
  kernel = original.function

  def assign(ctx, resource, value):
    return kernel(ctx, resource, value * 2)

  assign.__annotations__ = dict(kernel.__annotations__)
  register("AssignAddVariableOp", ignores=original.ignores, override=True)(assign)
  try:
    details = _run("state", "variables_in_functions_that_call_each_other") | _run("state", "counter")
  finally:
    register("AssignAddVariableOp", ignores=original.ignores, override=True)(kernel)
  assert details["state"]


def test_a_wrong_value_or_gradient_fails_the_circle():
  @jax.custom_jvp
  def tanh(x):
    return jnp.tanh(x)

  tanh.defjvp(lambda primals, tangents: (tanh(*primals), tangents[0]))
  case = _case(lambda x: tf.tanh(x) * 2.0, ("jit", "grad"))
  with _broken("Tanh", lambda x: jnp.tanh(x) * 1.001):
    (result,) = run_case(case, checks=["circle"])
  assert "result 0: off by" in result.detail
  with _broken("Tanh", lambda x: tanh(x)):
    (result,) = run_case(case, checks=["circle"])
  assert "gradient 0: off by" in result.detail


@pytest.mark.slow
def test_a_wrong_gradient_of_a_variable_fails_the_circle():
  variable = tf.Variable([1.0, 2.0, 3.0])
  case = _case(lambda x: tf.tanh(x * variable), ("jit", "param_grad"))
  assert [result.detail for result in run_case(case, checks=["circle"])] == [""]
  with _broken("Tanh", lambda x: jnp.tanh(x) + jax.lax.stop_gradient(x) - x):
    (result,) = run_case(case, checks=["circle"])
  assert "parameter_0: off by" in result.detail


def _case(function: Any, checks: tuple[str, ...]) -> ConversionCase:
  return ConversionCase(name="p", kind="user", build=lambda: function, inputs=(_X,), checks=checks)


def test_check_conversion_accepts_a_keras_model():
  model = tf.keras.Sequential([tf.keras.layers.Dense(4, activation="relu"), tf.keras.layers.Dense(2)])
  check_conversion(model, _X, checks=["value", "jit", "grad", "param_grad", "vmap", "batch", "export"])


def test_failed_checks_are_one_error_that_lists_them():
  with _broken("Sin", lambda x: jnp.cos(x)), pytest.raises(ConversionMismatchError) as caught:
    check_conversion(lambda x: (tf.sin(x), x), _X, checks=["value", "jit"], name="mine")
  assert str(caught.value).splitlines()[0] == "mine: 2 of 2 checks failed:"
  assert "  value: 0: off by up to" in str(caught.value)


def test_conversion_that_fails_fails_every_check():
  results = run_case(_case(lambda x: tf.strings.as_string(x), ("value", "jit")))
  assert [result.passed for result in results] == [False, False]
  assert "convert: UnsupportedOpError" in results[0].detail


def test_unknown_checks_raise():
  with pytest.raises(ValueError, match=r"case 'p': unknown checks \['values'\]; expected some of \['value', 'jit'"):
    _case(tf.sin, ("values",))


def test_the_command_prints_a_table_and_tells_by_its_exit_code(capsys: pytest.CaptureFixture[str]):
  assert main(["--kind", "ragged", "--case", "elementwise_and_back"]) == 0
  assert "| ragged | 1 | 3 of 3 |" in capsys.readouterr().out
  assert main(["--kind", "ragged", "--case", "none of that name"]) == 2
