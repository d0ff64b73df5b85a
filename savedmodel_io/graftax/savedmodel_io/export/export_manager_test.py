"""`ExportManager` without TensorFlow: what it writes, read by our reader."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.convert import jax_program
from graftax.savedmodel_io import ExportManager, JaxModule, ServingConfig, TensorSpecWithDefault, load
from graftax.savedmodel_io.errors import OutputExistsError, SaveInputError
from graftax.savedmodel_io.export import export_manager, jax_module, serving_programs

_X = np.arange(6, dtype=np.float32).reshape(3, 2)


def _spec(shape: str) -> jax.ShapeDtypeStruct:
  return jax.ShapeDtypeStruct(jax.export.symbolic_shape(shape), np.float32)


_SPEC = _spec("batch, 2")


@pytest.fixture(autouse=True)
def without_tensorflow(monkeypatch):
  """Other tests of the same process may have imported it."""
  for module in (jax_module, export_manager):
    monkeypatch.setattr(module, "imported_tensorflow", lambda: None)


def _params():
  return {"dense": {"kernel": np.array([[1, 2, 3], [4, 5, 6]], np.float32)}, "key": jax.random.key(1)}


def _apply(params, x):
  """Returns a linear function of x, and noise."""
  y = x @ params["dense"]["kernel"]
  return {"y": y, "noise": jax.random.normal(params["key"], (2,)) + jnp.zeros((x.shape[0], 1))}


def _saved(tmp_path, module, *configs):
  ExportManager(module, configs).save(tmp_path / "new" / "model")
  return load(tmp_path / "new" / "model")


def test_the_written_model_computes_what_the_jax_function_computes(tmp_path):
  module = JaxModule(_params(), _apply, trainable=True)
  model = _saved(tmp_path, module, ServingConfig(["serving_default", "predict"], [_SPEC]))
  assert list(model.signatures) == ["predict", "serving_default"]
  expected = module.jax_methods[JaxModule.DEFAULT_METHOD_KEY](_X)
  for entry, call in (("predict", {"inputs_0": _X}), ("serving_default", {"inputs_0": _X})):
    fn, params = model.convert(entry)
    jax.tree.map(np.testing.assert_allclose, fn(params, **call)[0], dict(expected))
  fn, params = model.convert("__call__")
  jax.tree.map(np.testing.assert_allclose, fn(params, _X)[0], dict(expected))


def test_plain_ops_are_written_if_asked_for(tmp_path):
  module = JaxModule(_params(), _apply, trainable=True, jax2tf_kwargs={"lowering": "tf_ops"})
  model = _saved(tmp_path, module, ServingConfig("serving_default", [_SPEC]))
  program = model.program("serving_default")
  ops = {node.op for function in (program.function, *program.library.values()) for node in function.nodes}
  assert "MatMul" in ops and "XlaCallModule" not in ops
  fn, params = model.convert("serving_default")
  expected = module.jax_methods[JaxModule.DEFAULT_METHOD_KEY](_X)
  jax.tree.map(np.testing.assert_allclose, fn(params, inputs_0=_X)[0], dict(expected))


def test_variables_have_dotted_names_and_are_trained_as_asked(tmp_path):
  module = JaxModule(_params(), _apply, trainable=True)
  model = _saved(tmp_path, module, ServingConfig("s", [_SPEC]))
  assert {name: info.trainable for name, info in model.variables.infos.items()} == {"dense.kernel": True, "key": False}
  np.testing.assert_array_equal(model.variables["dense.kernel"], _params()["dense"]["kernel"])


def test_sizes_that_a_signature_gives_are_fixed(tmp_path):
  module = JaxModule({"w": np.ones((2, 3), np.float32)}, lambda params, x: x @ params["w"], False, "b, _")
  configs = [ServingConfig(f"batch_{size}", [_spec(f"{size}, 2")]) for size in (1, 8, "n")]
  model = _saved(tmp_path, module, *configs)
  shapes = {name: signature.inputs["inputs_0"].shape.dims for name, signature in model.signatures.items()}
  assert shapes == {"batch_1": (1, 2), "batch_8": (8, 2), "batch_n": (None, 2)}


def test_functions_are_traced_without_values(tmp_path, monkeypatch):
  """So arrays that are spread over devices are not gathered."""
  traced = []

  def recorded(*args, params, **options):
    traced.append(params)
    return jax_program(*args, params=params, **options)

  monkeypatch.setattr(serving_programs, "jax_program", recorded)
  _saved(tmp_path, JaxModule(_params(), _apply), ServingConfig("s", [_SPEC]))
  assert {type(leaf) for leaf in jax.tree.leaves(traced)} == {jax.ShapeDtypeStruct}


def test_updated_variables_are_written(tmp_path):
  module = JaxModule(_params(), _apply)
  manager = ExportManager(module, [ServingConfig("s", [_SPEC])])
  manager.save(tmp_path / "model")
  module.update_variables({"dense": {"kernel": np.zeros((2, 3), np.float32)}, "key": jax.random.key(2)})
  manager.save(tmp_path / "model")
  fn, params = load(tmp_path / "model").convert("s")
  np.testing.assert_array_equal(fn(params, inputs_0=_X)[0]["y"], np.zeros((3, 3)))


def _scaled(params, x, options):
  return x * params["w"] * options["scale"] + options["shift"]


@pytest.fixture
def model_with_defaults(tmp_path):
  scalar = jax.ShapeDtypeStruct((), np.float32)
  options = {"scale": TensorSpecWithDefault(scalar, 2), "shift": TensorSpecWithDefault(scalar, 1)}
  module = JaxModule({"w": np.float32(3)}, _scaled)
  return _saved(tmp_path, module, ServingConfig("s", [_SPEC, options]))


def test_defaults_of_signatures_are_used(model_with_defaults):
  fn, params = model_with_defaults.convert("s")
  np.testing.assert_array_equal(fn(params, inputs_0=_X)[0]["output_0"], _X * 6 + 1)
  np.testing.assert_array_equal(fn(params, inputs_0=_X, inputs_1_scale=1.0)[0]["output_0"], _X * 3 + 1)


def test_defaults_of_nested_arguments_are_used(model_with_defaults):
  fn, params = model_with_defaults.convert("__call__")
  np.testing.assert_array_equal(fn(params, _X)[0], _X * 6 + 1)
  np.testing.assert_array_equal(fn(params, _X, {"scale": 1.0, "shift": 0.0})[0], _X * 3)


def test_shapes_and_constraints_are_those_of_the_method(tmp_path):
  def apply(params, x, y):
    return jnp.concatenate([x, y]) if x.shape[0] >= 2 else x

  module = JaxModule(
    {}, apply, input_polymorphic_shape=["a, _", "b, _"], jax2tf_kwargs={"polymorphic_constraints": ["a >= 2"]}
  )
  model = _saved(tmp_path, module, ServingConfig("s", [_SPEC, _SPEC]))
  fn, params = model.convert("s")
  assert fn(params, inputs_0=_X, inputs_1=_X[:1])[0]["output_0"].shape == (4, 2)


def test_several_methods_have_signatures_but_no_call(tmp_path):
  module = JaxModule({"w": np.float32(2)}, {"f": lambda p, x: x * p["w"], "g": lambda p, x: x + p["w"]})
  configs = [ServingConfig("f", [_SPEC], method_key="f"), ServingConfig("g", [_SPEC], method_key="g")]
  model = _saved(tmp_path, module, *configs)
  assert "__call__" not in model.functions
  fn, params = model.convert("g")
  np.testing.assert_array_equal(fn(params, inputs_0=_X)[0]["output_0"], _X + 2)


def test_other_folders_are_not_replaced(tmp_path):
  (tmp_path / "notes").mkdir()
  (tmp_path / "notes" / "text").write_text("keep")
  with pytest.raises(OutputExistsError):
    ExportManager(JaxModule({}, lambda p, x: x), [ServingConfig("s", [_SPEC])]).save(tmp_path / "notes")


class _Text:
  shape, dtype, name = (None,), np.dtype(object), "words"


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    ({"module": 3}, "module is 3; expected a JaxModule"),
    ({"serving_configs": ServingConfig("s", [_SPEC])}, "expected a list of ServingConfigs"),
    ({"serving_configs": ["s"]}, "serving_configs holds 's'"),
    ({"serving_configs": [ServingConfig(["s", "s"], [_SPEC])]}, "two signatures are named 's'"),
    ({"serving_configs": [ServingConfig("s", [_SPEC]), ServingConfig("s", [_SPEC])]}, "two signatures are named 's'"),
    ({"serving_configs": [ServingConfig("s")]}, "neither the ServingConfig nor"),
    ({"serving_configs": [ServingConfig("s", [_SPEC], method_key="f")]}, "no method 'f'"),
  ],
)
def test_wrong_arguments_raise(arguments, message):
  module = JaxModule({}, lambda params, x: x)
  with pytest.raises(SaveInputError, match=message):
    ExportManager(**{"module": module, "serving_configs": [], **arguments})


@pytest.mark.parametrize(
  ("signature", "message"),
  [
    ([_Text()], "input 'words' is text, which JAX does not have; pass a tf_preprocessor"),
    ([jax.ShapeDtypeStruct((3, 5), np.float32), _SPEC], "called with 2 inputs"),
  ],
)
def test_signatures_that_the_method_cannot_have_raise(signature, message, tmp_path):
  module = JaxModule({}, lambda params, x: x, input_polymorphic_shape=["b", "b", "b"])
  with pytest.raises(SaveInputError, match=f"{message}"):
    ExportManager(module, [ServingConfig("s", signature)]).save(tmp_path / "model")
  assert not (tmp_path / "model").exists()
