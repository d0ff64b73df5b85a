"""Optimizer steps against TensorFlow's kernels on variables, dense and by rows."""

import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.graphdef_ir import op_signature
from graftax.ops_jax import InvalidInputError, ResourceHandle, lowering
from graftax.testing.raw_ops import NodeContext

pytestmark = pytest.mark.tensorflow

_SHAPE = (6, 3)
_NUMBERS = {
  "alpha": 0.3,
  "beta": 0.9,
  "beta1": 0.8,
  "beta1_power": 0.64,
  "beta2": 0.95,
  "beta2_power": 0.9,
  "epsilon": 1e-3,
  "l1": 0.05,
  "l2": 0.1,
  "l2_shrinkage": 0.02,
  "logbase": 0.7,
  "lr": 0.2,
  "lr_power": -0.5,
  "momentum": 0.6,
  "rho": 0.9,
  "sign_decay": 0.5,
}
_DENSE = {
  "ApplyGradientDescent": [{}],
  "ApplyProximalGradientDescent": [{}, {"l1": 0.0}],
  "ApplyMomentum": [{}, {"use_nesterov": True}],
  "ApplyKerasMomentum": [{}, {"use_nesterov": True}],
  "ApplyAdam": [{}, {"use_nesterov": True}],
  "ApplyAdamWithAmsgrad": [{}],
  "ApplyAdaMax": [{}],
  "ApplyAdagrad": [{}, {"update_slots": False}],
  "ApplyAdagradV2": [{}, {"update_slots": False}],
  "ApplyAdagradDA": [{}, {"l1": 0.0}],
  "ApplyProximalAdagrad": [{}, {"l1": 0.0}],
  "ApplyAdadelta": [{}],
  "ApplyRMSProp": [{}],
  "ApplyCenteredRMSProp": [{}],
  "ApplyFtrl": [{}, {"multiply_linear_by_lr": True}, {"lr_power": -0.7}],
  "ApplyFtrlV2": [{}, {"multiply_linear_by_lr": True}],
  "ApplyAddSign": [{}],
  "ApplyPowerSign": [{}],
}
_SPARSE = {
  "SparseApplyMomentum": [{}, {"use_nesterov": True}],
  "SparseApplyKerasMomentum": [{}, {"use_nesterov": True}],
  "SparseApplyAdagrad": [{}, {"update_slots": False}],
  "SparseApplyAdagradV2": [{}],
  "SparseApplyAdagradDA": [{}],
  "SparseApplyProximalAdagrad": [{}],
  "SparseApplyProximalGradientDescent": [{}],
  "SparseApplyAdadelta": [{}],
  "SparseApplyRMSProp": [{}],
  "SparseApplyCenteredRMSProp": [{}],
  "SparseApplyFtrl": [{}, {"multiply_linear_by_lr": True}],
  "SparseApplyFtrlV2": [{}],
}
_FLAGS = ("multiply_linear_by_lr", "update_slots", "use_nesterov")


def _value(name, indices, dtype, overrides):
  rng = np.random.default_rng(zlib.crc32(name.encode()))
  if name in ("grad", "delta"):
    return rng.normal(size=_SHAPE if indices is None else (len(indices), *_SHAPE[1:])).astype(dtype)
  if name == "indices":
    return np.array(indices, np.int32)
  if name == "global_step":
    return np.int64(7)
  return np.asarray(overrides.get(name, _NUMBERS[name]), dtype)


def _initial(name, dtype):
  rng = np.random.default_rng(zlib.crc32(name.encode()))
  signed = name in ("var", "linear", "m", "mom", "gradient_accumulator") and name != "accum"
  low = -1.0 if signed else 0.5
  # The second moment must exceed the square of the mean.
  return rng.uniform(low, 1.0, _SHAPE).astype(dtype) * (0.1 if name == "mg" else 1)


