import os
import subprocess
import sys

import numpy as np
import pytest

from graftax.xla_call_module import LiftError, Module, embed, ir, lift
from graftax.xla_call_module.lowerings import devices

_X = np.arange(4, dtype=np.float32)


def _gathered(groups: str, num: int) -> Module:
  return Module.from_text(f"""module {{ func.func public @main(%x: tensor<4xf32>) -> tensor<{4 * num}xf32> {{
    %r = "stablehlo.all_gather"(%x) <{{all_gather_dim = 0 : i64,
      replica_groups = dense<{groups}> : tensor<1x{num}xi64>}}> : (tensor<4xf32>) -> tensor<{4 * num}xf32>
    return %r : tensor<{4 * num}xf32> }} }}""")


def test_a_group_of_one_device_keeps_its_data():
  module = _gathered("[[0]]", 1)
  np.testing.assert_array_equal(lift(module)(_X)[0], embed(module)(_X)[0])


def test_a_group_of_several_devices_raises_with_its_name():
  with pytest.raises(LiftError, match=r"stablehlo.all_gather at .*in groups \[\[0, 1\]\]"):
    lift(_gathered("[[0, 1]]", 2))(_X)


_ID = """module {{ func.func public @main() -> tensor<ui32> {{
  %r = stablehlo.{} : tensor<ui32>
  return %r : tensor<ui32> }} }}"""


@pytest.mark.parametrize("kind", ["replica", "partition"])
def test_the_only_device_is_number_0_and_of_several_none_is_known(kind):
  text = _ID.format(f"{kind}_id")
  assert int(lift(Module.from_text(text))()[0]) == 0
  several = text.replace("module {", f"module attributes {{mhlo.num_{kind}s = 2 : i32}} {{", 1)
  with pytest.raises(LiftError, match=f"runs on several {kind}s"):
    lift(Module.from_text(several))()


_FOUR_DEVICES = """
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

from graftax.xla_call_module import ArgumentError, LiftError, Module, lift

mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


def sharded(function):
  return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y"), check_vma=False))


def function(a):
  b = lax.psum_scatter(lax.all_gather(a, "x", tiled=True) * 2, "x", tiled=True)
  c = lax.ppermute(lax.all_to_all(b, "y", split_axis=1, concat_axis=0, tiled=True), "x", [(0, 1)])
  d = lax.psum_scatter(lax.all_gather(c, ("y", "x"), axis=1, tiled=True), ("x", "y"), scatter_dimension=1, tiled=True)
  e = lax.all_to_all(d, ("x", "y"), split_axis=0, concat_axis=1, tiled=True)
  return (jnp.sin(e).sum() + lax.axis_index("y") * 10 + lax.axis_index(("y", "x")) * 100) * a[:1, :2]


x = np.arange(64, dtype=np.float32).reshape(8, 8) / 50
original = sharded(function)
module = Module.from_exported(jax.export.export(original)(x))
for gradient in ("primal", "auto"):
  lifted = lift(module, mesh=mesh, gradient=gradient)
  np.testing.assert_allclose(lifted(x)[0], original(x), rtol=1e-6)
  found, expected = (jax.grad(lambda x: (f(x) ** 2).sum())(x) for f in (lambda x: lifted(x)[0], original))
  np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
# The caller's mesh may name its axes in another order than that in which the module numbers devices.
other = jax.sharding.Mesh(mesh.devices.T, ("y", "x"))
ring = sharded(lambda a: lax.ppermute(a, ("x", "y"), [(0, 1), (1, 2), (3, 0)]))
found = lift(Module.from_exported(jax.export.export(ring)(x)), mesh=other)(x)[0]
np.testing.assert_array_equal(found, ring(x))
# Without a channel the numbers are those of replicas, of which there is one.
text = str(jax.export.export(ring)(x).mlir_module())
try:
  lift(Module.from_text(text.replace("channel_handle<handle = 1", "channel_handle<handle = 0")), mesh=mesh)(x)
except LiftError as error:
  assert "has no counterpart here" in str(error)
else:
  raise AssertionError("a permutation of replicas was one of partitions")
# CPUs have no broadcast, so it is exported for another platform.
broadcast = jax.export.export(sharded(lambda a: lax.pbroadcast(a, "x", 1)), platforms=["cuda"])(x)
rows = np.concatenate([x[4:], x[4:]])
np.testing.assert_array_equal(lift(Module.from_text(broadcast.mlir_module()), mesh=mesh)(x)[0], rows)


def partly(function):
  return jax.jit(
    jax.shard_map(function, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"}, check_vma=False)
  )


def over_x(a):
  over_y = jax.sharding.NamedSharding(jax.sharding.get_abstract_mesh(), P(None, "y"))
  b = lax.with_sharding_constraint(jnp.sin(a), over_y)
  return (lax.psum(b * b, "x") + lax.ppermute(b * lax.axis_index("x"), "x", [(0, 1), (1, 0)])).sum() + a.max() * b


original = partly(over_x)
lifted = lift(Module.from_exported(jax.export.export(original)(x)), mesh=mesh)
np.testing.assert_allclose(lifted(x)[0], original(x), rtol=1e-6)
assert any("along the mesh axes ['y']" in record.note for record in lifted.records), lifted.records
found, expected = (jax.grad(lambda x: (f(x) ** 2).sum())(x) for f in (lambda x: lifted(x)[0], original))
np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
specs = {"in_specs": P(None, "y"), "out_specs": P(), "axis_names": {"y"}, "check_vma": False}
nested = jax.export.export(partly(lambda a: jax.shard_map(lambda b: lax.psum(b, "y"), **specs)(a)))(x)
for given, text in ((mesh, "in the body of another; export one"), (jax.sharding.Mesh(
  mesh.devices, ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2), "types (Explicit, Explicit). Give one")):
  try:
    lift(Module.from_exported(nested), mesh=given)(x)
  except (ArgumentError, LiftError) as error:
    assert text in str(error), error
  else:
    raise AssertionError("a shard_map was lifted over a mesh that does not fit it")
"""


