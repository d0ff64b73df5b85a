"""Parameters over eight virtual devices. TensorFlow has one set of devices per process, so these run in processes."""

import os
import subprocess
import sys
import types

import jax
import numpy as np
import pytest

from graftax.savedmodel_io import (
  get_current_mesh,
  get_pspec_from_jax_arrays,
  jax_array_to_dtensor,
  maybe_enable_dtensor_export_on,
)
from graftax.savedmodel_io.errors import DTensorError, SaveInputError
from graftax.savedmodel_io.export.dtensor import dtensor_initialized, shutdown_dtensor
from graftax.savedmodel_io.export.dtensor_arrays import split_axes

P = jax.sharding.PartitionSpec

_BEGIN = """
import sys
import warnings

import jax
jax.config.update("jax_num_cpu_devices", 8)
import numpy as np
import tensorflow as tf
from jax.sharding import NamedSharding, PartitionSpec as P
from graftax.savedmodel_io import (
  ExportManager, JaxModule, ServingConfig, get_current_dtensor_mesh, get_pspec_from_jax_arrays, initialize_dtensor,
  jax_array_to_dtensor,
  load, maybe_enable_dtensor_export_on,
)
from graftax.savedmodel_io.errors import SaveInputError

initialize_dtensor()
# The order of the devices in the mesh is not that of their ids.
mesh = jax.sharding.Mesh(np.array(jax.devices())[::-1].reshape(4, 2), ("x", "y"))
kernel = np.arange(128, dtype=np.float32).reshape(16, 8)


def placed(array, *spec):
  return jax.device_put(array, NamedSharding(mesh, P(*spec)))


def apply(params, x):
  return {"y": x @ params["kernel"] + params["bias"]}


params = {"kernel": placed(kernel, "x", "y"), "bias": placed(np.ones(8, np.float32))}
x = np.arange(32, dtype=np.float32).reshape(2, 16) / 8
"""

_SAVED = """
with maybe_enable_dtensor_export_on(mesh):
  assert get_current_dtensor_mesh().shape() == [4, 2]
  module = JaxModule(params, apply, trainable=True, pspecs=get_pspec_from_jax_arrays(params))
assert get_current_dtensor_mesh() is None
bias, variable = module.variables
assert variable.layout.sharding_specs == ["x", "y"]
parts = tf.experimental.dtensor.unpack(variable.read_value())
np.testing.assert_array_equal(parts[3], kernel[4:8, 4:])
assert bias.layout.sharding_specs == ["unsharded"]
manager = ExportManager(module, [ServingConfig("serving_default", [tf.TensorSpec([2, 16], name="x")])])
for scale in (1, 3):
  module.update_variables({"kernel": placed(scale * kernel, "x", "y"), "bias": params["bias"]})
  manager.save(sys.argv[1])
  loaded = tf.saved_model.load(sys.argv[1])
  found = loaded.signatures["serving_default"](x=tf.constant(x))["y"]
  np.testing.assert_allclose(found, x @ (scale * kernel) + 1, rtol=1e-5)
fn, variables = load(sys.argv[1]).convert("serving_default")
np.testing.assert_allclose(fn(variables, x=x)[0]["y"], x @ (3 * kernel) + 1, rtol=1e-5)
with tf.GradientTape() as tape:
  loss = tf.reduce_sum(loaded(tf.constant(x))["y"])
gradient = tape.gradient(loss, {v.name: v for v in loaded.tf_var_leaves}["kernel:0"])
np.testing.assert_allclose(gradient, np.repeat(x.sum(0)[:, None], 8, 1), rtol=1e-5)
"""

_CONSOLIDATED = """
params = {**params, "kernel": placed(kernel, None, ("x", "y"))}
pspecs = {"kernel": P(None, ("x", "y")), "bias": P()}
with maybe_enable_dtensor_export_on(mesh):
  for spelling in ("conslidation", "consolidation"):
    module = JaxModule(params, apply, pspecs=pspecs, **{f"allow_multi_axis_sharding_{spelling}": True})
    _, variable = module.variables
    assert variable.layout.sharding_specs == ["unsharded", "x"]
    np.testing.assert_array_equal(tf.experimental.dtensor.unpack(variable.read_value())[2], kernel[:, 2:4])
    tensor = jax_array_to_dtensor(
      params["kernel"], pspecs["kernel"], get_current_dtensor_mesh(), **{f"allow_multi_axis_sharding_{spelling}": True}
    )
    assert tf.experimental.dtensor.fetch_layout(tensor).sharding_specs == ["unsharded", "x"]
  try:
    JaxModule(params, apply, pspecs=pspecs)
  except SaveInputError as e:
    assert "pass allow_multi_axis_sharding_consolidation=True" in str(e)
  else:
    sys.exit("several axes for one dimension must raise")
"""

