# mypy: ignore-errors
"""Writes dated files of `jax.export`, with the results and derivatives that JAX computed when it wrote them.

Run it in an environment that has the JAX of a date, jaxlib, numpy and flatbuffers, and nothing of graftax. JAX 0.4.30
and 0.5 need Python 3.11 and `absl-py`, too:

    python exported_functions.py xla_call_module/graftax/xla_call_module/testdata/exported

It writes `FUNCTION-VERSION.jax`, which is the serialized `Exported`, and `FUNCTION-VERSION.npz` with
`input_0`, ... (leaves of the arguments), `output_0`, ... (leaves of the results) and `gradient_0`, ... (derivatives of
the sum of the results with respect to the arguments of a floating dtype). Files are never changed after they have been
written, except by this script.
"""

import collections
import functools
import os
import pathlib
import sys

if __name__ == "__main__":  # the search for doctests imports the module, and must not change the settings of tests
  os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
  os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

# Without types: this script runs with many versions of JAX, which have different ones, and is not imported.

Point = collections.namedtuple("Point", ["x", "y"])


class Scaled:
  """A pytree node with a factor that is not an array."""

  def __init__(self, value, factor):
    self.value, self.factor = value, factor


jax.tree_util.register_pytree_node(Scaled, lambda s: ((s.value,), s.factor), lambda factor, c: Scaled(c[0], factor))
# JAX 0.4.30 has no names for nodes in files.
NAMES_NODES = hasattr(export, "register_pytree_node_serialization")
if NAMES_NODES:
  export.register_namedtuple_serialization(Point, serialized_name="graftax.test.Point")
  export.register_pytree_node_serialization(
    Scaled,
    serialized_name="graftax.test.Scaled",
    serialize_auxdata=lambda factor: str(factor).encode(),
    deserialize_auxdata=lambda data: float(data.decode()),
  )


def _f32(*shape, start=0.1):
  return (start + np.arange(np.prod(shape), dtype=np.float32) / 7).reshape(shape)


def symbolic():
  """An open batch, with a stored derivative."""
  (b,) = export.symbolic_shape("b", constraints=("b >= 2",))
  specs = (jax.ShapeDtypeStruct((b, 3), np.float32), jax.ShapeDtypeStruct((3, 2), np.float32))
  args = (_f32(4, 3), _f32(3, 2, start=-0.5))

  def run(x, w):
    return jnp.tanh(x @ w) * x.shape[0]

  return run, specs, {}, args, {}, 1, None


@jax.custom_vjp
def clipped(x):
  return jnp.sin(x) * 1.5


clipped.defvjp(lambda x: (clipped(x), x), lambda x, g: (jnp.clip(g * 3, -0.5, 0.5),))


def loop():
  """A loop whose body has a custom derivative that differs from the mathematical one. Two orders are stored."""

  def run(x):
    return lax.fori_loop(0, 3, lambda i, x: clipped(x) + 0.1 * x, x)

  args = (_f32(3),)
  return run, args, {}, args, {}, 2, None


def trees():
  """Nested arguments and results, nodes of registered classes, an argument by name, an unused one, and None."""

  def run(params, point, unused, *, scale):
    w, (b, n) = params["w"], params["b"]
    x, factor = (point.x.value, point.x.factor) if NAMES_NODES else (point["x"], 2.0)
    y = point.y if NAMES_NODES else point["y"]
    out = jnp.dot(x, w) * scale * factor + b
    made = Point(Scaled(out, 4.0), y + n) if NAMES_NODES else [out, y + n]
    return {"out": made, "none": None, "more": (collections.OrderedDict(z=b * 2, a=n) if NAMES_NODES else (b * 2, n),)}

  point = Point(Scaled(_f32(3), 2.0), np.int32(7)) if NAMES_NODES else {"x": _f32(3), "y": np.int32(7)}
  args = ({"w": _f32(3, 2), "b": [_f32(2), np.int32(3)]}, point, (None, _f32(1)))
  kwargs = {"scale": np.float32(1.5)}
  return run, args, kwargs, args, kwargs, 1, None


