"""The forms of convolutions for CPUs against XLA's own convolution: values, derivatives, and when each is chosen."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.ops_jax._core.registry import lowering
from graftax.ops_jax.nn.conv import convolve
from graftax.ops_jax.nn.conv_forms import canonical_form, cpu_form
from graftax.ops_jax.nn.conv_gradients import (
  conv2d_backprop_filter_v2,
  conv2d_backprop_input,
  conv3d_backprop_input_v2,
)
from graftax.ops_jax.spatial.layouts import layout
from graftax.ops_jax.spatial.windows import layout_and_window
from graftax.xla_call_module.lax_extras import (
  CONV_FORMS,
  CONV_INPUT_GRADIENT_FORMS,
  CONV_INPUT_GRADIENT_VALUES,
  ConvShapes,
  xla_convolutions,
)

_RNG = np.random.default_rng(0)

# input shape, filter shape, strides, dilations, padding -> name of the form, in `CONV_FORMS` and in
# `CONV_INPUT_GRADIENT_FORMS`
_CASES = {
  "pointwise": ((2, 5, 4, 3), (1, 1, 3, 6), (1, 1), (1, 1), "SAME", "patches", "patches"),
  "pointwise_with_strides": ((2, 5, 4, 3), (1, 1, 3, 6), (2, 3), (1, 1), "VALID", "patches", "patches"),
  "patches_with_rest": ((2, 7, 9, 3), (2, 3, 3, 5), (2, 3), (1, 1), "VALID", "patches", "patches"),
  "one_row": ((2, 1, 9, 3), (1, 3, 3, 5), (1, 3), (1, 1), "SAME", "patches", "patches"),
  "volumes": ((1, 4, 5, 6, 2), (2, 1, 3, 2, 3), (2, 2, 3), (1, 1, 1), "VALID", "patches", "patches"),
  "few_pixels": ((1, 4, 3, 130), (3, 2, 130, 128), (1, 1), (1, 2), "SAME", "rows of cells, few pixels", None),
  "few_pixels_with_strides": (
    (2, 7, 6, 128),
    (3, 3, 128, 129),
    (2, 2),
    (1, 1),
    "SAME",
    "rows of cells, few pixels",
    "rows of cells, with strides",
  ),
  "strides": ((2, 7, 6, 4), (3, 3, 4, 5), (2, 2), (1, 1), "SAME", None, "rows of cells, with strides"),
  "long_strides": ((2, 9, 8, 4), (2, 3, 4, 5), (3, 2), (1, 1), "SAME", None, "rows of cells, with strides"),
  "many_cells_per_pixel": ((1, 15, 15, 3), (5, 5, 3, 4), (2, 2), (1, 1), "SAME", None, None),
  "groups": ((2, 6, 5, 48), (3, 3, 16, 9), (2, 1), (1, 1), "SAME", "one for each group", "one for each group"),
  "narrow_groups": ((2, 6, 5, 64), (3, 2, 4, 32), (1, 1), (2, 1), "SAME", None, None),
  "dense": ((1, 8, 8, 4), (3, 3, 4, 5), (1, 1), (1, 1), "SAME", None, None),
  "empty": ((0, 4, 4, 3), (1, 1, 3, 6), (1, 1), (1, 1), "SAME", None, None),
}


def _case(name):
  x_shape, kernel_shape, strides, dilations, padding, *names = _CASES[name]
  place, window = layout_and_window(
    name, x_shape, kernel_shape, strides=(1, *strides, 1), dilations=(1, *dilations, 1), padding=padding
  )
  x, kernel = (jnp.asarray(_RNG.normal(size=shape), jnp.float32) for shape in (x_shape, kernel_shape))
  return x, kernel, window, place, x_shape[-1] // kernel_shape[-2], names


def _chosen(x, kernel, window, groups, forms):
  shapes = ConvShapes(x.shape, kernel.shape, window.strides, window.dilations, window.padding, groups)
  return next((form.name for form in forms if x.size and form.fits(shapes)), None)


def _check_close(got, expected):
  for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
    assert a.shape == b.shape
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * float(jnp.max(jnp.abs(b), initial=1)))


@pytest.mark.parametrize("name", _CASES)
def test_a_form_equals_the_convolution_and_so_do_its_derivatives(name):
  x, kernel, window, place, groups, (chosen, for_gradients) = _case(name)
  assert _chosen(x, kernel, window, groups, CONV_FORMS) == chosen
  assert _chosen(x, kernel, window, groups, CONV_INPUT_GRADIENT_FORMS) == for_gradients

  def canonical(x, kernel):
    return canonical_form(x, kernel, window, place, groups)

  expected, pull = jax.vjp(canonical, x, kernel)
  cotangent = jnp.asarray(_RNG.normal(size=expected.shape), jnp.float32)
  for forms in (CONV_FORMS, CONV_INPUT_GRADIENT_FORMS):
    form = cpu_form(x, kernel, window, place, groups, forms)
    if form is not None:
      got, pull_form = jax.jit(lambda x, kernel: jax.vjp(form, x, kernel))(x, kernel)  # noqa: B023
      _check_close((got, pull_form(cotangent)), (expected, pull(cotangent)))
      (transposed,) = jax.linear_transpose(lambda x: form(x, kernel), x)(cotangent)  # noqa: B023
      _check_close(transposed, pull(cotangent)[0])
  chosen_for_cpu = jax.jit(lambda x, kernel: jax.jvp(lambda *a: convolve(*a, window, place), (x, kernel), (x, kernel)))
  _check_close(chosen_for_cpu(x, kernel), jax.jvp(canonical, (x, kernel), (x, kernel)))
  attrs = {"strides": (1, *window.strides, 1), "dilations": (1, *window.dilations, 1), "padding": window.padding_name}
  if len(window.size) == 2:
    _check_close(
      (
        conv2d_backprop_input(x.shape, kernel, cotangent, **attrs),
        conv2d_backprop_filter_v2(x, kernel, cotangent, **attrs),
      ),
      pull(cotangent),
    )


# input shape, filter shape, strides, padding -> whether the transpose is computed by blocks, and outside of
# `xla_convolutions`
_BLOCKS = {
  "two_blocks": ((2, 8, 10, 4), (4, 4, 4, 5), (2, 2), "SAME", True, False),
  "other_blocks": ((2, 12, 11, 3), (6, 4, 3, 5), (3, 1), "VALID", True, False),
  "one_block_with_rest": ((1, 9, 8, 4), (2, 2, 4, 3), (2, 2), "SAME", True, False),
  "explicit_padding": ((1, 8, 8, 4), (4, 4, 4, 3), (2, 2), [(3, 0), (0, 4)], True, False),
  "padding_larger_than_the_window": ((1, 4, 4, 2), (2, 2, 2, 3), (2, 2), [(5, 3), (3, 6)], True, False),
  "rows_that_no_window_reads": ((1, 11, 9, 2), (4, 4, 2, 3), (4, 2), "VALID", True, False),
  "many_pixels": ((1, 128, 128, 2), (4, 4, 2, 3), (2, 2), "SAME", True, True),
  "one_pixel": ((3, 2, 2, 4), (4, 4, 4, 5), (2, 2), "SAME", False, False),
  "parts_of_blocks": ((2, 8, 8, 4), (3, 3, 4, 5), (2, 2), "SAME", False, False),
  "groups": ((2, 8, 8, 4), (4, 4, 2, 6), (2, 2), "SAME", False, False),
  "volumes": ((1, 6, 4, 8, 2), (4, 2, 4, 2, 3), (2, 2, 2), "SAME", True, False),
}


@pytest.mark.parametrize("name", _BLOCKS)
def test_transposes_by_blocks_equal_those_of_the_convolution_and_so_do_their_derivatives(name):
  x_shape, kernel_shape, strides, padding, chosen, chosen_outside = _BLOCKS[name]
  attrs = {"strides": (1, *strides, 1)}
  if isinstance(padding, str):
    attrs["padding"] = padding
  else:
    attrs |= {"padding": "EXPLICIT", "explicit_paddings": [0, 0, *np.ravel(padding).tolist(), 0, 0]}
  place, window = layout_and_window("test", x_shape, kernel_shape, **attrs)
  x, kernel = (jnp.asarray(_RNG.normal(size=shape), jnp.float32) for shape in (x_shape, kernel_shape))
  groups = x_shape[-1] // kernel_shape[-2]
  expected = jax.linear_transpose(lambda x: canonical_form(x, kernel, window, place, groups), x)
  dy = jnp.asarray(_RNG.normal(size=canonical_form(x, kernel, window, place, groups).shape), jnp.float32)
  assert (_chosen(x, kernel, window, groups, CONV_INPUT_GRADIENT_VALUES) is not None) == chosen_outside
  op = conv2d_backprop_input if len(strides) == 2 else conv3d_backprop_input_v2

  def transposed(kernel, dy):
    return op(x_shape, kernel, dy, **attrs)

  def canonical(kernel, dy):
    return jax.linear_transpose(lambda x: canonical_form(x, kernel, window, place, groups), x)(dy)[0]

  with xla_convolutions():
    assert (_chosen(x, kernel, window, groups, CONV_INPUT_GRADIENT_VALUES) is not None) == chosen
    text = jax.jit(transposed).lower(kernel, dy).as_text()
    got = jax.jit(lambda *a: jax.jvp(transposed, a, a))(kernel, dy)
    _, pull = jax.vjp(transposed, kernel, dy)
  # Holes between the pixels of `dy` are what the form does without.
  assert ("lhs_dilate = [2" in text) <= (not chosen)
  _check_close(got[0], expected(dy)[0])
  _check_close(got, jax.jvp(canonical, (kernel, dy), (kernel, dy)))
  _check_close(pull(x), jax.vjp(canonical, kernel, dy)[1](x))

  def slope(function):
    return jax.grad(lambda kernel: jax.grad(lambda dy: jnp.sin(function(kernel, dy)).sum())(dy).sum())

  with xla_convolutions():
    _check_close(jax.jit(slope(transposed))(kernel), slope(canonical)(kernel))
    _check_close(
      jax.linear_transpose(lambda dy: transposed(kernel, dy), dy)(x),
      jax.linear_transpose(lambda dy: canonical(kernel, dy), dy)(x),
    )
  _check_close(jax.vmap(transposed)(jnp.stack([kernel, 2 * kernel]), jnp.stack([dy, dy]))[1], 2 * got[0])


def test_transposes_by_blocks_keep_infinite_values_in_their_windows():
  dy, kernel = jnp.ones((1, 4, 4, 2)).at[0, 1, 1, 0].set(jnp.inf), jnp.ones((4, 4, 3, 2))
  with xla_convolutions():
    got = jax.jit(lambda dy: conv2d_backprop_input((1, 8, 8, 3), kernel, dy, strides=(1, 2, 2, 1), padding="SAME"))(dy)
  assert jnp.isinf(got[0, 1:5, 1:5]).all() and jnp.isfinite(got[0, 5:]).all() and jnp.isfinite(got[0, :, 5:]).all()


@pytest.mark.parametrize("name", ["patches_with_rest", "few_pixels_with_strides", "groups"])
def test_forms_can_be_mapped_over_inputs_and_filters(name):
  x, kernel, window, place, _, _ = _case(name)
  xs, kernels = jnp.stack([x, 2 * x]), jnp.stack([kernel, kernel + 1])
  got = jax.jit(jax.vmap(lambda x, kernel: convolve(x, kernel, window, place)))(xs, kernels)
  for i in range(2):
    _check_close(got[i], convolve(xs[i], kernels[i], window, place))


def test_cells_of_few_pixels_are_one_loop():
  x, kernel, window, place, groups, _ = _case("few_pixels")
  form = cpu_form(x, kernel, window, place, groups)
  text = jax.jit(form).lower(x, kernel).compile().as_text()
  # A slice for each cell takes twice as long to compile.
  assert text.count(" concatenate(") == 0


@pytest.mark.parametrize("channels", [2, 4, 16])
def test_infinite_values_stay_in_their_group(channels):
  groups = 3
  place, window = layout_and_window(
    "test", (1, 6, 5, channels * groups), (3, 3, channels, 6), strides=(1, 1, 1, 1), padding="SAME"
  )
  x = jnp.ones((1, 6, 5, channels * groups)).at[0, 3, 3, 0].set(jnp.inf)
  got = jax.jit(lambda x: convolve(x, jnp.ones((3, 3, channels, 6)), window, place))(x)
  assert jnp.isinf(got[0, 2:5, 2:5, :2]).all() and jnp.isfinite(got[..., 2:]).all()


def _sharded_ops():
  attrs = {"strides": (1, 2, 1, 1), "padding": "SAME"}
  depthwise, kernel = jnp.ones((3, 2, 128, 2)), jnp.ones((3, 2, 128, 130))
  return {
    "conv": lambda x: lowering("Conv2D").function(x, kernel, **attrs),
    "depthwise": lambda x: lowering("DepthwiseConv2dNative").function(x, depthwise, **attrs),
    "transposed": lambda x: conv2d_backprop_input((4, 8, 6, 64), jnp.ones((3, 2, 64, 128)), x, **attrs),
    "transposed depthwise": lambda x: lowering("DepthwiseConv2dNativeBackpropInput").function(
      (4, 8, 6, 64), jnp.ones((3, 2, 64, 2)), x, **attrs
    ),
    "filter gradient": lambda x: conv2d_backprop_filter_v2(
      jnp.ones((4, 8, 6, 3)), jnp.ones((3, 2, 3, 128)), x, **attrs
    ),
  }


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("name", _sharded_ops())
def test_an_explicit_mesh_may_divide_the_input(name, axis):
  op = _sharded_ops()[name]
  x = jnp.asarray(_RNG.normal(size=(4, 4, 6, 128)), jnp.float32)
  mesh = jax.make_mesh((1,), ("devices",), axis_types=(jax.sharding.AxisType.Explicit,), devices=jax.devices()[:1])

  @jax.jit
  def with_gradient(x):
    y, pull = jax.vjp(op, x)
    return y, pull(jnp.cos(y))

  expected = with_gradient(x)
  with jax.set_mesh(mesh):
    sharding = jax.sharding.NamedSharding(mesh, jax.P(*[None] * axis, "devices"))
    _check_close(with_gradient(jax.device_put(x, sharding)), expected)


@pytest.mark.parametrize("name", ["pointwise", "few_pixels", "groups"])
def test_other_platforms_keep_the_convolution(name):
  x, kernel, window, place, _, _ = _case(name)
  traced = jax.jit(lambda x, kernel: convolve(x, kernel, window, place)).trace(x, kernel)
  gpu = traced.lower(lowering_platforms=("cuda",)).as_text()
  assert gpu.count("stablehlo.convolution") == 1
  assert "stablehlo.dot_general" not in gpu
  cpu = traced.lower(lowering_platforms=("cpu",)).as_text()
  assert cpu.count("stablehlo.convolution") == (3 if name == "groups" else 0)


def test_symbolic_sizes_other_types_and_channels_first_keep_the_convolution():
  place, window = layout_and_window("test", (2, 4, 4, 3), (1, 1, 3, 6), strides=(1, 1, 1, 1), padding="SAME")
  kernel = jax.ShapeDtypeStruct((1, 1, 3, 6), jnp.float32)
  (batch,) = jax.export.symbolic_shape("b")
  assert cpu_form(jax.ShapeDtypeStruct((2, 4, 4, 3), jnp.float32), kernel, window, place, 1) is not None
  assert cpu_form(jax.ShapeDtypeStruct((batch, 4, 4, 3), jnp.float32), kernel, window, place, 1) is None
  half = jax.ShapeDtypeStruct((1, 1, 3, 6), jnp.bfloat16)
  assert cpu_form(jax.ShapeDtypeStruct((2, 4, 4, 3), jnp.bfloat16), half, window, place, 1) is None
  x = jax.ShapeDtypeStruct((2, 3, 4, 4), jnp.float32)
  assert cpu_form(x, kernel, window, layout("test", "NCHW", 4), 1) is None


def test_windows_of_many_cells_keep_the_convolution():
  for x, kernel, strides in (
    ((1, 1, 4096, 1), (1, 1024, 1, 513), (1, 256)),
    ((1, 600, 600, 1), (300, 300, 1, 1), (150, 150)),
    ((1, 12, 12, 128), (9, 9, 128, 128), (1, 1)),
  ):
    place, window = layout_and_window("test", x, kernel, strides=(1, *strides, 1), padding="VALID")
    specs = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in (x, kernel)]
    for forms in (CONV_FORMS, CONV_INPUT_GRADIENT_FORMS):
      assert cpu_form(*specs, window, place, 1, forms) is None
