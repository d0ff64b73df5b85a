"""Ops that TensorFlow's graph optimizer creates."""

import numpy as np
import pytest

from graftax.graphdef_ir import PartialShape
from graftax.ops_jax import UnsupportedOpError
from graftax.ops_jax.control_flow import grappler_ops


def test_the_implementation_for_cpus_is_selected():
  assert grappler_ops.device_index(device_names=("GPU", "CPU")) == 1
  assert grappler_ops.device_index(device_names=("GPU", "TPU")) == 2


def test_unread_parameters_have_dtype_and_rank():
  x = grappler_ops.fake_param(dtype=np.dtype(np.float32), shape=PartialShape((None, 3)))
  assert (x.shape, x.dtype) == ((0, 3), np.float32)
  assert grappler_ops.fake_param(dtype=np.dtype(object), shape=PartialShape(())).item() == b""


def test_composed_ops_run_in_order():
  x = np.array([-4.0, 9.0], np.float32)
  np.testing.assert_array_equal(grappler_ops.unary_ops_composition(x, op_names=("Abs", "Sqrt", "Neg")), [-2, -3])
  with pytest.raises(UnsupportedOpError, match="NoSuchOp"):
    grappler_ops.unary_ops_composition(x, op_names=("NoSuchOp",))
