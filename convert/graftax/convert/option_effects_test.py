"""What each option does, and that threads do not see each other's."""

import concurrent.futures
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
from jax.experimental import checkify, jax2tf

import graftax.convert as gc
from graftax.convert.host_split.host_function import plan_host_function
from graftax.convert.live.function import program_from_concrete_function

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def _convert(tf_fn, *args, **options):
  """The function, converted with some options; those of a call are read again at each call."""
  converted = {}

  def convert(names):
    if not names:
      converted["fn"] = gc.convert_functional(tf_fn, *args)
      return
    with gc.override_config(names[0], options[names[0]]):
      convert(names[1:])

  convert(list(options))
  return converted["fn"]


def test_strict_shape_check_is_read_at_each_call():
  fn = _convert(tf.function(lambda x: x + 1.0), X)
  with pytest.raises(gc.InputError, match=r"got shape \[1, 3\]"):
    fn(X[:1])
  with gc.override_config("strict_shape_check", False):
    assert fn(X[:1]).shape == (1, 3)


def test_strict_dtype_check_is_read_at_each_call():
  fn = _convert(tf.function(lambda x: x + 1.0), X)
  assert fn(X.astype(np.int32)).dtype == np.float32
  with gc.override_config("strict_dtype_check", True), pytest.raises(gc.InputError, match="got dtype int32"):
    fn(X.astype(np.int32))


@pytest.mark.parametrize(("dtype", "bits"), [(tf.float32, 32), (tf.float64, 64)])
def test_force_const_turns_constants_into_bfloat16(dtype, bits):
  tf_fn = tf.function(lambda x: tf.cast(x, dtype) * 0.0 + tf.constant([3.14159], dtype))
  option = f"force_const_float{bits}_to_bfloat16"
  example = np.zeros(1, dtype.as_numpy_dtype)
  with jax.enable_x64(bits == 64):
    plain, forced = _convert(tf_fn, example), _convert(tf_fn, example, **{option: True})
    assert plain(example)[0] == pytest.approx(3.14159)
    assert float(forced(jnp.zeros(1, jnp.bfloat16))[0]) == 3.140625


def test_resize_bilinear_multiplies_no_matrices_whatever_the_precision():
  tf_fn = tf.function(lambda x: tf.compat.v1.image.resize_bilinear(x, [4, 4]))
  image = np.ones((1, 2, 2, 1), np.float32)
  for precision in ("highest", "default"):
    fn = _convert(tf_fn, image, resize_bilinear_precision=precision)
    assert "dot_general" not in str(jax.make_jaxpr(fn)(image))


def test_raise_on_prevent_gradient_can_be_switched_off():
  tf_fn = tf.function(lambda x: tf.raw_ops.PreventGradient(input=x * x, message="prevented"))
  with pytest.raises(LookupError, match="prevented"):
    jax.grad(_convert(tf_fn, 0.0))(3.14)
  assert jax.grad(_convert(tf_fn, 0.0, raise_on_prevent_gradient=False))(3.0) == 6.0


def test_convert_custom_gradient_can_be_switched_off():
  @tf.function
  @tf.custom_gradient
  def tf_fn(x):
    return x * x, lambda dy: dy * 100.0

  assert jax.grad(_convert(tf_fn, 0.0))(3.0) == 100.0
  assert jax.grad(_convert(tf_fn, 0.0, convert_custom_gradient=False))(3.0) == 6.0


def test_enable_checkify_for_asserts_turns_asserts_into_checks():
  @tf.function
  def inner(x):
    tf.debugging.Assert(tf.reduce_all(x < 10.0), ["too large"])
    return x * 2.0

  @tf.function
  def tf_fn(x):
    tf.debugging.assert_positive(x, message="not positive")
    return inner(x)

  np.testing.assert_allclose(_convert(tf_fn, X)(X), X * 2)
  checked = jax.jit(checkify.checkify(_convert(tf_fn, X, enable_checkify_for_asserts=True)))
  for x, message in ((np.abs(X) + 1, None), (X, "not positive"), (np.abs(X) + 10, "too large")):
    error, result = checked(x)
    np.testing.assert_allclose(result, x * 2)
    assert error.get() is None if message is None else message in error.get()


