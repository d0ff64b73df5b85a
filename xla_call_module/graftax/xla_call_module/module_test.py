import copy
import dataclasses
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import random

from graftax.xla_call_module import (
  ArgumentError,
  DecodeError,
  DerivativeError,
  LiftError,
  Module,
  PlatformError,
  VersionError,
  call,
  embed,
  explain,
  lift,
  mlir,
)

_X = np.arange(3, dtype=np.float32)
_SINE = """module { func.func public @main(%a: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.sine %a : tensor<3xf32>
  return %0 : tensor<3xf32> } }"""


def _spec(*shape):
  return jax.ShapeDtypeStruct(shape, np.float32)


def test_text_bytecode_portable_artifact_hlo_and_exported_are_one_module():
  pytest.importorskip("flatbuffers")
  hlo = jax.jit(jnp.sin).lower(_X).compiler_ir("hlo").as_serialized_hlo_module_proto()
  exported = jax.export.export(jax.jit(jnp.sin))(_spec(3))
  modules = [
      Module.from_text(_SINE), Module.from_bytes(_SINE.encode()), Module.from_bytes(mlir.serialize(_SINE)),
      Module.from_bytes(mlir.serialize(_SINE, version="1.0.0")), Module.from_hlo(hlo), Module.from_exported(exported),
      Module.from_exported(exported.serialize()),
  ]  # fmt: skip
  for module in modules:
    np.testing.assert_allclose(lift(module)(_X)[0], np.sin(_X), rtol=1e-6)


def test_exported_module_knows_platforms_convention_and_dropped_arguments():
  exported = jax.export.export(jax.jit(lambda x, unused: x * 2), platforms=["cpu", "tpu"])(_spec(3), _spec(2))
  module = Module.from_exported(exported)
  assert module.platforms == ("cpu", "tpu") and module.has_platform_index and module.kept == (0,)
  assert module.version == exported.calling_convention_version
  np.testing.assert_array_equal(lift(module)(_X, np.ones(2, np.float32))[0], _X * 2)
  np.testing.assert_array_equal(embed(module)(_X, np.ones(2, np.float32))[0], _X * 2)


@pytest.mark.parametrize(
  "version, data", [(2, _SINE.encode()), (3, _SINE.encode()), *((v, None) for v in range(4, 11))]
)
def test_call_module_versions_2_to_10(version, data):
  module = Module.from_call_module(version=version, module=data or mlir.serialize(_SINE), platforms=[b"CPU"])
  np.testing.assert_allclose(lift(module)(_X)[0], np.sin(_X), rtol=1e-6)


@pytest.mark.parametrize("version", [0, 1, 11])
def test_other_call_module_versions_raise(version):
  with pytest.raises(VersionError, match=f"XlaCallModule version {version} is not supported"):
    Module.from_call_module(version=version, module=b"")


def test_dimension_arguments_of_old_modules_are_supplied():
  text = """module { func.func public @main(%b: tensor<i64>, %a: tensor<?xf32>) -> tensor<?xf32> {
    %s = stablehlo.reshape %b : (tensor<i64>) -> tensor<1xi64>
    %c = stablehlo.constant dense<2.0> : tensor<f32>
    %d = stablehlo.dynamic_broadcast_in_dim %c, %s, dims = [] : (tensor<f32>, tensor<1xi64>) -> tensor<?xf32>
    %r = stablehlo.multiply %a, %d : tensor<?xf32>
    return %r : tensor<?xf32> } }"""
  module = Module.from_call_module(version=4, module=mlir.serialize(text), dim_args_spec=["0.0"], platforms=["CPU"])
  for function in (lift(module), embed(module)):
    np.testing.assert_array_equal(function(_X)[0], _X * 2)


_BY_PLATFORM = """module { func.func public @main(%p: tensor<i32>, %a: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "stablehlo.case"(%p) ({
    %s = stablehlo.sine %a : tensor<3xf32>
    stablehlo.return %s : tensor<3xf32> }, {
    %c = stablehlo.cosine %a : tensor<3xf32>
    stablehlo.return %c : tensor<3xf32> }) : (tensor<i32>) -> tensor<3xf32>
  return %0 : tensor<3xf32> } }"""


def test_module_of_several_platforms_takes_its_code_at_lowering():
  module = Module.from_call_module(version=9, module=mlir.serialize(_BY_PLATFORM), platforms=["CPU", "TPU"])
  assert len(module.inputs) == 1
  function = lift(module)
  np.testing.assert_allclose(function(_X)[0], np.sin(_X), rtol=1e-6)
  np.testing.assert_allclose(lift(module, platform="tpu")(_X)[0], np.cos(_X), rtol=1e-6)
  for platform, op in (("cpu", "stablehlo.sine"), ("tpu", "stablehlo.cosine")):
    assert op in jax.export.export(jax.jit(function), platforms=[platform])(_spec(3)).mlir_module()
  with pytest.raises(PlatformError, match="lowered for cpu, tpu and is now being lowered for cuda"):
    jax.export.export(jax.jit(function), platforms=["cuda"])(_spec(3))


