import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module import LiftError, Module, embed, lift
from graftax.xla_call_module.lowerings import random

_NORMAL = """module {{ func.func public @main(%mean: tensor<{0}>, %deviation: tensor<{0}>) -> tensor<10000x{0}> {{
  %shape = stablehlo.constant dense<10000> : tensor<1xi64>
  %r = stablehlo.rng %mean, %deviation, %shape, distribution = NORMAL
    : (tensor<{0}>, tensor<{0}>, tensor<1xi64>) -> tensor<10000x{0}>
  return %r : tensor<10000x{0}> }} }}"""


@pytest.mark.parametrize("kind, dtype", [("f32", np.float32), ("f16", np.float16), ("bf16", jnp.bfloat16)])
def test_normal_numbers_are_normal(kind, dtype):
  found = lift(Module.from_text(_NORMAL.format(kind)))(dtype(3), dtype(2))[0].astype(np.float32)
  assert np.isfinite(found).all()
  # Ten thousand numbers: five standard errors of the mean and of the deviation.
  np.testing.assert_allclose([found.mean(), found.std()], [3, 2], atol=0.1)


@pytest.mark.parametrize("kind, dtype", [("f32", np.float32), ("f16", np.float16), ("bf16", jnp.bfloat16)])
@pytest.mark.parametrize("end", [0, 1])
def test_normal_numbers_are_finite_at_both_ends_of_the_uniform_ones(monkeypatch, kind, dtype, end):
  monkeypatch.setattr(random.lax, "rng_uniform", lambda *bounds_and_shape: jnp.full((10000,), bounds_and_shape[end]))
  assert np.isfinite(lift(Module.from_text(_NORMAL.format(kind)))(dtype(0), dtype(1))[0].astype(np.float32)).all()


_BITS = """module {{ func.func public @main(%s: tensor<{0}>) -> (tensor<{0}>, tensor<5xui32>) {{
  %new, %bits = stablehlo.rng_bit_generator %s, algorithm = {1} : (tensor<{0}>) -> (tensor<{0}>, tensor<5xui32>)
  return %new, %bits : tensor<{0}>, tensor<5xui32> }} }}"""