def lapack():
  """Decompositions that LAPACK computes."""

  def run(a, b):
    spd = a @ a.T + 3 * jnp.eye(3, dtype=a.dtype)
    factor = jnp.linalg.cholesky(spd)
    q, r = jnp.linalg.qr(a)
    w, v = jnp.linalg.eigh(spd)
    u, s, vt = jnp.linalg.svd(a, full_matrices=False)
    eigenvalues = jnp.sort(jnp.abs(jnp.linalg.eigvals(a)))
    return jnp.linalg.solve(spd, b), factor, jnp.abs(q @ r), w, jnp.abs(v) @ b, s, u @ vt, eigenvalues

  a = np.array([[1, 0.5, -0.25], [0.25, 2, 0.75], [-0.5, 0.125, 1.5]], np.float32)
  args = (a, _f32(3))
  return run, args, {}, args, {}, 1, None


def platforms():
  """Code for two platforms, which differs."""

  def run(x):
    return lax.platform_dependent(x, cpu=lambda x: jnp.sin(x) * 2, tpu=lambda x: jnp.cos(x) * 3)

  args = (_f32(4),)
  return run, args, {}, args, {}, 1, ("cpu", "tpu")


def shard_map():
  """A program for two devices, which exchange data."""
  mesh = Mesh(np.array(jax.devices()), ("d",))
  if hasattr(jax, "shard_map"):
    mapped = jax.shard_map
  else:
    from jax.experimental.shard_map import shard_map as mapped
  split = PartitionSpec("d")

  @functools.partial(mapped, mesh=mesh, in_specs=(split, PartitionSpec()), out_specs=split)
  def run(x, w):
    return x * w + lax.psum(jnp.sin(x).sum(), "d")

  args = (_f32(4), _f32(2, start=1.5))
  shardings = tuple(NamedSharding(mesh, spec) for spec in (split, PartitionSpec()))
  if hasattr(jax, "make_mesh"):  # JAX 0.4.30 cannot derive a program with shardings of arguments
    run = jax.jit(run, in_shardings=shardings, out_shardings=shardings[0])
  return run, args, {}, args, {}, 1, None


def gradients(function, args, kwargs):
  leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
  moving = [i for i, leaf in enumerate(leaves) if np.asarray(leaf).dtype.kind == "f"]

  def total(values):
    full = list(leaves)
    for i, value in zip(moving, values, strict=True):
      full[i] = value
    given, named = jax.tree_util.tree_unflatten(tree, full)
    out = jax.tree_util.tree_leaves(function(*given, **named))
    return sum(x.sum() for x in out if x.dtype.kind == "f")

  return jax.grad(total)([leaves[i] for i in moving])


def write(folder, function):
  run, specs, named_specs, args, kwargs, order, platforms = function()
  jitted = run if hasattr(run, "lower") else jax.jit(run)
  options = {} if platforms is None else {"platforms": platforms}
  data = export.export(jitted, **options)(*specs, **named_specs).serialize(vjp_order=order)
  arrays = {f"input_{i}": x for i, x in enumerate(jax.tree_util.tree_leaves((args, kwargs)))}
  arrays |= {f"output_{i}": np.asarray(x) for i, x in enumerate(jax.tree_util.tree_leaves(jitted(*args, **kwargs)))}
  arrays |= {f"gradient_{i}": np.asarray(x) for i, x in enumerate(gradients(jitted, args, kwargs))}
  name = f"{function.__name__}-{'.'.join(jax.__version__.split('.')[:3])}"
  (folder / f"{name}.jax").write_bytes(bytes(data))
  np.savez_compressed(folder / f"{name}.npz", **arrays)
  print(name, len(data), {k: v.shape for k, v in arrays.items()})


if __name__ == "__main__":
  # Files of the machine and their lines are not part of a module.
  jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*")
  jax.config.update("jax_include_full_tracebacks_in_locations", False)
  folder = pathlib.Path(sys.argv[1])
  folder.mkdir(parents=True, exist_ok=True)
  for function in (symbolic, loop, trees, lapack, platforms, shard_map):
    write(folder, function)
