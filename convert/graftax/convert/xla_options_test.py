import platform

import jax
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


def test_other_platforms_have_no_options_and_unknown_ones_raise():
  assert compiler_options("tpu") == compiler_options("cuda") == {}
  with pytest.raises(ValueError, match=r"platform='npu' is not known; expected one of \('cpu',"):
    compiler_options("npu")
  with pytest.raises(TypeError, match="program=<function .*trace"):
    compiler_options(program=lambda x: x)
