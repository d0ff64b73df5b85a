import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental.layout import Layout, with_layout_constraint

from graftax.xla_call_module import LiftError, UnsupportedModuleError, mlir
from graftax.xla_call_module.exporting import export_call_module
from graftax.xla_call_module.exporting.custom_call_targets import CUSTOM_CALL_TARGETS
from graftax.xla_call_module.exporting.random_bits import threefry_2x32
from graftax.xla_call_module.exporting.target import Target
from graftax.xla_call_module.exporting.tensorflow_versions import TENSORFLOW_VERSIONS

_X = jax.ShapeDtypeStruct((4, 3), np.float32)


def _ffi(x):
  return [jax.ffi.ffi_call("my_kernel", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)]


def test_every_release_of_the_table_has_a_row():
  assert CUSTOM_CALL_TARGETS.keys() == TENSORFLOW_VERSIONS.keys()


def test_a_custom_call_that_tensorflow_does_not_have_raises_with_function_primitive_and_line():
  # Before, this was a ValueError of JAX without function and advice, or a model that failed in TensorFlow.
  with pytest.raises(LiftError) as caught:
    export_call_module(_ffi, [_X], target="tensorflow-2.21")
  message = str(caught.value)
  assert re.search(
    r"'_ffi' cannot be exported: it contains the custom call 'my_kernel' \(at jit\(_ffi\)/ffi_call", message
  )
  assert re.search(r"custom_calls_test\.py:\d+:\d+\)+, which tensorflow-2\.21 does not have on cpu", message)
  assert caught.value.op == "my_kernel"


def test_a_custom_call_that_the_caller_vouches_for_is_written():
  check = jax.export.DisabledSafetyCheck.custom_call("my_kernel")
  module = export_call_module(_ffi, [_X], disabled_checks=[check])
  assert "my_kernel" in mlir.to_text(module.attributes["module"])
  assert module.attributes["disabled_checks"] == ("custom_call:my_kernel",)


def test_the_release_decides_which_custom_calls_can_be_written():
  def function(x):
    return [with_layout_constraint(x * 2, Layout((1, 0)))]

  assert export_call_module(function, [_X], target="tensorflow-2.21").attributes["disabled_checks"] == ()
  with pytest.raises(LiftError, match=r"'LayoutConstraint' .* which tensorflow-2\.16 does not have"):
    export_call_module(function, [_X], target="tensorflow-2.16")


def test_a_module_is_not_written_for_an_older_release_that_lacks_one_of_its_custom_calls():
  # All releases read its ops. Before, it was written for 2.16, which does not run the call.
  newest = dataclasses.replace(Target.of("tensorflow-2.21"), may_be_older=True)
  module = export_call_module(lambda x: [with_layout_constraint(x * 2, Layout((1, 0)))], [_X], target=newest)
  first = min(release for release, targets in CUSTOM_CALL_TARGETS.items() if "LayoutConstraint" in targets)
  assert first > (2, 16)
  assert module.target.stablehlo_version == TENSORFLOW_VERSIONS[first][0]
  assert export_call_module(lambda x: [x * 2], [_X], target=newest).target.name == "tensorflow-2.16"


def test_calls_that_the_caller_vouches_for_do_not_ask_for_a_newer_release():
  newest = dataclasses.replace(Target.of("tensorflow-2.21"), may_be_older=True)
  check = jax.export.DisabledSafetyCheck.custom_call("my_kernel")
  assert export_call_module(_ffi, [_X], target=newest, disabled_checks=[check]).target.name == "tensorflow-2.16"


@pytest.mark.parametrize("platforms", [["cuda"], ["cpu", "cuda"], ["rocm"]])
def test_random_bits_on_gpus_need_no_kernel_of_jaxlib(platforms):
  module = export_call_module(
    lambda key: [jax.random.normal(key, (3,))], [jax.ShapeDtypeStruct((2,), np.uint32)], platforms=platforms
  )
  assert "threefry2x32_ffi" not in mlir.to_text(module.attributes["module"])


def test_random_bits_equal_those_of_jax():
  words = np.random.default_rng(0).integers(0, 2**32, (4, 50), np.uint32)
  want = jax.extend.random.threefry2x32_p.bind(*words)
  for got, expected in zip(threefry_2x32(*words), want, strict=True):
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("shape", [(4, 3), "b, 3"])
def test_placement_in_memory_has_sizes_on_accelerators(shape):
  # TensorFlow stops at a custom call of an open shape that has no operand with its size.
  spec = jax.ShapeDtypeStruct(jax.export.symbolic_shape(shape) if isinstance(shape, str) else shape, np.float32)
  module = export_call_module(lambda x: [jax.device_put(x, jax.memory.Space.Host)], [spec], platforms=["cuda"])
  text = mlir.to_text(module.attributes["module"])
  assert "annotate_device_placement" in text
  assert ("indices_of_shape_operands" in text) == isinstance(shape, str)


def test_kernels_of_jaxlib_raise():
  # JAX's own rules for TPU are used if TPU is the only platform, so that TPU's LU can be exported.
  square = jax.ShapeDtypeStruct((3, 3), np.float32)
  assert "LuDecomposition" in mlir.to_text(
    export_call_module(lambda x: [lax.linalg.lu(x)[0]], [square], platforms=["tpu"]).attributes["module"]
  )
  with pytest.raises(UnsupportedModuleError, match="eig of float32"):
    export_call_module(lambda x: [jnp.linalg.eigvals(x)], [square])
