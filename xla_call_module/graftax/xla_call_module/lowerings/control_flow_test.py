import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.xla_call_module import Module, lift


def _lift(function, *specs, loops="scan"):
  return lift(Module.from_exported(jax.export.export(jax.jit(function))(*specs)), gradient="primal", loops=loops)


def _primitives(function, *args):
  return str(jax.make_jaxpr(function)(*args))


_N = 5


def _forward(x):
  return lax.scan(lambda c, a: (c + jnp.sin(a), c * a), jnp.float32(0), x)


def _backward(x):
  return lax.scan(lambda c, a: (c * a, c), jnp.float32(1), x, reverse=True)


def _counted(x):
  def body(s):
    i, total, out = s
    return i + 1, total + x[i] ** 2, out.at[i].set(total)

  return lax.while_loop(lambda s: s[0] < _N, body, (0, jnp.float32(0), jnp.zeros(_N)))[1:]


def _counted_down(x):
  def body(s):
    i, total, out = s
    i = i - 1
    return i, total + x[i] ** 2, lax.dynamic_update_index_in_dim(out, total, i, 0)

  return lax.while_loop(lambda s: s[0] > 0, body, (_N, jnp.float32(0), jnp.zeros(_N)))[1:]


def _greater_equal(x):
  return lax.while_loop(lambda s: s[0] <= _N - 1, lambda s: (s[0] + 1, s[1] * x[s[0]]), (0, jnp.float32(1)))[1]


