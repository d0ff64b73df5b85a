import platform
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.convert import compiler_options, xla_options
from graftax.ops_jax import lowering

pytestmark = pytest.mark.skipif(
  platform.machine() not in ("x86_64", "AMD64") or jax.default_backend() != "cpu", reason="nothing is measured here"
)


def _convolution(x, kernel):
  return jax.lax.conv_general_dilated(x, kernel, [1, 1], "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _network(x, kernel, w):
  return jax.nn.relu(_convolution(x, kernel)).mean((1, 2)) @ w


def _program(function, *shapes):
  return jax.jit(function).trace(*(jax.ShapeDtypeStruct(shape, "float32") for shape in shapes)).jaxpr


_IMAGES = ([2, 8, 8, 4], [1, 1, 4, 8])


def test_only_programs_of_1x1_convolutions_get_the_option():
  (name,) = compiler_options()
  assert name == "xla_cpu_experimental_ynn_fusion_type"
  assert list(compiler_options(program=_program(_convolution, *_IMAGES))) == [name]
  assert compiler_options(program=_program(_convolution, [2, 8, 8, 4], [3, 3, 4, 8])) == {}
  assert compiler_options(program=_program(jnp.matmul, [8, 8], [8, 8])) == {}


def test_loops_count_for_each_iteration():
  def both(x, kernel, y, steps):
    return _convolution(x, kernel), jax.lax.scan(lambda y, _: (y @ y, None), y, length=steps)[0]

  shapes = ([8, 32, 32, 16], [1, 1, 16, 16], [8, 8])
  once, often = (_program(lambda *args, n=n: both(*args, n), *shapes) for n in (1, 10_000))
  assert compiler_options(program=once)
  assert compiler_options(program=often) == {}


def test_convolutions_that_are_products_on_cpus_do_not_count():
  convolve = lowering("Conv2D").function
  assert compiler_options(program=_program(partial(convolve, strides=(1, 1, 1, 1), padding="SAME"), *_IMAGES)) == {}


def test_symbolic_sizes_can_be_counted():
  batch = jax.export.symbolic_shape("b, 8, 8, 4")
  assert compiler_options(program=_program(_convolution, batch, [1, 1, 4, 8]))


def test_options_and_values_that_the_jaxlib_does_not_know_are_left_out(monkeypatch):
  known = dict(xla_options._CPU_CONVOLUTIONS)
  monkeypatch.setattr(
    xla_options, "_CPU_CONVOLUTIONS", {**known, "xla_cpu_no_such_option": "1", "xla_cpu_scheduler_type": "NO_SUCH_TYPE"}
  )
  assert compiler_options() == known


def test_other_platforms_have_no_options_and_unknown_ones_raise():
  assert compiler_options("tpu") == compiler_options("cuda") == {}
  with pytest.raises(ValueError, match=r"platform='npu' is not known; expected one of \('cpu',"):
    compiler_options("npu")
  with pytest.raises(TypeError, match="program=<function .*trace"):
    compiler_options(program=lambda x: x)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("batch", [0, 1, 33])
def test_values_and_gradients_under_the_options_are_those_without_them(dtype, batch):
  generator = np.random.default_rng(0)
  args = [jnp.asarray(generator.standard_normal(s), dtype) for s in ([batch, 5, 5, 17], [1, 1, 17, 8], [8, 3])]

  def value_and_gradients(*args):
    return jax.value_and_grad(lambda *x: jnp.square(_network(*x).astype(jnp.float32)).sum(), (0, 1, 2))(*args)

  expected = jax.jit(value_and_gradients)(*args)
  found = jax.jit(value_and_gradients, compiler_options=compiler_options())(*args)
  tolerance = {"float32": 1e-5, "bfloat16": 2e-2, "float16": 2e-3}[dtype]
  for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
    assert a.dtype == b.dtype
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    np.testing.assert_allclose(a, b, tolerance, tolerance * np.abs(b).max(initial=0))


def test_relu_of_a_product_in_bfloat16_keeps_its_gradient():
  # With LIBRARY_FUSION_TYPE_DOT of the same option it is 0 in jaxlib 0.10.0.
  generator = np.random.default_rng(3)
  args = [jnp.asarray(generator.standard_normal(shape), jnp.bfloat16) for shape in ((33, 65), (65, 17), (17,))]
  gradient = jax.grad(lambda x, w, b: jnp.square(jnp.maximum(x @ w + b, 0).astype(jnp.float32)).sum())
  expected = np.asarray(gradient(*(x.astype(jnp.float32) for x in args)))
  found = np.asarray(jax.jit(gradient, compiler_options=compiler_options())(*args), np.float32)
  np.testing.assert_allclose(found, expected, 0.05, 0.02 * np.abs(expected).max())
