import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.xla_call_module import Module, ir, lift

_X = (np.random.default_rng(0).normal(size=(4, 6, 5)) * 3).astype(np.float32)
_MASK = np.random.default_rng(1).random((4, 6, 5)) < 0.7
_MASK[0, 0] = False  # nothing to sum


def _lifted(function, *args, x64=False):
  with jax.enable_x64(x64):
    specs = [jax.ShapeDtypeStruct(arg.shape, arg.dtype) for arg in args]
    exported = jax.export.export(jax.jit(function))(*specs)
  return lift(Module.from_exported(exported), gradient="primal")


def _recovered(lifted):
  """Returns the names of the ops that took the place of recognized code."""
  ops = [op for function in lifted._ir.functions.values() for op in ir.walk(function.body)]
  return [op.name for op in ops if op.name in ("graftax.lax", "graftax.shifted")]


def _shifted(x, axis=-1):
  return x - jnp.max(x, axis, keepdims=True)


def _quotient(x, axis=-1):
  e = jnp.exp(_shifted(x, axis))
  return e / jnp.sum(e, axis, keepdims=True)


def _product(x):
  e = jnp.exp(_shifted(x))
  return (1 / jnp.sum(e, -1, keepdims=True)) * e


def _log_quotient(x):
  s = _shifted(x)
  return s - jnp.log(jnp.sum(jnp.exp(s), -1))[..., None]


def _sum_of_two_axes(x):
  m = x.max((0, 2))
  return jnp.log(jnp.exp(x - m[None, :, None]).sum((0, 2))) + m


_JAX = {
  "softmax": jax.nn.softmax,
  "softmax of the first axis": lambda x: jax.nn.softmax(x, axis=0),
  "softmax of two axes": lambda x: jax.nn.softmax(x, axis=(0, 2)),
  "softmax of all axes": lambda x: jax.nn.softmax(x, axis=None),
  "log_softmax": jax.nn.log_softmax,
  "log_softmax of two axes": lambda x: jax.nn.log_softmax(x, axis=(1, 2)),
  "logsumexp": jax.nn.logsumexp,
  "logsumexp of an axis": lambda x: jax.nn.logsumexp(x, axis=1),
  "logsumexp that keeps axes": lambda x: jax.nn.logsumexp(x, axis=(0, 2), keepdims=True),
}
_MASKED = {
  "softmax": lambda x: jax.nn.softmax(x, where=_MASK),
  "softmax of two axes": lambda x: jax.nn.softmax(x, axis=(0, 2), where=_MASK),
  "log_softmax": lambda x: jax.nn.log_softmax(x, where=_MASK),
  "logsumexp": lambda x: jax.nn.logsumexp(x, axis=-1, where=_MASK),
}
# The same code without JAX's functions, and JAX's functions of the same values.
_BY_HAND = {
  "quotient": (_quotient, jax.nn.softmax),
  "quotient of the first axis": (lambda x: _quotient(x, 0), lambda x: jax.nn.softmax(x, 0)),
  "product": (_product, jax.nn.softmax),
  "log": (_log_quotient, jax.nn.log_softmax),
  "sum": (_sum_of_two_axes, lambda x: jax.nn.logsumexp(x, axis=(0, 2))),
  "shift that is no maximum": (
    lambda x: (lambda e: e / e.sum(-1, keepdims=True))(jnp.exp(x - jnp.mean(x**2, -1, keepdims=True))),
    jax.nn.softmax,
  ),
}


def _gradient(function, weights):
  return jax.jit(jax.grad(lambda x: (function(x) * weights).sum()))


def _hessian_product(function, weights):
  return jax.jit(jax.grad(lambda x: (_gradient(function, weights)(x) * jnp.cos(x)).sum()))


def _tangent(function, weights):
  return jax.jit(lambda x: jax.jvp(function, (x,), (jnp.sin(x),))[1])


