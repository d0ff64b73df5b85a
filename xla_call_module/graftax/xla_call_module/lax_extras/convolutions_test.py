"""Convolutions in the form for CPUs against XLA's own, for the layouts that exporters write."""

import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.xla_call_module.lax_extras import conv_general_dilated

_RNG = np.random.default_rng(0)
_NHWC, _NCHW, _HWNC = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW"), ("HWNC", "OHWI", "HWNC")

# layouts, input [batch, height, width, channels], filter [height, width, channels / groups, out channels], strides,
# padding, dilations -> whether it has a form for CPUs
_CASES = {
  "depthwise": (_NHWC, (2, 6, 5, 3), (3, 3, 1, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), True),
  "depthwise, channels first": (_NCHW, (2, 6, 5, 3), (3, 2, 1, 3), (2, 1), ((1, 0), (0, 1)), (1, 1), True),
  "depthwise, batch third": (_HWNC, (2, 6, 5, 3), (3, 2, 1, 6), (1, 2), ((0, 0), (2, 1)), (2, 1), True),
  "depthwise with two filters": (_NHWC, (1, 5, 6, 4), (2, 3, 1, 8), (2, 2), ((0, 1), (1, 1)), (1, 2), True),
  "pointwise": (_NHWC, (2, 5, 4, 3), (1, 1, 3, 6), (2, 1), ((0, 0), (0, 0)), (1, 1), True),
  "pointwise, channels first": (_NCHW, (2, 5, 4, 3), (1, 1, 3, 6), (1, 1), ((0, 0), (0, 0)), (1, 1), False),
  "few pixels": (_NHWC, (1, 4, 4, 128), (3, 3, 128, 128), (1, 1), ((1, 1), (1, 1)), (1, 1), True),
  "groups": (_NHWC, (1, 4, 4, 32), (3, 3, 16, 6), (1, 1), ((1, 1), (1, 1)), (1, 1), True),
  "dense": (_NHWC, (1, 8, 8, 4), (3, 3, 4, 5), (1, 1), ((1, 1), (1, 1)), (1, 1), False),
  "a window beyond the input": (_NHWC, (1, 2, 2, 3), (3, 3, 1, 3), (1, 1), ((0, 0), (0, 0)), (1, 1), False),
  "padding that cuts off": (_NHWC, (1, 6, 6, 3), (3, 3, 1, 3), (1, 1), ((-1, 1), (1, 1)), (1, 1), False),
}


def _placed(x, axes, layout):
  return jnp.asarray(x.transpose([axes.index(axis) for axis in layout]))


def _convolutions(name, dtype="float32", **changes):
  layouts, x, kernel, strides, padding, dilations, _ = _CASES[name]
  args = (
    _placed(_RNG.normal(size=x).astype(dtype), "NHWC", layouts[0]),
    _placed(_RNG.normal(size=kernel).astype(dtype), "HWIO", layouts[1]),
  )
  settings = {
    "window_strides": strides,
    "padding": padding,
    "rhs_dilation": dilations,
    "dimension_numbers": lax.conv_dimension_numbers(args[0].shape, args[1].shape, layouts),
    "feature_group_count": x[-1] // kernel[-2],
    "lhs_dilation": (1, 1),
    "preferred_element_type": dtype,
    **changes,
  }
  return (
    args,
    (lambda *args: conv_general_dilated(*args, **settings)),
    lambda *args: lax.conv_general_dilated(*args, **settings),
  )


def _has_choice(function, args):
  return "platform_index" in str(jax.make_jaxpr(function)(*args))


@pytest.mark.parametrize("name", _CASES)
def test_values_and_derivatives_are_those_of_lax(name):
  args, found, expected = _convolutions(name)
  assert _has_choice(found, args) == _CASES[name][-1]

  def all_of(function):
    def run(*args):
      y, pull = jax.vjp(function, *args)
      return y, pull(jnp.cos(y)), jax.vmap(function)(*(jnp.stack([x, 2 * x]) for x in args))

    return jax.jit(run)(*args)

  for a, b in zip(*(jax.tree.leaves(all_of(function)) for function in (found, expected)), strict=True):
    assert a.shape == b.shape and a.dtype == b.dtype
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * float(jnp.max(jnp.abs(b), initial=1)))