@pytest.mark.parametrize("algorithm", ["THREE_FRY", "PHILOX", "DEFAULT"])
def test_bits_are_those_of_xla_for_the_same_state(algorithm):
  state = np.array([1, 2, 3, 4], np.uint32)
  want = jax.lax.rng_bit_generator(state, (5,), algorithm=random._ALGORITHMS[algorithm])
  for got, expected in zip(lift(Module.from_text(_BITS.format("4xui32", algorithm)))(state), want, strict=True):
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("num_words", [2, 3])
@pytest.mark.parametrize("kind", ["ui8", "i16", "ui32", "i64", "f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("shape", ["0", "4", "3x7"])
def test_states_of_64_bit_words_give_the_bits_of_xla(num_words, kind, shape):
  state = np.array([0x123456789ABCDEF0, 2**64 - 2, 2**64 - 1][:num_words], np.uint64)
  types = f"(tensor<{num_words}xui64>, tensor<{shape}x{kind}>)"
  module = Module.from_text(f"""module {{ func.func public @main(%s: tensor<{num_words}xui64>) -> {types} {{
    %new, %bits = stablehlo.rng_bit_generator %s, algorithm = PHILOX : (tensor<{num_words}xui64>) -> {types}
    return %new, %bits : {types[1:-1]} }} }}""")
  with jax.enable_x64(True):
    new, bits = jax.jit(lift(module))(state)
    # XLA returns bits of every dtype as unsigned integers.
    wanted_state, wanted_bits = map(np.asarray, jax.jit(embed(module))(state))
  np.testing.assert_array_equal(new, wanted_state)
  np.testing.assert_array_equal(np.asarray(bits).view(wanted_bits.dtype), wanted_bits)


@pytest.mark.parametrize("num_words", [2, 3])
@pytest.mark.parametrize("kind", ["ui16", "ui32", "ui64", "f64"])
def test_batched_states_of_64_bit_words_give_the_bits_of_each(num_words, kind):
  states = np.arange(2 * num_words, dtype=np.uint64).reshape(2, num_words) * 2**31 + 2**63
  types = f"(tensor<{num_words}xui64>, tensor<5x{kind}>)"
  module = Module.from_text(f"""module {{ func.func public @main(%s: tensor<{num_words}xui64>) -> {types} {{
    %new, %bits = stablehlo.rng_bit_generator %s, algorithm = PHILOX : (tensor<{num_words}xui64>) -> {types}
    return %new, %bits : {types[1:-1]} }} }}""")
  with jax.enable_x64(True):
    function = lift(module)
    batched = jax.jit(jax.vmap(function))(states)
    for i, state in enumerate(states):
      for got, want in zip(batched, function(state), strict=True):
        np.testing.assert_array_equal(got[i], want)


def test_bits_of_a_state_of_three_words_may_have_an_open_size():
  text = """module { func.func public @main(%s: tensor<3xui64>, %x: tensor<?xf32>) -> (tensor<3xui64>, tensor<?xui32>) {
    %size = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
    %wide = stablehlo.convert %size : (tensor<i32>) -> tensor<i64>
    %shape = stablehlo.reshape %wide : (tensor<i64>) -> tensor<1xi64>
    %new, %bits = stablehlo.custom_call @stablehlo.dynamic_rng_bit_generator(%s, %shape)
      {rng_algorithm = #stablehlo<rng_algorithm PHILOX>} : (tensor<3xui64>, tensor<1xi64>)
      -> (tensor<3xui64>, tensor<?xui32>)
    return %new, %bits : tensor<3xui64>, tensor<?xui32> } }"""
  state = np.array([1, 2**64 - 1, 3], np.uint64)
  with jax.enable_x64(True):
    function = lift(Module.from_text(text))
    specs = jax.ShapeDtypeStruct((3,), np.uint64), jax.ShapeDtypeStruct(jax.export.symbolic_shape("n"), np.float32)
    exported = jax.export.export(jax.jit(function))(*specs)
    for size in (1, 7):
      x = np.zeros(size, np.float32)
      for got, want in zip(exported.call(state, x), function(state, x), strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_state_of_three_words_is_moved_without_64_bit_types():
  text = """module { func.func public @main(%s: tensor<6xui32>) -> (tensor<6xui32>, tensor<5xui32>) {
    %pairs = stablehlo.reshape %s : (tensor<6xui32>) -> tensor<3x2xui32>
    %state = stablehlo.bitcast_convert %pairs : (tensor<3x2xui32>) -> tensor<3xui64>
    %new, %bits = stablehlo.rng_bit_generator %state, algorithm = PHILOX
      : (tensor<3xui64>) -> (tensor<3xui64>, tensor<5xui32>)
    %moved = stablehlo.bitcast_convert %new : (tensor<3xui64>) -> tensor<3x2xui32>
    %flat = stablehlo.reshape %moved : (tensor<3x2xui32>) -> tensor<6xui32>
    return %flat, %bits : tensor<6xui32>, tensor<5xui32> } }"""
  module = Module.from_text(text)
  state = np.array([7, 1, 2**32 - 1, 2**32 - 1, 2**32 - 1, 5], np.uint32)
  for got, want in zip(jax.jit(lift(module))(state), jax.jit(embed(module))(state), strict=True):
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("size", [2, 3, 6])
def test_state_that_jax_does_not_take_raises(size):
  with pytest.raises(LiftError, match=f"its state has {size} words of 32 bits; expected 4, or 6 for PHILOX"):
    lift(Module.from_text(_BITS.format(f"{size}xui32", "THREE_FRY")))(np.ones(size, np.uint32))


@pytest.mark.parametrize("size", [4, 6])
@pytest.mark.parametrize("kind, dtype", [("i32", np.int32), ("f32", np.float32), ("ui16", np.uint16)])
def test_state_of_another_dtype_raises(kind, dtype, size):
  module = Module.from_text(_BITS.format(f"{size}x{kind}", "PHILOX"))
  with pytest.raises(LiftError, match=rf"its state is {np.dtype(dtype)}\[{size}\]; expected uint32 or uint64"):
    lift(module)(np.ones(size, dtype))


def test_shape_may_be_the_size_of_an_argument():
  text = """module { func.func public @main(%x: tensor<?xf32>) -> tensor<?xf32> {
    %size = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
    %shape = stablehlo.reshape %size : (tensor<i32>) -> tensor<1xi32>
    %low = stablehlo.constant dense<2.0> : tensor<f32>
    %high = stablehlo.constant dense<3.0> : tensor<f32>
    %r = stablehlo.rng %low, %high, %shape, distribution = UNIFORM
      : (tensor<f32>, tensor<f32>, tensor<1xi32>) -> tensor<?xf32>
    return %r : tensor<?xf32> } }"""
  (found,) = lift(Module.from_text(text))(np.zeros(7, np.float32))
  assert found.shape == (7,) and ((found >= 2) & (found < 3)).all()


def test_batched_states_give_the_bits_of_each_and_derivatives_pass():
  function = lift(Module.from_text(_BITS.format("4xui32", "THREE_FRY")))
  states = np.arange(12, dtype=np.uint32).reshape(3, 4)
  batched = jax.vmap(function)(states)
  for i, state in enumerate(states):
    for got, want in zip(batched, function(state), strict=True):
      np.testing.assert_array_equal(got[i], want)

  def noisy(x, state):
    return (x * function(state)[1].astype(np.float32)).sum()

  gradient = jax.vmap(jax.grad(noisy), (None, 0))(np.float32(1), states)
  np.testing.assert_allclose(gradient, np.asarray(batched[1]).astype(np.float32).sum(1), rtol=1e-6)
  again = jax.grad(jax.checkpoint(lambda x: jax.vmap(noisy, (None, 0))(x, states).sum()))(np.float32(1))
  np.testing.assert_allclose(again, gradient.sum(), rtol=1e-6)


def test_signed_bits_are_the_unsigned_ones():
  text = _BITS.format("4xui32", "THREE_FRY")
  state = np.arange(4, dtype=np.uint32)
  signed, plain = (lift(Module.from_text(t))(state)[1] for t in (text.replace("5xui32", "5xi32"), text))
  assert signed.dtype == np.int32
  np.testing.assert_array_equal(np.asarray(signed).view(np.uint32), plain)
