import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module import DerivativeError, Module, check_gradients, embed, lift


@jax.custom_vjp
def _straight_through(x):
  return jnp.round(x)


_straight_through.defvjp(lambda x: (jnp.round(x), None), lambda _, ct: (ct,))


@jax.custom_vjp
def _clipped(x):
  return x * 1.0


_clipped.defvjp(lambda x: (x * 1.0, None), lambda _, ct: (jnp.clip(ct, -0.1, 0.1),))


@jax.custom_jvp
def _smooth_relu(x):
  return jnp.maximum(x, 0)


_smooth_relu.defjvp(lambda p, t: (_smooth_relu(p[0]), jnp.where(p[0] > 0, t[0], 0)))

_X = np.array([0.3, 1.7, 2.2], np.float32)


def _serialized(function, *args, order=2):
  pytest.importorskip("flatbuffers")  # JAX serializes an Exported with it and does not require it
  specs = [jax.ShapeDtypeStruct(np.shape(a), np.asarray(a).dtype) for a in args]
  return jax.export.export(jax.jit(function))(*specs).serialize(vjp_order=order)


def _module(function, *args, order=2):
  return Module.from_exported(_serialized(function, *args, order=order))


def _total(function, *rest):
  return lambda x: (function(x, *rest)[0] ** 2).sum()


def _quantized(x, i):
  return _straight_through(x) * x * i, i + 1


def test_stored_gradient_is_used_in_reverse_mode():
  module = _module(_quantized, _X, np.int32(2))
  want = jax.grad(_total(_quantized, np.int32(2)))(_X)
  for policy in ("auto", "saved"):
    got = jax.grad(_total(lift(module, gradient=policy), np.int32(2)))(_X)
    np.testing.assert_allclose(got, want, rtol=1e-5)
  primal = jax.grad(_total(lift(module, gradient="primal"), np.int32(2)))(_X)
  assert np.abs(np.asarray(primal) - want).max() > 1


def test_stored_gradient_batches_compiles_and_differentiates_again():
  module = _module(_quantized, _X, np.int32(2))
  function, reference = lift(module), _quantized
  batch = np.stack([_X, _X + 1])

  def mapped(f):
    return jax.jit(jax.vmap(jax.grad(_total(f, np.int32(2)))))(batch)

  np.testing.assert_allclose(mapped(function), mapped(reference), rtol=1e-5)

  def mixed(f):
    return jax.jacfwd(jax.grad(_total(f, np.int32(2))))(_X)

  np.testing.assert_allclose(mixed(function), mixed(reference), rtol=1e-5)


@pytest.mark.parametrize("policy", ["auto", "saved"])
def test_second_derivative_in_reverse_mode_is_that_of_exported_call(policy):
  def function(x):
    return [x * jax.lax.stop_gradient(x) + _smooth_relu(x - 1)]

  serialized = _serialized(function, _X)
  saved, lifted = jax.export.deserialize(serialized), lift(Module.from_exported(serialized), gradient=policy)

  def plain(f):
    return lambda x: jnp.sin(f(x)[0]).sum()

  def scanned(f):
    return lambda x: jax.lax.scan(lambda c, _: (f(c)[0] * 0.5 + x, None), x, None, length=3)[0].sum()

  def second(total):
    return jax.grad(lambda x: jnp.cos(jax.grad(total)(x)).sum())(_X)

  for total in (plain, scanned):
    got, want = (second(total(f)) for f in (lifted, saved.call))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(second(plain(lifted)), second(plain(function)), rtol=1e-5, atol=1e-6)


def test_auto_has_forward_mode_of_the_primal_and_saved_rejects_it():
  module = _module(_quantized, _X, np.int32(2))
  _, tangent = jax.jvp(_total(lift(module), np.int32(2)), (_X,), (_X,))
  _, primal = jax.jvp(_total(lift(module, gradient="primal"), np.int32(2)), (_X,), (_X,))
  np.testing.assert_allclose(tangent, primal, rtol=1e-6)
  with pytest.raises(DerivativeError, match="forward-mode"):
    jax.jvp(_total(lift(module, gradient="saved"), np.int32(2)), (_X,), (_X,))


def test_saved_without_a_gradient_is_an_error_and_auto_uses_the_primal():
  module = _module(lambda x: [jnp.sin(x)], _X, order=0)
  with pytest.raises(DerivativeError, match="has no gradient function"):
    lift(module, gradient="saved")
  np.testing.assert_allclose(jax.grad(lambda x: lift(module)(x)[0].sum())(_X), np.cos(_X), rtol=1e-6)