def _check(op, overrides, dtype=np.float32, indices=None):
  import tensorflow as tf

  flags = {k: v for k, v in overrides.items() if k in _FLAGS}
  signature = op_signature(op)
  is_handle = [str(arg.dtype) == "resource" for arg in signature.inputs]
  names = [arg.name for arg in signature.inputs]
  slots = [name for name, handle in zip(names, is_handle, strict=True) if handle]
  numbers = {name: _value(name, indices, dtype, overrides) for name in names if name not in slots}
  variables = {name: tf.Variable(_initial(name, dtype)) for name in slots}
  getattr(tf.raw_ops, op)(**{name: v.handle for name, v in variables.items()}, **numbers, **flags)

  def step(state, numbers):
    context = NodeContext({ResourceHandle(name): value for name, value in state.items()})
    args = [ResourceHandle(name) if name in slots else numbers[name] for name in names]
    assert lowering(op).function(context, *args, **flags) == ()
    return {handle.name: value for handle, value in context.state.items()}

  with jax.enable_x64(True):
    state = {name: jnp.asarray(_initial(name, dtype)) for name in slots}
    for run in (step, jax.jit(step)):
      for name, value in run(state, numbers).items():
        assert value.dtype == dtype, name
        tolerance = {"rtol": 2e-2, "atol": 2e-3} if dtype == np.float16 else {"rtol": 2e-5, "atol": 1e-6}
        np.testing.assert_allclose(value, variables[name].numpy(), err_msg=f"{op}: {name}", **tolerance)


@pytest.mark.parametrize(("op", "overrides"), [(op, case) for op, cases in _DENSE.items() for case in cases])
def test_dense_step(op, overrides):
  _check(f"Resource{op}", overrides)


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
@pytest.mark.parametrize("op", ["ResourceApplyAdam", "ResourceApplyGradientDescent", "ResourceApplyMomentum"])
def test_types(op, dtype):
  _check(op, {}, dtype)


@pytest.mark.parametrize(("op", "overrides"), [(op, case) for op, cases in _SPARSE.items() for case in cases])
def test_step_of_rows(op, overrides):
  _check(f"Resource{op}", overrides, indices=[4, 0, 5])


@pytest.mark.parametrize("op", ["ResourceSparseApplyAdagrad", "ResourceSparseApplyMomentum"])
def test_a_row_named_twice_takes_two_steps(op):
  _check(op, {}, indices=[4, 0, 4])


@pytest.mark.parametrize("indices", [[-1], [6], [2, -1, 0], [2, 6, 2]])
def test_rows_out_of_range_raise_where_known_and_left_out_where_traced(indices):
  var, accum = ResourceHandle("var"), ResourceHandle("accum")
  value, grads = np.arange(6, dtype=np.float32), np.arange(1, 4, dtype=np.float32)[: len(indices)]
  valid = [i for i, index in enumerate(indices) if 0 <= index < 6]

  def step(indices, grads):
    context = NodeContext({var: jnp.asarray(value), accum: jnp.ones(6)})
    lowering("ResourceSparseApplyAdagrad").function(context, var, accum, np.float32(0.5), grads, indices)
    return context.state[var]

  with pytest.raises(InvalidInputError, match=r"is not in \[0, 6\)"):
    step(np.array(indices), grads)
  want = step(np.array([indices[i] for i in valid], np.int32), grads[valid])
  np.testing.assert_allclose(jax.jit(step)(np.array(indices), grads), want)


@pytest.mark.parametrize("op", [*_DENSE, *_SPARSE])
def test_reference_variables_have_the_same_op(op):
  if "Keras" in op or "Amsgrad" in op:
    assert lowering(op) is None  # TensorFlow has none either
    return
  assert [p.name for p in lowering(op).inputs] == [arg.name for arg in op_signature(op).inputs]
  assert [p.name for p in lowering(f"Resource{op}").inputs] == [
    arg.name for arg in op_signature(f"Resource{op}").inputs
  ]


def test_a_reference_step_returns_the_variable():
  context = NodeContext({ResourceHandle("var"): jnp.float32(3)})
  result = lowering("ApplyGradientDescent").function(context, ResourceHandle("var"), jnp.float32(0.5), jnp.float32(2))
  assert result == ResourceHandle("var")
  assert context.state[result] == 2
