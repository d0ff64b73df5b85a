"""Modules are written, made from their text and compared with the functions that they were written from."""

import ast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.convert import InputError
from graftax.convert.source_code import to_source

nnx = pytest.importorskip("flax.nnx")

_X = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)


def _module(fn, parameters, *args):
  source = to_source(fn, parameters, *args, style="nnx")
  return source, source.function()(source.parameters(parameters))


def _layers(parameters, x):
  for i in range(3):
    with jax.named_scope(f"layer_{i}"):
      layer = parameters[f"layer_{i}"]
      with jax.named_scope("dense"):
        h = jnp.tanh(x @ layer["dense"]["w"] + layer["dense"]["b"])
      x = x + h * layer["scale"]
  return x @ parameters["head"]


def _parameters():
  rng = np.random.default_rng(0)
  layers = {
    f"layer_{i}": {"dense": {"w": rng.normal(size=(8, 8)), "b": rng.normal(size=8)}, "scale": rng.normal()}
    for i in range(3)
  }
  return jax.tree.map(lambda x: jnp.asarray(x, np.float32), {**layers, "head": rng.normal(size=(8, 2))})


def test_scopes_are_classes_and_repeated_ones_a_list():
  parameters = _parameters()
  batch = jax.export.symbolic_shape("batch")[0]
  source, module = _module(_layers, parameters, jax.ShapeDtypeStruct((batch, 8), np.float32))
  assert source.name == "Model"
  assert 'self.layers = nnx.List([Layer(p) for p in params["layers"]])' in source.text
  assert source.text.count("class ") == 3
  assert "x @ self.w + self.b" in source.text
  assert source.tree["layers"][1] == {
    "scale": ("layer_1", "scale"), "dense": {"w": ("layer_1", "dense", "w"), "b": ("layer_1", "dense", "b")},
  }  # fmt: skip
  assert all(isinstance(v, nnx.Param) for _, v in nnx.to_flat_state(nnx.state(module)))
  for size in (1, 4):
    x = jnp.asarray(_X[:size])
    np.testing.assert_array_equal(module(x), _layers(parameters, x))
  np.testing.assert_array_equal(nnx.jit(lambda m, x: m(x))(module, _X), jax.jit(_layers)(parameters, _X))
  got = jax.vmap(module)(_X[:, None])
  np.testing.assert_array_equal(got, jax.vmap(lambda x: _layers(parameters, x))(_X[:, None]))

  wanted = source.parameters(jax.grad(lambda p: (_layers(p, _X) ** 2).sum())(parameters))
  found = nnx.grad(lambda m: (m(_X) ** 2).sum())(module)
  np.testing.assert_array_equal(found["layers"][1]["dense"]["w"][...], wanted["layers"][1]["dense"]["w"])
  np.testing.assert_array_equal(found["head"][...], wanted["head"])


def test_assigned_variables_have_new_values_after_all_reads():
  def fn(p, x):
    y = x * p["a"] + p["moving_mean"]
    new = {"a": p["a"], "b": p["moving_mean"] * 3, "moving_mean": p["b"] * p["a"], "count": p["count"] + 1}
    return (y, p["count"], p["b"] - p["moving_mean"]), new

  values = {"a": np.float32(2), "b": np.float32(3), "moving_mean": np.float32(5), "count": np.int32(7)}
  source, module = _module(fn, values, _X)
  kinds = {name: type(getattr(module, name)) for name in values}
  assert kinds == {"a": nnx.Param, "b": nnx.Variable, "moving_mean": nnx.BatchStat, "count": nnx.Variable}
  for _ in range(3):
    wanted, values = fn(values, _X)
    got = nnx.jit(lambda m, x: m(x))(module, _X)
    jax.tree.map(np.testing.assert_array_equal, got, wanted)
    for name, value in values.items():
      np.testing.assert_array_equal(getattr(module, name)[...], value)


