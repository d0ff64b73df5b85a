import pickle

import jax
import numpy as np
import pytest

from graftax.xla_call_module import (
  ArgumentError,
  Module,
  PlatformError,
  Record,
  UnsupportedModuleError,
  X64Error,
  call,
  embed,
  explain,
  lift,
  register_custom_call,
  registry,
)
from graftax.xla_call_module.preflight import missing_targets

_X = np.arange(4, dtype=np.float32)
_CALLBACK = """module { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.sine %a : tensor<4xf32>
  %1 = stablehlo.custom_call @xla_python_cpu_callback(%0) : (tensor<4xf32>) -> tensor<4xf32> loc("f.py":3:1)
  return %1 : tensor<4xf32> } }"""
# XLA knows this dialect, and nothing here lifts it.
_MHLO = """module { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.sine %a : tensor<4xf32>
  %1 = mhlo.tanh %0 : tensor<4xf32> loc("f.py":3:1)
  return %1 : tensor<4xf32> } }"""
# A sort without a key of its own would lift; a collective over two devices does not, and XLA can still compile it.
_COLLECTIVE = """module { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.sine %a : tensor<4xf32>
  %1 = stablehlo.replica_id : tensor<ui32>
  %2 = stablehlo.convert %1 : (tensor<ui32>) -> tensor<f32>
  %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %4 = stablehlo.add %0, %3 : tensor<4xf32>
  return %4 : tensor<4xf32> } }""".replace("module {", "module attributes {mhlo.num_replicas = 2 : i32} {")


def test_module_that_lifts_is_lifted():
  module = Module.from_text("""module { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.sine %a : tensor<4xf32>
    return %0 : tensor<4xf32> } }""")
  assert explain(module).plan == "lift" and not explain(module).obstacles
  np.testing.assert_allclose(call(module, _X)[0], np.sin(_X), rtol=1e-6)


def test_op_that_does_not_lift_is_named_and_embedded_alone():
  found = explain(Module.from_text(_MHLO))
  assert found.plan == "lift with embedded ops"
  (obstacle,) = found.obstacles
  assert obstacle.op == "mhlo.tanh" and obstacle.location == "f.py:3:1" and obstacle.embeds
  assert "f.py:3:1" in str(found)


def test_embedded_op_runs_and_the_rest_stays_jax():
  module = Module.from_text(_COLLECTIVE)
  assert explain(module).plan == "lift with embedded ops"
  np.testing.assert_allclose(call(module, _X)[0], np.sin(_X), rtol=1e-6)
  mapped = jax.vmap(lambda x: call(module, x)[0])(np.stack([_X, -_X]))
  np.testing.assert_allclose(mapped[1], np.sin(-_X), rtol=1e-6)
  np.testing.assert_allclose(jax.grad(lambda x: call(module, x)[0].sum())(_X), np.cos(_X), rtol=1e-6)


def test_registered_custom_call_lifts():
  text = """module { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.custom_call @my_double(%a) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32> } }"""
  register_custom_call("my_double")(lambda context, op, x: x * 2)
  try:
    np.testing.assert_array_equal(lift(Module.from_text(text))(_X)[0], _X * 2)
  finally:
    del registry.custom_calls["my_double"]
  own = lift(Module.from_text(text), custom_calls={"my_double": lambda op, x: [x * 3]})
  np.testing.assert_array_equal(own(_X)[0], _X * 3)


_OWN = """module { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @my_double(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32> } }"""


def test_second_call_runs_what_the_first_one_traced():
  traced = []

  def double(op, x):
    traced.append(x.shape)
    return [x * 2]

  module = Module.from_text(_OWN)
  for _ in range(3):
    np.testing.assert_array_equal(call(module, _X, custom_calls={"my_double": double})[0], _X * 2)
  assert len(traced) <= 2  # abstractly, and to compile
  np.testing.assert_array_equal(call(module, _X, custom_calls={"my_double": lambda op, x: [x * 3]})[0], _X * 3)
  for i in range(20):
    call(module, _X, custom_calls={"my_double": lambda op, x, i=i: [x * i]})
  assert len(module.plans) <= 16