_DERIVATIVES = (_gradient, _hessian_product, _tangent)


@pytest.mark.parametrize("name", [*_JAX, *(f"{name} with a mask" for name in _MASKED)])
def test_values_and_derivatives_are_those_of_the_live_function(name):
  function = _JAX.get(name) or _MASKED[name.removesuffix(" with a mask")]
  lifted = _lifted(function, _X)
  assert _recovered(lifted) == ["graftax.lax" if name in _JAX else "graftax.shifted"]
  weights = jnp.asarray(np.random.default_rng(2).normal(size=jax.eval_shape(function, _X).shape), np.float32)
  np.testing.assert_array_equal(lifted(_X)[0], jax.jit(function)(_X))
  for derivative in _DERIVATIVES:
    got, want = (derivative(f, weights)(_X) for f in (lambda x: lifted(x)[0], function))
    # The masks are functions of the module, which JAX compiles in another order.
    tolerance = 0 if name in _JAX else 5e-7
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=derivative.__name__)


@pytest.mark.parametrize("name", _BY_HAND)
def test_code_by_hand_keeps_its_values_and_has_derivatives_as_exact_as_jax(name):
  function, named = _BY_HAND[name]
  lifted = _lifted(function, _X)
  assert _recovered(lifted) == ["graftax.shifted"]
  np.testing.assert_array_equal(lifted(_X)[0], jax.jit(function)(_X))
  weights = np.random.default_rng(2).normal(size=jax.eval_shape(function, _X).shape)
  for derivative in _DERIVATIVES:
    with jax.enable_x64(True):
      truth = np.asarray(derivative(named, weights)(_X.astype(np.float64)))
    narrow = jnp.asarray(weights, np.float32)
    ours, theirs = (
      np.linalg.norm(np.asarray(derivative(f, narrow)(_X)) - truth) / np.linalg.norm(truth)
      for f in (lambda x: lifted(x)[0], named)
    )
    assert ours <= 2 * theirs, (derivative.__name__, ours, theirs)


def test_gradient_of_many_classes_is_as_exact_as_that_of_jax_and_not_that_of_the_exported_code():
  x = np.random.default_rng(0).normal(size=(8, 1000)).astype(np.float32)

  def gradient(function, x):
    return np.asarray(jax.jit(jax.grad(lambda x: jnp.square(function(x)).sum()))(x))

  lifted = _lifted(jax.nn.softmax, x)
  with jax.enable_x64(True):
    truth = gradient(jax.nn.softmax, x.astype(np.float64))
  ours, theirs, exported = (
    np.linalg.norm(gradient(f, x) - truth) / np.linalg.norm(truth)
    for f in (lambda x: lifted(x)[0], jax.nn.softmax, _quotient)
  )
  assert ours <= 1.1 * theirs and ours < exported / 2  # measured: 1.0e-7, 1.0e-7 and 5.1e-7


@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.float16, np.float64])
@pytest.mark.parametrize("name", ["softmax of the first axis", "log_softmax", "logsumexp of an axis"])
def test_other_dtypes(name, dtype):
  is_wide = dtype == np.float64
  with jax.enable_x64(is_wide):
    x = jnp.asarray(_X, dtype)
    lifted = _lifted(_JAX[name], x, x64=is_wide)
    assert _recovered(lifted) == ["graftax.lax"]
    np.testing.assert_array_equal(lifted(x)[0], jax.jit(_JAX[name])(x))
    got, want = (_gradient(f, dtype(2))(x) for f in (lambda x: lifted(x)[0], _JAX[name]))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
