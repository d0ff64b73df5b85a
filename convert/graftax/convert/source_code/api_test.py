"""Programs are written, run from their text and compared with the functions that they were written from."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.convert.source_code import SourceError, to_source

_X = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
_IMAGES = np.random.default_rng(1).normal(size=(2, 9, 9, 3)).astype(np.float32)
_KERNEL = np.random.default_rng(2).normal(size=(3, 3, 3, 4)).astype(np.float32)
_IDS = np.array([[1, 0, 3], [2, 2, 1]])
_KEY = jax.random.key(3)


def _check(fn, *args, gradient=True):
  """Compares the function of the text with `fn`: values, gradients and result types."""
  source = to_source(fn, *args)
  given = args
  written = source.function()
  if isinstance(args[0], dict):
    given = (source.parameters(args[0]), *args[1:])
  want, got = jax.jit(fn)(*args), jax.jit(written)(*given)
  assert jax.tree.structure(want) == jax.tree.structure(got)
  jax.tree.map(np.testing.assert_array_equal, want, got)
  jax.tree.map(lambda a, b: np.testing.assert_equal(a.dtype, b.dtype), want, got)
  inexact = [
    i for i, x in enumerate(args) if not isinstance(x, dict) and jnp.issubdtype(jnp.asarray(x).dtype, np.inexact)
  ]
  if gradient and inexact:

    def total(function):
      def call(*xs):
        leaves = [leaf for leaf in jax.tree.leaves(function(*xs)) if jnp.issubdtype(leaf.dtype, np.inexact)]
        return sum(
          jnp.sum(jnp.real(leaf) * jnp.arange(1, leaf.size + 1, dtype=np.float32).reshape(leaf.shape))
          for leaf in leaves
        )

      return jax.jit(jax.grad(call, inexact))

    for a, b in zip(total(fn)(*args), total(written)(*given), strict=True):
      np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-6)
  return source


@jax.custom_vjp
def _clipped(x, y):
  return x * y


_clipped.defvjp(lambda x, y: (x * y, (x, y)), lambda saved, ct: (jnp.clip(ct * saved[1], -1, 1), None))


@jax.custom_jvp
def _exp(x):
  return jnp.exp(x)


@_exp.defjvp
def _exp_jvp(primals, tangents):
  y = _exp(*primals)
  return y, 2 * y * tangents[0]


_FUNCTIONS = {
  "elementwise": (lambda x: jnp.tanh(x) + jnp.sin(x) * 2 - jnp.exp(-jnp.abs(x)) / (x**2 + 1), _X),
  "powers": (lambda x: jnp.sqrt(jnp.abs(x)) + x**3 + jnp.abs(x) ** 0.5 + jnp.cbrt(x) + lax.rsqrt(x * x + 1), _X),
  "comparisons": (lambda x: jnp.where((x > 0) & ~(x >= 1) | (x == 2), x, -x), _X),
  "integers": (lambda i: (i // 2, i % 3, i << 1, i >> 1, i ^ 5, i.astype(np.float32) / 2, lax.div(i, 2)), _IDS),
  "softmax": (lambda x: jax.nn.softmax(x), _X),
  "losses": (lambda x: jax.nn.log_softmax(x, axis=0) + jax.nn.logsumexp(x, axis=1, keepdims=True), _X),
  "activations": (lambda x: jax.nn.relu(x) + jax.nn.gelu(x) + jax.nn.silu(x) + jax.nn.elu(x) + jax.nn.softplus(x), _X),
  "statistics": (lambda x: (x - jnp.mean(x, -1, keepdims=True)) / jnp.sqrt(jnp.var(x, -1, keepdims=True) + 1e-5), _X),
  "reductions": (lambda x: (x.sum(), x.max(0), x.min(1), x.prod(0), (x > 0).all(), (x > 0).any(0), x.argmax(1)), _X),
  "running": (lambda x: (jnp.cumsum(x, 1), lax.cummax(x, 0), lax.cumsum(x, 0, reverse=True)), _X),
  "sorting": (lambda x: (jnp.sort(x, 0), lax.top_k(x, 2), jnp.argsort(x, 1)), _X),
  "shapes": (
    lambda x: (x.reshape(2, 2, 8), x.T, x[:, None], x[..., None, :], x.reshape(-1), x[1:3, ::2], x[:, -1]),
    _X,
  ),
  "joining": (
    lambda x: (jnp.concatenate([x, x * 2], -1), jnp.stack([x, x]), jnp.tile(x, 2), jnp.pad(x, ((1, 2), (0, 0)))),
    _X,
  ),
  "splitting": (lambda x: (*jnp.split(x, 2, -1), *jnp.split(x, [1, 3], 0), jnp.flip(x, 0), jnp.roll(x, 1, 1)), _X),
  "products": (
    lambda x: (x @ x.T, jnp.einsum("ij,kj->ik", x, x), jnp.einsum("bi,bj->bij", x, x), jnp.dot(x, x[0])),
    _X,
  ),
  "convolutions": (
    lambda x, w: (
      lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
      lax.conv_general_dilated(x, w, (1, 1), "VALID", rhs_dilation=(2, 2), dimension_numbers=("NHWC", "HWIO", "NHWC")),
      lax.conv_transpose(x, w, (2, 2), "SAME"),
    ),
    _IMAGES,
    _KERNEL,
  ),
  "pooling": (
    lambda x: (
      lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME"),
      lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "VALID"),
    ),
    _IMAGES,
  ),
  "gathers": (lambda x, i: (jnp.take(x, i, axis=0), x[i], jnp.take(x, i, 1, mode="clip"), x[i, 1]), _X, _IDS),
  "scatters": (lambda x, i: (x.at[i, 0].add(1.0), x.at[i].set(2.0), x.at[:, 2].mul(3.0)), _X, _IDS),
  "positions": (lambda x: x * jnp.arange(8) + jnp.eye(4, 8) + jnp.linspace(0, 1, 8), _X),
  "constants": (lambda x: x + np.arange(20, dtype=np.float32).reshape(4, 5)[:, :1] ** 2 + np.float32([1, 5] * 4), _X),
  "scan": (lambda x: lax.scan(lambda c, row: (c * 0.5 + row, c.sum()), x[0], x), _X),
  "reverse scan": (lambda x: lax.scan(lambda c, _: (jnp.sin(c) * x, None), x, None, length=3, reverse=True)[0], _X),
  "map": (lambda x: lax.map(lambda row: jnp.tanh(row) @ x.T, x), _X),
  "cond": (lambda x: lax.cond(x.sum() > 0, lambda: jnp.sin(x), lambda: x * 2), _X),
  "switch": (lambda x, i: lax.switch(i[0, 0], [lambda x: x, lambda x: x * 2, jnp.sin], x), _X, _IDS),
  "custom vjp": (lambda x: _clipped(x, jnp.cos(x)) + _clipped(x * 2, x), _X),
  "custom jvp": (lambda x: _exp(x) + _exp(_exp(x * 0.1)), _X),
  "checkpoint": (lambda x: jax.checkpoint(lambda x: jnp.sin(jnp.sin(x) @ x.T))(x) * 2, _X),
  "checkpoint with a policy": (
    lambda x: jax.checkpoint(lambda x: jnp.sin(x @ x.T), policy=jax.checkpoint_policies.dots_saveable)(x),
    _X,
  ),
  "jit": (lambda x: jax.jit(lambda a: jnp.sin(a) + 1)(x) * jax.jit(jnp.cos)(x), _X),
  "vmap": (lambda x: jax.vmap(lambda row: jnp.outer(row, row) @ row)(x), _X),
  "gradient inside": (lambda x: jax.grad(lambda x: (jnp.tanh(x) ** 2).sum())(x), _X),
  "linear algebra": (
    lambda x: (jnp.linalg.cholesky(x @ x.T + 4 * jnp.eye(4)), jnp.linalg.inv(x @ x.T + jnp.eye(4))),
    _X,
  ),
  "fft": (lambda x: jnp.abs(jnp.fft.rfft(x)) + jnp.real(jnp.fft.fft(x))[:, :5], _X),
  "bfloat16": (lambda x: (x.astype(jnp.bfloat16) * 1.1 + 2).sum(1).astype(np.float32), _X),
  "parameters": (lambda p, x: jax.nn.relu(x @ p["w"] + p["b"]["c"]), {"w": _X.T, "b": {"c": _X[0, :4]}}, _X),
  "nested arguments": (lambda a, b: {"sum": a[0] + b["x"], "rest": [None, (b["y"],)]}, (_X,), {"x": _X, "y": _X}),
}


_QUICK = ("elementwise", "softmax", "shapes", "scan", "cond", "custom vjp", "custom jvp", "checkpoint", "parameters")


@pytest.mark.parametrize(
  "name", [pytest.param(name, marks=() if name in _QUICK else pytest.mark.slow) for name in _FUNCTIONS]
)
def test_the_text_is_the_function(name):
  fn, *args = _FUNCTIONS[name]
  _check(fn, *args)


_WITHOUT_GRADIENT = {
  "while": (lambda x: lax.while_loop(lambda c: c[1].sum() < 40, lambda c: (c[0] + 1, c[1] + jnp.abs(x)), (0, x)), _X),
  "random": (
    lambda key, x: (
      jax.random.normal(key, (3,)),
      jax.random.uniform(jax.random.split(key)[0], (2, 2)),
      jax.random.bernoulli(jax.random.fold_in(key, 1), 0.3, (4,)),
      jax.random.randint(key, (5,), 0, 10),
      jax.random.permutation(key, 6),
      jax.random.categorical(key, x),
    ),
    _KEY,
    _X,
  ),
  "old random keys": (lambda key: jax.random.normal(key, (3,)), np.array([1, 2], np.uint32)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", _WITHOUT_GRADIENT)
def test_the_text_has_the_values_of_the_function(name):
  fn, *args = _WITHOUT_GRADIENT[name]
  _check(fn, *args, gradient=False)


def test_the_text_imports_only_jax_and_numpy():
  text = to_source(lambda x: jax.nn.softmax(x) + np.float32(2), _X).text
  lines = [line for line in text.splitlines() if "import" in line]
  assert lines and all(
    line in ("import jax", "import jax.numpy as jnp", "import numpy as np", "from jax import lax") for line in lines
  )


def test_symbolic_sizes_are_read_from_shapes():
  batch, _ = jax.export.symbolic_shape("batch, n")

  def fn(x):
    return x.reshape(x.shape[0] * 2, -1) + jnp.ones((x.shape[0] * 2, 1)) / x.shape[0]

  source = to_source(fn, jax.ShapeDtypeStruct((batch, 8), np.float32))
  for size in (1, 3):
    x = np.ones((size, 8), np.float32)
    np.testing.assert_array_equal(source.function()(x), fn(x))


def test_callbacks_are_refused_with_their_scope():
  def fn(x):
    with jax.named_scope("logging"):
      jax.debug.print("{x}", x=x)
    return x

  with pytest.raises(SourceError, match="debug.* in scope 'logging'"):
    to_source(fn, _X)


def test_a_policy_of_ones_own_is_refused():
  fn = jax.checkpoint(lambda x: jnp.sin(x), policy=lambda *_, **__: True)
  with pytest.raises(SourceError, match="policy"):
    to_source(fn, _X)


def test_scopes_are_functions_and_repeated_ones_a_loop():
  def fn(p, x):
    for i in range(3):
      with jax.named_scope(f"layer_{i}"):
        layer = p[f"layer_{i}"]
        h = jnp.tanh(x @ layer["w"] + layer["b"])
        x = x + jnp.tanh(h @ layer["v"])
    return x @ p["head"]

  rng = np.random.default_rng(0)
  layers = {
    f"layer_{i}": {"w": rng.normal(size=(8, 8)), "b": rng.normal(size=8), "v": rng.normal(size=(8, 8))}
    for i in range(3)
  }
  parameters = jax.tree.map(lambda x: np.asarray(x, np.float32), {**layers, "head": rng.normal(size=(8, 2))})
  source = _check(fn, parameters, _X)
  assert source.text.count("jnp.tanh") == 2
  assert 'for layer_params in params["layers"]:' in source.text
  assert source.tree["layers"][1] == {"w": ("layer_1", "w"), "b": ("layer_1", "b"), "v": ("layer_1", "v")}
  gradients = jax.grad(lambda p: fn(p, _X).sum())(parameters)
  written = jax.grad(lambda p: source.function()(p, _X).sum())(source.parameters(parameters))
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), source.parameters(gradients), written)


def test_large_constants_are_arguments_or_parameters():
  table = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
  frozen = to_source(lambda x: x @ table.T, _X)
  np.testing.assert_array_equal(frozen.function()(frozen.parameters(), _X), _X @ table.T)
  source = to_source(lambda p, x: x @ table.T + p["b"], {"b": np.float32(1)}, _X)
  got = source.function()(source.parameters({"b": np.float32(1)}), source.constants, _X)
  np.testing.assert_array_equal(got, _X @ table.T + 1)


def test_only_new_parameters_are_returned():
  def fn(p, x):
    return x * p["scale"], {"scale": p["scale"], "count": p["count"] + 1}

  source = to_source(fn, {"scale": np.float32(2), "count": np.int32(0)}, _X)
  value, new = source.function()(source.parameters({"scale": np.float32(2), "count": np.int32(4)}), _X)
  np.testing.assert_array_equal(value, 2 * _X)
  assert new == {"count": 5}