def test_donated_arguments_are_in_the_signature():
  exported = jax.export.export(jax.jit(lambda x, y: x + y, donate_argnums=1))(_spec(3), _spec(3))
  signature = Module.from_exported(exported).signature
  assert signature is not None and [leaf.is_donated for leaf in signature.inputs] == [False, True]


def test_random_keys_of_an_implementation_that_files_do_not_know_are_their_words():
  def unused(*args):
    raise NotImplementedError

  three_words = random.define_prng_impl(
    key_shape=(3,), seed=unused, split=unused, random_bits=unused, fold_in=unused, name="three", tag="thr"
  )

  def function(keys, unused_key):
    return keys, jax.random.key_data(keys) * 2

  words = np.arange(6, dtype=np.uint32).reshape(2, 3)
  keys = jax.random.wrap_key_data(words, impl=three_words)
  module = Module.from_exported(jax.export.export(jax.jit(function))(keys, keys[0]))
  assert [spec.shape for spec in module.inputs] == [(2, 3), (3,)]
  np.testing.assert_array_equal(lift(module)(words, words[0]), [words, 2 * words])


def test_platform_option_must_be_one_of_the_module_and_does_not_switch_the_check_off():
  module = Module.from_call_module(version=9, module=mlir.serialize(_SINE), platforms=["CUDA"])
  with pytest.raises(PlatformError, match="platform='tpu': the module was lowered for cuda"):
    lift(module, platform="tpu")
  with pytest.raises(PlatformError, match="lowered for cuda and is now being lowered for cpu"):
    lift(module, platform="gpu")(_X)


def test_exported_module_of_several_platforms_takes_their_index():
  exported = dataclasses.replace(jax.export.export(jax.jit(lambda: jnp.ones(3)))(), platforms=("cpu", "tpu"))
  for given in (exported, exported.serialize()):
    with pytest.raises(
      DecodeError, match=r"main has arguments \(\); for platforms \('cpu', 'tpu'\) its first argument"
    ):
      Module.from_exported(given)


@pytest.mark.parametrize(
  ("options", "message"),
  [
    ({"platforms": [b"\xff"]}, r"the text b'\\xff', which is not UTF-8"),
    ({"dim_args_spec": ["9" * 5000 + ".0"]}, r"entry '9{50}' is not of the form"),
  ],
)
def test_texts_of_a_node_are_checked(options, message):
  with pytest.raises(DecodeError, match=message):
    Module.from_call_module(version=4, module=mlir.serialize(_SINE), **options)


@pytest.mark.parametrize("spec", ["9.9", "0.1", "1.0"])
def test_dimension_argument_that_names_no_axis_raises(spec):
  text = """module { func.func public @main(%b: tensor<i64>, %a: tensor<?xf32>) -> tensor<?xf32> {
    return %a : tensor<?xf32> } }"""
  with pytest.raises(DecodeError, match=f"entry '{spec}' is not an axis of the arguments"):
    Module.from_call_module(version=4, module=mlir.serialize(text), dim_args_spec=[spec], platforms=["CPU"])


def test_dimension_argument_of_a_floating_type_raises():
  text = """module { func.func public @main(%b: tensor<f32>, %a: tensor<3xf32>) -> tensor<3xf32> {
    return %a : tensor<3xf32> } }"""
  with pytest.raises(DecodeError, match="first 1 arguments must be integer scalars"):
    Module.from_call_module(version=4, module=mlir.serialize(text), dim_args_spec=["0.0"], platforms=["CPU"])


@pytest.mark.parametrize("make", [lift, embed])
def test_platform_that_the_module_was_not_lowered_for_is_an_error_naming_both(make):
  module = Module.from_call_module(version=9, module=mlir.serialize(_SINE), platforms=["TPU"])
  with pytest.raises(ValueError, match="lowered for tpu and is now being lowered for cpu"):
    make(module)(_X)
  np.testing.assert_allclose(make(module, check_platform=False)(_X)[0], np.sin(_X), rtol=1e-6)
  unchecked = Module.from_call_module(
    version=9, module=mlir.serialize(_SINE), platforms=["TPU"], disabled_checks=["platform"]
  )
  np.testing.assert_allclose(make(unchecked)(_X)[0], np.sin(_X), rtol=1e-6)


