import pickle

import jax
import numpy as np
import pytest

from graftax.xla_call_module import (
  Module,
  UnsupportedModuleError,
  call,
  embed,
  explain,
  lift,
  register_custom_call,
  registry,
)

_X = np.arange(4, dtype=np.float32)
_CALLBACK = """module { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.sine %a : tensor<4xf32>
  %1 = stablehlo.custom_call @xla_python_cpu_callback(%0) : (tensor<4xf32>) -> tensor<4xf32> loc("f.py":3:1)
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
  found = explain(Module.from_text(_CALLBACK))
  assert found.plan == "lift with embedded ops"
  (obstacle,) = found.obstacles
  assert obstacle.op == "stablehlo.custom_call" and obstacle.location == "f.py:3:1" and obstacle.embeds
  assert "f.py:3:1" in str(found)


def test_embedded_op_runs_and_the_rest_stays_jax():
  module = Module.from_text(_COLLECTIVE)
  assert explain(module).plan == "lift with embedded ops"
  np.testing.assert_allclose(call(module, _X)[0], np.sin(_X), rtol=1e-6)
  mapped = jax.vmap(lambda x: call(module, x)[0])(np.stack([_X, -_X]))
  np.testing.assert_allclose(mapped[1], np.sin(-_X), rtol=1e-6)
  np.testing.assert_allclose(jax.grad(lambda x: call(module, x)[0].sum())(_X), np.cos(_X), rtol=1e-6)


def test_embedded_module_batches_by_a_loop_and_traces_abstractly():
  module = Module.from_text("""module {
    func.func public @main(%a: tensor<4xf32>, %b: tensor<f32>) -> (tensor<4xf32>, tensor<f32>) {
    %0 = stablehlo.sine %a : tensor<4xf32>
    return %0, %b : tensor<4xf32>, tensor<f32> } }""")
  function = embed(module)
  batched, kept = jax.jit(jax.vmap(function, (0, None)))(np.stack([_X, _X + 1]), np.float32(2))
  np.testing.assert_allclose(batched, np.sin(np.stack([_X, _X + 1])), rtol=1e-6)
  np.testing.assert_array_equal(kept, [2, 2])
  assert [out.shape for out in jax.eval_shape(function, _X, np.float32(2))] == [(4,), ()]


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
  module = Module.from_text(_CALLBACK)
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


def test_options_that_embedding_cannot_honour_are_not_dropped():
  module = Module.from_text(_WHOLE)
  assert explain(module).plan == "embed"
  assert explain(module, loops="while").plan == "embed"
  with pytest.raises(UnsupportedModuleError, match="embedding it as a whole would leave out x64, custom_calls"):
    explain(module, x64="enable", custom_calls={"a": lambda op: []})
