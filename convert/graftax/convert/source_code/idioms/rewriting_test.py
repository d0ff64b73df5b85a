"""Each call of the table is found in the program that JAX makes of it, and in TensorFlow's forms of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.convert.source_code import to_source
from graftax.ops_jax import lowering

_X = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
_C = np.random.default_rng(1).normal(size=(4, 8)).astype(np.float32)
_IDS = np.array([[1, 0, 3], [2, 2, 1]])
_KEY = jax.random.key(0)

_CALLS = {
  "jax.nn.softmax(x, axis=-1)": _X,
  "jax.nn.softmax(x, axis=0)": _X,
  "jax.nn.log_softmax(x, axis=-1)": _X,
  "jax.nn.logsumexp(x, axis=-1)": _X,
  "jnp.mean(x, axis=-1)": _X,
  "jnp.mean(x, axis=0, keepdims=True)": _X,
  "jnp.mean(x)": _X,
  "jnp.var(x, axis=-1)": _X,
  "jax.nn.gelu(x)": _X,
  "jax.nn.gelu(x, approximate=False)": _X,
  "jax.nn.relu(x)": _X,
  "jax.nn.relu6(x)": _X,
  "jax.nn.silu(x)": _X,
  "jax.nn.softplus(x)": _X,
  "jax.nn.elu(x)": _X,
  "jax.nn.selu(x)": _X,
  "jax.nn.leaky_relu(x, 0.2)": _X,
  "jax.nn.hard_swish(x)": _X,
  "jax.nn.log_sigmoid(x)": _X,
  "jax.random.normal(x, (3, 2))": _KEY,
  "jax.random.uniform(x, (3,))": _KEY,
  "jax.nn.one_hot(x, 5)": _IDS,
}


@pytest.mark.slow
@pytest.mark.parametrize("call", _CALLS)
def test_a_call_is_recovered(call):
  x = _CALLS[call]
  names = {"jax": jax, "jnp": jnp}
  source = to_source(lambda x: eval(call, {**names, "x": x}), x)
  assert f"return {call}" in source.text


@pytest.mark.slow
@pytest.mark.parametrize("call", ["jnp.take(x, i, axis=0)", 'jnp.take(x, i, axis=1, mode="clip")', "x[i]"])
def test_a_look_up_is_recovered(call):
  source = to_source(lambda x, i: eval(call, {"jnp": jnp, "x": x, "i": i}), _X, _IDS)
  assert f"return {call}" in source.text


def _relu_of_its_result():
  """Returns relu with TensorFlow's rule, which looks at the result."""

  @jax.custom_jvp
  def relu(x):
    return jnp.maximum(x, 0)

  @relu.defjvp
  def _(primals, tangents):
    y = relu(*primals)
    return y, jnp.where(y > 0, tangents[0], 0)

  return relu


def test_a_rule_that_is_that_of_relu_is_relu():
  assert "jax.nn.relu(x)" in to_source(_relu_of_its_result(), _X).text


def test_a_rule_that_differs_from_that_of_relu_is_not_relu():
  @jax.custom_jvp
  def relu(x):
    return jnp.maximum(x, 0)

  @relu.defjvp
  def _(primals, tangents):
    y = relu(*primals)
    return y, jnp.where(y >= 0, tangents[0], 0)

  text = to_source(relu, _X).text
  assert "jax.nn.relu" not in text
  assert "@relu.defjvp" in text


def test_tensorflows_batch_normalization_is_a_function():
  def normalized(p, x):
    scale = lax.rsqrt(p["bn/variance"].reshape(1, 8) + 0.001) * p["bn/gamma"].reshape(1, 8)
    return x * scale + (p["bn/beta"].reshape(1, 8) - p["bn/mean"].reshape(1, 8) * scale)

  def fn(p, x):
    return normalized(p["a"], jnp.tanh(normalized(p["b"], x)))

  some = {f"bn/{name}": np.abs(_C[i]) for i, name in enumerate(("variance", "gamma", "beta", "mean"))}
  source = to_source(fn, {"a": some, "b": some}, _X)
  assert "def batch_norm(p, x):" in source.text
  assert source.text.count('p["variance"] + 0.001') == 1
  assert "reshape" not in source.text


def test_a_loop_over_indices_is_a_loop_over_rows():
  def fn(x):
    def step(carry, i):
      return carry * 0.5 + lax.dynamic_index_in_dim(x, i, 0, keepdims=False), None

    return lax.scan(step, jnp.zeros(8), jnp.arange(4))[0]

  source = to_source(fn, _X)
  assert "lax.scan(step, jnp.zeros((8,), jnp.float32), x)" in source.text
  np.testing.assert_array_equal(source.function()(_X), fn(_X))