def test_short_floating_point_types_are_added_up_in_float32():
  args, found, _ = _convolutions("depthwise", "float16")
  wide, _, expected = _convolutions("depthwise")
  wide = [x.astype(jnp.float32) for x in args]
  np.testing.assert_allclose(jax.jit(found)(*args), expected(*wide), rtol=1e-3, atol=1e-3)


def test_what_the_forms_do_not_compute_is_left_to_lax():
  args, found, _ = _convolutions("depthwise")
  assert _has_choice(found, args)
  _, with_dilated_input, _ = _convolutions("depthwise", lhs_dilation=(2, 1))
  assert not _has_choice(with_dilated_input, args)
  short, wider_result, _ = _convolutions("depthwise", "float16", preferred_element_type="float32")
  assert not _has_choice(wider_result, short)
  dense, exact, _ = _convolutions("pointwise", precision=lax.Precision.HIGHEST)
  assert not _has_choice(exact, dense)
  _, of_integers, expected = _convolutions("depthwise", preferred_element_type="int32")
  integers = [x.astype(jnp.int32) for x in args]
  assert not _has_choice(of_integers, integers)
  np.testing.assert_array_equal(of_integers(*integers), expected(*integers))


def test_sizes_may_be_symbolic():
  layouts, _, kernel, *_ = _CASES["depthwise"]
  _, found, _ = _convolutions("depthwise")
  (batch,) = jax.export.symbolic_shape("b")
  spec = jax.ShapeDtypeStruct((batch, 6, 5, 3), "float32")
  assert not _has_choice(found, (spec, jnp.ones(kernel)))


def test_there_may_be_no_spatial_dimension():
  x, w = jnp.arange(6.0).reshape(2, 3), jnp.arange(12.0).reshape(3, 4)
  numbers = lax.conv_dimension_numbers(x.shape, w.shape, ("NC", "IO", "NC"))
  np.testing.assert_array_equal(conv_general_dilated(x, w, (), (), (), (), numbers), x @ w)


@pytest.mark.parametrize("name", ["depthwise", "few pixels"])
def test_padding_of_any_size_is_left_to_xla_which_does_not_store_it(name):
  args, found, _ = _convolutions(name, window_strides=(1 << 28, 1), padding=((1 << 28, 0), (1, 1)))
  assert not _has_choice(found, args)