def test_checks_in_loops_over_known_lists_run():
  @tf.function
  def squares(x):
    found = tf.TensorArray(tf.int32, 3)
    for i in tf.range(3):
      tf.debugging.assert_less(x[i], 0.5, message="too large")
      found = found.write(i, i * i)
    return found.stack()

  x = np.zeros(3, np.float32)
  checked = jax.jit(checkify.checkify(_convert(squares, x, enable_checkify_for_asserts=True)))
  for last, message in ((0.25, None), (0.75, "too large")):
    x[2] = last
    error, result = checked(x)
    np.testing.assert_array_equal(result, [0, 1, 4])
    assert error.get() is None if message is None else message in error.get()


def test_xlacallmodule_strict_checks_is_read_at_each_call():
  tf_fn = tf.function(jax2tf.convert(jnp.sin, native_serialization_platforms=["tpu"]), autograph=False)
  fn = _convert(tf_fn, X)
  with pytest.raises(ValueError, match="tpu"):
    jax.block_until_ready(fn(X))
  with gc.override_config("xlacallmodule_strict_checks", False):
    np.testing.assert_allclose(fn(X), np.sin(X), rtol=1e-6)


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize(
  "option",
  ["disable_assert_in_tensor_list_get_item", "infer_relu_from_jax2tf", "infer_cumulative_reduction_from_jax2tf"],
)
def test_options_that_change_nothing_change_nothing(option, value):
  @tf.function
  def tf_fn(x):
    rows = tf.map_fn(lambda row: row * 2.0, x)
    return jax2tf.convert(lambda y: jax.nn.relu(jnp.cumsum(y, axis=0)))(rows)

  fn = _convert(tf_fn, X, **{option: value})
  np.testing.assert_allclose(fn(X), np.maximum(np.cumsum(X * 2, axis=0), 0), rtol=1e-6, atol=1e-6)
  np.testing.assert_allclose(jax.grad(lambda x: fn(x).sum())(np.zeros_like(X)), np.zeros_like(X))


def test_threads_that_convert_with_different_options_get_what_they_would_get_alone():
  @tf.function
  @tf.custom_gradient
  def square(x):
    return x * x, lambda dy: dy * 100.0

  @tf.function
  def tf_fn(x):
    return square(x) + tf.constant(3.14159)

  tf_fn.get_concrete_function(tf.TensorSpec([]))
  settings = [(custom, forced) for custom in (True, False) for forced in (True, False)] * 2
  barrier = threading.Barrier(len(settings))

  def work(setting, together):
    custom, forced = setting
    if together:
      barrier.wait(timeout=60)
    fn = _convert(tf_fn, 0.0, convert_custom_gradient=custom, force_const_float32_to_bfloat16=forced)
    return float(jax.grad(fn)(3.0)), float(fn(jnp.bfloat16(0))), str(fn(jnp.bfloat16(0)).dtype)

  alone = [work(setting, False) for setting in settings]
  assert len(set(alone)) == 4
  with concurrent.futures.ThreadPoolExecutor(len(settings)) as pool:
    assert list(pool.map(lambda setting: work(setting, True), settings)) == alone


class _Assigns(tf.Module):
  def __init__(self):
    self.v = tf.Variable([2.0, 3.0], name="v")
    self.w = tf.Variable([0.5, -1.0], name="w")

  def once(self, x):
    self.v.assign(self.w * x)
    return self.v * self.v

  def twice(self, x):
    before = self.v * x
    self.v.assign_add(self.w * before)
    self.v.assign(tf.sin(self.v))
    return self.v * self.v * before

  def a_constant(self, x):
    self.v.assign([0.5, 4.0])
    return self.v * self.v * self.w * x

  def in_a_branch(self, x):
    if tf.reduce_sum(x) > 0.0:
      self.v.assign(self.w * x)
    return self.v * self.v * self.w

  def in_a_loop(self, x):
    total = tf.zeros(2)
    for _ in tf.range(3):
      self.v.assign(self.v * self.w + x)
      total += self.v * self.v
    return total


