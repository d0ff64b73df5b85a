import dataclasses

import jax
import jax.extend.random
import jax.interpreters.mlir
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.xla_call_module import ArgumentError, LiftError, Module, StableHloError, embed, explain, lift
from graftax.xla_call_module.mlir.bindings import mlir_context, parse


@pytest.mark.parametrize("platform", ["cpu", "cuda", "tpu"])
def test_approximate_top_k_of_every_platform_is_jax_own(platform):
  x = np.sin(np.arange(200, dtype=np.float32)).reshape(2, 100)

  def function(x):
    return lax.approx_max_k(x, 3)

  exported = jax.export.export(jax.jit(function), platforms=[platform])(jax.ShapeDtypeStruct(x.shape, x.dtype))
  for got, want in zip(
    lift(Module.from_exported(exported), check_platform=False, gradient="primal")(x), function(x), strict=True
  ):
    np.testing.assert_array_equal(got, want)


def test_approximate_top_k_by_a_comparator_of_its_own_raises():
  exported = jax.export.export(jax.jit(lambda x: lax.approx_max_k(x, 3)), platforms=["tpu"])
  text = exported(jax.ShapeDtypeStruct((100,), np.float32)).mlir_module()
  swapped = text.replace("compare GT, %arg0, %arg1", "compare GT, %arg1, %arg0")
  assert swapped != text
  with pytest.raises(LiftError, match="neither greater-than nor less-than"):
    lift(Module.from_text(swapped))(np.zeros(100, np.float32))


def test_a_buffer_without_contents_is_zeros():
  text = """func.func @main() -> tensor<2x3xbf16> {
    %0 = stablehlo.custom_call @AllocateBuffer() : () -> tensor<2x3xbf16>
    return %0 : tensor<2x3xbf16> }"""
  (got,) = lift(Module.from_text(text))()
  assert got.dtype == jnp.bfloat16
  np.testing.assert_array_equal(got, np.zeros((2, 3)))


@pytest.mark.parametrize("target", ["cu_threefry2x32", "hip_threefry2x32"])
def test_random_bits_of_older_gpu_kernels_are_those_of_jax(target):
  scalar, vector = "tensor<1xui32>", "tensor<4xui32>"
  call = f"""func.func @main(%k: {scalar}, %l: {scalar}, %x: {vector}, %y: {vector}) -> ({vector}, {vector}) {{
    %a = stablehlo.broadcast_in_dim %k, dims = [0] : ({scalar}) -> {vector}
    %b = stablehlo.broadcast_in_dim %l, dims = [0] : ({scalar}) -> {vector}
    %r:2 = stablehlo.custom_call @{target}(%a, %b, %x, %y) {{api_version = 2 : i32, backend_config = "\\04"}}
      : ({vector}, {vector}, {vector}, {vector}) -> ({vector}, {vector})
    return %r#0, %r#1 : {vector}, {vector} }}"""
  count = np.arange(8, dtype=np.uint32)
  got = lift(Module.from_text(call))(np.uint32([1]), np.uint32([2]), count[:4], count[4:])
  want = jax.extend.random.threefry_2x32(np.uint32([1, 2]), count)
  np.testing.assert_array_equal(jnp.concatenate(got), want)


_CALLED = Module.from_text("""module { func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = stablehlo.custom_call @tf.call_tf_function(%x) {
      tf.backend_config = {called_index = 1 : i64, has_token_input_output = false}} : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32> } }""")
_X = np.arange(4, dtype=np.float32)


def _called(functions, call):
  return lift(dataclasses.replace(_CALLED, function_list=functions), call_tf_function=call)


def test_tf_function_is_called_by_its_entry_of_the_function_list_and_differentiates():
  seen = set()

  def call(function, x):
    seen.add(function)
    return [jnp.sin(x)]

  lifted = _called(("first", "second"), call)
  np.testing.assert_allclose(jax.grad(lambda x: lifted(x)[0].sum())(_X), np.cos(_X), rtol=1e-6)
  assert seen == {"second"}


