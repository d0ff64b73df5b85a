"""Shapes, slices, gathers and scatters as plain TensorFlow ops, in and out of bounds."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.testing.plain_ops import check_plain_ops

pytestmark = pytest.mark.tensorflow

_X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 7
_MODES = ("clip", "fill", "promise_in_bounds")


@pytest.mark.parametrize("size", [1, 7])
def test_shapes_with_a_symbolic_batch(size):
  def function(x):
    batch = x.shape[0]
    return (
      [x.reshape(-1, 2), x.transpose(2, 0, 1), x[::-1, :, 1:3], x[:, None], jnp.concatenate([x, x * 2], 0)],
      [jnp.arange(batch), jnp.eye(batch), jnp.broadcast_to(x[:, :1], x.shape), x.reshape(batch * 3, 4).sum(0)],
      [jnp.tile(x, (2, 1, 1)), jnp.split(x, 3, axis=1), x.mean(0), x.astype(np.int32) * batch, jnp.stack([x, x])],
      [lax.rev(x, (1, 2)), lax.pad(x, 0.5, ((1, 2, 0), (-1, 0, 0), (2, -1, 2)))],
    )

  check_plain_ops(function, np.resize(_X, (size, 3, 4)), polymorphic_shapes=["batch, _, _"])


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint32, np.bool_, jnp.bfloat16, np.complex64])
def test_dtypes_of_padding_and_moving(dtype):
  def function(x):
    value = jnp.asarray(1, dtype)
    return lax.pad(x, value, ((1, -1, 0), (0, 1, 1), (-2, 3, 1))), x[..., ::2], jnp.flip(x), jnp.roll(x, 1, 0), x[:, 0]

  check_plain_ops(function, _X.astype(dtype))


@pytest.mark.parametrize("padding", [(-3, 5, 0), (6, -4, 0), (-2, 1, 3), (2, -4, 2)])
def test_padding_that_removes_what_it_added(padding):
  check_plain_ops(
    lambda x: [lax.pad(x[:size], 7.0, (padding, (0, 1, 0))) for size in (2, 4)], _X[0, :, :2].repeat(2, 0)
  )


@pytest.mark.parametrize("size", [1, 2, 7])
def test_padding_of_symbolic_sizes(size):
  def function(x):
    batch = x.shape[0]
    return (
      lax.pad(x, 0.5, ((batch - 3, 2, 0), (0, -1, 0))),
      lax.pad(x, 7.0, ((5 - batch, batch - 1, 0), (0, 0, 1))),
      lax.pad(x, 1.0, ((0, 0, 0), (batch + 8, -batch, 2))),
      jax.grad(lambda x: (jnp.roll(x, 2, 0) * x[::-1]).sum())(x),
    )

  check_plain_ops(function, np.resize(_X, (size, 4)), polymorphic_shapes=["b, _"])


@pytest.mark.parametrize("starts", [(0, 0, 0), (1, 1, 1), (5, -9, 3), (-1, 2, 100)])
@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int8])
def test_positions_of_dynamic_slices_are_clamped(starts, dtype):
  at = np.array(starts).astype(dtype)

  def function(x, at):
    i = [at[0], at[1], at[2]]
    update = 90 + jnp.arange(6.0).reshape(1, 2, 3)
    row, column = 90 + jnp.arange(4.0).reshape(1, 1, 4), 90 + jnp.arange(4.0).reshape(2, 1, 2)[:, :1]
    updated = [lax.dynamic_update_slice(x, part, i) for part in (update, row, column, x * 2)]
    return lax.dynamic_slice(x, i, (1, 2, 3)), updated

  check_plain_ops(function, _X, at)


@pytest.mark.parametrize("mode", _MODES)
def test_gathers(mode):
  inside = [[0, 2], [1, 1], [2, 0]]
  at = np.array(inside if mode == "promise_in_bounds" else [*inside, [-4, 9], [3, -1], [1, 4]], np.int32)
  dnums = lax.GatherDimensionNumbers

  def function(x, at):
    windows = dnums(offset_dims=(1, 2), collapsed_slice_dims=(0,), start_index_map=(1, 2))
    return (
      x.at[:, at[:, 0]].get(mode=mode),
      x.at[0, at[:, 0], at[:, 1]].get(mode=mode),
      x.at[:, at[:, 0], 1].get(mode=mode),
      x.astype(np.int32).at[:, :, at[:, 1]].get(mode=mode),
      x.astype(np.uint8).at[at[:, 0]].get(mode=mode),
      (x > 0).at[at[:, 0]].get(mode=mode),
      lax.gather(x, at, windows, (1, 2, 3), mode=mode),
      jax.vmap(lambda row, i: row.at[i].get(mode=mode))(x[0], at[:3]),
    )

  x = np.concatenate([_X, _X[:1]]) if mode == "promise_in_bounds" else _X
  check_plain_ops(function, x, at)


@pytest.mark.parametrize("mode", ["clip", "drop"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8])
def test_scatters(mode, dtype):
  at = np.array([[0, 2], [1, 1], [-5, 0], [2, 9], [1, 1]], np.int32)
  x = _X.astype(dtype)

  def function(x, at):
    i, j = at[:, 0], at[:, 1]
    updates = jnp.arange(2 * 5 * 4).reshape(2, 5, 4).astype(dtype)
    few = jnp.arange(1, 6).astype(dtype)
    return (
      x.at[:, i].add(updates, mode=mode),
      x.at[:, i].subtract(updates, mode=mode),
      x.at[:, i].multiply(updates, mode=mode),
      x.at[:, i].min(updates, mode=mode),
      x.at[:, i].max(updates, mode=mode),
      x.at[1, i, j].add(few, mode=mode),
      x.at[:, jnp.array([0, 2])].set(updates[:, :2], mode=mode),
      x.at[0, 1:3, 2].set(dtype(5)),
      x.at[..., 1].apply(lambda v: v * v + dtype(1)),
      jax.vmap(lambda row, i, u: row.at[i].add(u, mode=mode))(x[0], at[:3, 1], few[:3]),
    )

  check_plain_ops(function, x, at)


def test_slices_without_positions():
  def function(x):
    numbers = lax.GatherDimensionNumbers(offset_dims=(1, 3), collapsed_slice_dims=(0,), start_index_map=())
    slices = lax.gather(x, jnp.zeros((5, 2, 0), jnp.int32), numbers, (1, x.shape[1] - 1, x.shape[2]))
    return slices, x.at[:].get(), x.at[...].get(mode="fill")

  check_plain_ops(function, _X)


def test_scatters_over_the_whole_array():
  def function(x):
    return (
      x.at[:].set(2 * x),
      x.at[:].add(1.0),
      x.at[...].max(0.5),
      jax.grad(lambda x: (x.at[:].multiply(x) ** 2).sum())(x),
    )

  check_plain_ops(function, _X)
  check_plain_ops(function, _X, polymorphic_shapes=["b, ..."])


@pytest.mark.parametrize("inserted", [(0,), (1,), (0, 1)])
def test_scatters_to_the_first_position_of_axes(inserted):
  windows = [axis for axis in range(2) if axis not in inserted]

  def function(x):
    numbers = lax.ScatterDimensionNumbers(tuple(range(len(windows))), inserted, ())
    updates = jnp.ones([x.shape[axis] for axis in windows], x.dtype)
    return lax.scatter_add(x, jnp.zeros((0,), jnp.int32), updates, numbers)

  check_plain_ops(function, _X[0])
  check_plain_ops(function, _X[0, :1, :1])


def test_scattered_nan_stays():
  x = np.array([1.0, np.nan, 3.0, 4.0], np.float32)
  at, updates = np.array([0, 0, 2, 1]), np.array([np.nan, 1, 9, 2], np.float32)
  check_plain_ops(lambda x, i, u: (x.at[i].max(u), x.at[i].min(u), x.at[i].add(u)), x, at, updates)


@pytest.mark.parametrize("size", [1, 7])
def test_gathers_and_scatters_with_a_symbolic_batch(size):
  def function(x, i):
    rows = jnp.take_along_axis(x, i, axis=1)
    return rows, x.at[:, 0].set(5.0), x.at[jnp.arange(x.shape[0]), i[:, 0]].add(1.0), x[i[:, 0] % 2], jnp.take(x, i, 0)

  x = np.random.default_rng(0).normal(size=(size, 3)).astype(np.float32)
  i = np.random.default_rng(1).integers(0, 3, (size, 2)).astype(np.int32)
  check_plain_ops(function, x, i, polymorphic_shapes=["b, _", "b, _"])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.uint8, np.bool_])
def test_sorting(dtype):
  values = np.array([3, 1, np.nan, 2, -np.inf, 1, np.inf, -np.nan, 0, -0.0, np.inf, 3])
  if dtype not in (np.float32, np.float16):
    values = np.nan_to_num(values, nan=100, posinf=np.iinfo(np.uint8).max, neginf=0) % 2 if dtype is np.bool_ else (
      np.nan_to_num(values, nan=100, posinf=255, neginf=np.iinfo(dtype).min))  # fmt: skip
  x = values.astype(dtype)
  pairs = np.array(list(itertools.permutations(range(3), 2)), np.int32)

  def function(x, pairs):
    order = jnp.argsort(x)
    two = lax.sort((pairs[:, 1] % 2, pairs[:, 0], pairs[:, 1]), num_keys=2)
    return order, jnp.sort(x), two, lax.sort(jnp.stack([x, x[::-1]], 1), dimension=0), *lax.top_k(x, 5)

  check_plain_ops(function, x, pairs)


def test_sorting_of_complex128():
  z = np.array([2 + 1j, 1 - 1j, 2 - 3j, -1 + 0j, 1 + 1e-12j], np.complex128)
  with jax.enable_x64(True):
    check_plain_ops(lambda z: (jnp.sort(z), jnp.argsort(z)), z)


def test_sorting_of_complex_numbers_and_least_elements():
  z = np.array([1 + 2j, 1 - 1j, 3j, 1 + 1j, -2, 3j - 1], np.complex64)
  x = np.array([[3, 1, 2], [9, -4, 0], [5, 7, -1], [6, 8, 4]], np.float32)

  def function(z, x):
    least = [lax.approx_min_k(x, 2), lax.approx_min_k(x, 3, reduction_dimension=0)]
    return lax.sort(z), lax.sort((z, x.ravel()[:6])), least, lax.approx_max_k(x, 2, reduction_dimension=0)

  check_plain_ops(function, z, x)


def test_searches_use_the_total_order_of_floats():
  x = np.array([-np.inf, -1, 0.0, 2, np.inf, np.nan], np.float32)
  y = np.array([np.nan, -0.0, 0.0, -1, 5, -np.inf, np.inf], np.float32)
  check_plain_ops(lambda x, y: (jnp.searchsorted(x, y), jnp.searchsorted(x, y, side="right")), x, y)