@pytest.mark.parametrize(
  "data", [b"", b"garbage", b"\xff\xfe\x00\x01", b"ML\xefR", b"ML\xefR\x0dStableHLO_v1.0.0\x00\x01"]
)
def test_bytes_that_are_no_module_are_a_decode_error(data):
  with pytest.raises((DecodeError, NotImplementedError)):
    Module.from_bytes(data)


def test_module_of_a_newer_stablehlo_names_both_versions():
  data = mlir.serialize(_SINE)
  with pytest.raises(VersionError, match=r"written by StableHLO 9\.\d+\.\d+; the installed jaxlib reads up to"):
    Module.from_bytes(data.replace(b"StableHLO_v1.", b"StableHLO_v9."))


def _newer(data: bytes) -> bytes:
  major, minor, patch = mlir.current_version()
  old, new = (f"StableHLO_v{major}.{number}.{patch}".encode() for number in (minor, minor + 1))
  assert old in data and len(old) == len(new)
  return data.replace(old, new)


def test_module_of_a_newer_minor_version_is_read_if_all_in_it_is_known():
  module = Module.from_bytes(_newer(mlir.serialize(_SINE)))
  for make in (lift, embed):
    np.testing.assert_allclose(make(module)(_X)[0], np.sin(_X), rtol=1e-6)


def test_module_of_a_newer_minor_version_with_an_unknown_op_names_both_versions():
  data = _newer(mlir.serialize(_SINE))
  assert data.count(b"sine_v") == 1
  with pytest.raises(
    VersionError, match=r"written by StableHLO 1\.\d+\.\d+, and has something that the installed jaxlib"
  ):
    Module.from_bytes(data.replace(b"sine_v", b"sxne_v"))


def test_op_without_a_lowering_is_named_with_its_place():
  text = """module { func.func public @main(%a: tensor<3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.custom_call @xla_python_cpu_callback(%a) : (tensor<3xf32>) -> tensor<3xf32>  loc("model.py":7:3)
    return %0 : tensor<3xf32> } }"""
  with pytest.raises(LiftError, match=r"stablehlo\.custom_call at model\.py:7:3 does not lift") as caught:
    lift(Module.from_text(text))(_X)
  assert caught.value.op == "stablehlo.custom_call" and caught.value.location == "model.py:7:3"


def test_random_key_arguments_are_passed_as_their_data():
  exported = jax.export.export(jax.jit(lambda k: jax.random.uniform(k, (3,))))(
    jax.eval_shape(lambda: jax.random.key(0))
  )
  function = lift(Module.from_exported(exported))
  np.testing.assert_array_equal(function(jax.random.key(5))[0], jax.random.uniform(jax.random.key(5), (3,)))


@pytest.mark.parametrize(
  ("method", "given", "error", "message"),
  [
    ("from_bytes", "m.bc", ArgumentError, r"a str 'm.bc'; expected bytes. .*read_bytes"),
    ("from_bytes", 5, ArgumentError, "an int; expected bytes"),
    ("from_bytes", b"", DecodeError, "empty"),
    ("from_hlo", "m.pb", ArgumentError, "expected bytes"),
    ("from_text", None, ArgumentError, "got None; expected MLIR text"),
    ("from_text", b"module {}", ArgumentError, "Use Module.from_bytes for bytes"),
    ("from_text", " \n", DecodeError, "empty"),
    ("from_text", "m.mlir", DecodeError, "'m.mlir' is the name of a file"),
    ("from_exported", "m.jax", ArgumentError, r"a str 'm.jax'; .*read_bytes"),
    ("from_exported", jnp.sin, ArgumentError, "expected what jax.export.export"),
  ],
)
def test_usual_mix_ups_are_told_what_is_expected(method, given, error, message):
  with pytest.raises(error, match=message):
    getattr(Module, method)(given)


def test_what_jax_export_wrote_is_sent_to_from_exported():
  pytest.importorskip("flatbuffers")
  exported = jax.export.export(jax.jit(jnp.sin))(_spec(3))
  with pytest.raises(DecodeError, match=r"contain MLIR bytecode inside another format.*Module.from_exported"):
    Module.from_bytes(exported.serialize())
  with pytest.raises(ArgumentError, match="Use Module.from_exported"):
    Module.from_bytes(exported)


def test_wrong_attributes_of_a_call_module_are_named():
  data = mlir.serialize(_SINE)
  assert Module.from_call_module(version=np.int64(9), module=data, platforms=["CPU"]).platforms == ("cpu",)
  with pytest.raises(ArgumentError, match="platforms='CPU' is one string"):
    Module.from_call_module(version=9, module=data, platforms="CPU")
  with pytest.raises(ArgumentError, match="version='9'; expected an integer"):
    Module.from_call_module(version="9", module=data)