def test_module_that_was_called_can_be_pickled():
  module = Module.from_text(_COLLECTIVE)
  call(module, _X)
  again = pickle.loads(pickle.dumps(module))
  np.testing.assert_allclose(call(again, _X)[0], np.sin(_X), rtol=1e-6)


def test_own_answer_for_an_op_that_does_not_lift_comes_first():
  module = Module.from_text(_MHLO)
  (result,) = call(module, _X, on_unsupported=lambda op, error, environment: [environment[1] * 2])
  np.testing.assert_allclose(result, np.sin(_X) * 2, rtol=1e-6)

  def leave_it(op, error, environment):
    raise error

  assert explain(module, _X, on_unsupported=leave_it).plan == "lift with embedded ops"


# A collective whose result is not used by number: its op makes a token, so only the whole module can be embedded.
_WHOLE = """module { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %t = stablehlo.create_token : !stablehlo.token
  %0:2 = "stablehlo.recv"(%t) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}
    : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
  return %0#0 : tensor<4xf32> } }"""


def test_options_that_embedding_does_not_support_are_not_dropped():
  module = Module.from_text(_WHOLE)
  assert explain(module).plan == "embed"
  assert explain(module, loops="while").plan == "embed"
  with pytest.raises(
    UnsupportedModuleError, match="embedding the whole module would ignore check_shapes, custom_calls"
  ):
    explain(module, check_shapes=False, custom_calls={"a": lambda op: []})


def test_explain_says_that_the_platform_is_unsupported():
  exported = jax.export.export(jax.jit(lambda x: x * 2), platforms=["tpu"])(jax.ShapeDtypeStruct((4,), np.float32))
  module = Module.from_exported(exported)
  found = explain(module)
  assert "lowered for tpu, and JAX's default platform is cpu" in str(found)
  with pytest.raises(PlatformError):
    call(module, _X)
  assert not explain(module, check_platform=False).refusals
  np.testing.assert_array_equal(call(module, _X, check_platform=False)[0], _X * 2)


def test_explain_says_that_a_custom_call_is_not_registered():
  (refusal,) = explain(Module.from_text(_OWN), allow_custom_calls=["my_double"]).refusals
  assert "'my_double' is registered for cpu" in refusal and "custom_calls={'my_double': function}" in refusal
  with pytest.raises(jax.errors.JaxRuntimeError, match="my_double"):
    call(Module.from_text(_OWN), _X, allow_custom_calls=["my_double"])
  assert not explain(Module.from_text(_OWN), custom_calls={"my_double": lambda op, x: [x * 2]}).refusals


def test_explain_finds_every_custom_call_where_places_are_not_known():
  text = """module { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.custom_call @first(%a) : (tensor<4xf32>) -> tensor<4xf32> loc(unknown)
    %1 = stablehlo.custom_call @second(%0) : (tensor<4xf32>) -> tensor<4xf32> loc(unknown)
    return %1 : tensor<4xf32> } }"""
  found = str(explain(Module.from_text(text), allow_custom_calls=["first", "second"]))
  assert [name in found for name in ("'first'", "'second'")] == [True, True]


def test_a_custom_call_that_xla_has_is_accepted():
  # jaxlib registers LAPACK's routines for the CPU.
  record = Record("custom call", "stablehlo.custom_call", "", "", ("lapack_sgeev_ffi", 4))
  missing = Record("custom call", "stablehlo.custom_call", "", "", ("lapack_nothing_ffi", 4))
  assert len(list(missing_targets([record, missing]))) == 1


def test_explain_of_a_64_bit_module_says_that_they_are_off():
  module = Module.from_text(_MHLO.replace("f32", "f64"))
  found = explain(module)
  assert found.plan == "lift with embedded ops"
  assert "argument 0 of the module is float64[4]" in found.refusals[0] and "64-bit types are disabled" in str(found)
  with pytest.raises(X64Error):
    call(module, _X.astype(np.float64))
  assert not explain(module, x64="enable").refusals