def test_symbolic_sizes(name, masked):
  def function(x, mask):
    settings = {"where": mask} if masked else {}
    return getattr(jax.nn, name)(x * 2, axis=-1, **settings)

  b, n = jax.export.symbolic_shape("b, n")
  specs = jax.ShapeDtypeStruct((b, 6, n), np.float32), jax.ShapeDtypeStruct((b, 6, n), np.bool_)
  lifted = lift(Module.from_exported(jax.export.export(jax.jit(function))(*specs)), gradient="primal")
  assert _recovered(lifted) == ["graftax.shifted" if masked else "graftax.lax"]
  got, want = (_gradient(lambda x, f=f: f(x, _MASK), 2.0)(_X) for f in (lambda *xs: lifted(*xs)[0], function))
  np.testing.assert_array_equal(got, want)
  again = jax.export.export(jax.jit(lambda *xs: lifted(*xs)[0]))(*specs)
  np.testing.assert_array_equal(again.call(_X, _MASK), jax.jit(function)(_X, _MASK))


@pytest.mark.parametrize("function", [jax.nn.softmax, _product, lambda x: jax.nn.softmax(x, where=_MASK[0, 0] | True)])
def test_vmap_and_loops(function):
  lifted = _lifted(function, _X[0, 0])

  def looped(f, x):
    return lax.scan(lambda c, row: (c + f(row * c), c.sum()), jnp.ones(5), x.reshape(-1, 5))[0]

  for used in (lambda f, x: jax.vmap(jax.vmap(f))(x), looped):
    got, want = (_gradient(lambda x, f=f, used=used: used(f, x), 2.0)(_X) for f in (lambda x: lifted(x)[0], function))
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=3e-6)


def test_softmax_in_a_loop_of_the_module_is_recovered():
  def function(x):
    return lax.scan(lambda c, row: (jax.nn.softmax(c * row), None), jnp.ones(5), x[0])[0]

  lifted = _lifted(function, _X)
  assert _recovered(lifted) == ["graftax.lax"]
  np.testing.assert_allclose(
    _gradient(lambda x: lifted(x)[0], 2.0)(_X), _gradient(function, 2.0)(_X), rtol=1e-6, atol=1e-8
  )


def test_infinities_and_ties():
  x = np.array([[-np.inf, 0, 0], [-np.inf] * 3, [np.inf, 0, 1], [1e38, -1e38, 0], [2, 2, 2]], np.float32)
  for name in ("softmax", "log_softmax", "logsumexp"):
    function = getattr(jax.nn, name)
    lifted = _lifted(function, x)
    np.testing.assert_array_equal(lifted(x)[0], jax.jit(function)(x))
    got, want = (_gradient(f, 2.0)(x) for f in (lambda x, lifted=lifted: lifted(x)[0], function))
    np.testing.assert_array_equal(got, want)


def test_values_that_others_use_keep_their_derivatives():
  def function(x):
    m = jnp.max(x, -1, keepdims=True)
    s = x - m
    e = jnp.exp(s)
    total = e.sum(-1, keepdims=True)
    return e / total, s - jnp.log(total), jnp.log(total) + m, m, s, e, total

  lifted = _lifted(function, _X)
  assert _recovered(lifted) == ["graftax.shifted"] * 3
  weights = [jnp.asarray(np.random.default_rng(i).normal(size=y.shape), np.float32) for i, y in enumerate(function(_X))]
  for got, want in zip(lifted(_X), jax.jit(function)(_X), strict=True):
    np.testing.assert_array_equal(got, want)
  for used in range(len(weights)):
    got, want = (_gradient(lambda x, f=f, used=used: f(x)[used], weights[used])(_X) for f in (lifted, function))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-6)


_TEXT = """
  func.func public @main(%x: tensor<4x5xf32>) -> tensor<4x5xf32> {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %first = stablehlo.constant dense<-0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1]
      : (tensor<4x5xf32>, tensor<f32>) -> tensor<4xf32>
    %1 = stablehlo.reshape %0 : (tensor<4xf32>) -> tensor<4x1xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x5xf32>
    %3 = stablehlo.subtract %x, %2 : tensor<4x5xf32>
    %4 = stablehlo.exponential %3 : tensor<4x5xf32>
    %5 = stablehlo.reduce(%4 init: %first) applies stablehlo.add across dimensions = [1]
      : (tensor<4x5xf32>, tensor<f32>) -> tensor<4xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<4xf32>) -> tensor<4x5xf32>
    %7 = stablehlo.divide %4, %6 : tensor<4x5xf32>
    return %7 : tensor<4x5xf32>
  }"""


