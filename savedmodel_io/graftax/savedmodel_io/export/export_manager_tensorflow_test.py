"""Models that `ExportManager` saves, with and without TensorFlow, loaded and served by TensorFlow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

from graftax.convert import InputError
from graftax.savedmodel_io import (
  CallableSignatures,
  ExportManager,
  JaxModule,
  ServingConfig,
  TensorSpecWithDefault,
  load,
)
from graftax.savedmodel_io.errors import SaveInputError
from graftax.savedmodel_io.export import export_manager, jax_module

_KEY = JaxModule.DEFAULT_METHOD_KEY
_WORDS = [b"bad", b"good", b"fine"]
_LABELS = [b"negative", b"positive"]
_X = np.arange(6, dtype=np.float32).reshape(3, 2)
_SPEC = tf.TensorSpec([None, 2], tf.float32, name="x")


def _params():
  rng = np.random.default_rng(0)
  return {
    "embedding": rng.normal(size=(len(_WORDS) + 1, 4)).astype(np.float32),
    "dense": {"kernel": rng.normal(size=(4, 2)).astype(np.float32), "bias": np.zeros(2, np.float32)},
  }


def _classify(params, ids):
  """Returns logits of the mean embedding of each row of ids."""
  mean = params["embedding"][ids].mean(1)
  return jnp.tanh(mean) @ params["dense"]["kernel"] + params["dense"]["bias"]


class _Text:
  """Processors between text, ids and labels."""

  def __init__(self):
    keys = tf.lookup.KeyValueTensorInitializer(_WORDS, tf.range(1, len(_WORDS) + 1, dtype=tf.int64))
    self.words = tf.lookup.StaticHashTable(keys, default_value=0)
    labels = tf.lookup.KeyValueTensorInitializer(tf.range(2, dtype=tf.int64), _LABELS)
    self.labels = tf.lookup.StaticHashTable(labels, default_value="")

  def ids(self, texts):
    return self.words.lookup(tf.strings.split(tf.strings.lower(texts)).to_tensor(default_value=""))

  def labelled(self, logits):
    return {"label": self.labels.lookup(tf.argmax(logits, -1)), "logits": logits}

  def config(self):
    return ServingConfig(
      "serving_default",
      [tf.TensorSpec([None], tf.string, name="texts")],
      tf_preprocessor=self.ids,
      tf_postprocessor=self.labelled,
      extra_trackable_resources=[self.words, self.labels],
    )


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
  """Returns the folder of a text classifier, and its module."""
  folder = tmp_path_factory.mktemp("classifier") / "model"
  module = JaxModule(_params(), _classify, trainable=True, input_polymorphic_shape="b, length")
  ExportManager(module, [_Text().config()]).save(str(folder))
  return folder, module


def _texts(size):
  words = np.random.default_rng(size).choice(["bad", "Good", "fine", "other"], size=(size, 3))
  return [" ".join(row) for row in words]


def _ids(texts):
  known = {word.decode(): i for i, word in enumerate(_WORDS, 1)}
  return np.array([[known.get(word.lower(), 0) for word in text.split()] for text in texts])


def test_text_is_classified_at_every_batch_size(classifier):
  folder, module = classifier
  serve = tf.saved_model.load(str(folder)).signatures["serving_default"]
  for size in range(1, 65):
    texts = _texts(size)
    logits = np.asarray(_classify(_params(), _ids(texts)))
    found = serve(texts=tf.constant(texts))
    np.testing.assert_allclose(found["logits"], logits, atol=1e-5)
    np.testing.assert_array_equal(found["label"], np.array(_LABELS)[logits.argmax(-1)])


def test_the_reloaded_classifier_is_differentiated_and_tuned(classifier):
  folder, _ = classifier
  loaded = tf.saved_model.load(str(folder))
  texts = _texts(5)
  with tf.GradientTape() as tape:
    loss = tf.reduce_sum(loaded(tf.constant(texts))["logits"] ** 2)
  variables = {variable.name: variable for variable in loaded.tf_var_leaves}
  assert set(variables) == {"embedding:0", "dense.kernel:0", "dense.bias:0"}
  found = tape.gradient(loss, variables)
  expected = jax.grad(lambda params: (_classify(params, _ids(texts)) ** 2).sum())(_params())
  np.testing.assert_allclose(found["embedding:0"], expected["embedding"], atol=1e-4)
  np.testing.assert_allclose(found["dense.kernel:0"], expected["dense"]["kernel"], atol=1e-4)
  variables["dense.bias:0"].assign([0, 100])
  assert set(loaded(tf.constant(texts))["label"].numpy()) == {b"positive"}


def test_the_signature_is_served_live_as_well():
  manager = ExportManager(JaxModule(_params(), _classify, input_polymorphic_shape="b, length"), [_Text().config()])
  assert isinstance(manager.tf_module, tf.Module)
  (serve,) = manager.serving_signatures.values()
  texts = _texts(2)
  np.testing.assert_allclose(serve(tf.constant(texts))["logits"], _classify(_params(), _ids(texts)), atol=1e-5)


def test_bound_processors_surround_the_jax_function():
  module = JaxModule(_params(), _classify)
  serve = _Text().config().bind(module.jax_methods)["serving_default"]
  texts = _texts(2)
  found = serve(tf.constant(texts))
  assert isinstance(found["logits"], np.ndarray)
  np.testing.assert_allclose(found["logits"], _classify(_params(), _ids(texts)), atol=1e-5)


def test_a_preprocessor_returns_a_tuple_for_several_inputs(tmp_path):
  module = JaxModule({}, lambda params, x, y: x - y, input_polymorphic_shape="b")
  config = ServingConfig("s", [tf.TensorSpec([None], name="x")], tf_preprocessor=lambda x: (x * 2, x * 3))
  ExportManager(module, [config]).save(str(tmp_path))
  (found,) = tf.saved_model.load(str(tmp_path)).signatures["s"](x=tf.constant([1.0, 2.0])).values()
  np.testing.assert_array_equal(found, [-1, -2])
  np.testing.assert_array_equal(config.bind(module.jax_methods)["s"](tf.constant([1.0, 2.0])), [-1, -2])


def test_a_preprocessor_returns_a_tuple_for_one_nested_input():
  module = JaxModule({}, lambda params, pair: pair[0] - pair[1])
  config = ServingConfig("s", [tf.TensorSpec([2])], tf_preprocessor=lambda x: (x * 2, x * 3))
  (serve,) = ExportManager(module, [config]).serving_signatures.values()
  np.testing.assert_array_equal(serve(tf.constant([1.0, 2.0])), [-1, -2])


def test_the_signature_of_a_preprocessor_is_used(tmp_path):
  double = tf.function(lambda x: x * 2, input_signature=[_SPEC])
  module = JaxModule({}, lambda params, x: x, input_polymorphic_shape="b, _")
  ExportManager(module, [ServingConfig("s", tf_preprocessor=double)]).save(str(tmp_path))
  (found,) = tf.saved_model.load(str(tmp_path)).signatures["s"](x=tf.constant(_X)).values()
  np.testing.assert_array_equal(found, 2 * _X)


@pytest.mark.parametrize("imported", [tf, None], ids=["tensorflow", "graftax"])
def test_second_derivatives_after_loading(imported, monkeypatch, tmp_path):
  for module in (jax_module, export_manager):
    monkeypatch.setattr(module, "imported_tensorflow", lambda: imported)
  module = JaxModule({"w": np.float32(2)}, lambda params, x: x * params["w"] ** 3, trainable=True)
  ExportManager(module, [ServingConfig("s", [tf.TensorSpec([], tf.float32)])]).save(str(tmp_path / "model"))
  loaded = tf.saved_model.load(str(tmp_path / "model"))
  (variable,) = loaded.tf_var_leaves
  with tf.GradientTape() as outer:
    with tf.GradientTape() as inner:
      y = loaded(tf.constant(5.0))
    first = inner.gradient(y, variable)
  assert (y, first, outer.gradient(first, variable)) == (40, 60, 60)


def test_signatures_can_be_overridden_and_added(tmp_path):
  module = JaxModule({}, lambda params, x: x, input_polymorphic_shape="b, _")
  manager = ExportManager(module, [ServingConfig(["a", "b"], [_SPEC])])
  half = tf.function(lambda x: {"half": x / 2}, input_signature=[_SPEC])
  manager.save(str(tmp_path), signature_overrides={"b": half, "c": half})
  loaded = manager.load(str(tmp_path))
  assert set(loaded.signatures) == {"a", "b", "c"}
  np.testing.assert_array_equal(loaded.signatures["b"](x=tf.constant(_X))["half"], _X / 2)


def test_save_options_are_used_and_not_changed(tmp_path):
  options = tf.saved_model.SaveOptions(function_aliases=None, experimental_custom_gradients=False)
  module = JaxModule({"w": np.float32(2)}, lambda params, x: params["w"] * x, trainable=True)
  spec = tf.TensorSpec([2], tf.float32)
  ExportManager(module, [ServingConfig("s", [spec])]).save(str(tmp_path), options)
  assert options.experimental_custom_gradients is False
  loaded = tf.saved_model.load(str(tmp_path))
  with tf.GradientTape() as tape:
    loss = tf.reduce_sum(loaded(tf.constant([1.0, 2.0])))
  assert tape.gradient(loss, loaded.tf_var_leaves[0]) == 3


@pytest.mark.parametrize(
  ("arguments", "message"),
  [({"save_options": 3}, "save_options is 3"), ({"signature_overrides": [3]}, r"signature_overrides is \[3\]")],
)
def test_wrong_arguments_of_save_raise(arguments, message, tmp_path):
  with pytest.raises(SaveInputError, match=message):
    ExportManager(JaxModule({}, lambda params, x: x), []).save(str(tmp_path), **arguments)


def _scaled(params, x, options):
  return x * params["w"] * options["scale"] + options["shift"]


@pytest.fixture(scope="module", params=["tensorflow", "graftax"])
def model_with_defaults(request, tmp_path_factory):
  """Returns the folder of a model with default inputs, written with and without TensorFlow."""
  folder = tmp_path_factory.mktemp(request.param) / "model"
  scalar = tf.TensorSpec([], tf.float32)
  options = {
    "scale": TensorSpecWithDefault(scalar, 2),
    "shift": TensorSpecWithDefault(tf.TensorSpec([], tf.float32, name="shift"), tf.constant(1.0)),
  }
  with pytest.MonkeyPatch.context() as patch:
    if request.param == "graftax":
      for module in (jax_module, export_manager):
        patch.setattr(module, "imported_tensorflow", lambda: None)
    module = JaxModule({"w": np.float32(3)}, _scaled, trainable=True, input_polymorphic_shape=["b, _", None])
    ExportManager(module, [ServingConfig("s", [_SPEC, options])]).save(str(folder))
  return folder


def test_the_model_has_the_same_interface_with_and_without_tensorflow(model_with_defaults):
  loaded = tf.saved_model.load(str(model_with_defaults))
  assert loaded.signatures["s"].structured_input_signature[1] == {
    "x": tf.TensorSpec([None, 2], tf.float32, name="x"),
    "inputs_1_scale": tf.TensorSpec([], tf.float32, name="inputs_1_scale"),
    "shift": tf.TensorSpec([], tf.float32, name="shift"),
  }
  (variable,) = loaded.tf_var_leaves
  assert variable.name == "w:0"
  assert variable.trainable


def test_our_reader_uses_defaults(model_with_defaults):
  model = load(model_with_defaults)
  fn, params = model.convert("s")
  np.testing.assert_array_equal(fn(params, x=_X)[0]["output_0"], _X * 6 + 1)
  np.testing.assert_array_equal(fn(params, x=_X, shift=np.float32(0))[0]["output_0"], _X * 6)
  fn, params = model.convert("__call__")
  np.testing.assert_array_equal(fn(params, _X)[0], _X * 6 + 1)


@pytest.mark.parametrize("spec", [tf.TensorSpec([], tf.float32), jax.ShapeDtypeStruct((), np.float32)])
def test_defaults_are_saved_for_specs_of_both_libraries(spec, tmp_path):
  module = JaxModule({"w": np.float32(3)}, lambda params, x: x * params["w"], trainable=True)
  config = ServingConfig("s", [TensorSpecWithDefault(spec, 2)])
  ExportManager(module, [config]).save(str(tmp_path / "model"))
  fn, params = load(tmp_path / "model").convert("s")
  (found,) = jax.tree.leaves(fn(params)[0])
  assert found == 6


def test_tensorflow_uses_defaults(model_with_defaults):
  np.testing.assert_array_equal(tf.saved_model.load(str(model_with_defaults))(tf.constant(_X)), _X * 6 + 1)


def test_gradients_through_defaults_after_loading(model_with_defaults):
  loaded = tf.saved_model.load(str(model_with_defaults))
  with tf.GradientTape() as tape:
    loss = tf.reduce_sum(loaded(tf.constant(_X)))
  assert tape.gradient(loss, loaded.tf_var_leaves[0]) == 2 * _X.sum()


@pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")
def test_callable_signatures_use_defaults(model_with_defaults):
  serve = CallableSignatures.from_saved_model(str(model_with_defaults), ["serve"]).signatures["s"]
  np.testing.assert_array_equal(serve(x=tf.constant(_X))["output_0"], _X * 6 + 1)
  np.testing.assert_array_equal(serve(x=_X, shift=0.0)["output_0"], _X * 6)
  with pytest.raises(
    InputError, match=r"signature 's' has no inputs \['y'\]; its inputs are \['inputs_1_scale', 'shift'"
  ):
    serve(y=_X)
