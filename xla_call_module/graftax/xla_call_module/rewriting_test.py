"""Nodes that other TensorFlow and JAX versions wrote, rewritten and run again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module import Module, errors, lift, mlir
from graftax.xla_call_module.exporting import export_call_module
from graftax.xla_call_module.rewriting import open_arguments, rewrite_call_module

_X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 4, 3)
_Y = np.array([1, 2], np.float32)


def _exported(function, shapes, **options):
  scope = jax.export.SymbolicScope()
  avals = [
    jax.ShapeDtypeStruct(jax.export.symbolic_shape(shape, scope=scope) if isinstance(shape, str) else shape, np.float32)
    for shape in shapes
  ]
  return export_call_module(function, avals, **options).attributes


def _sums(x, y):
  return [jnp.tanh(x).sum((1, 2)) + y, x.shape[0] * x]


def _run(attributes, *args):
  return lift(Module.from_call_module(**attributes), check_platform=False)(*args)


def _assert_computes(attributes, function, *args):
  for got, expected in zip(_run(attributes, *args), function(*args), strict=True):
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize("target", ["tensorflow-2.15", "tensorflow-2.21"])
def test_operations_are_kept_and_written_in_the_version_of_the_target(target):
  attributes = _exported(_sums, ["b, 4, s", "b,"], target="tensorflow-2.21")
  rewritten = rewrite_call_module(attributes, target=target)
  assert rewritten.how == "transcoded"
  assert rewritten.attributes["version"] <= (8 if target == "tensorflow-2.15" else 10)
  assert ("use_shardy_partitioner" in rewritten.attributes) == (target == "tensorflow-2.21")
  _assert_computes(rewritten.attributes, _sums, _X, _Y)


def test_a_module_for_cuda_is_relabelled_for_the_cpu():
  attributes = _exported(_sums, [(2, 4, 3), (2,)], platforms=["cuda"])
  rewritten = rewrite_call_module(attributes, platforms=["cpu"])
  assert (rewritten.how, rewritten.attributes["platforms"]) == ("transcoded", ("CPU",))
  _assert_computes(rewritten.attributes, _sums, _X, _Y)


def test_a_module_for_one_platform_is_exported_again_for_two():
  attributes = _exported(_sums, ["b, 4, s", "b,"], platforms=["cuda"])
  rewritten = rewrite_call_module(attributes, platforms=["cpu", "cuda"])
  assert (rewritten.how, rewritten.attributes["platforms"]) == ("lifted", ("CPU", "CUDA"))
  _assert_computes(rewritten.attributes, _sums, _X, _Y)


def test_one_platform_of_several_is_chosen():
  def by_platform(x):
    return [jax.lax.platform_dependent(x, cpu=lambda x: x + 1, cuda=lambda x: x + 2)]

  attributes = _exported(by_platform, [(3,)], platforms=["cpu", "cuda"])
  rewritten = rewrite_call_module(attributes, platforms=["cpu"])
  assert (rewritten.how, rewritten.attributes["platforms"]) == ("lifted", ("CPU",))
  np.testing.assert_array_equal(_run(rewritten.attributes, np.zeros(3, np.float32))[0], 1)


def test_nodes_of_old_versions_are_exported_again():
  text = """func.func public @main(%n: tensor<i32>, %x: tensor<?x3xf32>) -> tensor<?x3xf32> {
    %0 = stablehlo.add %x, %x : tensor<?x3xf32>
    return %0 : tensor<?x3xf32>
  }"""
  old = {"version": 3, "module": text.encode(), "dim_args_spec": ("0.0",), "platforms": ("CPU",)}
  rewritten = rewrite_call_module(old, target="tensorflow-2.18")
  assert (rewritten.how, rewritten.attributes["version"]) == ("lifted", 9)
  assert rewritten.attributes["dim_args_spec"] == ()
  for rows in (1, 5):
    x = np.ones((rows, 3), np.float32)
    np.testing.assert_array_equal(_run(rewritten.attributes, x)[0], 2 * x)


def test_unused_inputs_of_the_node_stay():
  attributes = _exported(jax.jit(lambda x, y: [x + 1], keep_unused=True), [(2,), (3,)], platforms=["cuda"])
  rewritten = rewrite_call_module(attributes, platforms=["cpu", "cuda"])
  assert rewritten.how == "lifted"
  np.testing.assert_array_equal(_run(rewritten.attributes, np.zeros(2, np.float32), np.zeros(3, np.float32))[0], 1)


def test_dimensions_have_the_names_they_were_exported_with():
  module = Module.from_call_module(**_exported(_sums, ["rows, 4, 2*cols", "rows,"]))
  assert [str(aval.shape) for aval in open_arguments(module)] == ["(rows, 4, 2*cols)", "(rows,)"]


def test_dimensions_without_names_share_only_the_first_position():
  module = Module.from_text("func.func @main(%x: tensor<?x?xf32>, %y: tensor<?x2x?xf32>) { return }")
  shapes = [str(aval.shape) for aval in open_arguments(module)]
  assert shapes == ["(batch, dimension_1)", "(batch, 2, dimension_2)"]


def test_a_custom_call_that_no_target_has_is_named():
  text = "func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> { %0 = stablehlo.custom_call @mine(%x) : (tensor<3xf32>) -> tensor<3xf32> return %0 : tensor<3xf32> }"  # noqa: E501
  attributes = {**_exported(lambda x: [x], [(3,)]), "module": text.encode()}
  with pytest.raises(errors.StableHloError, match="mine"):
    rewrite_call_module(attributes, target="tensorflow-2.21")


def test_a_module_that_calls_tensorflow_cannot_be_exported_again():
  attributes = {**_exported(_sums, [(2, 4, 3), (2,)], platforms=["cuda"]), "function_list": ("f",)}
  with pytest.raises(errors.UnsupportedModuleError, match=r"functions \('f',\)"):
    rewrite_call_module(attributes, platforms=["cpu", "cuda"])


def test_dimensions_may_be_nested_calls_and_text_that_jax_does_not_write_is_ignored():
  message = "Using the following polymorphic shapes specifications: args[0].shape = ({dims}, 3). Obtained"
  text = """func.func @main(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {{
    %c = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.custom_call @shape_assertion(%c)
      {{error_message = "{message}", has_side_effect = true}} : (tensor<i1>) -> ()
    return %x : tensor<?x3xf32>
  }}"""
  text = text.format(message=message)
  nested = open_arguments(Module.from_text(text.replace("{dims}", "max(floordiv(b, 2), 1)")))
  assert str(nested[0].shape) == "(max(floordiv(b, 2), 1), 3)"
  for ignored in ["b +* 2", "b^2^9999", "9^999999999", "b^999^999", "max(" * 60 + "b" + ", 1)" * 60]:
    assert str(open_arguments(Module.from_text(text.replace("{dims}", ignored)))[0].shape) == "(batch, 3)"


def test_shardings_for_several_devices_are_kept():
  text = """module attributes {mhlo.num_partitions = 2 : i32} {
    func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.custom_call @Sharding(%x) {mhlo.sharding = "{devices=[2]<=[2]}"} : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  }"""
  attributes = {**_exported(lambda x: [x], [(4,)]), "version": 9, "module": text.encode()}
  rewritten = rewrite_call_module(attributes, target="tensorflow-2.18")
  assert "Sharding" in mlir.to_text(rewritten.attributes["module"])
  with pytest.raises(errors.UnsupportedModuleError, match="is for 2 devices"):
    rewrite_call_module(attributes, target="tensorflow-2.18", platforms=["cpu", "cuda"])


def test_a_node_without_platforms_is_for_the_cpu_wherever_it_is_rewritten():
  text = b"func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }"
  rewritten = rewrite_call_module({"version": 3, "module": text})
  assert rewritten.attributes["platforms"] == ("CPU",)


def test_number_of_devices_that_is_no_number_is_an_error():
  text = """module attributes {mhlo.num_partitions = "x"} { func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32> } }"""
  with pytest.raises(errors.DecodeError, match=r"mhlo.num_partitions of the module is 'x'; expected a number"):
    rewrite_call_module({"version": 9, "module": mlir.serialize(text), "platforms": ("CPU",)}, target="tensorflow-2.16")
