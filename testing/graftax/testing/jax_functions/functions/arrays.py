"""Shapes, slices, gathers and scatters."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn

from graftax.testing.jax_functions.case import SHARED, Case, f32

_X = (f32(3, 4),)
_B = ("b, _",)
_V = (f32(6),)
_ROWS = np.array([0, 2, 2, 1], np.int32)
_LABELS = np.array([0, 1, 3, 1, 0], np.int32)

CASES = (
  Case("reshape_transpose", lambda x: x.reshape(-1, 2).T.reshape(2, x.shape[0], 2).swapaxes(0, 1) * 2, _X, _B),
  Case("concatenate_stack", lambda x: jnp.concatenate([x, x * 2], 0) @ jnp.stack([x[0], x[-1]], 1), _X, _B),
  Case("split", lambda x: jnp.split(x, 2, axis=1)[0] * jnp.split(x, [1, 3], axis=1)[1], _X, _B),
  Case("pad", lambda x: jnp.pad(x, ((1, 2), (0, 1)), constant_values=0.5), _X, _B),
  Case("pad_reflect", lambda x: jnp.pad(x, ((0, 0), (2, 1)), mode="reflect"), _X, _B),
  Case("negative_pad", lambda x: lax.pad(x, 0.5, ((0, 0, 0), (-1, 2, 1))), _X, _B),
  Case("roll_flip", lambda x: jnp.roll(x, 2, 0) * x[:, ::-1] + jnp.flip(x), _X, _B),
  Case("tile_repeat", SHARED["tile_repeat"], _X, _B),
  Case("slices", lambda x: x[:, 1:4:2] * x[:, :1] + x[-1, 0], _X, _B),
  Case("squeeze_expand", lambda x: jnp.squeeze(x[:, None, :, None], 1) + jnp.moveaxis(x[None], 0, 2), _X, _B),
  Case("iota_of_batch", lambda x: x * jnp.arange(x.shape[0], dtype=x.dtype)[:, None] / x.shape[0], _X, _B),
  Case("eye_of_batch", lambda x: jnp.eye(x.shape[0]) @ x + jnp.ones((x.shape[0], 4)), _X, _B),
  Case("triangles", lambda x: jnp.tril(x) + jnp.triu(x, 1) * 2 + jnp.diag(x[0])[: x.shape[0]], (f32(4, 4),)),
  Case("one_hot_meshgrid", lambda x: nn.one_hot(jnp.argmax(x, 1), 4) + jnp.meshgrid(x[0], x[:, 0])[0], _X, _B),
  Case("two_symbols", lambda x, y: x[:, None] * y[None], (f32(3, 4), f32(2, 4)), ("b, _", "c, _")),
  Case("symbol_arithmetic", lambda x: x.reshape(-1) * (x.shape[0] * 2 + 1), (f32(4, 4),), ("2*b, _",)),
  Case(
    "dynamic_slice",
    lambda x, i: lax.dynamic_slice(x, (0, i), (x.shape[0], 2)) ** 2,
    (f32(3, 4), np.int32(1)),
    ("b, _", None),
  ),
  Case(
    "dynamic_update",
    lambda x, i: lax.dynamic_update_slice(x, x[:, :2] * 2, (0, i)) ** 2,
    (f32(3, 4), np.int32(9)),
    ("b, _", None),
  ),
  Case("take", lambda x, i: jnp.take(x, i, axis=0) ** 2, (f32(3, 4), _ROWS), ("b, _", "n")),
  Case("take_fill", lambda x: jnp.take(x, jnp.array([0, 9, -1]), axis=1, mode="fill", fill_value=0.0) ** 2, _X, _B),
  Case("integer_indexing", lambda x: x[:, jnp.array([1, 1, 3])] ** 2 + x[jnp.array([0]), jnp.array([2])], _X, _B),
  Case("boolean_mask", lambda x: jnp.where(x > 0, x, 0)[:, np.array([True, False, True, True])], _X, _B),
  Case("take_along_axis", lambda x: jnp.take_along_axis(x, jnp.argsort(x, 1), 1) ** 2, _X, _B),
  Case(
    "embedding",
    lambda table, ids: jnp.tanh(table[ids]).sum(1),
    (f32(5, 3), np.array([[0, 4], [1, 1]], np.int32)),
    (None, "b, _"),
  ),
  Case("select", lambda x: jnp.select([x > 0.3, x < 0], [x, x * 2], x**2), _X, _B),
  # scatter
  Case("scatter_set", lambda x: x.at[:, jnp.array([0, 2])].set(x[:, :2] * 3.0) ** 2, _X, _B),
  Case("scatter_add", lambda x: jnp.zeros((x.shape[0], 5)).at[:, jnp.array([0, 1, 1, 9])].add(x**2), _X, _B),
  Case("scatter_rows", lambda x: jnp.zeros((5, 4)).at[jnp.arange(x.shape[0]) % 3].add(x), _X, _B),
  Case("scatter_subtract", lambda x: x.at[:, jnp.array([1, 1, 2])].subtract(x[:, :3]) ** 2, _X, _B),
  Case("scatter_multiply", lambda x: x.at[:, jnp.array([0, 2])].multiply(2.5), _X, _B),
  Case("scatter_min_max", lambda x: x.at[:, 1].max(0.3) + x.at[:, jnp.array([0, 0])].min(-0.2), _X, _B),
  Case("scatter_apply", lambda x: x.at[:, 1].apply(jnp.sin), _X, _B, gradient=False),
  Case("segment_sum", SHARED["segment_sum"], _V),
  Case("segment_max", lambda x, i: jax.ops.segment_max(x, i, 4), (f32(5, 2), _LABELS), ("b, _", "b"), gradient=False),
  Case("bincount", lambda i: jnp.bincount(i, length=4), (_LABELS,), ("b",)),
  Case("histogram", SHARED["histogram"], _V, ("b",), gradient=False),
  Case(
    "interp_digitize",
    lambda x: jnp.interp(x, jnp.array([-1.0, 0, 1]), jnp.array([0.0, 2, 1])) + jnp.digitize(x, jnp.array([-0.5, 0.5])),
    _X,
    _B,
  ),
  # sorting
  Case("sort", SHARED["sort"], _X, _B),
  Case("sort_batch", lambda x: jnp.sort(x, axis=0, descending=True), _X, _B),
  Case("argsort", lambda x: jnp.argsort(x, axis=1), _X, _B),
  Case("lexsort", SHARED["lexsort"], (f32(3, 4), f32(3, 4)), ("b, _", "b, _")),
  Case("top_k", lambda x: lax.top_k(x, 2), _X, _B),
  Case("top_k_gradient", SHARED["top_k"], _X, _B),
  Case("approx_max_k", lambda x: lax.approx_max_k(x, 2)[0], _X),
  Case("searchsorted", SHARED["searchsorted"], (f32(6), f32(3)), (None, "b")),
  Case("unique", lambda x: jnp.unique(x.round(1), size=4, fill_value=0.0), _V, ("b",), gradient=False),
  Case("partition", lambda x: jnp.partition(x, 2, axis=1)[:, 2], _X, _B),
  Case("nonzero", lambda x: jnp.nonzero(x > 0, size=5, fill_value=-1), _X, _B),
)
