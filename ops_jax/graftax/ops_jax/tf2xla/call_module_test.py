"""Modules that JAX exports, as XlaCallModule nodes; the graphs around them are tested in convert/jax2tf_test.py."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.graphdef_ir import DType, FunctionRef, GraftaxError
from graftax.ops_jax import LoweringOptions
from graftax.ops_jax.tf2xla.call_module import xla_call_module
from graftax.testing.raw_ops import NodeContext
from graftax.xla_call_module import ArgumentError, DecodeError, VersionError


def _attrs(function, *specs, platforms=("cpu",)):
  exported = jax.export.export(jax.jit(function), platforms=platforms)(*specs)
  return {
    "version": exported.calling_convention_version,
    "module": exported.mlir_module_serialized,
    "platforms": tuple(p.upper() for p in exported.platforms),
    "Tin": tuple(DType.from_numpy(aval.dtype) for aval in exported.in_avals),
    "Tout": tuple(DType.from_numpy(aval.dtype) for aval in exported.out_avals),
  }


X = jnp.arange(6.0).reshape(2, 3)


def test_a_module_is_ordinary_jax():
  attrs = _attrs(lambda x: (jnp.sin(x), x.sum()), jax.ShapeDtypeStruct((2, 3), np.float32))

  def run(x):
    return xla_call_module(NodeContext(), [x], **attrs)[0]

  np.testing.assert_allclose(run(X), np.sin(X), rtol=1e-6)
  np.testing.assert_allclose(jax.jvp(run, (X,), (jnp.ones_like(X),))[1], np.cos(X), rtol=1e-6)
  np.testing.assert_allclose(jax.vmap(run)(X[None])[0], np.sin(X), rtol=1e-6)
  assert "sin" in str(jax.make_jaxpr(run)(X))


def test_open_shapes_are_those_of_the_arguments():
  specs = [jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, 3"), np.float32)]
  attrs = _attrs(lambda x: x / x.shape[0], *specs)
  np.testing.assert_allclose(xla_call_module(NodeContext(), [X], **attrs)[0], X / 2)


def test_a_module_for_another_platform_raises_unless_the_check_is_off():
  attrs = _attrs(lambda x: x + 1, jax.ShapeDtypeStruct((2, 3), np.float32), platforms=("tpu",))
  with pytest.raises(ValueError, match="tpu"):
    jax.block_until_ready(jax.jit(lambda x: xla_call_module(NodeContext(), [x], **attrs))(X))
  relaxed = NodeContext(options=LoweringOptions(xlacallmodule_strict_checks=False))
  np.testing.assert_allclose(xla_call_module(relaxed, [X], **attrs)[0], X + 1)


def test_damaged_modules_are_errors():
  attrs = _attrs(lambda x: x, jax.ShapeDtypeStruct((2, 3), np.float32))
  with pytest.raises(ValueError, match="bytes"):
    xla_call_module(NodeContext(), [X], **{**attrs, "module": attrs["module"][:40]})
  with pytest.raises(ValueError, match="version 99"):
    xla_call_module(NodeContext(), [X], **{**attrs, "version": 99})


def test_errors_of_modules_are_graftax_errors_of_the_original_type():
  attrs = _attrs(lambda x: x, jax.ShapeDtypeStruct((2, 3), np.float32))
  damaged = {**attrs, "module": attrs["module"][:40]}
  for wrong, kind in ((damaged, DecodeError), ({**attrs, "version": 99}, VersionError), (attrs, ArgumentError)):
    with pytest.raises(GraftaxError) as caught:
      xla_call_module(NodeContext(), [X[0]], **wrong)
    assert type(caught.value) is kind and str(caught.value)


def test_functions_of_the_graph_are_called_anew_each_time():
  text = b"""
module @jit_f {
  func.func public @main(%x: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.custom_call @tf.call_tf_function(%x) {api_version = 2 : i32,
      tf.backend_config = {called_index = 0 : i64, has_token_input_output = false}} : (tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
}"""
  dtypes = {"Tin": (DType.FLOAT,), "Tout": (DType.FLOAT,)}
  attrs = {"version": 2, "module": text, **dtypes, "function_list": (FunctionRef("f"),)}
  for factor in (2.0, 3.0):
    context = NodeContext(functions={"f": lambda x, factor=factor: x * factor})
    assert xla_call_module(context, [jnp.float32(5)], **attrs)[0] == 5 * factor