_REFUSED = """
with maybe_enable_dtensor_export_on(mesh):
  for pspecs, message in (
    (None, "`pspecs` is not specified"),
    ({"kernel": P()}, "pspecs does not have the structure"),
    ({"kernel": 3, "bias": P()}, "expected a PartitionSpec"),
    ({"kernel": P("z"), "bias": P()}, "split by ['z']"),
  ):
    try:
      JaxModule(params, apply, pspecs=pspecs)
    except SaveInputError as e:
      assert message in str(e), e
    else:
      sys.exit(f"{pspecs} must raise")
  with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    module = JaxModule({"kernel": kernel, "bias": params["bias"]}, apply, pspecs={"kernel": P("x"), "bias": P()})
  assert ["not jax.Arrays" in str(w.message) for w in caught if w.category is UserWarning] == [True], caught
  np.testing.assert_allclose(module.methods[JaxModule.DEFAULT_METHOD_KEY](x)["y"], x @ kernel + 1, rtol=1e-5)
"""


@pytest.mark.slow
@pytest.mark.parametrize("program", [_SAVED, _CONSOLIDATED, _REFUSED], ids=["saved", "consolidated", "refused"])
def test_modules_on_eight_devices(program, tmp_path):
  result = subprocess.run(
    [sys.executable, "-c", _BEGIN + program, str(tmp_path / "model")],
    check=False,
    capture_output=True,
    text=True,
    env={**os.environ, "JAX_PLATFORMS": "cpu"},
  )
  assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
  ("pspec", "consolidate", "expected"),
  [
    (None, False, (None, None)),
    (P("x", "y"), False, ("x", "y")),
    (P(None, ("y",)), False, (None, "y")),
    (P(("x", "one")), False, ("x", None)),
    (P(None, ("y", "x")), True, (None, "x")),
    (P("one"), False, (None, None)),
  ],
)
def test_one_axis_splits_a_dimension(pspec, consolidate, expected):
  assert split_axes((8, 4), pspec, {"x": 4, "y": 2, "one": 1}, consolidate=consolidate) == expected


@pytest.mark.parametrize(
  ("pspec", "message"),
  [
    (P("x", "y", "x"), "has 3 entries"),
    (P("z"), r"dimension 0 is split by \['z'\], but the mesh has the axes {'x': 4, 'y': 2}"),
    (P(("x", "y")), r"dimension 0 is split by several mesh axes, {'x': 4, 'y': 2}"),
    (P(None, "x"), "dimension 1 has size 6, which must be a multiple of the size of mesh axis 'x', 4"),
  ],
)
def test_shardings_that_dtensor_does_not_have_raise(pspec, message):
  with pytest.raises(SaveInputError, match=message):
    split_axes((8, 6), pspec, {"x": 4, "y": 2}, consolidate=False)


def test_arrays_have_partition_specs_if_they_are_on_one_mesh():
  mesh, other = (jax.sharding.Mesh(jax.devices()[:1], name) for name in "xy")
  array = jax.device_put(np.ones(2), jax.sharding.NamedSharding(mesh, P("x")))
  spec = jax.ShapeDtypeStruct((2,), np.float32, sharding=jax.sharding.NamedSharding(other, P("y")))
  assert get_pspec_from_jax_arrays({"a": array}) == {"a": P("x")}
  assert get_pspec_from_jax_arrays([spec]) == [P("y")]
  with pytest.raises(SaveInputError, match=r"on several meshes \(\[0\].*\[1\]"):
    get_pspec_from_jax_arrays([array, spec])
  with pytest.raises(SaveInputError, match=r"the array at \['a'\] has the sharding None; expected a NamedSharding"):
    get_pspec_from_jax_arrays({"a": np.ones(2)})


def test_an_array_on_one_device_needs_a_mesh():
  with pytest.raises(SaveInputError, match=r"SingleDeviceSharding.* has no mesh; pass jax_mesh"):
    jax_array_to_dtensor(jax.numpy.ones(2), P(), types.SimpleNamespace(dim_names=()))


def test_without_initialization_there_is_no_mesh():
  assert not dtensor_initialized()
  with maybe_enable_dtensor_export_on(jax.sharding.Mesh(jax.devices()[:1], "x")):
    assert get_current_mesh() is None
  with pytest.raises(DTensorError, match="call initialize_dtensor"):
    shutdown_dtensor()
