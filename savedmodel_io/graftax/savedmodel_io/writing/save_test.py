import functools
import subprocess
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.graphdef_ir import GraftaxError
from graftax.savedmodel_io import JaxFunction, load, save
from graftax.savedmodel_io.errors import MissingFolderError, OutputExistsError, SaveInputError

_X = jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch, 3"), np.float32)
_SCALAR = jax.ShapeDtypeStruct((), np.float32)


def _params():
  rng = np.random.default_rng(0)
  layers = [
    {"kernel": rng.normal(size=shape).astype(np.float32), "bias": jnp.zeros(shape[1])} for shape in ((3, 4), (4, 2))
  ]
  return {"layers": layers, "step": np.int32(7), "key": jax.random.key(1)}


def _predict(params, x, *, scale=1.0):
  for layer in params["layers"]:
    x = jnp.tanh(x @ layer["kernel"] + layer["bias"])
  return {"y": x * scale, "best": jnp.argmax(x, -1), "more": [x.sum(), (params["step"],)]}


def test_a_model_is_read_back_as_a_jax_function_with_its_gradient(tmp_path):
  params = _params()
  save(tmp_path / "m", {"predict": (_predict, _X)}, params)
  model = load(tmp_path / "m")
  assert list(model.functions) == ["predict"] and list(model.signatures) == ["serving_default"]
  fn, variables = model.convert(model.functions["predict"])
  for batch in (1, 4):
    x = np.random.default_rng(batch).normal(size=(batch, 3)).astype(np.float32)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-6), fn(variables, x)[0], _predict(params, x))

  def ours(x):
    return (fn(variables, x)[0]["y"] ** 2).sum()

  def theirs(x):
    return (_predict(params, x)["y"] ** 2).sum()

  np.testing.assert_allclose(jax.grad(ours)(x), jax.grad(theirs)(x), rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(jax.hessian(ours)(x), jax.hessian(theirs)(x), rtol=1e-4, atol=1e-5)


def test_parameters_become_variables_named_by_their_paths(tmp_path):
  params = _params()
  flags = {"layers": [True, {"kernel": False, "bias": True}], "step": True, "key": True}
  save(tmp_path / "m", {"predict": (_predict, _X)}, params, trainable=flags)
  infos = load(tmp_path / "m").variables.infos
  assert {name: info.trainable for name, info in infos.items()} == {
    "key": False,
    "layers/0/bias": True,
    "layers/0/kernel": True,
    "layers/1/bias": True,
    "layers/1/kernel": False,
    "step": False,
  }
  model = load(tmp_path / "m")
  assert model.objects.find("params.layers.1.kernel").id == infos["layers/1/kernel"].node_id
  np.testing.assert_array_equal(model.variables["key"], jax.random.key_data(params["key"]))
  assert (tmp_path / "m/saved_model.pb").stat().st_size < 60_000


def test_empty_parts_of_parameters_keep_the_positions_of_the_others(tmp_path):
  params = ((), {"w": np.float32(2)}, None, [np.ones(3), {}])
  save(tmp_path / "m", {"f": (lambda params, x: x * params[1]["w"], _SCALAR)}, params)
  model = load(tmp_path / "m")
  for path, name in (("params.1.w", "1/w"), ("params.3.0", "3/0")):
    assert model.objects.find(path).id == model.variables.info(name).node_id


def test_arguments_keep_their_names_nesting_and_traces(tmp_path):
  def add(x, *rest, scale):
    return x["a"] * scale + sum(rest)

  traces = [
    JaxFunction(add, [{"a": _SCALAR}, _SCALAR], {"scale": _SCALAR}, takes_params=False),
    JaxFunction(add, [{"a": jax.ShapeDtypeStruct((2,), np.float32)}], {"scale": _SCALAR}, takes_params=False),
  ]
  save(tmp_path / "m", {"add": traces, "inner.add": traces}, {"unused": np.ones(2, np.float32)}, signatures={})
  model = load(tmp_path / "m")
  assert str(model.functions["add"].spec.signature) == "(x, *rest, scale)"
  assert len(model.functions["inner.add"].concrete_functions) == 2
  assert list(model.signatures) == []
  fn, params = model.convert("add", {"a": _SCALAR}, _SCALAR, scale=_SCALAR)
  assert fn(params, {"a": 2.0}, 3.0, scale=4.0)[0] == 11
  np.testing.assert_array_equal(model.variables["unused"], [1, 1])


@dataclass(frozen=True)
class _OpenSpec:
  """A spec that may have dimensions of None, like `tf.TensorSpec`."""

  shape: tuple[int | None, ...]
  dtype: type = np.float32


def test_dimensions_are_open_by_none_by_name_and_by_symbol(tmp_path):
  a, b = _OpenSpec((None, 2)), _OpenSpec((None, None))
  size = jax.export.symbolic_shape("n, 2")
  functions = {
    "none": (lambda a, b: (a.sum(-1) + b.sum(-1), b), a, b),
    "named": JaxFunction(lambda a, b: a @ b, [a, _OpenSpec((2, None))], polymorphic_shapes=["n, 2", "2, m"]),
    "symbol": (lambda a: a + 1, jax.ShapeDtypeStruct(size, np.float32)),
    "kwarg": JaxFunction(lambda *, a: a + 1, (), {"a": a}, polymorphic_shapes={"a": "2 * n, 2"}),
  }
  save(tmp_path / "m", functions)
  model = load(tmp_path / "m")
  shapes = {name: [str(s.shape) for s in f.concrete_functions[0].input_specs] for name, f in model.functions.items()}
  assert shapes == {
    "none": ["[?, 2]", "[?, ?]"],
    "named": ["[?, 2]", "[2, ?]"],
    "symbol": ["[?, 2]"],
    "kwarg": ["[?, 2]"],
  }


def test_a_function_alone_is_the_call(tmp_path):
  save(tmp_path / "m", (jnp.sin, _SCALAR))
  model = load(tmp_path / "m")
  assert list(model.functions) == ["__call__"] and list(model.signatures) == ["serving_default"]


def test_programs_that_were_read_are_saved_beside_jax_functions(tmp_path):
  save(tmp_path / "a", {"predict": (_predict, _X)}, _params())
  read = load(tmp_path / "a")
  program = read.program(read.functions["predict"])
  save(tmp_path / "b", {"old": program, "new": (lambda p, x: x * p["scale"], _SCALAR)}, {"scale": np.float32(2)})
  model = load(tmp_path / "b")
  assert set(model.functions) == {"old", "new"}
  assert set(model.variables) == {*read.variables, "scale"}


def test_functions_of_one_name_do_not_mix(tmp_path):
  made = [(lambda x, factor=factor: x * factor, _SCALAR) for factor in (2.0, 3.0)]
  save(tmp_path / "m", {"a.f": made[0], "b.f": made[1]})
  model = load(tmp_path / "m")
  results = []
  for name in ("a.f", "b.f"):
    fn, params = model.convert(name)
    results += [fn(params, 1.0)[0], jax.grad(lambda x, fn=fn, params=params: fn(params, x)[0])(1.0)]
  assert results == [2, 2, 3, 3]


_FLAX = """
import sys
sys.modules["tensorflow"] = None
import flax.linen as nn, jax, numpy as np
from graftax.savedmodel_io import save

class Net(nn.Module):
  @nn.compact
  def __call__(self, x):
    x = nn.relu(nn.Conv(4, (3, 3))(x))
    x = nn.LayerNorm()(x.mean((1, 2)))
    return nn.softmax(nn.Dense(3)(x))

net = Net()
params = net.init(jax.random.key(0), np.ones((1, 8, 8, 1), np.float32))
images = jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch, 8, 8, 1"), np.float32)
save(sys.argv[1], (lambda params, x: net.apply(params, x), images), params)
x = np.random.default_rng(0).normal(size=(5, 8, 8, 1)).astype(np.float32)
np.savez(sys.argv[2], x=x, y=net.apply(params, x))
"""


def test_a_flax_model_is_saved_while_tensorflow_cannot_be_imported(tmp_path):
  pytest.importorskip("flax")
  subprocess.run([sys.executable, "-c", _FLAX, tmp_path / "m", tmp_path / "data.npz"], check=True)
  data = np.load(tmp_path / "data.npz")
  fn, params = load(tmp_path / "m").convert("serving_default")
  (output,) = fn(params, x=data["x"])[0].values()
  np.testing.assert_allclose(output, data["y"], rtol=1e-5, atol=1e-6)
  assert set(params) == {
    f"params/{layer}/{name}"
    for layer, names in {"Conv_0": "kernel bias", "Dense_0": "kernel bias", "LayerNorm_0": "scale bias"}.items()
    for name in names.split()
  }


_SHARDED = """
import sys, jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_num_cpu_devices", 4)
from graftax.savedmodel_io import load, save
mesh = jax.make_mesh((2, 2), ("a", "b"))
w = jax.device_put(jnp.arange(24.0).reshape(4, 6), jax.NamedSharding(mesh, jax.P("a", "b")))
calls = []
rows = jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch, 4"), np.float32)
save(sys.argv[1], (lambda p, x: x @ p["w"], rows), {"w": w},
     progress=lambda *args: calls.append(args))
assert calls[-1][0] == calls[-1][1] > 96, calls
assert len(load(sys.argv[1]).checkpoint.entry("params/w/.ATTRIBUTES/VARIABLE_VALUE").slices) == 4
"""


def test_a_sharded_array_is_written_shard_by_shard(tmp_path):
  subprocess.run([sys.executable, "-c", _SHARDED, tmp_path / "m"], check=True)
  np.testing.assert_array_equal(load(tmp_path / "m").variables["w"], np.arange(24.0).reshape(4, 6))


def _scale(params, x):
  return x * params["w"]


def _loss_of_rank_1(params):
  return params["w"] * jnp.ones(2)


def _summed_over_devices(params, x):
  mesh = jax.sharding.AbstractMesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
  return jax.shard_map(lambda x: jax.lax.psum(x, "i"), mesh=mesh, in_specs=jax.P("i"), out_specs=jax.P())(x)


_ONE = {"w": np.float32(1)}


@pytest.mark.parametrize(
  ("functions", "params", "options", "error", "message"),
  [
    ({"f": 3}, _ONE, {}, SaveInputError, "function 'f' is 3; expected a function"),
    ({"f": []}, _ONE, {}, SaveInputError, "function 'f' is an empty list"),
    ({"f": ("x", _SCALAR)}, _ONE, {}, SaveInputError, "function 'f' is 'x'"),
    ({"f": (_scale, "x")}, _ONE, {}, SaveInputError, "argument \\[0\\] is 'x'; expected an array"),
    ({"a b": (_scale, _SCALAR)}, _ONE, {}, SaveInputError, "function 'a b'"),
    ({"params": (_scale, _SCALAR)}, _ONE, {}, SaveInputError, "another attribute 'params'"),
    ({"f": (_scale, _SCALAR)}, {"w": "text"}, {}, SaveInputError, "params\\['w'\\] is 'text' of type str"),
    ({"f": (_scale, _SCALAR)}, {"w": _SCALAR}, {}, SaveInputError, "params\\['w'\\] has only a shape"),
    ({"f": (_scale, _SCALAR)}, {"w": np.array(["a"])}, {}, SaveInputError, "elements of type"),
    ({"f": (_scale, _SCALAR)}, {"w": np.array([1, 2**40])}, {}, SaveInputError, "int64 values beyond int32"),
    (
      {"f": (_scale, _SCALAR)},
      {"w": np.float64(1e300)},
      {},
      SaveInputError,
      "float64 values beyond the range of float32",
    ),
    ({"f": (_scale, (None, 3))}, _ONE, {}, SaveInputError, "\\(None, 3\\) is a shape without a dtype"),
    (
      {"f": (lambda params, x: jax.pure_callback(np.sin, x, x), _X)},
      _ONE,
      {},
      NotImplementedError,
      "calls back to Python",
    ),
    ({"f": (_scale, _SCALAR)}, _ONE, {"trainable": {"v": True}}, SaveInputError, "structure of params"),
    ({"f": (_scale, _SCALAR)}, _ONE, {"trainable": 2}, SaveInputError, "trainable holds 2"),
    ({"f": (_scale, _SCALAR)}, _ONE, {"trainable": None}, SaveInputError, "trainable"),
    ({"f": (_scale, _SCALAR)}, _ONE, {"signatures": {"s": "g"}}, SaveInputError, "signature 's' is 'g'"),
    (
      {"f": (_scale, _SCALAR)},
      _ONE,
      {"signatures": {"s": [(_scale, _X), (_scale, _SCALAR)]}},
      SaveInputError,
      "2 traces",
    ),
    (
      {"f": (_summed_over_devices, jax.ShapeDtypeStruct((2,), np.float32))},
      _ONE,
      {},
      NotImplementedError,
      "communicates between devices \\(sdy.manual_computation at .*save_test",
    ),
    ({"f": (_scale, _SCALAR)}, _ONE, {"assets": ["none.txt"]}, SaveInputError, "none.txt is not a file"),
    ({"f": JaxFunction(_scale, [_X], polymorphic_shapes="b, 4")}, _ONE, {}, SaveInputError, "'b, 4' does not fit"),
    ({"f": JaxFunction(_scale, [_X], polymorphic_shapes="b, (")}, _ONE, {}, SaveInputError, "does not fit"),
    ({"f": JaxFunction(_scale, [_X], constraints=["b >"])}, _ONE, {}, SaveInputError, "constraints=\\['b >'\\]"),
    ({"f": JaxFunction(_scale, _X)}, _ONE, {}, SaveInputError, "args is a ShapeDtypeStruct"),
    ({"f": (_scale, _X)}, _ONE, {"signatures": ["f"]}, SaveInputError, "signatures is a list"),
    ({"f": (_scale, _X)}, _ONE, {"tags": 5}, SaveInputError, "tags=5"),
    (
      {"f": (_scale, _X)},
      _ONE,
      {"regularization_losses": [_loss_of_rank_1]},
      SaveInputError,
      "float32\\[2\\]; .*scalar",
    ),
    ({"f": JaxFunction(_scale, [_X], polymorphic_shapes={"y": "b"})}, _ONE, {}, SaveInputError, "names \\['y'\\]"),
    (
      {"f": (lambda params, d: d["a.b"], {"a.b": _SCALAR, "a_b": _SCALAR})},
      _ONE,
      {},
      SaveInputError,
      "inputs 'd_a.b' and 'd_a_b' have one name, 'd_a_b', when TensorFlow loads them",
    ),
    (
      {"f": [(_scale, _SCALAR), (lambda params, y: y, _SCALAR)]},
      _ONE,
      {},
      SaveInputError,
      "its traces have the signatures \\(x\\) and \\(y\\)",
    ),
  ],
)
def test_bad_input_raises_before_anything_is_written(tmp_path, functions, params, options, error, message):
  with pytest.raises(error, match=message):
    save(tmp_path / "m", functions, params, **options)
  assert not list(tmp_path.iterdir())


def test_an_existing_folder_raises_before_anything_is_traced(tmp_path):
  def never(x):
    raise AssertionError("traced")

  (tmp_path / "m").mkdir()
  (tmp_path / "m/file").touch()
  with pytest.raises(OutputExistsError):
    save(tmp_path / "m", (never, _SCALAR))
  with pytest.raises(MissingFolderError, match="m/file is not a folder"):
    save(tmp_path / "m/file/deep/model", (never, _SCALAR))


def test_parameters_that_are_traced_or_cannot_be_sorted_raise(tmp_path):
  with pytest.raises(SaveInputError, match="traced by a JAX transformation"):
    jax.jit(lambda w: save(tmp_path / "m", {"f": (_scale, _SCALAR)}, {"w": w}))(1.0)
  with pytest.raises(SaveInputError, match="params is not a pytree"):
    save(tmp_path / "m", {"f": (lambda p, x: x, _SCALAR)}, {1: np.ones(2), "1": np.ones(2)})


def test_a_damaged_graph_gives_typed_errors_or_a_function(tmp_path):
  save(tmp_path / "m", {"predict": (_predict, _X)}, _params())
  file, rng = tmp_path / "m/saved_model.pb", np.random.default_rng(0)
  contents, num_refused = file.read_bytes(), 0
  for _ in range(60):
    damaged = bytearray(contents)
    damaged[int(rng.integers(len(damaged)))] ^= 1 << int(rng.integers(8))
    file.write_bytes(damaged)
    try:
      model = load(tmp_path / "m")
      for restored in model.functions.values():
        model.convert(restored)
    except GraftaxError:
      num_refused += 1
  assert num_refused >= 5


def test_arguments_may_be_none_where_shapes_are_open(tmp_path):
  def scaled(x, scale):
    return x * 2 if scale is None else x * scale

  spec = jax.ShapeDtypeStruct((2, 3), np.float32)
  save(tmp_path / "model", {"f": JaxFunction(scaled, (spec, None), polymorphic_shapes="n, ...", takes_params=False)})
  x = np.ones((4, 3), np.float32)
  function, params = load(tmp_path / "model").convert("f", x, None)
  np.testing.assert_array_equal(function(params, x, None)[0], 2 * x)


def test_open_and_symbolic_sizes_are_in_one_scope(tmp_path):
  (batch,) = jax.export.symbolic_shape("batch")
  # As a tf.TensorSpec; since JAX 0.12 a ShapeDtypeStruct refuses None.
  specs = [SimpleNamespace(shape=(size, 3), dtype=np.float32) for size in (batch, None)]
  save(tmp_path / "model", {"add": JaxFunction(jnp.add, tuple(specs), takes_params=False)})
  assert load(tmp_path / "model").functions["add"]


def test_arguments_may_be_tuples_of_arrays(tmp_path):
  x = np.float32([1, 2, 3])
  save(tmp_path / "m", (lambda pair: pair[0] * pair[1], (x, x)))
  fn, params = load(tmp_path / "m").convert("__call__")
  np.testing.assert_array_equal(fn(params, (x, x))[0], x * x)