@pytest.mark.parametrize(
  ("name", "changes", "message"),
  [
    ("depthwise", {"window_strides": (0, 1)}, "positive stride"),
    ("depthwise", {"rhs_dilation": (-1, 1), "padding": ((4, 4), (4, 4))}, "dilations must be positive"),
    ("depthwise", {"feature_group_count": 2}, "feature_group_count"),
    ("few pixels", {"window_strides": (1,)}, "window_strides"),
    ("few pixels", {"feature_group_count": 0}, "feature_group_count"),
  ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_sizes_that_do_not_fit_have_the_errors_of_lax(name, changes, message):
  args, found, _ = _convolutions(name, **changes)
  with pytest.raises((TypeError, ValueError), match=message):
    jax.jit(found).lower(*args)


@pytest.mark.parametrize("channels", [1, 128])
def test_equal_convolutions_share_their_branches(channels):
  x, kernel = jnp.ones((1, 8, 8, 128)), jnp.ones((3, 3, channels, 128))
  numbers = lax.conv_dimension_numbers(x.shape, kernel.shape, ("NHWC", "HWIO", "NHWC"))

  def convolve(x):
    sizes = ((1, 1), [(1, 1), (1, 1)], (1, 1), (1, 1))
    return conv_general_dilated(x, kernel, *sizes, numbers, feature_group_count=128 // channels)

  equations = jax.make_jaxpr(lambda x: convolve(convolve(x)))(x).eqns
  first, second = (equation.params["branches"] for equation in equations if equation.primitive.name == "cond")
  assert all(a.jaxpr is b.jaxpr for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize(
  ("size", "kernel_shape", "stride"),
  [(7, (3, 3, 128, 128), 1), (8, (2, 2, 3, 16), 2), (8, (1, 1, 3, 16), 1)],
  ids=["few pixels", "patches", "1x1"],
)
def test_a_sharded_batch_stays_so_in_an_explicit_mesh(size, kernel_shape, stride):
  mesh = jax.make_mesh((1,), ("batch",), axis_types=(jax.sharding.AxisType.Explicit,))
  rng = np.random.default_rng(0)
  x = rng.normal(size=(2, size, size, kernel_shape[2])).astype(np.float32)
  kernel = rng.normal(size=kernel_shape).astype(np.float32)
  numbers = lax.conv_dimension_numbers(x.shape, kernel.shape, ("NHWC", "HWIO", "NHWC"))
  expected = lax.conv_general_dilated(x, kernel, (stride, stride), "VALID", dimension_numbers=numbers)
  with jax.set_mesh(mesh):
    sharded = jax.device_put(x, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("batch")))
    sizes = ((stride, stride), [(0, 0), (0, 0)], (1, 1), (1, 1))
    y = jax.jit(lambda x: conv_general_dilated(x, kernel, *sizes, numbers))(sharded)
    assert jax.typeof(y).sharding.spec[0] == "batch"
  np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("strides", [(1, 9), (9, 1)])
def test_few_windows_of_a_long_axis_are_those_of_lax(strides):
  rng = np.random.default_rng(0)
  x = rng.normal(size=(2, *(45 if stride > 1 else 6 for stride in strides), 128)).astype(np.float32)
  kernel = rng.normal(size=(3, 2, 128, 128)).astype(np.float32)
  numbers = lax.conv_dimension_numbers(x.shape, kernel.shape, ("NHWC", "HWIO", "NHWC"))
  expected = lax.conv_general_dilated(x, kernel, strides, [(1, 0), (0, 2)], dimension_numbers=numbers)
  found = conv_general_dilated(x, kernel, strides, [(1, 0), (0, 2)], (1, 1), (1, 1), numbers)
  np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("long_axis", [0, 1])
def test_few_windows_of_a_long_axis_need_less_memory_than_the_input(long_axis):
  # The first axis alone, with all of its cells, would be 51 times as large as the input.
  def placed(long, short):
    return (long, short) if long_axis == 0 else (short, long)

  x = jax.ShapeDtypeStruct((1, *placed(400, 319), 128), jnp.float32)
  kernel = jax.ShapeDtypeStruct((*placed(1, 64), 128, 128), jnp.float32)
  numbers = lax.conv_dimension_numbers(x.shape, kernel.shape, ("NHWC", "HWIO", "NHWC"))

  def convolve(x, kernel):
    return conv_general_dilated(x, kernel, placed(400, 1), [(0, 0), (0, 0)], (1, 1), (1, 1), numbers)

  memory = jax.jit(convolve).lower(x, kernel).compile().memory_analysis()
  assert memory.temp_size_in_bytes < x.size * x.dtype.itemsize


@pytest.mark.parametrize("dilation", [1, 2**30])
def test_the_dilation_of_a_single_cell_makes_no_array_larger(dilation):
  x, kernel = jnp.ones((1, 6, 6, 128)), jnp.ones((1, 3, 128, 128))
  numbers = lax.conv_dimension_numbers(x.shape, kernel.shape, ("NHWC", "HWIO", "NHWC"))

  def convolve(x):
    return conv_general_dilated(x, kernel, (1, 1), [(0, 0), (1, 1)], (1, 1), (dilation, 1), numbers)

  # A program that runs op by op, as under `jax.disable_jit`, stores every one of these.
  shapes = re.findall(r"f32\[([\d,]+)\]", str(jax.make_jaxpr(convolve)(x)))
  assert len(shapes) > 10
  assert max(math.prod(map(int, shape.split(","))) for shape in shapes) <= kernel.size
  expected = lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=numbers)
  np.testing.assert_allclose(convolve(x), expected, rtol=1e-6)
