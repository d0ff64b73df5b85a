import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax

from graftax.xla_call_module import Module, ShapeAssertionError, embed, lift

_ROWS = {
  "mean": lambda x: (x - x.mean(0)) / x.shape[0],
  "flatten": lambda x: jnp.concatenate([x.reshape(-1), jnp.ones(x.shape[0])]),
  "arange": lambda x: x + jnp.arange(x.shape[0])[:, None],
  "pad": lambda x: jnp.pad(x, ((0, x.shape[0]), (0, 0))),
  "take": lambda x: jnp.take(x, jnp.array([0, 1]), axis=0) + x[jnp.arange(2)],
  "gram": lambda x: jnp.tanh(x @ x.T),
  "softmax": lambda x: jax.nn.softmax(x),
  "scan": lambda x: lax.scan(lambda c, a: (c + a.sum(), c), 0.0, x)[1],
  "cumsum": lambda x: jnp.cumsum(x, 0),
  "sort": lambda x: jnp.sort(x, 0),
  "top_k": lambda x: lax.top_k(x, 2)[0],
  "segment_sum": lambda x: jax.ops.segment_sum(x, jnp.zeros(x.shape[0], int), 3),
}


def _module(function, spec="b, 3"):
  return Module.from_exported(
    export.export(jax.jit(function))(jax.ShapeDtypeStruct(export.symbolic_shape(spec), np.float32))
  )


@pytest.mark.parametrize("name", list(_ROWS))
def test_polymorphic_module_runs_for_any_static_shape(name):
  function = _ROWS[name]
  module = _module(function)
  assert module.is_polymorphic
  lifted, opaque = lift(module, gradient="primal"), embed(module, gradient="primal")
  for rows in (2, 5):
    x = np.sin(np.arange(rows * 3, dtype=np.float32)).reshape(rows, 3)
    want = jax.jit(function)(x)
    np.testing.assert_allclose(lifted(x)[0], want, rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(opaque(x)[0], want, rtol=2e-5, atol=1e-6)

  def total(f):
    return jax.jit(jax.grad(lambda x: jnp.sum(f(x) ** 2)))

  np.testing.assert_allclose(total(lambda x: lifted(x)[0])(x), total(function)(x), rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("name", list(_ROWS))
def test_lifted_polymorphic_function_exports_with_symbolic_shapes_again(name):
  again = _module(lift(_module(_ROWS[name]), gradient="primal"))
  x = np.cos(np.arange(12, dtype=np.float32)).reshape(4, 3)
  np.testing.assert_allclose(lift(again, gradient="primal")(x)[0], jax.jit(_ROWS[name])(x), rtol=2e-5, atol=1e-6)


def test_computed_dimensions_stay_known():
  module = _module(lambda x: x[: x.shape[0] // 2] + x[-1], "2*b, 3")
  x = np.arange(12, dtype=np.float32).reshape(4, 3)
  np.testing.assert_array_equal(lift(module, gradient="primal")(x)[0], x[:2] + x[-1])


def test_shape_assertion_that_fails_says_why_and_can_be_disabled():
  module = _module(jnp.negative, "2*b, 3")
  x = np.ones((3, 3), np.float32)
  with pytest.raises(ShapeAssertionError, match=r"Division had remainder 1 when computing the value of 'b'"):
    lift(module)(x)
  np.testing.assert_array_equal(lift(module, check_shapes=False)(x)[0], -x)


def test_random_numbers_of_polymorphic_shape():
  module = _module(lambda x: x + jax.random.normal(jax.random.key(3), x.shape))
  x = np.zeros((4, 3), np.float32)
  np.testing.assert_allclose(lift(module)(x)[0], jax.random.normal(jax.random.key(3), (4, 3)), rtol=1e-5)


def test_batched_decomposition_of_open_batch_size():
  def function(x):
    return jnp.linalg.cholesky(x @ x.swapaxes(-1, -2) + 3 * jnp.eye(3))

  module = _module(function, "b, 3, 3")
  x = np.sin(np.arange(18, dtype=np.float32)).reshape(2, 3, 3)
  np.testing.assert_allclose(lift(module, gradient="primal")(x)[0], function(x), rtol=1e-5)
