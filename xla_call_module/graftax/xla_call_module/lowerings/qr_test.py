import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module import LiftError, Module, lift
from graftax.xla_call_module.exporting import export_call_module

_TALL = np.arange(12, dtype=np.float32).reshape(4, 3) % 5 + np.eye(4, 3, dtype=np.float32)


def test_qr_whose_reflectors_are_read_is_not_taken_for_qr():
  text = """module { func.func public @main(%a: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>) {
    %0:2 = stablehlo.custom_call @Qr(%a) : (tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>)
    %1 = stablehlo.custom_call @ProductOfElementaryHouseholderReflectors(%0#0, %0#1) :
        (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
    return %0#0, %1 : tensor<4x3xf32>, tensor<4x3xf32> } }"""
  packed, q = lift(Module.from_text(text))(_TALL)
  np.testing.assert_array_equal(packed, jnp.linalg.qr(_TALL, mode="raw")[0].T)
  np.testing.assert_allclose(q @ np.triu(packed)[:3], _TALL, atol=1e-5)


@pytest.mark.parametrize(
  ("mode", "sizes", "shape"),
  [
    ("reduced", "2, 5, 3", (2, 5, 3)),
    ("reduced", "b, 5, 3", (2, 5, 3)),
    ("reduced", "b, n, 3", (2, 5, 3)),
    ("reduced", "b, 3, n", (2, 3, 5)),
    ("reduced", "n, n", (4, 4)),
    ("complete", "b, 5, 3", (2, 5, 3)),
    ("complete", "n, 3", (5, 3)),
    ("r", "n, 3", (5, 3)),
  ],
)
def test_decompositions_of_exported_call_modules_are_recognized(mode, sizes, shape):
  function = functools.partial(jnp.linalg.qr, mode=mode)
  dims = jax.export.symbolic_shape(sizes, constraints=["n >= 4"] if "n" in sizes else ())
  module = export_call_module(lambda x: jax.tree.leaves(function(x)), [jax.ShapeDtypeStruct(dims, np.float32)])
  lifted = lift(Module.from_call_module(**module.attributes))
  x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
  assert "ffi_call" not in str(jax.make_jaxpr(lifted)(x))
  for got, want in zip(lifted(x), jax.tree.leaves(function(x)), strict=True):
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_qr_of_batches_of_open_size_that_jax_exported_is_recognized():
  x = np.random.default_rng(0).standard_normal((2, 5, 3)).astype(np.float32)
  dims = jax.export.symbolic_shape("b, 5, 3")
  exported = jax.export.export(jax.jit(jnp.linalg.qr))(jax.ShapeDtypeStruct(dims, np.float32))
  lifted = lift(Module.from_exported(exported), gradient="primal")
  gradient = jax.grad(lambda x: lifted(x)[1].sum())(x)
  np.testing.assert_allclose(gradient, jax.grad(lambda x: jnp.linalg.qr(x)[1].sum())(x), rtol=1e-4, atol=1e-5)


def test_factors_of_batches_of_open_size_are_those_of_the_kernel():
  x = np.random.default_rng(0).standard_normal((2, 5, 3)).astype(np.float32)
  dims = jax.export.symbolic_shape("b, 5, 3")
  exported = jax.export.export(jax.jit(functools.partial(jnp.linalg.qr, mode="raw")))(
    jax.ShapeDtypeStruct(dims, np.float32)
  )
  for got, want in zip(lift(Module.from_exported(exported))(x), jnp.linalg.qr(x, mode="raw"), strict=True):
    np.testing.assert_array_equal(got, want)


def test_custom_calls_with_results_of_open_sizes_raise():
  text = """module { func.func public @main(%a: tensor<?xf32>) -> tensor<?xf32> {
    %n = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?xf32>) -> tensor<i32>
    %s = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
    %0 = stablehlo.custom_call @mine(%a, %s) {indices_of_shape_operands = dense<1> : tensor<1xi64>} :
        (tensor<?xf32>, tensor<1xi32>) -> tensor<?xf32>
    return %0 : tensor<?xf32> } }"""
  lifted = jax.jit(lift(Module.from_text(text), allow_custom_calls=["mine"]))
  with pytest.raises(LiftError, match="mine returns .*, of open sizes"):
    jax.export.export(lifted)(jax.ShapeDtypeStruct(jax.export.symbolic_shape("n"), np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("mode", ["left", "right"])
def test_products_with_the_orthogonal_factor_are_a_primitive_of_jax(mode, dtype):
  x = np.random.default_rng(0).standard_normal((4, 3)).astype(dtype) * (1 + (1j if dtype == np.complex64 else 0))

  def function(x):
    return jax.scipy.linalg.qr_multiply(x, x.mT if mode == "right" else jnp.ones((3, 2), x.dtype), mode=mode)[0]

  jitted = jax.jit(function)
  call = re.findall(r"lapack_\w+mqr_ffi", jitted.lower(x).as_text())
  unchecked = [jax.export.DisabledSafetyCheck.custom_call(target) for target in call]
  lifted = lift(Module.from_exported(jax.export.export(jitted, disabled_checks=unchecked)(x)))
  assert call and "ffi_call" not in str(jax.make_jaxpr(lifted)(x))
  np.testing.assert_allclose(lifted(x)[0], function(x), rtol=1e-5, atol=1e-6)
