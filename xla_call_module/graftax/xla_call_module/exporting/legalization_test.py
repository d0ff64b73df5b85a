import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from graftax.testing.call_modules import run_call_module
from graftax.xla_call_module import UnsupportedModuleError, VersionError, mlir
from graftax.xla_call_module.exporting import export_call_module

_SPECIAL = [
  (jnp.arcsin, 0.1, 0.9),
  (jnp.arccos, 0.1, 0.9),
  (jnp.arctanh, 0.1, 0.9),
  (jnp.arcsinh, -3, 3),
  (jnp.arccosh, 1.1, 3),
  (jnp.sinh, -3, 3),
  (jnp.cosh, -3, 3),
  (jnp.tan, -1, 1),
  (jnp.square, -1, 1),
  (lax.erf, -2, 2),
  (lax.erfc, -2, 2),
  # JAX asks for accuracy in it, which old versions have no attribute for.
  (lambda x: jax.vjp(lax.erf, x)[1](x)[0], -2, 2),
  (lax.erf_inv, -0.9, 0.9),
  (lax.lgamma, 0.5, 4),
  (lax.digamma, 0.5, 4),
  (lax.bessel_i0e, 0, 4),
  (lax.bessel_i1e, 0, 4),
  (lambda x: lax.top_k(x, 2), -1, 1),
  (lambda x: lax.igamma(x, x + 1), 0.5, 4),
  (lambda x: lax.polygamma(jnp.ones_like(x), x), 0.5, 4),
  (lambda x: lax.zeta(x + 2, x), 0.5, 4),
]


def _specs(arrays, symbolic):
  batch = jax.export.symbolic_shape("b")
  return [jax.ShapeDtypeStruct((*batch, *x.shape[1:]) if symbolic else x.shape, x.dtype) for x in arrays]


def _check(function, *arrays, symbolic, target=None, rtol=1e-5):
  module = export_call_module(lambda *args: jax.tree.leaves(function(*args)), _specs(arrays, symbolic), target=target)
  results = run_call_module(module.attributes, [arrays[i] for i in module.kept], module.outputs)
  for got, want in zip(results, jax.tree.leaves(function(*arrays)), strict=True):
    np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-6)
  return module


@pytest.mark.parametrize("target", [None, pytest.param("tensorflow-2.15", marks=pytest.mark.slow)])
@pytest.mark.parametrize("symbolic", [False, True])
def test_composites_run_in_tensorflow(target, symbolic):
  arrays = [np.linspace(low, high, 6, dtype=np.float32).reshape(2, 3) for _, low, high in _SPECIAL]

  def function(*args):
    return [f(x) for (f, _, _), x in zip(_SPECIAL, args, strict=True)]

  _check(function, *arrays, symbolic=symbolic, target=target, rtol=2e-5)


_X = np.arange(12, dtype=np.float32).reshape(3, 4)
_I = np.array([3, 0, 2], np.int32)
_INDEXED = {
  "gather": (jax.vmap(lambda x, i: x[i]), _X, _I),
  "gather of pairs": (lambda x, i: jnp.take_along_axis(x, i, axis=1), _X, np.stack([_I, _I[::-1]], 1)),
  "gather of slices": (jax.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (2,))), _X, _I),
  "gather of two axes": (jax.vmap(jax.vmap(lambda x, i: x[i])), np.stack([_X, -_X]), np.stack([_I, _I[::-1]])),
  "scatter": (jax.vmap(lambda x, i, u: x.at[i].set(u)), _X, _I, _X[:, 1]),
  "scatter of sums": (jax.vmap(lambda x, i, u: x.at[i].add(u)), _X, _I, _X[:, 1]),
  "scatter of slices": (jax.vmap(lambda x, i, u: lax.dynamic_update_slice(x, u, (i,))), _X, _I, -_X[:, :2]),
}


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("name", _INDEXED)
def test_batched_indexing_runs_in_targets_without_batching_dimensions(name, symbolic):
  function, *arrays = _INDEXED[name]
  module = _check(function, *arrays, symbolic=symbolic, target="tensorflow-2.16")
  text = mlir.to_text(module.attributes["module"])
  assert "gather" in text or "scatter" in text
  assert "batching_dims" not in text