def test_a_layer_assigns_its_own_statistics():
  def fn(p, x):
    new = dict(p)
    for i in range(2):
      with jax.named_scope(f"norm_{i}"):
        mean = x.mean(0)
        new[f"norm_{i}/mean"] = p[f"norm_{i}/mean"] * 0.9 + mean * 0.1
        x = (x - mean) * p[f"norm_{i}/scale"]
      x = jnp.tanh(x)
    return x, new

  values = {f"norm_{i}/{name}": np.full(8, i + 1, np.float32) for i in range(2) for name in ("mean", "scale")}
  source, module = _module(fn, values, _X)
  assert source.text.count("self.mean[...] = ") == 1 and source.text.count("class ") == 2
  for _ in range(2):
    wanted, values = fn(values, _X)
    np.testing.assert_array_equal(module(_X), wanted)
  np.testing.assert_array_equal(module.norm_1.mean[...], values["norm_1/mean"])


def test_what_says_that_it_is_not_trained_is_no_param():
  class Frozen(np.ndarray):
    trainable = False

  values = {"kernel": np.ones((8, 2), np.float32).view(Frozen), "bias": np.ones(2, np.float32)}
  _, module = _module(lambda p, x: x @ p["kernel"] + p["bias"], values, _X)
  assert type(module.kernel) is nnx.Variable and type(module.bias) is nnx.Param


def test_constants_are_variables_and_arguments_of_the_class():
  table = np.arange(40).reshape(4, 10)
  source = to_source(lambda p, x: x * p["a"] + table[:, :8], {"a": np.float32(2)}, _X, style="nnx")
  module = source.function()(source.parameters({"a": np.float32(2)}), source.constants)
  np.testing.assert_allclose(module(_X), 2 * _X + table[:, :8], rtol=1e-6)
  assert type(to_source(jnp.tanh, _X, style="nnx").function()()) is not None


_HOSTILE = (
  "self", "train", "eval", "__init__", "__class__", "a-b", "a_b", "x'); import os; os.abort() #", "params", "nnx",
  "class", "jnp", "Model", "iter_modules", "set_attributes", "\n", "_x", "ſelf",
)  # fmt: skip


def test_hostile_names_are_attributes_and_no_code():
  def fn(p, x):
    for i, name in enumerate(_HOSTILE):
      with jax.named_scope(name):
        for _ in range(2):
          x = jnp.sin(x * p[name]["kernel"]) + p[name][name] + i
    return x

  values = {name: {"kernel": np.float32(i + 1), name: np.float32(i)} for i, name in enumerate(_HOSTILE)}
  source, module = _module(fn, values, _X)
  np.testing.assert_allclose(module(_X), fn(values, _X), rtol=1e-6)
  assert not {"os", "import"} & {node.id for node in ast.walk(ast.parse(source.text)) if isinstance(node, ast.Name)}
  attributes = {path[-1] for path, _ in nnx.to_flat_state(nnx.state(module))}
  assert not attributes & {name for name in dir(nnx.Module) if not name.startswith("_")}


def test_an_argument_may_be_called_self():
  _, module = _module(lambda p, self: self * p["a"], {"a": np.float32(2)}, _X)
  np.testing.assert_array_equal(module(_X), 2 * _X)


@pytest.mark.parametrize("options", [{"style": "flax"}, {"style": "nnx", "name": "a b"}])
def test_wrong_styles_and_names_are_refused(options):
  with pytest.raises(InputError, match="expected"):
    to_source(jnp.tanh, _X, **options)


def test_names_of_classes_have_capital_letters():
  assert to_source(jnp.tanh, _X, style="nnx", name="my_net").name == "MyNet"


def test_parameters_that_are_swapped_have_each_others_old_values():
  def swap(p, x):
    return x * p["a"], {"a": p["b"], "b": p["a"], "c": p["a"]}

  parameters = {"a": jnp.float32(2), "b": jnp.float32(3), "c": jnp.float32(4)}
  _, module = _module(swap, parameters, _X)
  np.testing.assert_array_equal(module(_X), 2 * _X)
  assert (float(module.a[...]), float(module.b[...]), float(module.c[...])) == (3, 2, 2)
