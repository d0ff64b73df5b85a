"""Reductions, windows, products and convolutions as plain TensorFlow ops."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.testing.plain_ops import check_plain_ops

pytestmark = pytest.mark.tensorflow


def _normal(*shape, dtype=np.float32):
  return (np.random.default_rng(0).normal(size=shape) * 4).astype(dtype)


_NAN = np.where(_normal(2, 5, 6, 3) > 7, np.nan, _normal(2, 5, 6, 3)).astype(np.float32)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint8, np.int32, np.bool_, jnp.bfloat16])
def test_reductions(dtype):
  def function(x):
    found = [jnp.argmax(x, 1), jnp.argmin(x, 0), jnp.all(x != 0, 1), jnp.any(x, (0, 1))]
    if x.dtype != bool:
      found += [lax.cummax(x), lax.cummin(x, 1)]
      found += [lax.reduce_max(x, (0,)), lax.reduce_min(x, (0, 1)), lax.cumsum(x, reverse=True), lax.cumprod(x)]
      found += [lax.reduce_prod(x, (0,)), lax.reduce(x, np.asarray(0, dtype), lax.add, (0,))]
    if np.issubdtype(x.dtype, np.integer):
      found += [lax.reduce_and(x, (0,)), lax.reduce_or(x, (1,)), lax.reduce_xor(x, (0,)), lax.reduce_sum(x, (0,))]
    return found

  check_plain_ops(function, _normal(5, 4).round().astype(dtype), rtol=1e-2 if dtype is jnp.bfloat16 else 1e-5)


def test_nan_in_reductions():
  x = np.array([[1, np.nan, 5, np.nan], [-np.inf, 2, np.inf, 1]], np.float32)

  def function(x):
    return (
      [jnp.max(x, 1), jnp.min(x, 1), jnp.argmax(x, 1), jnp.argmin(x, 1), lax.cummax(x, 1), lax.cummin(x, 1), x.sum()],
      [lax.cumlogsumexp(x, axis, reverse=reverse) for axis in (0, 1) for reverse in (False, True)],
    )

  check_plain_ops(function, x)


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16])
def test_short_floats_accumulate_in_float32(dtype):
  ones = np.ones(3000, dtype)
  # An addition of 16 bits stops at 256 or 2048. JAX computes partial sums, and its error is below 2 percent.
  check_plain_ops(lambda x: (lax.cumsum(x), lax.reduce_sum(x, (0,))), ones, rtol=2e-2)


@pytest.mark.parametrize("size", [1, 2, 7])
def test_reductions_along_a_symbolic_batch(size):
  def largest_with_position(a, b):
    later = (b[0] > a[0]) | ((b[0] == a[0]) & (b[1] < a[1]))
    return jnp.where(later, b[0], a[0]), jnp.where(later, b[1], a[1])

  def function(x):
    numbers = lax.broadcasted_iota(jnp.int32, x.shape, 0)
    return (
      [lax.cummax(x), lax.cummin(x, reverse=True), lax.cummax(x[:, ::-1].astype(np.int8))],
      lax.reduce((x, numbers), (-np.inf, np.int32(99)), largest_with_position, (0,)),
      lax.reduce(x[..., None], 0.0, lambda a, b: a + b + a * b, (0, 2)),
    )

  check_plain_ops(function, np.round(_normal(size, 4)), polymorphic_shapes=["b, _"])


@pytest.mark.parametrize("reducer", ["max", "min", "add", "mul"])
@pytest.mark.parametrize("window", [(1, 2, 3, 1), (2, 2, 1, 2), (1, 3, 1, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_windows(reducer, window, dtype):
  function, initial = {
    "max": (lax.max, -np.inf), "min": (lax.min, np.inf), "add": (lax.add, 0), "mul": (lax.mul, 1),
  }[reducer]  # fmt: skip
  x = _NAN if dtype is np.float32 else _normal(2, 5, 6, 3).astype(dtype)
  if dtype is np.int32 and reducer in ("max", "min"):
    initial = np.iinfo(dtype).min if reducer == "max" else np.iinfo(dtype).max
  reduce = functools.partial(lax.reduce_window, init_value=np.asarray(initial, dtype), computation=function)

  def run(x):
    same = reduce(x, window_dimensions=window, window_strides=(1, 2, 1, 1), padding="SAME")
    valid = reduce(x, window_dimensions=window, window_strides=(1, 1, 2, 1), padding="VALID")
    dilated = reduce(
      x, window_dimensions=window, window_strides=(1,) * 4, padding=((0, 1), (1, 0), (0, 0), (0, 0)),
      base_dilation=(1, 2, 1, 1), window_dilation=(1, 1, 2, 1),
    )  # fmt: skip
    return same, valid, dilated

  check_plain_ops(run, x, rtol=2e-5, atol=1e-5)


def test_extremes_of_pooled_images():
  def pooled(x, reducer, initial):
    return lax.reduce_window(x, initial, reducer, (1, 2, 2, 1), (1, 2, 1, 1), ((0, 0), (1, 0), (0, 1), (0, 0)))

  check_plain_ops(lambda x: (pooled(x, lax.min, np.inf), pooled(x, lax.max, -np.inf), pooled(x, lax.add, 0.0)), _NAN)


@pytest.mark.parametrize("size", [1, 7])
def test_gradients_of_pooling_with_a_symbolic_batch(size):
  def pooled(x):
    return lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 1, 1), "SAME")

  def function(x):
    _, tangent = jax.jvp(pooled, (x,), (jnp.cos(x),))
    return jax.grad(lambda x: (pooled(x) ** 2).sum())(x), tangent

  ties = np.round(_normal(size, 5, 4, 2) / 4)
  check_plain_ops(function, ties, polymorphic_shapes=["b, _, _, _"])


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint32, jnp.bfloat16, np.complex64])
def test_products(dtype):
  x, y = _normal(2, 3, 4).astype(dtype), _normal(2, 4, 5).astype(dtype)

  def function(x, y):
    return (
      [x[0] @ y[0], x @ y, jnp.einsum("bij,bkj->bik", x, y.swapaxes(1, 2)), jnp.einsum("bij,bjk->kbi", x, y)],
      [jnp.tensordot(x, y, ((0, 2), (0, 1))), jnp.einsum("bij,cjk->bcik", x, y), x[0, 0] @ y[0], jnp.vdot(x, x)],
    )

  check_plain_ops(function, x, y, rtol=1e-2 if dtype is jnp.bfloat16 else 1e-5, atol=1e-4)


def test_products_of_long_unsigned_integers():
  x = np.arange(6, dtype=np.uint64).reshape(2, 3) * np.uint64(2**40 + 1)
  with jax.enable_x64(True):
    check_plain_ops(lambda x: x @ x.T, x)


def test_products_of_short_integers_sum_in_wide_ones():
  x = np.full((2, 9), 127, np.int8)
  check_plain_ops(lambda x: jnp.matmul(x, x.T, preferred_element_type=np.int32), x)


@pytest.mark.parametrize(
  "options",
  [
    {"padding": "SAME", "window_strides": (2, 1)},
    {"padding": ((-1, 2), (0, 3))},
    {"padding": "VALID", "rhs_dilation": (2, 1)},
    {"padding": ((1, 1), (2, 1)), "lhs_dilation": (2, 3)},
    {"padding": "SAME", "feature_group_count": 2},
    {"padding": "SAME", "feature_group_count": 4, "window_strides": (2, 1), "rhs_dilation": (1, 2)},
    {"padding": "VALID", "batch_group_count": 2},
  ],
)
def test_convolutions_of_images(options):
  groups = options.get("feature_group_count", 1)
  x, kernel = _normal(2, 6, 7, 4), _normal(3, 2, 4 // groups, 8)
  options = {"window_strides": (1, 1), **options}

  def function(x, kernel):
    return (
      lax.conv_general_dilated(x, kernel, dimension_numbers=("NHWC", "HWIO", "NHWC"), **options),
      lax.conv_general_dilated(
        x.transpose(0, 3, 1, 2), kernel.transpose(3, 2, 0, 1), dimension_numbers=("NCHW", "OIHW", "NCHW"), **options
      ),
    )

  check_plain_ops(function, x, kernel, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_along_other_numbers_of_axes(rank, groups):
  x, kernel = _normal(2, *(5,) * rank, 4), _normal(*(2,) * rank, 4 // groups, 6)
  spatial = "DHW"[:rank]
  numbers = (f"N{spatial}C", f"{spatial}IO", f"N{spatial}C")
  options = {"dimension_numbers": numbers, "feature_group_count": groups, "rhs_dilation": (2,) * rank}

  def function(x, kernel):
    return lax.conv_general_dilated(x, kernel, (1,) * rank, "SAME", **options)

  check_plain_ops(function, x, kernel, atol=1e-3)


def test_gradients_of_convolutions():
  x, kernel = _normal(2, 6, 6, 3), _normal(3, 3, 3, 4)

  def loss(x, kernel):
    return (lax.conv_general_dilated(x, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) ** 2).sum()

  check_plain_ops(jax.grad(loss, (0, 1)), x, kernel, atol=1e-2)


@pytest.mark.parametrize("length", [6, 9])
def test_fourier_transforms(length):
  def function(x):
    z = x + 1j * x[::-1]
    half = jnp.fft.rfft(x, length)
    return jnp.fft.fft(z, length), jnp.fft.ifft(z), half, jnp.fft.irfft(half, length), jnp.fft.fft2(z), jnp.fft.rfftn(x)

  check_plain_ops(function, _normal(4, 6), atol=1e-4)


@pytest.mark.parametrize("size", [1, 4, 7])
def test_same_padding_with_strides_over_symbolic_sizes(size):
  def function(x, kernel):
    images = ("NHWC", "HWIO", "NHWC")
    pooled = [
      lax.reduce_window(x, init, by, (1, 3, 2, 1), (1, 2, 2, 1), "SAME")
      for init, by in ((-np.inf, lax.max), (np.inf, lax.min), (0.0, lax.add))
    ]
    return (
      lax.conv_general_dilated(x, kernel, (2, 2), "SAME", dimension_numbers=images),
      lax.conv_general_dilated(x, kernel, (3, 1), "SAME", rhs_dilation=(2, 1), dimension_numbers=images),
      lax.conv_transpose(x, kernel, (2, 2), "SAME", dimension_numbers=images),
      *pooled,
    )

  check_plain_ops(function, _normal(2, size, 6, 3), _normal(3, 2, 3, 4), polymorphic_shapes=["b, h, _, _", None])


def test_reductions_over_vmapped_axes():
  def row(x):
    own = lax.axis_index("i") + lax.psum(1, "i")
    gathered = lax.all_gather(x, "i") * 2 + lax.all_to_all(x, "i", 0, 0)
    moved = lax.ppermute(x, "i", [(0, 1), (1, 2), (2, 0)]) + lax.psum_scatter(x, "i")
    return lax.psum((x, x * 2), "i"), lax.pmax(x, "i"), lax.pmin(x, "i"), lax.pmean(x, "i"), own, gathered, moved

  def function(x):
    rows = jax.vmap(row, axis_name="i")(x)
    return rows, jax.grad(lambda x: (jax.vmap(lambda r: r - lax.pmean(r, "i"), axis_name="i")(x) ** 3).sum())(x)

  check_plain_ops(function, _normal(3, 3))


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_extremes_of_complex_numbers(dtype):
  real, imag = np.random.default_rng(0).integers(-2, 3, (2, 5, 4)) / 2
  x = (real + 1j * imag).astype(dtype)

  def function(x):
    found = [lax.reduce_max(x, (0,)), lax.reduce_min(x, (0, 1)), lax.reduce(x, np.asarray(0, dtype), lax.max, (1,))]
    running = [f(x, axis, reverse) for f in (lax.cummax, lax.cummin) for axis in (0, 1) for reverse in (True, False)]
    return found, running, lax.reduce_window(x, np.asarray(-1j, dtype), lax.max, (2, 3), (1, 2), "SAME")

  with jax.enable_x64(dtype == np.complex128):
    check_plain_ops(function, x)


def test_running_logarithms_of_sums_with_infinities():
  x = np.array([[1, np.inf, np.inf, 2], [-np.inf, -np.inf, 3, np.inf], [np.inf, np.nan, np.inf, 1]], np.float32)
  check_plain_ops(lambda x: [lax.cumlogsumexp(x, axis, reverse) for axis in (0, 1) for reverse in (False, True)], x)


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_empty_arrays_reduced_by_a_function(axes):
  x = np.ones((0, 3), np.float32)
  check_plain_ops(lambda x: lax.reduce(x, np.float32(3), lambda a, b: a * b + a, axes), x)


@pytest.mark.parametrize("function", [lax.reduce_max, lax.reduce_min])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_extremes_of_no_complex_numbers(function, axes):
  check_plain_ops(lambda x: function(x, axes), np.zeros((0, 3), np.complex64))