def test_what_a_target_cannot_express_raises_with_op_and_line():
  def function(x):
    return [lax.exp(x, accuracy=lax.Tolerance(rtol=1e-7))]

  spec = jax.ShapeDtypeStruct((3,), np.float32)
  with pytest.raises(VersionError) as caught:
    export_call_module(function, [spec], target="tensorflow-2.16")
  assert re.search(
    r"cannot be written as StableHLO 0\.17\.7: op 'exponential' .*legalization_test\.py:\d+:\d+", str(caught.value)
  )
  assert export_call_module(function, [spec], target="tensorflow-2.21").attributes["version"] == 10


def test_a_failure_that_is_none_of_the_version_is_not_hidden(monkeypatch):
  def write(module, version):
    raise MemoryError(version)

  monkeypatch.setattr(mlir.legalization, "write_artifact", write)
  text = "func.func public @main(%arg0: tensor<2xf32>) -> tensor<2xf32> { return %arg0 : tensor<2xf32> }"
  for older in (None, lambda calls: [(0, 17, 7)]):
    with pytest.raises(MemoryError, match=r"1\.9\.1" if older is None else r"0\.17\.7"):
      mlir.legalize(text, version=(1, 9, 1), older=older)


def test_types_that_a_target_does_not_have_raise():
  with pytest.raises(VersionError, match=r"StableHLO 0\.14\.24: op 'func' .*\(types f8E3M4"):
    export_call_module(
      lambda x: [x.astype(jnp.float8_e3m4)], [jax.ShapeDtypeStruct((3,), np.float32)], target="tensorflow-2.15"
    )