def test_code_of_another_exporter():
  lifted = lift(Module.from_text(_TEXT))
  assert _recovered(lifted) == ["graftax.shifted"]
  x = _X[:, 0]
  np.testing.assert_allclose(
    _gradient(lambda x: lifted(x)[0], x)(x), _gradient(jax.nn.softmax, x)(x), rtol=1e-5, atol=1e-8
  )


def _of_text(x, combine=jnp.sum, power=jnp.exp, first=0.0, chosen=lambda e: e):
  e = power(_shifted(x))
  return e / (first + combine(chosen(e), -1, keepdims=True))


_CLAMP = """
    %least = stablehlo.constant dense<0.5> : tensor<f32>
    %chosen = stablehlo.clamp %least, %4, %first : (tensor<f32>, tensor<4x5xf32>, tensor<f32>) -> tensor<4x5xf32>
    %5 = stablehlo.reduce(%chosen init: %first)"""
_LOGISTIC = """
    %unused = stablehlo.exponential %3 : tensor<4x5xf32>
    %4 = stablehlo.logistic %3"""
_OTHER_TEXTS = {
  "initial value": (("-0.0", "1.0"), {"first": 1.0}),
  "reducer": (("stablehlo.add", "stablehlo.maximum"), {"combine": jnp.max}),
  "function of the difference": (("%4 = stablehlo.exponential %3", _LOGISTIC), {"power": jax.nn.sigmoid}),
  "choice of the elements": (("%5 = stablehlo.reduce(%4 init: %first)", _CLAMP), {"chosen": jnp.zeros_like}),
}


@pytest.mark.parametrize("name", _OTHER_TEXTS)
def test_code_with_another(name):
  change, settings = _OTHER_TEXTS[name]
  assert change[0] in _TEXT
  lifted = lift(Module.from_text(_TEXT.replace(*change)))
  assert not _recovered(lifted)
  x = _X[:, 0]
  got, want = (_gradient(f, x)(x) for f in (lambda x: lifted(x)[0], lambda x: _of_text(x, **settings)))
  np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_shift_that_is_a_part_of_what_it_is_subtracted_from_is_not_stopped_twice():
  text = """
  func.func public @main(%m: tensor<4xf32>) -> tensor<4xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %x = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<4xf32>) -> tensor<4x5xf32>
    %0 = stablehlo.subtract %x, %x : tensor<4x5xf32>
    %1 = stablehlo.exponential %0 : tensor<4x5xf32>
    %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<4x5xf32>, tensor<f32>) -> tensor<4xf32>
    %3 = stablehlo.log %2 : tensor<4xf32>
    %4 = stablehlo.add %3, %m : tensor<4xf32>
    return %4 : tensor<4xf32>
  }"""
  lifted = lift(Module.from_text(text))
  np.testing.assert_array_equal(_gradient(lambda m: lifted(m)[0], 1.0)(_X[:, 0, 0]), np.ones(4))


_SQUARE = _X[:, :4, 0]


def _sum_over(e, axis, **settings):
  return jnp.sum(e, axis, keepdims=True, **settings)


