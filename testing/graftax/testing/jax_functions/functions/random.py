"""Random numbers: exactly those that JAX draws."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax import random as jr

from graftax.testing.jax_functions.case import SHARED, Case, f32
from graftax.testing.pytrees import PyTree

_KEY = np.array([0, 7], np.uint32)
_LONG_KEY = np.arange(4, dtype=np.uint32)


def _drawn(name: str, function: Callable[[Array, Array], PyTree], **settings: Any) -> Case:
  """Returns a case of `function(key, x)`; the key is an input, as plain words."""
  return Case(name, lambda k, x: function(jr.wrap_key_data(k), x), (_KEY, f32(3, 4)), (None, "b, _"), **settings)


CASES = (
  _drawn("normal", lambda k, x: jr.normal(k, x.shape) * x),
  _drawn("uniform", lambda k, x: jr.uniform(k, x.shape, minval=-1.0) + x),
  _drawn("split_fold_in", lambda k, x: jr.uniform(jr.fold_in(jr.split(k, 3)[1], 5), (4,)) * x),
  _drawn("randint", lambda k, x: jr.randint(k, x.shape, 0, 100)),
  _drawn("bits", lambda k, x: (jr.bits(k, x.shape), jr.bits(k, (3,), np.uint8))),
  _drawn("bernoulli_dropout", lambda k, x: jnp.where(jr.bernoulli(k, 0.7, x.shape), x / 0.7, 0)),
  _drawn("categorical", lambda k, x: jr.categorical(k, x, axis=1)),
  _drawn("truncated_normal", lambda k, x: jr.truncated_normal(k, -1.0, 2.0, x.shape) * x),
  _drawn("gumbel_exponential", lambda k, x: jr.gumbel(k, x.shape) * x + jr.exponential(k, x.shape)),
  _drawn("laplace_cauchy", lambda k, x: jr.laplace(k, x.shape) * x + jr.cauchy(k, x.shape)),
  Case("permutation", SHARED["permutation"], (_KEY, f32(6, 2))),
  Case(
    "choice", lambda k, x: jr.choice(jr.wrap_key_data(k), x, (3,), p=jnp.array([0.1, 0.2, 0.3, 0.4])), (_KEY, f32(4))
  ),
  Case("gamma", lambda k, a: jr.gamma(jr.wrap_key_data(k), a), (_KEY, f32(5)), (None, "b"), 1.0, 3.0),
  Case(
    "beta_dirichlet",
    lambda k, a: jr.dirichlet(jr.wrap_key_data(k), a),
    (_KEY, f32(4)),
    low=1.0,
    high=3.0,
    gradient=False,
  ),
  Case(
    "poisson", lambda k, a: jr.poisson(jr.wrap_key_data(k), a), (_KEY, f32(5)), (None, "b"), 1.0, 9.0, gradient=False
  ),
  Case(
    "multivariate_normal",
    lambda k, m: jr.multivariate_normal(jr.wrap_key_data(k), m, jnp.eye(3) + 0.1, method="cholesky"),
    (_KEY, f32(3)),
  ),
  Case("orthogonal", lambda k: jr.orthogonal(jr.wrap_key_data(k), 3), (_KEY,)),
  Case("seed_inside", lambda x: x + jr.normal(jr.key(3), x.shape), (f32(3, 4),), ("b, _",)),
  Case("rbg_bits", SHARED["rbg_bits"], (_LONG_KEY,)),
  Case(
    "rbg_uniform",
    lambda k, x: jr.uniform(jr.wrap_key_data(k, impl="rbg"), (4,)) * x,
    (_LONG_KEY, f32(3, 4)),
    (None, "b, _"),
  ),
)