def _not_equal(x):
  return lax.while_loop(lambda s: s[0] != 2 * _N, lambda s: (s[0] + 2, s[1] + x[s[0] // 2]), (0, jnp.float32(1)))[1]


def _fori(x):
  return lax.fori_loop(0, _N, lambda i, c: c.at[i].multiply(x[_N - 1 - i]), x)


def _offset(x):
  return lax.fori_loop(3, 3 + _N, lambda i, c: c + x[i - 3] * i, jnp.float32(0))


def _two_counters(x):
  def body(s):
    return (s[0] + 1, s[1] - 1, s[2] + x[s[1]])

  return lax.while_loop(lambda s: s[0] < _N, body, (0, _N - 1, jnp.float32(0)))[2]


def _doubling(x):
  return lax.while_loop(lambda s: s[0] < 100, lambda s: (s[0] * 2, s[1] * jnp.sin(x).sum()), (3, jnp.float32(1)))[1]


_LOOPS = [
    _forward, _backward, _counted, _counted_down, _greater_equal, _not_equal, _fori, _offset, _two_counters, _doubling,
]  # fmt: skip


@pytest.mark.parametrize("function", _LOOPS, ids=lambda f: f.__name__.strip("_"))
def test_loop_of_known_length_is_a_scan_and_has_a_reverse_derivative(function):
  x = jnp.linspace(0.2, 1.3, _N)
  lifted = _lift(function, jax.ShapeDtypeStruct((_N,), np.float32))
  text = _primitives(lifted, x)
  assert "scan[" in text and "while[" not in text
  for got, want in zip(lifted(x), jax.tree.leaves(function(x)), strict=True):
    np.testing.assert_allclose(got, want, rtol=1e-5)

  def total(f):
    return lambda x: sum(jnp.sum(out) for out in jax.tree.leaves(f(x)))

  forward = jax.jacfwd(total(function))(x)
  np.testing.assert_allclose(jax.grad(total(lifted))(x), forward, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("function", _LOOPS, ids=lambda f: f.__name__.strip("_"))
def test_every_loop_stays_a_while_loop_when_asked_to(function):
  x = jnp.linspace(0.2, 1.3, _N)
  lifted = _lift(function, jax.ShapeDtypeStruct((_N,), np.float32), loops="while")
  text = _primitives(lifted, x)
  assert "while[" in text and "scan[" not in text
  for got, want in zip(lifted(x), jax.tree.leaves(function(x)), strict=True):
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_counting_the_trips_of_a_long_loop_takes_no_memory():
  lifted = _lift(lambda x: lax.fori_loop(0, 30_000_000, lambda i, c: c + i, x), jax.ShapeDtypeStruct((), np.int32))
  tracemalloc.start()
  try:
    text = _primitives(lifted, np.int32(0))
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
  finally:
    tracemalloc.stop()
  assert "length=30000000" in text


def test_scanned_slices_and_stacked_results_become_xs_and_ys():
  lifted = _lift(_forward, jax.ShapeDtypeStruct((_N,), np.float32))
  text = _primitives(lifted, np.ones(_N, np.float32))
  assert "dynamic_slice" not in text and "dynamic_update_slice" not in text


def test_reversed_indices_become_a_reverse_scan():
  lifted = _lift(_backward, jax.ShapeDtypeStruct((_N,), np.float32))
  assert "reverse=True" in _primitives(lifted, np.ones(_N, np.float32))


def test_loop_whose_length_depends_on_data_stays_a_while_loop():
  def function(x):
    return lax.while_loop(lambda c: c.sum() < 9, lambda c: c * 2, x)

  lifted = _lift(function, jax.ShapeDtypeStruct((2,), np.float32))
  x = np.ones(2, np.float32)
  assert "while[" in _primitives(lifted, x)
  np.testing.assert_array_equal(lifted(x)[0], function(x))


def test_loop_whose_length_depends_on_data_has_a_reverse_derivative():
  lifted = _lift(
    lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: c * 2, x), jax.ShapeDtypeStruct((2,), np.float32)
  )
  np.testing.assert_array_equal(jax.grad(lambda x: lifted(x)[0].sum())(np.ones(2, np.float32)), [8, 8])


@pytest.mark.parametrize("loops", ["scan", "while"])
def test_loop_of_no_trips_returns_its_initial_values(loops):
  lifted = _lift(
    lambda x: lax.fori_loop(3, 3, lambda i, c: c + 1, x), jax.ShapeDtypeStruct((2,), np.float32), loops=loops
  )
  np.testing.assert_array_equal(lifted(np.ones(2, np.float32))[0], np.ones(2))


@pytest.mark.parametrize("loops", ["scan", "while"])
def test_partly_written_buffer_keeps_its_initial_values(loops):
  def function(x):
    return lax.fori_loop(0, 3, lambda i, c: c.at[i].set(i * 2.0), x)

  lifted = _lift(function, jax.ShapeDtypeStruct((_N,), np.float32), loops=loops)
  x = np.full(_N, 9, np.float32)
  np.testing.assert_array_equal(lifted(x)[0], [0, 2, 4, 9, 9])


@pytest.mark.parametrize("loops", ["scan", "while"])
def test_counter_that_overflows_does_not_fool_the_trip_count(loops):
  text = """module { func.func public @main(%x: tensor<f32>) -> tensor<f32> {
    %zero = stablehlo.constant dense<120> : tensor<i8>
    %one = stablehlo.constant dense<3> : tensor<i8>
    %limit = stablehlo.constant dense<126> : tensor<i8>
    %r:2 = stablehlo.while(%i = %zero, %c = %x) : tensor<i8>, tensor<f32> cond {
      %p = stablehlo.compare LE, %i, %limit : (tensor<i8>, tensor<i8>) -> tensor<i1>
      %q = stablehlo.constant dense<0> : tensor<i8>
      %s = stablehlo.compare GT, %i, %q : (tensor<i8>, tensor<i8>) -> tensor<i1>
      %t = stablehlo.and %p, %s : tensor<i1>
      stablehlo.return %t : tensor<i1>
    } do {
      %i2 = stablehlo.add %i, %one : tensor<i8>
      %c2 = stablehlo.add %c, %c : tensor<f32>
      stablehlo.return %i2, %c2 : tensor<i8>, tensor<f32>
    }
    return %r#1 : tensor<f32> } }"""
  assert float(lift(Module.from_text(text), loops=loops)(np.float32(1))[0]) == 2.0**3


_CASE = """module { func.func public @main(%i: tensor<i32>, %x: tensor<f32>) -> tensor<f32> {
  %r = "stablehlo.case"(%i) ({
    stablehlo.return %x : tensor<f32> }, {
    %a = stablehlo.add %x, %x : tensor<f32>
    stablehlo.return %a : tensor<f32> }, {
    %b = stablehlo.multiply %x, %x : tensor<f32>
    stablehlo.return %b : tensor<f32> }) : (tensor<i32>) -> tensor<f32>
  return %r : tensor<f32> } }"""


@pytest.mark.parametrize("index, want", [(0, 5.0), (1, 10.0), (2, 25.0), (3, 25.0), (-1, 25.0), (-(2**31), 25.0)])
def test_case_out_of_range_takes_the_last_branch(index, want):
  function = lift(Module.from_text(_CASE))
  assert float(function(np.int32(index), np.float32(5))[0]) == want
  assert float(jax.vmap(function, (0, None))(np.array([index]), np.float32(5))[0][0]) == want


@pytest.mark.parametrize("loops", ["scan", "while"])
def test_tokens_are_threaded_through_a_loop(loops):
  text = """module { func.func public @main(%t: !stablehlo.token, %x: tensor<f32>) -> (!stablehlo.token, tensor<f32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %n = stablehlo.constant dense<4> : tensor<i32>
    %r:3 = stablehlo.while(%i = %zero, %u = %t, %c = %x) : tensor<i32>, !stablehlo.token, tensor<f32> cond {
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %v = stablehlo.after_all %u : !stablehlo.token
      %s = stablehlo.sine %c : tensor<f32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %v, %s : tensor<i32>, !stablehlo.token, tensor<f32>
    }
    return %r#1, %r#2 : !stablehlo.token, tensor<f32> } }"""
  module = Module.from_text(text)
  assert len(module.inputs) == len(module.outputs) == 1
  x = np.float32(0.5)
  np.testing.assert_allclose(lift(module, loops=loops)(x)[0], np.sin(np.sin(np.sin(np.sin(x)))), rtol=1e-6)
  if loops == "scan":
    assert jax.grad(lambda x: lift(module)(x)[0])(x) > 0


_LOGGED = """module {
  func.func public @main(%a: tensor<f32>) -> tensor<f32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %x = %a) : tensor<i32>, tensor<f32> cond {
      %n = stablehlo.constant dense<3> : tensor<i32>
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %u = func.call @log(%x) : (tensor<f32>) -> tensor<f32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %y = stablehlo.add %x, %x : tensor<f32>
      stablehlo.return %j, %y : tensor<i32>, tensor<f32>
    }
    return %r#1 : tensor<f32> }
  func.func private @log(%a: tensor<f32>) -> tensor<f32> {
    SINES
    %r = stablehlo.custom_call @logger(%s9) {has_side_effect = true, api_version = 4 : i32, backend_config = {}}
      : (tensor<f32>) -> tensor<f32>
    return %r : tensor<f32> } }"""


def test_effects_in_functions_that_a_loop_calls_are_kept():
  # Long enough that the call is not replaced by its ops.
  sines = "\n".join(f"%s{i + 1} = stablehlo.sine %{f's{i}' if i else 'a'} : tensor<f32>" for i in range(9))
  jaxpr = str(
    jax.make_jaxpr(lift(Module.from_text(_LOGGED.replace("SINES", sines)), allow_custom_calls=["logger"]))(
      np.float32(1)
    )
  )
  assert "scan" in jaxpr and "logger" in jaxpr