@pytest.mark.parametrize(
  "function, x, saved, primal",
  [
    (lambda x: [_straight_through(x)], _X, 1.0, 0.0),
    (lambda x: [_clipped(x)], _X, 0.1, 1.0),
    (lambda x: [_smooth_relu(x)], np.zeros(3, np.float32), 0.0, 0.5),
  ],
  ids=["straight-through", "clipped", "relu at 0"],
)
def test_check_reports_where_the_gradients_differ(function, x, saved, primal):
  (difference,) = check_gradients(_module(function, x), x)
  assert difference.argument == 0 and difference.num_different == 3
  np.testing.assert_allclose([difference.saved, difference.primal], [saved, primal], rtol=1e-5)


def test_check_finds_nothing_where_they_agree_and_finds_the_gamma_sampler():
  assert check_gradients(_module(lambda x: [jnp.sin(x) * x], _X), _X) == ()

  def sample(k, a):
    return [jax.random.gamma(jax.random.wrap_key_data(k), a)]

  key, shape = np.array([0, 3], np.uint32), np.array([0.7, 2.0], np.float32)
  module = _module(sample, key, shape, order=1)
  want = jax.grad(lambda a: sample(key, a)[0].sum())(shape)
  np.testing.assert_allclose(jax.grad(lambda a: lift(module)(key, a)[0].sum())(shape), want, rtol=1e-4)


def test_live_exported_derives_its_gradient_when_asked():
  exported = jax.export.export(jax.jit(lambda x: [_straight_through(x)]))(jax.ShapeDtypeStruct((3,), np.float32))
  module = Module.from_exported(exported)
  assert module.has_gradient
  np.testing.assert_array_equal(jax.grad(lambda x: lift(module)(x)[0].sum())(_X), np.ones(3))


def test_embedded_module_has_the_stored_gradient():
  module = _module(_quantized, _X, np.int32(2))
  np.testing.assert_allclose(
    jax.grad(_total(embed(module), np.int32(2)))(_X), jax.grad(_total(_quantized, np.int32(2)))(_X), rtol=1e-5
  )
  plain = _module(lambda x: [jnp.sin(x)], _X, order=0)
  with pytest.raises(DerivativeError, match="reverse mode needs a gradient function"):
    jax.grad(lambda x: embed(plain)(x)[0].sum())(_X)


def test_stored_gradient_of_a_polymorphic_module_with_integer_results():
  def classify(w, x):
    return x @ w, jnp.argmax(x @ w, 1), x.sum(0)

  (rows,) = jax.export.symbolic_shape("rows")
  w, x = np.ones((3, 2), np.float32), np.arange(12, dtype=np.float32).reshape(4, 3)
  shape = jax.ShapeDtypeStruct((rows, 3), np.float32)
  module = Module.from_exported(jax.export.export(jax.jit(classify))(w, shape))
  want = jax.grad(lambda w: (classify(w, x)[0] ** 2).sum())(w)
  for function in (lift(module), lift(module, gradient="saved"), embed(module)):
    np.testing.assert_allclose(jax.grad(_first(function, x))(w), want, rtol=1e-5)
  for policy in ("auto", "saved"):
    gradient = jax.grad(lambda w, x, policy=policy: _first(lift(module, gradient=policy), x)(w))
    np.testing.assert_allclose(jax.export.export(jax.jit(gradient))(w, shape).call(w, x), want, rtol=1e-5)
  assert check_gradients(module, w, x) == ()


def _first(function, x):
  return lambda w: (function(w, x)[0] ** 2).sum()


def test_gradient_that_jax_cannot_make_is_a_typed_error():
  def halve(x):
    return jax.lax.while_loop(lambda x: x.sum() > 1, lambda x: x / 2, x)

  exported = jax.export.export(jax.jit(halve))(jax.ShapeDtypeStruct((3,), np.float32))
  module = Module.from_exported(exported)
  with pytest.raises(DerivativeError, match="JAX cannot differentiate the exported function 'halve': Reverse-mode"):
    jax.grad(lambda x: lift(module)(x)[0].sum())(_X)
  got = jax.grad(lambda x: lift(module, gradient="primal")(x)[0].sum())(_X)
  np.testing.assert_allclose(got, np.full(3, 0.125))


def test_check_finds_nothing_where_nothing_has_derivatives():
  exported = jax.export.export(jax.jit(lambda i: i + 1))(jax.ShapeDtypeStruct((3,), np.int32))
  assert check_gradients(Module.from_exported(exported), np.arange(3, dtype=np.int32)) == ()