@pytest.mark.parametrize(
  "functions, call, error, message",
  [
    (("first",), lambda *_: [], LiftError, "called_index=1 is not an index of the function_list, which has 1"),
    (("first", "second"), None, LiftError, "calls the TF function 'second'; pass call_tf_function"),
    (("first", "second"), lambda *_: [], ArgumentError, r"\('second'\) returned 0 values; the module expects 1"),
  ],
  ids=["no such function", "no callback", "too few results"],
)
def test_tf_function_that_cannot_be_called_is_an_error_that_names_it(functions, call, error, message):
  with pytest.raises(error, match=message):
    _called(functions, call)(_X)


@pytest.mark.parametrize(
  ("target", "attribute"),
  [
    ("tf.call_tf_function", "tf.backend_config = 3 : i32"),
    ("tf.call_tf_function", 'indices_of_shape_operands = "a"'),
    ("tf.call_tf_function", "indices_of_shape_operands = {a = 1 : i32}"),
    ("Qr", "mhlo.backend_config = dense<1.5> : tensor<2xf32>"),
  ],
)
@pytest.mark.parametrize("run", [lift, embed, explain])
def test_attributes_of_other_kinds_are_typed_errors(target, attribute, run):
  text = f"""func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {{
    %0 = stablehlo.custom_call @{target}(%x) {{{attribute}}} : (tensor<3xf32>) -> tensor<3xf32>
    return %0 : tensor<3xf32>
  }}"""
  module = Module.from_text(text)
  if run is explain:
    found = explain(module)
    assert found.obstacles or found.refusals
  else:
    with pytest.raises(StableHloError):
      run(module)(np.ones(3, np.float32))


def test_any_op_may_have_an_attribute_with_the_name_of_targets():
  text = """func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.add %x, %x {call_target_name = dense<1> : tensor<2xi32>} : tensor<3xf32>
    %1 = call @f(%0) {call_target_name = dense<1> : tensor<2xi32>} : (tensor<3xf32>) -> tensor<3xf32>
    return %1 : tensor<3xf32>
  }
  func.func private @f(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }"""
  module = Module.from_text(text)
  assert explain(module).plan == "lift with embedded ops"
  np.testing.assert_array_equal(embed(module)(np.ones(3, np.float32))[0], np.full(3, 2, np.float32))


def test_what_the_importer_of_hlo_adds_does_not_change_values():
  x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
  hlo = jax.jit(lambda x: jnp.transpose(x + 1, (1, 0, 2)) * 2).lower(x).compiler_ir("hlo")
  module = Module.from_hlo(hlo.as_serialized_hlo_module_proto())  # its transposition has a layout
  np.testing.assert_array_equal(lift(module)(x)[0], np.transpose(x + 1, (1, 0, 2)) * 2)


def test_copies_of_buffers_are_their_operands():
  text = """func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
    %0 = mhlo.copy %x : tensor<3xf32>
    return %0 : tensor<3xf32>
  }"""
  x = np.arange(3, dtype=np.float32)
  with mlir_context() as messages:
    data = jax.interpreters.mlir.module_to_bytecode(parse(text, messages))
  for module in (Module.from_text(text, guard=True), Module.from_bytes(data)):  # both read it in the helper process
    np.testing.assert_array_equal(lift(module)(x)[0], x)


def _top_k(largest: str) -> Module:
  return Module.from_text(f"""func.func @main(%x: tensor<2x5xf32>) -> (tensor<2x3xf32>, tensor<2x3xi32>) {{
    %r:2 = mhlo.topk(%x, k = 3, largest = {largest}) : tensor<2x5xf32> -> (tensor<2x3xf32>, tensor<2x3xi32>)
    return %r#0, %r#1 : tensor<2x3xf32>, tensor<2x3xi32> }}""")


def test_top_k_of_mhlo_gives_what_xla_gives_and_differentiates():
  module = _top_k("true")
  x = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 6, -8]], np.float32)
  for got, want in zip(lift(module)(x), embed(module)(x), strict=True):
    np.testing.assert_array_equal(got, want)
  weights = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
  gradient = jax.grad(lambda x: (lift(module)(x)[0] * weights).sum())(x)
  np.testing.assert_array_equal(gradient, [[3, 0, 2, 0, 1], [4, 0, 5, 6, 0]])


def test_top_k_of_mhlo_with_the_smallest_elements_raises():
  with pytest.raises(LiftError, match="mhlo.topk at .* it selects the smallest elements"):
    lift(_top_k("false"))(np.zeros((2, 5), np.float32))
