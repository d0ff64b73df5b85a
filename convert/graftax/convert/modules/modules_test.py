"""Converted functions as modules of libraries. The examples in docs/examples/fine_tuning train a whole model."""

import dataclasses
import sys
import types

import equinox as eqx
import haiku as hk
import jax
import numpy as np
import pytest
from flax import nnx

from graftax.convert import Variable, convert_program
from graftax.convert.errors import ParameterError, VariableWriteError
from graftax.convert.modules import equinox_module, haiku_module, keras_layer, nnx_module
from graftax.graphdef_ir import DType, LibraryNotFoundError
from graftax.ops_jax import Int64Pair
from graftax.testing.graph_builders import const, function, node, program

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of the libraries

X = np.float32(3)
_READ_W = node("w_value", "ReadVariableOp", "w", dtype=DType.FLOAT)
_PRODUCT = node("product", "Mul", "x", "w_value", T=DType.FLOAT)


def _train(*, assigned="mean"):
  """Returns `x * w`, which adds x to one of its variables; `w` is trained and `mean` is not."""
  add = node("add", "AssignAddVariableOp", assigned, "x", dtype=DType.FLOAT)
  root = function("train", ["x", "*w", "*mean"], [_READ_W, _PRODUCT, add], ["product"], ["add"])
  return _converted(program(root, variables={"w": 2.0, "mean": 1.0}))


def _evaluate():
  """Returns `x * w - mean`."""
  mean = node("mean_value", "ReadVariableOp", "mean", dtype=DType.FLOAT)
  y = node("y", "Sub", "product", "mean_value", T=DType.FLOAT)
  root = function("evaluate", ["x", "*w", "*mean"], [_READ_W, _PRODUCT, mean, y], ["y"])
  return _converted(program(root, variables={"w": 2.0, "mean": 1.0}))


def _random():
  shape = const("shape", np.zeros(0, np.int32))
  noise = node("noise", "RandomUniform", "shape", T=DType.INT32, dtype=DType.FLOAT)
  root = function("random", ["x"], [shape, noise, node("y", "AddV2", "x", "noise", T=DType.FLOAT)], ["y"])
  return convert_program(program(root))


def _converted(source):
  mean = Variable(source.variables["mean"], "mean:0", trainable=False)
  return convert_program(dataclasses.replace(source, variables={**source.variables, "mean": mean}))


def test_a_module_of_nnx_updates_what_the_function_assigns():
  (train, params), (evaluate, _) = _train(), _evaluate()
  module = nnx_module(train, params, evaluate)
  assert list(nnx.to_flat_state(nnx.state(module, nnx.Param)).paths) == [("variables", "w")]
  assert list(nnx.to_flat_state(nnx.state(module, nnx.BatchStat)).paths) == [("variables", "mean")]
  assert nnx.jit(lambda module, x: module(x))(module, X) == (6,)
  assert module.variables["mean"].get_value() == 4
  module.eval()
  assert module(X) == (2,)
  module.train()
  assert module(X) == (6,)
  assert module.variables["mean"].get_value() == 7


def test_a_module_of_equinox_returns_its_state():
  (train, params), (evaluate, _) = _train(), _evaluate()
  module, state = equinox_module(train, params, evaluate)
  outputs, state = eqx.filter_jit(module)(state, X)
  assert outputs == (6,)
  assert state.get(module.rest) == {"mean": 4}
  outputs, same = eqx.nn.inference_mode(module)(state, X)
  assert outputs == (2,)
  assert same is state
  gradient = eqx.filter_grad(lambda module: module(state, X)[0][0])(module)
  assert gradient.params == {"w": 3}


def test_modules_of_haiku_with_one_name_share_their_parameters():
  functions = {True: _train(), False: _evaluate()}
  network = hk.transform_with_state(lambda x, training: haiku_module(*functions[training], name="model")(x))
  params, state = network.init(None, X, True)
  assert params == {"model": {"w": 2}}
  outputs, state = jax.jit(network.apply, static_argnums=4)({"model": {"w": 5.0}}, state, None, X, True)
  assert outputs == (15,)
  assert state == {"model": {"mean": 4}}
  assert network.apply(params, state, None, X, False)[0] == (2,)


def test_keys_reach_functions_that_draw_random_numbers():
  fn, params = _random()
  key = jax.random.key(1)
  (expected,), _ = fn(params, X, rng=key)
  assert nnx_module(fn, params)(X, rng=key) == (expected,)
  module, state = equinox_module(fn, params)
  assert module(state, X, rng=key)[0] == (expected,)
  network = hk.transform(lambda x: haiku_module(fn, params)(x)[0])
  assert network.apply({}, key, X) == network.apply({}, key, X) != network.apply({}, jax.random.key(2), X)


def test_modules_that_cannot_change_parameters_refuse_functions_that_assign_them():
  train, params = _train(assigned="w")
  assert nnx_module(train, params)(X) == (6,)
  module, state = equinox_module(train, params)
  with pytest.raises(VariableWriteError, match=r"train: assigns the variables \['w'\], which TensorFlow trains"):
    module(state, X)
  with pytest.raises(VariableWriteError, match=r"\['w'\]"):
    hk.transform_with_state(lambda x: haiku_module(train, params)(x)).init(None, X)


def test_integers_of_64_bits_are_not_cut():
  train, params = _train()
  module = nnx_module(train, {**params, "mean": Variable(np.array(1 << 40), "mean:0", trainable=False)})
  assert isinstance(module.variables["mean"].get_value(), Int64Pair)


@pytest.mark.parametrize("make", [nnx_module, equinox_module])
def test_values_that_are_missing_and_other_functions_raise(make):
  train, params = _train()
  with pytest.raises(ParameterError, match=r"params has no values for the variables \['mean'\]"):
    make(train, {"w": params["w"]})
  with pytest.raises(ParameterError, match="expected the function that `convert` returned"):
    make(abs, params)


@pytest.mark.parametrize(
  ("make", "needed", "extra"),
  [
    (nnx_module, "flax", "flax"),
    (equinox_module, "equinox", "equinox"),
    (haiku_module, "haiku", "haiku"),
    (keras_layer, "keras", "keras"),
  ],
)
def test_a_library_that_is_not_installed_raises(make, needed, extra, monkeypatch):
  train, params = _train()
  _forget_classes()
  monkeypatch.setitem(sys.modules, needed, None)
  with pytest.raises(LibraryNotFoundError, match=rf"{make.__name__} needs {needed}, .*; pip install .*\[{extra}\]"):
    make(train, params)


def test_keras_on_another_backend_raises(monkeypatch):
  train, params = _train()
  _forget_classes()
  backend = types.SimpleNamespace(backend=lambda: "tensorflow")
  monkeypatch.setitem(sys.modules, "keras", types.SimpleNamespace(backend=backend))
  with pytest.raises(
    LibraryNotFoundError, match="Keras runs on tensorflow; set the environment variable KERAS_BACKEND"
  ):
    keras_layer(train, params)


def _forget_classes():
  for make in (nnx_module, equinox_module, haiku_module, keras_layer):
    cached = getattr(sys.modules[make.__module__], "_module_class", None)
    (cached or sys.modules[make.__module__]._layer_class).cache_clear()