_COLLECTIVE = """
func.func public @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "stablehlo.all_reduce"(%arg0) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %1 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %1 : tensor<f32>
  }) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""


def test_communication_between_devices_raises():
  with pytest.raises(UnsupportedModuleError, match=r"communicates between devices \(stablehlo\.all_reduce at"):
    mlir.legalize(_COLLECTIVE, version=(1, 9, 1))


def _over(num_devices, function):
  mesh = (
    jax.sharding.Mesh(jax.devices()[:1], ("i",))
    if num_devices == 1
    else jax.sharding.AbstractMesh((num_devices,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
  )
  return jax.shard_map(function, mesh=mesh, in_specs=jax.P("i"), out_specs=jax.P("i"), check_vma=False)


_COLLECTIVES = {
  "all_reduce": lambda x: lax.psum(x, "i") * x + lax.pmax(x, "i"),
  "all_gather": lambda x: lax.all_gather(x, "i")[0] + lax.all_gather(x, "i", tiled=True),
  "collective_permute": lambda x: lax.ppermute(x, "i", [(0, 0)]),
  "reduce_scatter": lambda x: lax.psum_scatter(x, "i", scatter_dimension=1, tiled=True),
  "partition_id": lambda x: x + lax.axis_index("i"),
  "in a loop": lambda x: lax.fori_loop(0, lax.axis_index("i") + 3, lambda i, y: y + lax.psum(x, "i"), x),
}


@pytest.mark.parametrize("name", _COLLECTIVES)
def test_collectives_over_one_device_return_what_is_sent(name):
  # JAX inlines a shard_map over one device. Its collectives stay, and TensorFlow fails to run them.
  x = np.linspace(0, 1, 8, dtype=np.float32).reshape(2, 4)
  _check(_over(1, _COLLECTIVES[name]), x, symbolic=False)
  if name == "all_gather":  # JAX adds the axis of devices by an op that does not exist for open sizes
    with pytest.raises(UnsupportedModuleError, match=r"an invalid module for it \('stablehlo\.broadcast_in_dim' op"):
      _check(_over(1, _COLLECTIVES[name]), x, symbolic=True)
  else:
    _check(_over(1, _COLLECTIVES[name]), x, symbolic=True)


@pytest.mark.parametrize("name", _COLLECTIVES)
def test_collectives_over_several_devices_raise_with_op_and_line(name):
  with pytest.raises(UnsupportedModuleError, match="communicates between devices") as caught:
    export_call_module(lambda x: [_over(2, _COLLECTIVES[name])(x)], [jax.ShapeDtypeStruct((2, 4), np.float32)])
  assert "sdy.manual_computation at " in str(caught.value)
  assert re.search(r"legalization_test\.py:\d+:\d+\)\), which a TensorFlow graph cannot run", str(caught.value))


def test_a_device_that_gets_nothing_raises():
  with pytest.raises(UnsupportedModuleError, match=r"communicates between devices \(stablehlo\.collective_permute at"):
    export_call_module(
      lambda x: [_over(1, lambda x: lax.ppermute(x, "i", []))(x)], [jax.ShapeDtypeStruct((2,), np.float32)]
    )


def test_code_for_one_device_without_collectives_runs():
  x = np.linspace(0, 1, 8, dtype=np.float32).reshape(2, 4)
  _check(lambda x: _over(1, jnp.sin)(x), x, symbolic=False)
  _check(lambda x: jax.vmap(lambda row: row - lax.pmean(row, "i"), axis_name="i")(x), x, symbolic=False)


def test_callbacks_raise():
  x = jax.ShapeDtypeStruct((2,), np.float32)
  with pytest.raises(UnsupportedModuleError, match="cannot be exported: serialization of host_callbacks"):
    export_call_module(lambda a: [jax.pure_callback(np.sin, x, a)], [x])


def _annotated(num_devices):
  mesh = (
    jax.sharding.Mesh(jax.devices()[:1], ("i",))
    if num_devices == 1
    else jax.sharding.AbstractMesh((num_devices,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
  )
  sharding = jax.sharding.NamedSharding(mesh, jax.P("i"))

  def constraint(x):
    return lax.with_sharding_constraint(jnp.concatenate([x, x]), sharding) * 2

  shardings = {"in_shardings": sharding, "out_shardings": sharding}
  return {
    "a constraint": constraint,
    "of a constraint's derivative": jax.grad(lambda x: jnp.sum(constraint(x) ** 2)),
    "an inner function": lambda x: jax.jit(jnp.sin, **shardings)(jnp.concatenate([x, x])) + 1,
    "a loop": lambda x: lax.fori_loop(0, 3, lambda i, x: x + constraint(x)[: x.shape[0]], x),
    "the function": jax.jit(lambda x: x + 1, **shardings),
  }


@pytest.mark.parametrize("target", [None, "tensorflow-2.16"])
@pytest.mark.parametrize("num_devices", [1, 2])
@pytest.mark.parametrize("name", _annotated(1))
def test_sharding_annotations_of_open_shapes_run(name, num_devices, target):
  # Before, TensorFlow stopped at each of them: "Module has dynamic shapes".
  function = _annotated(num_devices)[name]
  x = np.linspace(0, 1, 12, dtype=np.float32).reshape(4, 3)
  (b,) = jax.export.symbolic_shape("b")
  spec = jax.ShapeDtypeStruct((2 * b, 3), np.float32)
  wrapped = jax.jit(lambda x: [function(x)])
  module = export_call_module(wrapped, [spec], target=target)
  if num_devices == 1:
    assert not re.search(r"custom_call @\S*Sharding", mlir.to_text(module.attributes["module"]))
  (got,) = run_call_module(module.attributes, [x], module.outputs)
  np.testing.assert_allclose(got, _annotated(1)[name](x), rtol=1e-6)