def test_collectives_over_axes_of_the_mesh_are_those_of_jax():
  environment = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
  }
  done = subprocess.run(
    [sys.executable, "-c", _FOUR_DEVICES], env=environment, capture_output=True, text=True, timeout=240
  )
  assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize(
  ("groups", "axes"),
  [
    ([[0, 1], [2, 3]], ("y",)),
    ([[3, 1], [0, 2]], ("x",)),
    ([[0, 1, 2, 3]], ("x", "y")),
    ([[0, 3], [1, 2]], None),
    ([[0], [1], [2], [3]], None),
    (np.zeros((0, 0), np.int64), None),
    ((), None),
    ({"mesh": "@m", "axes": ({"name": '"y"'},)}, ("y",)),
    ({"mesh": "@m", "axes": ({"name": '"z"'},)}, None),
    ({"mesh": "@m", "axes": ({"name": '"y"', "sub_axis_info": (1, 2)},)}, None),
  ],
)
def test_groups_of_a_collective_are_axes_of_the_mesh(groups, axes):
  op = ir.Op("stablehlo.all_reduce", (), (), (), ir.Attributes(replica_groups=groups), (), "")
  assert devices._group_axes(op, (("x", 2), ("y", 2))) == axes


@pytest.mark.parametrize(
  ("groups", "axes"),
  [
    ([[0, 1], [2, 3]], ("y",)),
    ([[1, 3], [0, 2]], ("x",)),
    ([[3, 1], [0, 2]], None),
    ([[0, 1, 2, 3]], ("x", "y")),
    ([[0, 2, 1, 3]], ("y", "x")),
    ([[1, 0, 2, 3]], None),
  ],
)
def test_the_order_in_a_group_is_that_of_the_axes(groups, axes):
  op = ir.Op("stablehlo.all_gather", (), (), (), ir.Attributes(replica_groups=groups), (), "")
  assert devices._group_axes(op, (("x", 2), ("y", 2)), in_order=True) == axes


def _permutation(pairs: list[list[int]]) -> ir.Op:
  attrs = ir.Attributes(source_target_pairs=np.array(pairs, np.int64))
  return ir.Op("stablehlo.collective_permute", (), (), (), attrs, (), "")


@pytest.mark.parametrize("pairs", [[[0, 4]], [[4, 0]], [[-1, 0]]])
def test_a_permutation_of_devices_outside_of_the_mesh_has_no_counterpart(pairs):
  mesh = (("x", 2), ("y", 2))
  assert devices._permute(_permutation(pairs), mesh, ("x", "y")) is None
  assert devices._permute(_permutation([[0, 3]]), mesh, ("x", "y")) is not None
