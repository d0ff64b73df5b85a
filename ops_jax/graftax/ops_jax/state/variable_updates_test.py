"""Rows, coordinates and slices of variables against TensorFlow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.ops_jax import InvalidInputError, ResourceHandle, lowering
from graftax.testing.raw_ops import NodeContext

pytestmark = pytest.mark.tensorflow

_VARIABLE = np.arange(1, 13, dtype=np.float32).reshape(4, 3)
_HANDLE = ResourceHandle("v")


def _run(op, value, *args, **attrs):
  """The op's result and the variable's value after it, the variable traced."""
  outputs = []

  def program(value, *args):
    context = NodeContext({_HANDLE: value})
    output = lowering(op).function(context, _HANDLE, *args, **attrs)
    outputs.append(output)
    return context.state[_HANDLE], () if output is _HANDLE else output

  state, output = jax.jit(program)(value, *args)
  return np.asarray(state), outputs[0] if outputs[0] is _HANDLE else output


def _run_tensorflow(op, initial, **inputs):
  import tensorflow as tf

  variable = tf.Variable(initial)
  result = getattr(tf.raw_ops, op)(**{k: variable.handle if v is _HANDLE else v for k, v in inputs.items()})
  return variable.numpy(), result


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("kind", ["Update", "Add", "Sub", "Mul", "Div", "Min", "Max"])
def test_rows(kind, dtype):
  value = _VARIABLE.astype(dtype)
  updates = np.array([[2, 3, 4], [5, 1, 2], [3, 3, 9]], dtype)
  indices = np.array([3, 0, 3] if kind != "Update" else [3, 0, 1], np.int32)
  want, _ = _run_tensorflow(f"ResourceScatter{kind}", value, resource=_HANDLE, indices=indices, updates=updates)
  got, output = _run(f"ResourceScatter{kind}", value, indices, updates)
  np.testing.assert_allclose(got, want, rtol=1e-6)
  assert got.dtype == dtype
  assert output == ()
  again, output = _run(f"Scatter{kind}", value, indices, updates)
  np.testing.assert_array_equal(again, got)
  assert output is _HANDLE


@pytest.mark.parametrize("kind", ["Update", "Add", "Sub", "Mul", "Div"])
def test_one_number_for_all_rows(kind):
  indices, update = np.array([[3], [0]], np.int64), np.float32(2)
  want, _ = _run_tensorflow(f"ResourceScatter{kind}", _VARIABLE, resource=_HANDLE, indices=indices, updates=update)
  np.testing.assert_allclose(_run(f"ResourceScatter{kind}", _VARIABLE, indices, update)[0], want)


@pytest.mark.parametrize("kind", ["Update", "Add", "Sub", "Min", "Max"])
def test_coordinates(kind):
  indices, updates = np.array([[3, 0], [1, 2]], np.int32), np.array([5, -6], np.float32)
  want, _ = _run_tensorflow(f"ResourceScatterNd{kind}", _VARIABLE, ref=_HANDLE, indices=indices, updates=updates)
  np.testing.assert_allclose(_run(f"ResourceScatterNd{kind}", _VARIABLE, indices, updates)[0], want)
  again, output = _run(f"ScatterNd{kind}", _VARIABLE, indices, updates)
  np.testing.assert_allclose(again, want)
  assert output is _HANDLE


@pytest.mark.parametrize("bad", [-1, 4])
@pytest.mark.parametrize("kind", ["Update", "Add", "Sub", "Mul", "Div", "Min", "Max"])
def test_rows_out_of_range_raise_where_known_and_left_out_where_traced(kind, bad):
  import tensorflow as tf

  indices, updates = np.array([1, bad], np.int32), np.full((2, 3), 5, np.float32)
  with pytest.raises(tf.errors.InvalidArgumentError, match="is not in"):
    _run_tensorflow(f"ResourceScatter{kind}", _VARIABLE, resource=_HANDLE, indices=indices, updates=updates)
  for op in (f"ResourceScatter{kind}", f"Scatter{kind}"):
    with pytest.raises(InvalidInputError, match=rf"index {bad} is not in \[0, 4\)"):
      lowering(op).function(NodeContext({_HANDLE: jnp.asarray(_VARIABLE)}), _HANDLE, indices, updates)
    want, _ = _run_tensorflow(
      f"ResourceScatter{kind}", _VARIABLE, resource=_HANDLE, indices=indices[:1], updates=updates[:1]
    )
    np.testing.assert_array_equal(_run(op, _VARIABLE, indices, updates)[0], want)


def test_gather():
  indices = np.array([[3, 0]], np.int32)
  _, want = _run_tensorflow("ResourceGather", _VARIABLE, resource=_HANDLE, indices=indices, dtype=np.float32)
  np.testing.assert_array_equal(_run("ResourceGather", _VARIABLE, indices)[1], want)
  batched = np.array([[2, 0], [1, 1], [0, 0], [2, 2]], np.int32)
  _, want = _run_tensorflow(
    "ResourceGather", _VARIABLE, resource=_HANDLE, indices=batched, batch_dims=1, dtype=np.float32
  )
  np.testing.assert_array_equal(_run("ResourceGather", _VARIABLE, batched, batch_dims=1)[1], want)
  _, want = _run_tensorflow("ResourceGatherNd", _VARIABLE, resource=_HANDLE, indices=indices, dtype=np.float32)
  np.testing.assert_array_equal(_run("ResourceGatherNd", _VARIABLE, indices)[1], want)


def test_slices():
  begin, end, strides = np.array([1, 0], np.int32), np.array([4, 2], np.int32), np.array([2, 1], np.int32)
  update = np.array([[7, 8], [9, 10]], np.float32)
  inputs = {"ref": _HANDLE, "begin": begin, "end": end, "strides": strides, "value": update}
  want, _ = _run_tensorflow("ResourceStridedSliceAssign", _VARIABLE, **inputs)
  for op in ("ResourceStridedSliceAssign", "StridedSliceAssign"):
    context = NodeContext({_HANDLE: jnp.asarray(_VARIABLE)})
    lowering(op).function(context, _HANDLE, begin, end, (2, 1), update)
    np.testing.assert_array_equal(context.state[_HANDLE], want)


def test_counting_stops_at_the_limit():
  state, value = _run("ResourceCountUpTo", np.int32(2), limit=3)
  assert (state, value) == (3, 2)
  assert _run("ResourceCountUpTo", np.int32(3), limit=3)[0] == 3