def test_a_loop_that_reads_its_index_otherwise_indexes_rows():
  def fn(x):
    def step(carry, i):
      row = lax.dynamic_index_in_dim(x, i, 0, keepdims=False)
      return lax.dynamic_update_index_in_dim(carry, row * 0.5, i, 0), None

    return lax.scan(step, jnp.zeros((4, 8)), np.arange(4, dtype=np.int32))[0]

  source = to_source(fn, _X)
  assert "jnp.zeros((4, 8), jnp.float32), np.arange(4, dtype=np.int32)" in source.text
  np.testing.assert_array_equal(source.function()(_X), fn(_X))
  sizes = [jax.jit(f).lower(_X).compile().as_text().count(" = ") for f in (fn, source.function())]
  assert sizes[1] == sizes[0]


def test_max_pooling_with_a_rule_of_its_own_is_one_reduction():
  pool = lowering("MaxPool").function
  images = np.random.default_rng(0).integers(0, 4, (1, 6, 6, 2)).astype(np.float32)

  def fn(x):
    return pool(x, ksize=(1, 3, 3, 1), strides=(1, 2, 2, 1), padding="VALID")

  source = to_source(fn, images)
  assert "defjvp" not in source.text and "lax.reduce_window(" in source.text
  cotangents = jnp.ones((1, 2, 2, 2))
  np.testing.assert_array_equal(
    jax.vjp(fn, images)[1](cotangents)[0], jax.vjp(source.function(), images)[1](cotangents)[0]
  )


@pytest.mark.parametrize(("step", "padding"), [(1, "SAME"), (2, "SAME"), (2, "VALID")])
def test_depthwise_convolutions_keep_their_form_for_cpus_in_a_function(step, padding):
  convolve = lowering("DepthwiseConv2dNative").function

  def fn(p, x):
    for name in ("first", "second"):
      with jax.named_scope(name):
        x = jnp.tanh(convolve(x, p[f"{name}/kernel"], strides=(1, step, step, 1), padding=padding))
    return x

  rng = np.random.default_rng(0)
  images = rng.normal(size=(2, 12, 15, 3)).astype(np.float32)
  parameters = {f"{name}/kernel": rng.normal(size=(3, 2, 3, 1)).astype(np.float32) for name in ("first", "second")}
  batch = jax.export.symbolic_shape("batch")[0]
  source = to_source(fn, parameters, jax.ShapeDtypeStruct((batch, *images.shape[1:]), np.float32))
  assert source.text.count("def depthwise_conv(") == 1 and source.text.count("lax.platform_dependent(") == 1
  written = source.function()
  got = jax.jit(written)(source.parameters(parameters), images)
  np.testing.assert_array_equal(got, jax.jit(fn)(parameters, images))
  cotangents = jnp.ones_like(got)
  wanted = jax.vjp(fn, parameters, images)[1](cotangents)
  found = jax.vjp(written, source.parameters(parameters), images)[1](cotangents)
  # Gradients of the converted function are computed in another form, so they differ in the last bits.
  for a, b in zip(jax.tree.leaves(found), jax.tree.leaves((source.parameters(wanted[0]), wanted[1])), strict=True):
    np.testing.assert_allclose(a, b, rtol=0, atol=2e-6 * float(jnp.max(jnp.abs(b))))


def test_a_depthwise_convolution_in_another_form_stays_a_choice_between_platforms():
  convolve = lowering("DepthwiseConv2dNative").function

  def fn(p, x):
    with jax.named_scope("block"):
      with jax.named_scope("scale"):
        x = jnp.tanh(x) * p["block/scale"] + jnp.sin(x)
      with jax.named_scope("depthwise"):
        # Two filters for each channel.
        x = convolve(x, p["block/kernel"], strides=(1, 1, 1, 1), padding="SAME")
      return jnp.tanh(x) + jnp.cos(x)

  rng = np.random.default_rng(0)
  images = rng.normal(size=(2, 6, 6, 3)).astype(np.float32)
  parameters = {"block/kernel": rng.normal(size=(3, 3, 3, 2)).astype(np.float32), "block/scale": np.float32(2)}
  source = to_source(fn, parameters, images)
  assert "depthwise_conv" not in source.text and "lax.platform_dependent(cpu=" in source.text
  got = jax.jit(source.function())(source.parameters(parameters), images)
  np.testing.assert_array_equal(got, jax.jit(fn)(parameters, images))