# Each differs in one thing from what is recovered, and has a derivative through what is subtracted.
_NEAR_MISSES = {
  "another reducer": lambda x: (lambda e: e / jnp.max(e, -1, keepdims=True))(jnp.exp(x - x.mean(-1, keepdims=True))),
  "a sum along another axis": lambda x: (lambda e: e / _sum_over(e, 0))(jnp.exp(x - x.max(1, keepdims=True))),
  "a shift along another axis": lambda x: (lambda e: e / _sum_over(e, 1))(jnp.exp(x - x.max(0, keepdims=True))),
  "a sum along one axis of two": lambda x: (lambda e: e / _sum_over(e, 0))(jnp.exp(x - x[:1, :1] - x.max(1)[:, None])),
  "a sum that is transposed": lambda x: (lambda e: e / e.sum(1)[None, :])(jnp.exp(x - x.max(1)[:, None])),
  "a divisor of another array": lambda x: (
    lambda m: jnp.exp(x - m) / _sum_over(jnp.exp(x[::-1] - m), 1)
  )(x.max(1)[:, None]),
  "a numerator of another power": lambda x: (lambda s: jnp.exp2(s) / _sum_over(jnp.exp(s), 1))(x - x.max(1)[:, None]),
  "a sum that is added to": lambda x: (lambda e: e / (_sum_over(e, 1) + 1))(jnp.exp(x - x.max(1)[:, None])),
  "another fill value": lambda x: (
    lambda e: e / _sum_over(jnp.where(_MASK[:, :4, 0], e, 0.5), 1)
  )(jnp.exp(x - x.max(1)[:, None])),
  "a product with twice the inverse": lambda x: (lambda e: e * (2 / _sum_over(e, 1)))(
    jnp.exp(x - x.max(1)[:, None])
  ) + x.max(),
  "log1p": lambda x: (lambda s: s - jnp.log1p(_sum_over(jnp.exp(s), 1)))(x - x.max(1)[:, None]),
  "a log of another sum": lambda x: x - jnp.log(_sum_over(jnp.exp(x - x.max(1)[:, None]), 1)),
  "a log that is transposed": lambda x: (lambda s: s - jnp.log(jnp.exp(s).sum(1))[None, :])(x - x.max(1)[:, None]),
  "another shift that is added": lambda x: jnp.log(jnp.exp(x - x.max(1)[:, None]).sum(1)) + x.min(1),
  "a shift that is added along another axis": lambda x: (
    lambda m: jnp.log(jnp.exp(x - m[:, None]).sum(1))[:, None] + m[None, :]
  )(x.max(1)),
  "twice the shift": lambda x: (lambda m: jnp.log(jnp.exp(x - m[:, None]).sum(1)) + 2 * m)(x.max(1)),
}  # fmt: skip


@pytest.mark.parametrize("name", _NEAR_MISSES)
def test_near_misses_keep_the_derivative_of_their_code(name):
  function = _NEAR_MISSES[name]
  lifted = _lifted(function, _SQUARE)
  assert not _recovered(lifted)
  weights = np.random.default_rng(2).normal(size=jax.eval_shape(function, _SQUARE).shape)
  narrow = jnp.asarray(weights, np.float32)
  with jax.enable_x64(True):
    truth = _gradient(function, weights)(_SQUARE.astype(np.float64))
  np.testing.assert_allclose(_gradient(lambda x: lifted(x)[0], narrow)(_SQUARE), truth, rtol=2e-5, atol=2e-5)


def test_a_part_of_a_softmax_is_left_alone():
  lifted = _lifted(lambda x: jnp.exp(x - x.max(-1, keepdims=True)).sum(-1), _X)
  assert not _recovered(lifted)


@pytest.mark.parametrize(("count", "ops"), [(2, ["graftax.shifted"]), (20, [])])
def test_a_way_that_nothing_writes_is_not_followed(count, ops):
  # Walking it for each quotient took time with the square of the module's size.
  def function(x):
    e = jnp.exp(_shifted(x))
    total = jnp.sum(e, -1, keepdims=True)
    for _ in range(count):
      total = total.astype(jnp.bfloat16).astype(jnp.float32)
    return e / total

  lifted = _lifted(function, _X)
  assert _recovered(lifted) == ops
  np.testing.assert_array_equal(jax.jit(lifted)(_X)[0], jax.jit(function)(_X))