@pytest.mark.parametrize("method", ["once", "twice", "a_constant", "in_a_branch", "in_a_loop"])
def test_derivatives_after_assignments_are_those_of_tensorflow(method):
  x = np.array([0.3, 0.7], np.float32)
  module = _Assigns()
  function = tf.function(getattr(module, method))
  fn, params = gc.convert(function, x)
  found = jax.jit(jax.grad(lambda p, x: fn(p, x)[0].sum(), argnums=(0, 1)))(params, x)
  with tf.GradientTape() as tape:
    inputs = tf.constant(x)
    tape.watch(inputs)
    loss = tf.reduce_sum(function(inputs))
  expected = tape.gradient(loss, [module.v, module.w, inputs], unconnected_gradients="zero")
  # Without jit, and by the parameters alone, what is assigned need not be traced.
  outside = jax.grad(lambda p: fn(p, x)[0].sum())(params)
  for name, one, other in zip("vwx", (found[0]["v"], found[0]["w"], found[1]), expected, strict=True):
    np.testing.assert_allclose(one, other, rtol=1e-6, err_msg=name)
    if name != "x":
      np.testing.assert_allclose(outside[name], other, rtol=1e-6, err_msg=name)


def test_derivatives_may_pass_through_assignments():
  x = np.array([0.3, 0.7], np.float32)
  with gc.override_config("differentiate_assignments", True):
    fn, params = gc.convert(tf.function(_Assigns().once), x)
  found = jax.grad(lambda p: fn(p, x)[0].sum())(params)
  np.testing.assert_allclose(found["w"], 2 * np.array([0.5, -1.0]) * x * x, rtol=1e-6)
  np.testing.assert_array_equal(found["v"], [0, 0])


@pytest.mark.parametrize(
  ("function", "shape"),
  [
    (lambda x: tf.nn.max_pool_with_argmax(x, 2, 2, "SAME")[0], [2, 6, 6, 3]),
    (lambda x: tf.nn.depthwise_conv2d(x, tf.ones([3, 3, 3, 2]), [1, 1, 1, 1], "SAME"), [2, 6, 6, 3]),
    (lambda x: tf.nn.dilation2d(x, tf.ones([2, 2, 3]), [1] * 4, "SAME", "NHWC", [1] * 4), [2, 6, 6, 3]),
    (lambda x: tf.linalg.sqrtm(x @ tf.transpose(x) + 9 * tf.eye(3)), [3, 4]),
    (lambda x: tf.quantization.fake_quant_with_min_max_vars_per_channel(x, [-1.0] * 4, [1.0] * 4), [3, 4]),
    (lambda x: x * tf.random.stateless_truncated_normal([3, 4], [1, 2]), [3, 4]),
  ],
)
def test_programs_take_no_notice_of_how_jax_is_told_to_promote(function, shape):
  x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
  with tf.GradientTape() as tape:
    tape.watch(given := tf.constant(x))
    want = function(given)
  with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
    fn = gc.convert_functional(tf.function(function), x)
    gradient = jax.grad(jax.jit(lambda x: fn(x).sum()))(x)
    results = fn(x), jax.jit(fn)(x)
  for result in results:
    np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-5)
  np.testing.assert_allclose(gradient, tape.gradient(want, given), rtol=1e-4, atol=1e-5)


def test_neither_do_heads_and_freezing():
  x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
  matrix = tf.Variable(x @ x.T + 9 * np.eye(3, dtype=np.float32))
  root = tf.linalg.sqrtm(matrix)
  count = tf.function(lambda x, names: tf.linalg.sqrtm(x) * tf.cast(tf.size(names), x.dtype))
  spec = [tf.TensorSpec([3, 3], tf.float32), tf.TensorSpec([None], tf.string)]
  program = program_from_concrete_function(count.get_concrete_function(*spec))
  scale = tf.function(lambda x: x * tf.linalg.trace(tf.linalg.sqrtm(matrix)))
  with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
    (on_host,) = plan_host_function(program)([matrix.numpy(), np.array([b"a", b"b"], object)])
    fn, params, _ = gc.freeze(*gc.convert(scale, x))
    scaled, _ = fn(params, x)
  np.testing.assert_allclose(on_host, 2 * root, rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(scaled, x * tf.linalg.trace(root), rtol=1e-5)
