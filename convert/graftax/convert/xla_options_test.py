import platform

import jax
import jax.numpy as jnp
import pytest

from graftax.convert import compiler_options, xla_options

pytestmark = pytest.mark.skipif(
  platform.machine() not in ("x86_64", "AMD64") or jax.default_backend() != "cpu", reason="nothing is measured here"
)


def test_options_and_values_that_the_jaxlib_does_not_know_are_left_out(monkeypatch):
  known = {"xla_cpu_prefer_vector_width": "256"}
  monkeypatch.setattr(
    xla_options, "_CPU", {**known, "xla_cpu_no_such_option": "1", "xla_cpu_scheduler_type": "NO_SUCH_TYPE"}
  )
  program = jax.make_jaxpr(jax.numpy.sin)(1.0)
  assert compiler_options() == compiler_options("cpu", program) == known
  assert compiler_options("tpu") == {}


@pytest.mark.skipif(not xla_options.has_onednn(), reason="this jaxlib has no oneDNN for this processor")
def test_programs_for_inference_leave_to_ynnpack_what_it_computes_faster():
  kernel = jnp.ones((8, 8, 3, 3))

  def convolution(x):
    return jax.lax.conv(x, kernel, (1, 1), "SAME")

  def ynnpack(program):
    options = xla_options.onednn_options(jax.make_jaxpr(program)(x))
    assert options.pop("xla_cpu_experimental_onednn_custom_call") == "True"
    (value,) = options.values()
    return value

  x = jnp.ones((1, 8, 8, 8))
  assert ynnpack(lambda x: convolution(convolution(x))) == ""
  assert ynnpack(convolution) == ynnpack(lambda x: x @ x) == "LIBRARY_FUSION_TYPE_REDUCE"
  steps = jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda _, x: convolution(x), x))
  assert ynnpack(steps) == "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"
  assert compiler_options(program=jax.make_jaxpr(convolution)(x)) == {}


def test_other_platforms_have_no_options_and_unknown_ones_raise():
  assert compiler_options("tpu") == compiler_options("cuda") == {}
  with pytest.raises(ValueError, match=r"platform='npu' is not known; expected one of \('cpu',"):
    compiler_options("npu")
  with pytest.raises(TypeError, match="program=<function .*trace"):
    compiler_options(program=lambda x: x)
