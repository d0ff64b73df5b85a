"""TensorFlow 1's TensorArrays; whole programs are in `graftax.testing`."""

import types

import jax.numpy as jnp
import numpy as np
import pytest

from graftax.graphdef_ir import Budget, PartialShape, UnsupportedError
from graftax.ops_jax import lowering

_CONTEXT = types.SimpleNamespace(node_name="node", function_name="f", budget=Budget())


def _call(op, *args, **attrs):
  return lowering(op).function(*args, **attrs)


@pytest.mark.parametrize("op", ["TensorArrayWriteV3", "TensorArrayReadV3", "TensorArraySplitV3"])
def test_gradients_of_elements_that_differ_in_shape_raise(op):
  handle, flow = _call("TensorArrayV3", _CONTEXT, 2, dtype=np.dtype(np.float32), element_shape=PartialShape(None))
  for index, size in enumerate([1, 3]):
    flow = _call("TensorArrayWriteV3", _CONTEXT, handle, np.int32(index), jnp.ones(size), flow)
  gradients, flow = _call("TensorArrayGradV3", handle, flow)
  inputs = {
    "TensorArrayWriteV3": (np.int32(0), jnp.ones(1), flow),
    "TensorArrayReadV3": (np.int32(0), flow),
    "TensorArraySplitV3": (jnp.ones(4), np.array([1, 3]), flow),
  }
  with pytest.raises(UnsupportedError, match=r"node 'node' \(function 'f'\): the graph computes gradients"):
    _call(op, _CONTEXT, gradients, *inputs[op])
