"""Programs that XLA compiles for oneDNN with barriers, against the same without oneDNN."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.xla_call_module.lax_extras import with_contraction_barriers

# JAX's compilation cache, if there is one: XLA cannot serialize programs that call oneDNN.
pytestmark = pytest.mark.filterwarnings("ignore:Error writing persistent compilation cache entry")
_RNG = np.random.default_rng(0)
_OPTIONS = {"xla_cpu_experimental_onednn_custom_call": "True", "xla_cpu_experimental_ynn_fusion_type": ""}


def _normal(*shape):
  return _RNG.normal(size=shape).astype(np.float32)


_IMAGE, _FILTER, _BIAS = _normal(2, 6, 6, 4), _normal(3, 3, 4, 6) / 6, _normal(6)
# oneDNN is not called for small products.
_ROWS, _MATRIX, _OFFSET = _normal(256, 256), _normal(256, 128) / 16, _normal(128)


def _convolution(x, kernel=_FILTER):
  return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _compiled(function, *args):
  """Returns the results for oneDNN, and which operations XLA joined with each contraction."""
  compiled = jax.jit(function).lower(*args).compile(_OPTIONS)
  joined = re.findall(r'"ops":\[([^\]]*)\]', compiled.as_text())
  return compiled(*args), [tuple(re.findall(r"\w+", names)) for names in joined]


@pytest.fixture(scope="module", autouse=True)
def _needs_onednn():
  def silu(x):
    y = lax.optimization_barrier(_convolution(x))
    return y, jax.nn.silu(y)

  text = jax.jit(silu).lower(_IMAGE).compile(_OPTIONS).as_text()
  if "__onednn$convolution" not in text or "SWISH" in text:
    pytest.skip("this jaxlib has no oneDNN for this processor, or leaves barriers out before it looks for patterns")


_ACTIVATIONS = {
  "relu": jax.nn.relu,
  "relu6": jax.nn.relu6,
  "gelu": lambda y: jax.nn.gelu(y, approximate=False),
  "gelu, tanh": jax.nn.gelu,
  "silu": jax.nn.silu,
  "elu": jax.nn.elu,
  "elu of TensorFlow": lambda y: jnp.where(y > 0, y, jnp.expm1(y)),
  "sigmoid": jax.nn.sigmoid,
  "tanh": jnp.tanh,
}
_USES = {
  "also the value": lambda f, y: (f(y), y),
  "another function": lambda f, y: (f(y), jnp.sin(y)),
  "of itself": lambda f, y: f(y) * y,
  "later": lambda f, y: f(y) * jnp.sin(y) + y,
  "alone": lambda f, y: f(y),
}


@pytest.mark.parametrize("activation", _ACTIVATIONS)
def test_values_before_an_activation_are_kept(activation):
  function = _ACTIVATIONS[activation]
  for name, use in _USES.items():

    def image(x, use=use):
      return use(function, _convolution(x) + _BIAS)

    def rows(x, use=use):
      return use(function, x @ _MATRIX + _OFFSET)

    for program, x in ((image, _IMAGE), (rows, _ROWS)):
      found, _ = _compiled(with_contraction_barriers(program), x)
      for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(jax.jit(program)(x)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5, err_msg=name)


def test_without_barriers_xla_hands_out_the_value_after_the_activation():
  """Fails when XLA is mended: then the barriers can go."""
  (_, value), joined = _compiled(lambda x: (jax.nn.silu(y := _convolution(x) + _BIAS), y), _IMAGE)
  assert joined == [("BIAS", "SWISH")]
  assert np.abs(value - (_convolution(_IMAGE) + _BIAS)).max() > 0.1
  along_rows, joined = _compiled(lambda x: _convolution(x) + _BIAS[:, None, None], _IMAGE)
  assert joined == [("BIAS",)]
  assert np.abs(along_rows - (_convolution(_IMAGE) + _BIAS[:, None, None])).max() > 0.1


@pytest.mark.parametrize("shape", [(6, 1, 1), (1, 6, 1), (2, 1, 1, 1), (6, 6, 1), (1, 1, 6), (6,), (), (2, 6, 6, 6)])
def test_arrays_of_other_shapes_are_added_where_they_belong(shape):
  other = _normal(*shape)

  def program(x):
    return jax.nn.relu(_convolution(x) + other)

  found, _ = _compiled(with_contraction_barriers(program), _IMAGE)
  np.testing.assert_allclose(found, jax.jit(program)(_IMAGE), rtol=1e-5, atol=1e-5)


_REPEATED = {
  "exp": lambda v: jnp.exp(v),
  "twice": lambda v: v * 2,
  "where": lambda v: jnp.where(True, v, 0),
  "sliced": lambda v: jnp.concatenate([v, v])[:6],
  "in a scan": lambda v: lax.scan(lambda c, _: (c * 1.5, None), v, length=1)[0],
}


@pytest.mark.parametrize("how", _REPEATED)
@pytest.mark.parametrize("axis", range(4))
def test_arrays_that_repeat_a_vector_are_added_where_they_belong(how, axis):
  x, other = _normal(6, 6, 6, 4), _normal(6)

  def program(x, other):
    repeated = lax.broadcast_in_dim(other, (6, 6, 6, 6), (axis,))
    return jax.nn.relu(_convolution(x) + _REPEATED[how](repeated))

  found, _ = _compiled(with_contraction_barriers(program), x, other)
  np.testing.assert_allclose(found, jax.jit(program)(x, other), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("equation", ["bi,bij->bj", "bd,btd->bt", "bij,bj->bi", "bij,bjk->bik"])
def test_products_of_vectors_in_a_batch_do_not_end_the_process(equation):
  first, second = (_normal(*[128] * len(names)) / 8 for names in equation.partition("->")[0].split(","))

  def program(first, second, bias):
    return jnp.einsum(equation, first, second) + bias

  found, _ = _compiled(with_contraction_barriers(program), first, second, _OFFSET)
  np.testing.assert_allclose(found, jax.jit(program)(first, second, _OFFSET), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("out", ["NCHW", "NHCW", "NHWC", "HWNC"])
@pytest.mark.parametrize("shape", [(6,), (6, 1), (6, 1, 1)])
def test_channels_may_be_any_axis(out, shape):
  other, x = _normal(*shape), _normal(6, 6, 6, 4)

  def program(x):
    y = lax.conv_general_dilated(x, _FILTER, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", out))
    return jax.nn.relu(y + other)

  found, _ = _compiled(with_contraction_barriers(program), x)
  np.testing.assert_allclose(found, jax.jit(program)(x), rtol=1e-5, atol=1e-5)


def test_biases_sums_and_relu_are_joined():
  def bias(x):
    return jax.nn.relu6(_convolution(x) + _BIAS)

  def residual(x, shortcut):
    return jnp.maximum(_convolution(x) + _BIAS + shortcut, 0)

  def product(x):
    return jax.nn.relu(x @ _MATRIX + _OFFSET)

  shortcut = _normal(2, 6, 6, 6)
  for program, args, expected in (
    (bias, (_IMAGE,), {("BIAS", "RELU6")}),
    (residual, (_IMAGE, shortcut), {("BIAS", "SUM", "RELU"), ("BIAS", "BINARY_ADD", "RELU")}),
    (product, (_ROWS,), {("BIAS", "RELU")}),
  ):
    found, joined = _compiled(with_contraction_barriers(program), *args)
    np.testing.assert_allclose(found, jax.jit(program)(*args), rtol=1e-5, atol=1e-5)
    assert len(joined) == 1 and joined[0] in expected


def test_silu_is_joined_if_nothing_else_reads_its_argument():
  def alone(x):
    return jax.nn.silu(_convolution(x) + _BIAS)

  found, joined = _compiled(with_contraction_barriers(alone), _IMAGE)
  np.testing.assert_allclose(found, jax.jit(alone)(_IMAGE), rtol=1e-5, atol=1e-5)
  assert joined == [("BIAS", "SWISH")]


_OTHERS = {
  "value": lambda x: _convolution(x) + _BIAS,
  "no bias": lambda x: jax.nn.silu(_convolution(x)),
  "other bias": lambda x: jax.nn.silu(_convolution(x) + 2 * _BIAS),
  "relu": lambda x: jax.nn.relu(_convolution(x) + _BIAS),
  "sigmoid": lambda x: jax.nn.sigmoid(_convolution(x) + _BIAS),
  "the same": lambda x: jax.nn.silu(_convolution(x) + _BIAS) + 1,
}


@pytest.mark.parametrize("other", _OTHERS)
def test_equal_convolutions_that_xla_merges_keep_their_readers(other):
  def program(x):
    return jax.nn.silu(_convolution(jnp.sin(x)) + _BIAS), _OTHERS[other](jnp.sin(x))

  found, _ = _compiled(with_contraction_barriers(program), _IMAGE)
  for a, b in zip(found, jax.jit(program)(_IMAGE), strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_contractions_in_loops_branches_and_functions_have_barriers():
  def step(x, _):
    y = jax.jit(lambda x: _convolution(x, _FILTER[..., :4]))(x)
    return jax.nn.silu(y) + y, y.sum()

  def program(x, is_first):
    x, sums = lax.scan(step, x, length=2)
    x = lax.fori_loop(0, 2, lambda i, x: jax.checkpoint(lambda x: step(x, None)[0])(x), x)
    x = lax.while_loop(lambda x: jnp.sum(x @ jnp.ones((4, 4))) > 1e9, lambda x: x, x)
    return lax.cond(is_first, lambda x: step(x, None)[0], lambda x: x, x), sums

  args = (_IMAGE / 4, True)
  found, _ = _compiled(with_contraction_barriers(program), *args)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), found, jax.jit(program)(*args))
  text = str(jax.make_jaxpr(with_contraction_barriers(program))(*args))
  assert text.count("optimization_barrier") == text.count("conv_general_dilated[") + text.count("dot_general[")


def test_operations_without_results_stay():
  seen = []

  def program(x):
    y = _convolution(x)
    jax.debug.callback(lambda y: seen.append(y.shape), y)
    return jax.nn.silu(y)

  found, _ = _compiled(with_contraction_barriers(program), _IMAGE)
  np.testing.assert_allclose(found, jax.nn.silu(_convolution(_IMAGE)), rtol=1e-5, atol=1e-5)
  jax.effects_barrier()
  assert seen == [found.shape]


def test_contractions_in_other_operations_are_not_supported():
  def solve(x):
    return lax.custom_linear_solve(lambda v: _MATRIX[:128] @ v, x, lambda _, v: v, lambda _, v: v)

  def ragged(x):
    return lax.ragged_dot(x[:, None], _normal(2, 1, 3), jnp.array([100, 28]))

  for program, name in ((solve, "custom_linear_solve"), (ragged, "ragged_dot_general")):
    with pytest.raises(NotImplementedError, match=name):
      with_contraction_barriers(program)(_OFFSET)


def test_sizes_may_be_symbolic():
  shape = jax.export.symbolic_shape("b, 4")
  program = with_contraction_barriers(lambda x: jax.nn.relu(x @ _normal(4, 4) + x))
  exported = jax.export.export(jax.jit(program))(jax.ShapeDtypeStruct(shape, np.float32))
  assert exported.call(_normal(3, 4)).shape == (3, 4)