@pytest.mark.parametrize(
  ("args", "message"),
  [
    ((None,), "argument 0: got None; expected an array"),
    (({"w": 1},), "argument 0: got dict; expected an array. Arguments are flat"),
    (("one",), "argument 0: got str; expected an array"),
    (([[1.0], [1.0, 2.0]],), "argument 0: got a list that is not an array"),
  ],
)
def test_what_is_no_array_is_named_by_lift_embed_call_and_explain(args, message):
  module = Module.from_text("func.func @main(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }")
  for function in (lift(module), embed(module), lambda *a: call(module, *a), lambda *a: explain(module, *a)):
    with pytest.raises(ArgumentError, match=message):
      function(*args)


def test_scalars_are_infinite_only_where_they_were():
  module = Module.from_text("func.func @main(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }")
  with pytest.raises(ArgumentError, match=r"the Python scalar 1e\+300 does not fit float32\[\]"):
    lift(module)(1e300)
  assert lift(module)(float("inf"))[0] == np.inf and np.isnan(lift(module)(float("nan"))[0])


def test_64_bit_argument_that_jax_cut_before_is_explained():
  module = Module.from_text("func.func @main(%a: tensor<2xf64>) -> tensor<2xf64> { return %a : tensor<2xf64> }")
  with pytest.raises(ArgumentError, match=r"run them under jax.enable_x64\(True\)"):
    jax.jit(lift(module, x64="enable"))(np.ones(2))


def test_module_of_serialized_bytes_pickles_with_all_its_derivatives():
  exported = jax.export.export(jax.jit(jax.lax.sin))(jax.ShapeDtypeStruct((), np.float32))
  module = Module.from_exported(exported.serialize(vjp_order=2))
  copied = pickle.loads(pickle.dumps(module))
  gradient = pickle.loads(pickle.dumps(module.gradient))
  third = jax.grad(jax.grad(lambda x: lift(copied, gradient="saved")(x)[0]))
  np.testing.assert_allclose(third(1.0), -np.sin(1.0), rtol=1e-6)
  np.testing.assert_allclose(lift(gradient)(1.0, 1.0)[0], np.cos(1.0), rtol=1e-6)
  assert gradient.has_gradient and not gradient.gradient.has_gradient


@jax.custom_vjp
def _steep(x):
  return jnp.sin(x)


_steep.defvjp(lambda x: (_steep(x), x), lambda x, g: (10 * g * _steep(x),))


def test_module_of_a_live_exported_pickles_with_two_orders_of_derivatives():
  exported = jax.export.export(jax.jit(_steep))(jax.ShapeDtypeStruct((), np.float32))
  module = Module.from_exported(exported)
  functions = [lift(module), lift(pickle.loads(pickle.dumps(module)))]
  for function in functions:
    first = jax.grad(lambda x, f=function: f(x)[0])
    np.testing.assert_allclose(function(1.0)[0], np.sin(1.0), rtol=1e-6)
    np.testing.assert_allclose(first(1.0), 10 * np.sin(1.0), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(first)(1.0), 100 * np.sin(1.0), rtol=1e-6)
  with pytest.raises(DerivativeError, match="has 2 orders of derivatives"):
    jax.grad(jax.grad(jax.grad(lambda x: functions[1](x)[0])))(1.0)
  assert copy.deepcopy(module).has_gradient


def test_module_that_jax_cannot_differentiate_pickles_and_says_so_when_it_is_differentiated():
  def run(x):
    return jax.lax.while_loop(lambda x: x < 10, lambda x: x * 2, x)

  module = Module.from_exported(jax.export.export(jax.jit(run))(jax.ShapeDtypeStruct((), np.float32)))
  copied = pickle.loads(pickle.dumps(module))
  np.testing.assert_array_equal(lift(copied)(1.0)[0], 16.0)
  with pytest.raises(DerivativeError, match="JAX cannot differentiate the exported function 'run'"):
    jax.grad(lambda x: lift(copied)(x)[0])(1.0)


@pytest.mark.parametrize(
  ("text", "message"),
  [
    (
      "func.func @main() { %0 = tosa.const() : () -> tensor<f32> return }",
      "Dialect `tosa' not found .*jaxlib does not",
    ),
    (
      'func.func @main(%a: tensor<f32>) { %0 = "foo.bar"(%a) : (tensor<f32>) -> tensor<f32> return }',
      r"unregistered dialect \(the installed jaxlib does not have that dialect",
    ),
  ],
)
def test_unknown_dialects_are_told_from_damage(text, message):
  with pytest.raises(DecodeError, match=message):
    Module.from_text(text)


def test_guarded_text_says_what_does_not_parse():
  with pytest.raises(DecodeError, match="custom op 'nonsense' is unknown"):
    Module.from_bytes(b"nonsense")
