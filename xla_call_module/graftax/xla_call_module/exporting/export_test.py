import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module import Module, UnsupportedModuleError, lift
from graftax.xla_call_module.exporting import export_call_module


def _specs(*arrays):
  return [jax.ShapeDtypeStruct(np.shape(x), np.asarray(x).dtype) for x in arrays]


def _version_of(artifact):
  return tuple(map(int, re.search(rb"StableHLO_v(\d+)\.(\d+)\.(\d+)", artifact).groups()))


def test_attributes_are_those_of_a_node_that_lifts():
  x = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)
  found = export_call_module(lambda x: [jnp.sin(x), jnp.sum(x)], _specs(x))
  results = lift(Module.from_call_module(**found.attributes))(x)
  np.testing.assert_allclose(results[0], np.sin(x), rtol=1e-6)
  np.testing.assert_allclose(results[1], x.sum(), rtol=1e-6)


def test_module_is_written_for_the_target():
  for name, version, number in (("tensorflow-2.15", (0, 14, 24), 8), ("tensorflow-2.20", (1, 12, 1), 10)):
    found = export_call_module(lambda x: [jnp.sin(x)], _specs(np.float32(1)), target=name).attributes
    assert _version_of(found["module"]) == version
    assert found["version"] == number
    assert ("use_shardy_partitioner" in found) == (number >= 10)


def test_unused_inputs_are_dropped():
  found = export_call_module(lambda x, y: [y + 1], _specs(np.float32(1), np.int32(2)))
  assert found.kept == (1,)
  assert [spec.dtype for spec in found.inputs] == [np.float32, np.int32]


def test_symbolic_dimensions_stay_in_inputs_and_outputs():
  (b,) = jax.export.symbolic_shape("b")
  found = export_call_module(lambda x: [jnp.concatenate([x, x])], [jax.ShapeDtypeStruct((b, 3), np.float32)])
  assert found.inputs[0].shape == (b, 3)
  assert found.outputs[0].shape == (2 * b, 3)


@pytest.mark.parametrize(
  ("given", "wanted"), [("int32", "int8"), ("float32", "uint16"), ("uint8", "float32"), ("int16", "int32")]
)
def test_bits_of_open_sizes_have_another_width(given, wanted):
  parts = np.dtype(wanted).itemsize // np.dtype(given).itemsize
  x = np.arange(48, dtype=np.uint8).repeat(3).view(given).reshape(-1, *[parts] * bool(parts))
  spec = jax.ShapeDtypeStruct((*jax.export.symbolic_shape("b"), *x.shape[1:]), x.dtype)
  found = export_call_module(lambda x: [jax.lax.bitcast_convert_type(x, wanted)], [spec])
  (got,) = jax.jit(found.exported.call)(x)  # XLA refines the shapes of the module here.
  np.testing.assert_array_equal(np.asarray(got).view(np.uint8), jax.lax.bitcast_convert_type(x, wanted).view(np.uint8))


def test_open_sizes_that_a_decomposition_compares_need_a_constraint():
  def values(x):
    return [jnp.linalg.svd(x, compute_uv=False)]

  with pytest.raises(UnsupportedModuleError, match=r"'values' .* comparison 'b' < '4' is inconclusive. Say what"):
    export_call_module(values, [jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, 4"), np.float32)])
  shape = jax.export.symbolic_shape("b, 4", constraints=["b >= 5"])
  found = export_call_module(values, [jax.ShapeDtypeStruct(shape, np.float32)])
  x = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
  np.testing.assert_allclose(jax.jit(found.exported.call)(x)[0], values(x)[0], rtol=1e-5)


def test_random_keys_are_words():
  key = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), 3))
  found = export_call_module(lambda k: [k[1]], [jax.ShapeDtypeStruct(key.shape, key.dtype)])
  assert (found.inputs[0].shape, found.inputs[0].dtype) == ((3, 2), np.uint32)
  assert found.outputs[0].shape == (2,)


def test_side_effects_raise():
  def function(x):
    jax.debug.print("{}", x)
    return [x]

  with pytest.raises(UnsupportedModuleError, match="side effects"):
    export_call_module(function, _specs(np.float32(1)))
