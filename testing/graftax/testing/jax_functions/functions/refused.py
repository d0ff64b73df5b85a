"""Functions that no TensorFlow graph can hold: each must raise while it is converted."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from graftax.testing.jax_functions.case import Case, f32

_X = (f32(2, 4),)


def _over_devices(body: Any) -> Any:
  def run(x: Array) -> Array:
    mesh = Mesh(np.array(jax.devices()[:2]), ("i",))
    return jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"))(x)

  return run


def _printed(x: Array) -> Array:
  jax.debug.print("{x}", x=x)
  return x * 2


def _refused(name: str, function: Any) -> Case:
  return Case(name, function, _X, gradient=False, refusal="must")


CASES = (
  _refused("psum", _over_devices(lambda x: lax.psum(x, "i") * jnp.ones_like(x))),
  _refused("all_gather", _over_devices(lambda x: lax.all_gather(x, "i")[0])),
  _refused("ppermute", _over_devices(lambda x: lax.ppermute(x, "i", [(0, 0)]))),
  _refused("debug_print", _printed),
  _refused("pure_callback", lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)),
  _refused("io_callback", lambda x: jax.experimental.io_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)),
)
