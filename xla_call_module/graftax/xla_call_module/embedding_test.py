"""Embedded modules beside the functions that were exported."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, monitoring

from graftax.xla_call_module import ArgumentError, Module, RefinementError, UnsupportedModuleError, embed, lift

_X = np.arange(4, dtype=np.float32)


def _softmax(x):
  return jax.nn.softmax(x, axis=0), x.shape[0] * jnp.ones(())


def _exported(function, *shapes):
  return export.export(jax.jit(function))(*(jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes))


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


def test_polymorphic_module_runs_for_any_static_shape():
  function = embed(Module.from_exported(_exported(_softmax, export.symbolic_shape("n, 3"))))
  for n in (1, 5):
    x = np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32)
    for got, want in zip(function(x), _softmax(x), strict=True):
      np.testing.assert_allclose(got, want, rtol=1e-6)
  with pytest.raises(RefinementError, match="needs static shapes"):
    export.export(jax.jit(function))(jax.ShapeDtypeStruct(export.symbolic_shape("m, 3"), np.float32))
  with pytest.raises(ArgumentError, match="argument 0"):
    function(np.zeros((2, 4), np.float32))


@pytest.mark.parametrize("make", [lift, embed])
def test_disabling_jit_changes_nothing(make):
  function = make(Module.from_exported(_exported(_softmax, (4,))))
  with jax.disable_jit():
    np.testing.assert_allclose(function(_X)[0], jax.nn.softmax(_X), rtol=1e-6)


@pytest.mark.parametrize("make", [lift, embed])
def test_second_call_compiles_nothing(make):
  function = make(Module.from_exported(_exported(_softmax, (4,))))
  compiled = []

  def listen(event: str, duration_s: float, **details: object) -> None:
    compiled.append(event)

  jax.block_until_ready(function(_X))
  monitoring.register_event_duration_secs_listener(listen)
  try:
    jax.block_until_ready(function(_X))
    assert compiled == []
    jax.jit(lambda x: x + 0.5)(_X)
    assert compiled  # events do arrive
  finally:
    monitoring.unregister_event_duration_listener(listen)


@pytest.mark.parametrize(
  "body, message",
  [
    ('%0 = "vhlo.add_v1"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>', "vhlo.add_v1 is an op of stored"),
    *(
      (
        f"%s = stablehlo.constant dense<1> : {state}\n"
        f" %b, %1 = stablehlo.rng_bit_generator %s, algorithm = DEFAULT : ({state}) -> ({state}, tensor<4xui32>)\n"
        " %0 = stablehlo.convert %1 : (tensor<4xui32>) -> tensor<4xf32>",
        "has a state of type uint64",
      )
      for state in ("tensor<ui64>", "tensor<1xui64>")
    ),
  ],
)
def test_what_xla_would_refuse_with_an_error_of_its_own_is_refused_before(body, message):
  kind = "tensor<4xf32>"
  text = f"module {{ func.func public @main(%x: {kind}) -> {kind} {{\n {body}\n return %0 : {kind} }} }}"
  with pytest.raises(UnsupportedModuleError, match=message):
    embed(Module.from_text(text))