@pytest.mark.parametrize(
  ("images", "filters", "strides", "padding", "call"),
  [
    ((2, 5, 6, 3), (1, 1, 3, 4), (1, 1), "SAME", "conv2d_1x1(x, kernel)"),
    ((2, 6, 7, 3), (1, 1, 3, 4), (2, 3), "VALID", "conv2d_1x1(x, kernel, (2, 3))"),
    ((2, 7, 8, 3), (2, 3, 3, 4), (2, 3), "VALID", "conv2d_of_patches(x, kernel)"),
    (
      *((1, 6, 7, 128), (3, 2, 128, 128), (2, 1), "SAME"),
      "conv2d_as_product(x, kernel, (2, 1), ((0, 1), (0, 1)))",
    ),
    (
      *((1, 6, 7, 64), (3, 3, 32, 16), (1, 2), "SAME"),
      "grouped_conv(x, kernel, 2, (1, 2), ((1, 1), (1, 1)))",
    ),
  ],
)
def test_convolutions_with_a_form_for_cpus_are_calls(images, filters, strides, padding, call):
  rng = np.random.default_rng(0)
  x, kernel = (rng.normal(size=shape).astype(np.float32) for shape in (images, filters))

  def function(kernel, x):
    return lowering("Conv2D").function(x, kernel, strides=[1, *strides, 1], padding=padding)

  source = to_source(function, kernel, x)
  assert f"return {call}" in source.text
  assert source.text.count("lax.platform_dependent(") == 1
  written = source.function()
  sizes = [jax.jit(f).lower(kernel, x).compile().as_text().count(" = ") for f in (function, written)]
  assert sizes[0] == sizes[1]
  y, pull = jax.vjp(function, kernel, x)
  found, pull_found = jax.vjp(written, kernel, x)
  np.testing.assert_array_equal(found, y)
  jax.tree.map(np.testing.assert_array_equal, pull_found(jnp.cos(y)), pull(jnp.cos(y)))


def test_a_dilated_convolution_that_is_a_product_on_cpus_stays_a_choice_between_platforms():
  rng = np.random.default_rng(0)
  x, kernel = (rng.normal(size=shape).astype(np.float32) for shape in ((1, 6, 7, 128), (3, 3, 128, 128)))

  def function(kernel, x):
    convolve = lowering("Conv2D").function
    return convolve(x, kernel, strides=[1, 1, 1, 1], padding="SAME", dilations=[1, 2, 2, 1])

  source = to_source(function, kernel, x)
  assert "conv2d_as_product" not in source.text and "lax.platform_dependent(cpu=" in source.text
  np.testing.assert_array_equal(source.function()(kernel, x), function(kernel, x))


def test_average_pooling_is_a_sum_of_windows_divided_by_their_sizes():
  x = np.random.default_rng(0).normal(size=(2, 5, 6, 3)).astype(np.float32)

  def function(x):
    same = lowering("AvgPool").function(x, ksize=[1, 3, 2, 1], strides=[1, 2, 1, 1], padding="SAME")
    return same, lowering("AvgPool").function(x, ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding="VALID")

  source = to_source(function, jax.ShapeDtypeStruct((jax.export.symbolic_shape("b")[0], *x.shape[1:]), x.dtype))
  # The definitions, the two sums of an average, and a call of each.
  assert source.text.count("sum_pool(") == 4 and source.text.count("avg_pool(") == 2
  assert source.text.count("reduce_window(") == 1
  for found, wanted in zip(source.function()(x), function(x), strict=True):
    np.testing.assert_array_equal(found, wanted)


def test_a_convolution_in_groups_of_one_channel_is_depthwise():
  x = np.random.default_rng(0).normal(size=(2, 5, 6, 3)).astype(np.float32)
  kernel = np.random.default_rng(1).normal(size=(3, 3, 1, 3)).astype(np.float32)

  def function(kernel, x):
    return lowering("Conv2D").function(x, kernel, strides=[1, 1, 1, 1], padding="SAME")

  source = to_source(function, kernel, x)
  assert "return depthwise_conv(x, kernel, (1, 1), ((1, 1), (1, 1)))" in source.text
  np.testing.assert_array_equal(source.function()(kernel, x), function(kernel, x))


def test_batch_normalization_without_a_scale_is_recovered():
  def function(p, x):
    for i in range(2):
      scale = jax.lax.rsqrt(p[f"norm_{i}"]["variance"] + 0.001)
      x = x * scale + (p[f"norm_{i}"]["beta"] - p[f"norm_{i}"]["mean"] * scale)
    return x

  p = {f"norm_{i}": {name: np.ones(3, np.float32) for name in ("variance", "beta", "mean")} for i in range(2)}
  source = to_source(function, p, np.ones((2, 3), np.float32))
  assert source.recovered == 1 and source.text.count("def batch_norm(p, x):") == 1