def test_a_64_bit_module_runs_where_it_may_turn_them_on():
  text = _OWN.replace("custom_call @my_double(%a) : (tensor<4xf32>) -> tensor<4xf32>", "sine %a : tensor<4xf32>")
  module = Module.from_text(text.replace("f32", "f64"))
  x = np.linspace(0, 1, 4)
  (result,) = call(module, x, x64="enable")
  assert result.dtype == np.float64
  np.testing.assert_allclose(result, np.sin(x), rtol=1e-14)


@pytest.mark.parametrize("user", [lift, embed, explain, call])
def test_what_is_no_module_is_told_how_to_become_one(user):
  exported = jax.export.export(jax.jit(lambda x: x * 2))(jax.ShapeDtypeStruct((4,), np.float32))
  for given, hint in [
    (exported, rf"{user.__name__}: got an Exported; .*Module.from_exported\(exported\)"),
    ("m.mlir", r"got a str 'm.mlir'; .*read_bytes"),
    (b"ML", r"got a bytes b'ML'; .*Module.from_bytes"),
    (lambda x: x, "got a function; .*need no conversion"),
    (None, "got None; expected a Module"),
  ]:
    with pytest.raises(ArgumentError, match=hint):
      user(given)


_RECURSIVE = """module { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = call @again(%a) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32> }
  func.func private @again(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = call @main(%a) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32> } }"""


@pytest.mark.parametrize(
  ("text", "message"),
  [
    (_RECURSIVE, "calls itself"),
    (_WHOLE, "stablehlo.recv at -:3:10 exchanges data with the process that exported it"),
    (_CALLBACK, "stablehlo.custom_call at f.py:3:1 calls a function of the process that exported it"),
  ],
)
def test_what_would_end_or_stop_the_process_is_not_embedded(text, message):
  module = Module.from_text(text)
  for function in (embed, lambda module: call(module, _X)):
    with pytest.raises(UnsupportedModuleError, match=message):
      function(module)
  assert message in str(explain(module))


def test_call_does_not_compute_a_collective_on_one_device_alone():
  module = Module.from_text("""module { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.all_reduce"(%a) ({ ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %s = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %s : tensor<f32> }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}
      : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32> } }""")
  with pytest.raises(UnsupportedModuleError, match=r"communicates between devices in groups \[\[0, 1\]\]"):
    call(module, _X)
  assert "fails here: the module cannot be embedded" in str(explain(module))


def test_embedded_module_never_cuts_64_bits():
  module = Module.from_text(
    _OWN.replace("stablehlo.custom_call @my_double(%a) :", "stablehlo.negate %a :").replace("f32", "i64")
  )
  x = np.array([2**40, 1, 2, 3])
  with pytest.raises(X64Error, match=r"argument 0 of the module is int64\[4\]"):
    embed(module)(x)
  np.testing.assert_array_equal(embed(module, x64="enable")(x)[0], -x)
  with jax.enable_x64(True):
    np.testing.assert_array_equal(embed(module)(x)[0], -x)


def test_options_of_embed_are_checked():
  with pytest.raises(ValueError, match="gradient='primary'; expected one of"):
    embed(Module.from_text(_MHLO), gradient="primary")


def test_result_whose_shape_depends_on_data_is_a_typed_error():
  module = Module.from_text("""func.func @main(%n: tensor<1xi32>) -> tensor<?xf32> {
    %0 = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
    return %0 : tensor<?xf32> }""")
  with pytest.raises(UnsupportedModuleError, match=r"its results \(float32\[\?\]\) have shapes that depend on data"):
    call(module, np.array([3], np.int32))


def test_call_does_not_run_what_is_per_device_as_a_whole():
  module = Module.from_text("""module { sdy.mesh @mesh = <["x"=2]>
    func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
      %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"}
        (%b: tensor<2xf32>) { sdy.return %b : tensor<2xf32> } : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32> } }""")
  with pytest.raises(UnsupportedModuleError, match="runs separately on each device of a mesh; lift it with that mesh"):
    call(module, _X)
