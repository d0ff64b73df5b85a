"""Nested arguments and results, integers beside floats, and empty arrays."""

import jax.numpy as jnp
import numpy as np

from graftax.testing.jax_functions.case import Case, f32

_IDS = np.array([[1, 2, 3, 0]] * 3, np.int32)

CASES = (
  Case(
    "dict_in_and_out",
    lambda d: {"sum": d["a"] + d["b"], "parts": [d["a"] * 2]},
    ({"a": f32(3, 4), "b": f32(3, 4)},),
    ({"a": "b, _", "b": "b, _"},),
  ),
  Case("tuple_of_arguments", lambda p, x: (x @ p[0], {"y": p[1]}), ((f32(4, 2), f32(2)), f32(3, 4)), (None, "b, _")),
  Case("unused_argument", lambda x, y: x * 2, (f32(3, 4), f32(3, 4)), ("b, _", "b, _")),
  Case("passed_through", lambda x, y: (y, x, x), (f32(3, 4), f32(3, 4)), ("b, _", "b, _")),
  Case("constant_result", lambda x: (x * 2, jnp.arange(3.0), 7), (f32(3, 4),), ("b, _",)),
  Case("nothing_else_depends_on_the_input", lambda x: jnp.ones((x.shape[0], 2)), (f32(3, 4),), ("b, _",)),
  Case("integers_and_floats", lambda x, i: (x * i, i + 1, x > i), (f32(3, 4), _IDS), ("b, _", "b, _")),
  Case("integers_alone", lambda i: (i * 2, i.sum()), (_IDS,), ("b, _",)),
  Case("argmax_beside_maximum", lambda x: (x.max(1), jnp.argmax(x, 1)), (f32(3, 4),), ("b, _",)),
  Case("scalars", lambda x, y: x * y + 1, (f32(), f32())),
  Case("empty_arrays", lambda x: (x.sum(1), x * 2), (f32(3, 0),), ("b, _",)),
  Case("size_of_batch", lambda x: (x.shape[0] + jnp.zeros((), np.int32), x / x.shape[0]), (f32(3, 4),), ("b, _",)),
  Case(
    "large_constant",
    lambda x: x @ jnp.asarray(np.linspace(0, 1, 40_000, dtype=np.float32).reshape(4, -1)),
    (f32(3, 4),),
    ("b, _",),
  ),
)
