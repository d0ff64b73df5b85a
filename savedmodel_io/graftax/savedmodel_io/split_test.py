"""Models with strings, tables and hashes that TensorFlow saves: split without TensorFlow, against what it computes."""

import dataclasses
import functools
import io
import shutil

import jax
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from graftax.convert import InputError, split_program, to_source
from graftax.graphdef_ir import (
  DType,
  GraftaxError,
  LibraryNotFoundError,
  OpArg,
  OpSignature,
  OpSignatures,
  UnsupportedError,
)
from graftax.savedmodel_io import load, read_host_parts, write_host_parts
from graftax.savedmodel_io.errors import UnsafeOpError
from graftax.savedmodel_io.programs.tensorflow_head import TensorFlowFunction
from graftax.testing.graph_builders import function, node, program

TEXTS = ["the quick brown fox", "hello, WORLD! the éa", "", "foo bar unknown the quick fox the the the the the"]


def _random(seed, *shape):
  return tf.Variable(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


class TextModels(tf.Module):
  def __init__(self, vocabulary):
    super().__init__()
    words = tf.lookup.TextFileInitializer(
      vocabulary, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
    )
    self.words = tf.lookup.StaticVocabularyTable(words, 3)
    names = tf.lookup.KeyValueTensorInitializer(tf.constant([0, 1, 2], tf.int64), tf.constant(["bad", "so so", "good"]))
    self.names = tf.lookup.StaticHashTable(names, "?")
    genres = tf.lookup.KeyValueTensorInitializer(tf.constant(["drama", "news"]), tf.constant([1, 2]))
    self.genres = tf.lookup.StaticHashTable(genres, 0)
    self.buckets, self.embedding = _random(0, 1000, 8), _random(1, 20, 8)
    self.known = tf.Variable(["news", "sports"])
    self.filters = _random(5, 3, 3, 3, 4)
    self.kernel, self.genre_weights, self.cross_weights = _random(2, 8, 3), _random(3, 3, 4), _random(4, 50, 4)

  @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
  def hashed(self, text):
    """Embeds hash buckets of words, as the NNLM modules of TF-Hub do."""
    words = tf.compat.v1.string_split(tf.strings.regex_replace(text, r"[[:punct:]]", " "))
    buckets = tf.SparseTensor(words.indices, tf.strings.to_hash_bucket_fast(words.values, 1000), words.dense_shape)
    embedded = tf.nn.safe_embedding_lookup_sparse(self.buckets, buckets, combiner="sqrtn")
    return {"embedded": embedded, "logits": embedded @ self.kernel}

  @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
  def tokens(self, text):
    """Looks up words in a vocabulary and names the class, as a small BERT classifier would."""
    words = tf.strings.split(tf.strings.lower(text))
    ids = self.words.lookup(words).to_tensor()[:, :8]
    lengths = tf.minimum(words.row_lengths(), 8)
    mask = tf.sequence_mask(lengths, tf.shape(ids)[1], tf.float32)
    pooled = tf.reduce_sum(tf.gather(self.embedding, ids) * mask[..., None], 1)
    logits = pooled @ self.kernel
    return {
      "logits": logits,
      "label": self.names.lookup(tf.argmax(logits, -1)),
      "echo": tf.strings.join(["<", text, ">"]),
      "lengths": lengths,
    }

  @tf.function(
    input_signature=[
      tf.TensorSpec([None], tf.string, name="genre"),
      tf.TensorSpec([None], tf.int64, name="hour"),
      tf.TensorSpec([None], tf.float32, name="price"),
    ]
  )
  def recommend(self, genre, hour, price):
    """Scores with a looked-up feature, and with a hashed cross of two features."""
    crossed = tf.sparse.cross_hashed([genre[:, None], hour[:, None]], num_buckets=50)
    cross = tf.nn.embedding_lookup_sparse(self.cross_weights, crossed, None, combiner="sum")
    wide = tf.gather(self.genre_weights, self.genres.lookup(genre))
    return {"score": tf.reduce_sum(wide + cross, -1) * price}

  @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="image")])
  def classify(self, image):
    """Decodes and resizes images in a loop, and gathers the names of the classes."""

    def decoded(contents):
      pixels = tf.io.decode_jpeg(contents, channels=3, dct_method="INTEGER_ACCURATE")
      return tf.image.resize(tf.cast(pixels, tf.float32), [16, 16]) / 255.0

    pixels = tf.map_fn(decoded, image, fn_output_signature=tf.TensorSpec([16, 16, 3], tf.float32))
    scores = tf.reduce_mean(tf.nn.conv2d(pixels, self.filters, 1, "SAME"), [1, 2])
    return {"scores": scores, "class": tf.gather(tf.constant(["cat", "dog", "bird", "fish"]), tf.argmax(scores, -1))}

  @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
  def examples(self, examples):
    """Parses examples as the models of tf.estimator do, and compares with a variable of strings."""
    features = tf.io.parse_example(
      examples,
      {"x": tf.io.FixedLenFeature([8], tf.float32), "tags": tf.io.VarLenFeature(tf.string)},
    )
    tags = features["tags"]
    ids = tf.SparseTensor(tags.indices, self.genres.lookup(tags.values), tags.dense_shape)
    embedded = tf.nn.safe_embedding_lookup_sparse(self.embedding, ids, combiner="mean")
    logits = (features["x"] + embedded) @ self.kernel
    first = tf.sparse.to_dense(tags, default_value="")[:, :1]
    return {
      "logits": logits,
      "is_known": tf.cast(tf.equal(first, self.known[None]), tf.float32) @ self.kernel[:2],
      "classes": tf.tile(tf.constant([["a", "b", "c"]]), [tf.shape(examples)[0], 1]),
      "best": tf.strings.as_string(tf.reduce_max(logits, 1), precision=2),
    }


def _example(x, tags):
  feature = {
    "x": tf.train.Feature(float_list=tf.train.FloatList(value=x)),
    "tags": tf.train.Feature(bytes_list=tf.train.BytesList(value=tags)),
  }
  return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def _jpeg(width, height):
  file = io.BytesIO()
  pixels = np.random.default_rng(width).integers(0, 256, (height, width, 3))
  Image.fromarray(pixels.astype(np.uint8)).save(file, "JPEG")
  return file.getvalue()


INPUTS = {
  "examples": {"examples": [_example(range(8), [b"news", b"drama"]), _example([0] * 8, []), _example([1] * 8, [b"?"])]},
  "classify": {"image": [_jpeg(40, 30), _jpeg(20, 60)]},
  "hashed": {"text": TEXTS},
  "tokens": {"text": TEXTS},
  "recommend": {
    "genre": ["drama", "news", "opera"],
    "hour": np.array([1, 2, 23]),
    "price": np.array([1, 2, 0.5], np.float32),
  },
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
  folder = tmp_path_factory.mktemp("split")
  vocabulary = folder / "vocabulary.txt"
  vocabulary.write_text("[PAD]\nthe\nquick\r\nfox\nhello,\nworld!\néa\n")
  module = TextModels(str(vocabulary))
  signatures = {name: getattr(module, name) for name in INPUTS}
  tf.saved_model.save(module, str(folder / "model"), signatures=signatures)
  vocabulary.unlink()
  return folder / "model"


@functools.cache
def _loaded(path):
  return load(path), tf.saved_model.load(str(path))


def _check(path, name, inputs):
  """Compares the parts, composed, with what TensorFlow computes; returns the parts."""
  ours, theirs = _loaded(path)
  parts = ours.split(name)
  head, body, params, tail = parts
  got = tail(jax.jit(body)(params, *head(**inputs)))
  expected = theirs.signatures[name](**{k: tf.constant(v) for k, v in inputs.items()})
  assert got.keys() == expected.keys()
  for key, value in expected.items():
    theirs = value.numpy()
    if theirs.dtype == object:
      assert got[key].tolist() == theirs.tolist()
    else:
      assert np.shape(got[key]) == theirs.shape
      np.testing.assert_allclose(got[key], theirs, rtol=1e-5, atol=1e-6)
  return parts


# Slow: the loop over images compiles resizing for each size; finds what control flow on the host does to shapes.
@pytest.mark.parametrize(
  "name", [pytest.param("classify", marks=pytest.mark.slow), "examples", "hashed", "tokens", "recommend"]
)
def test_the_parts_compute_what_tensorflow_computes(saved, name):
  head, body, params, _ = _check(saved, name, INPUTS[name])
  tensors = head(**INPUTS[name])
  trained = {key: value for key, value in params.items() if np.issubdtype(value.dtype, np.floating)}

  def loss(trained):
    results, _ = body({**params, **trained}, *tensors)
    return sum(jax.numpy.sum(r) for r in results if hasattr(r, "dtype") and r.dtype == np.float32)

  gradients = jax.grad(loss)(trained)
  assert any(np.any(gradient) for gradient in gradients.values())


# Slow: every batch is compiled; finds sizes that are wrong for empty rows and single ones.
@pytest.mark.slow
@pytest.mark.parametrize("texts", [[""], ["a"], ["the fox"] * 5, ["x y z " * 30, b"\xff \xe2\x82"]])
def test_other_batches(saved, texts):
  _check(saved, "hashed", {"text": texts})
  _check(saved, "tokens", {"text": texts})


# Slow: compiles two bodies. Only this finds numbers of segments and rows that are open sizes.
@pytest.mark.slow
@pytest.mark.parametrize("name", ["examples", "hashed", "recommend"])
def test_source_with_calls_of_graftax_computes_what_tensorflow_computes(saved, tmp_path, name):
  ours, theirs = _loaded(saved)
  split = ours.split(name)
  source = to_source(split, host="graftax", **INPUTS[name])
  write_host_parts(tmp_path / "host", source.host)
  written: dict = {}
  exec(source.text, written)
  # Other rows, and another number of them.
  inputs = {key: [value[i] for i in (2, 0, 1, 1, 0)] for key, value in INPUTS[name].items()}
  got = written["run"](source.parameters(split.params), read_host_parts(tmp_path / "host"), **inputs)
  specs = theirs.signatures[name].structured_input_signature[1]
  expected = theirs.signatures[name](**{key: tf.constant(value, specs[key].dtype) for key, value in inputs.items()})
  assert got.keys() == expected.keys()
  for key, value in expected.items():
    if value.dtype == tf.string:
      assert got[key].tolist() == value.numpy().tolist()
    else:
      np.testing.assert_allclose(got[key], value, rtol=1e-5, atol=1e-6)


def test_text_comes_as_lists_arrays_and_bytes(saved):
  head, _, _, _ = load(saved).split("tokens")
  lists, arrays, raw = head(text=TEXTS), head(text=np.array(TEXTS)), head(text=[text.encode() for text in TEXTS])
  np.testing.assert_array_equal(lists[0], arrays[0])
  np.testing.assert_array_equal(lists[0], raw[0])
  with pytest.raises(InputError, match="expected text"):
    head(text=[1, 2])


@pytest.mark.parametrize("name", ["tokens", "recommend"])
def test_tensorflow_runs_the_head_if_asked_to(saved, name):
  model = _loaded(saved)[0]
  heads = [model.split(name).head, model.split(name, run_head_with="tensorflow").head]
  ours, theirs = ([np.asarray(leaf) for leaf in jax.tree.leaves(head(**INPUTS[name]))] for head in heads)
  assert type(heads[1].function) is not type(heads[0].function)
  assert len(ours) == len(theirs)
  for got, want in zip(ours, theirs, strict=True):
    np.testing.assert_array_equal(got, want, strict=True)


def test_tensorflow_runs_what_the_head_cannot(tmp_path):
  module = tf.Module()
  module.scale = tf.Variable(2.0)
  module.scripts = tf.function(
    lambda x: tf.cast(tf.strings.length(tf.io.decode_json_example(x)), tf.float32) * module.scale,
    input_signature=[tf.TensorSpec([None], tf.string, name="x")],
  )
  tf.saved_model.save(module, str(tmp_path))
  model = load(tmp_path)
  with pytest.raises(UnsupportedError, match="DecodeJSONExample x1"):
    model.split("scripts")
  head, body, params, tail = model.split("scripts", run_head_with="tensorflow")
  texts = ['{"features": {}}', "{}"]
  np.testing.assert_array_equal(tail(body(params, *head(texts))), module.scripts(tf.constant(texts)))
  with pytest.raises(ValueError, match="run_head_with='tf'; expected 'numpy' or 'tensorflow'"):
    model.split("scripts", run_head_with="tf")


@pytest.mark.parametrize(
  ("op", "function"),
  [
    ("ReadFile", lambda x: tf.strings.length(tf.io.read_file("/etc/hostname") + x)),
    ("MatchingFiles", lambda x: tf.strings.length(tf.io.matching_files("/etc/host*")[:1] + x)),
    ("PyFuncStateless", lambda x: tf.numpy_function(lambda y: y, [x], tf.string, stateful=False)),
    ("EagerPyFunc", lambda x: tf.py_function(lambda y: y, [x], tf.string)),
    ("ReadFile", lambda x: tf.map_fn(tf.io.read_file, x)),
    (
      "RestoreV2",
      lambda x: tf.raw_ops.RestoreV2(prefix=x[0], tensor_names=["a"], shape_and_slices=[""], dtypes=[1])[0],
    ),
  ],
)
def test_a_head_that_tensorflow_runs_reaches_nothing_outside(tmp_path, op, function):
  module = tf.Module()
  module.scale = tf.Variable(2.0)
  spec = tf.TensorSpec([None], tf.string)

  def scaled(x):
    y = function(x)
    y = tf.strings.length(y) if y.dtype == tf.string else y
    return tf.cast(y, tf.float32) * module.scale

  module.f = tf.function(scaled, input_signature=[spec])
  tf.saved_model.save(module, str(tmp_path / "model"))
  model = load(tmp_path / "model")
  if "PyFunc" in op:
    with pytest.raises(GraftaxError, match=r"(?s)cannot be split(?!.*run_head_with).* run them yourself"):
      model.split("f")
  with pytest.raises(UnsafeOpError, match=rf"(?s){op} x1 .*: .*pass allow_ops=\['{op}'\]"):
    model.split("f", run_head_with="tensorflow")
  split = model.split("f", run_head_with="tensorflow", allow_ops=[op])
  if op in ("MatchingFiles", "ReadFile") and "map_fn" not in function.__code__.co_names:
    results = split.tail(split.body(split.params, *split.head([""])))
    np.testing.assert_array_equal(results, module.f(tf.constant([""])))


def test_rows_of_a_variable_of_strings(tmp_path):
  module = tf.Module()
  module.names = tf.Variable(["a", "b", "c"])
  module.f = tf.function(lambda i: module.names.sparse_read(i), input_signature=[tf.TensorSpec([None], tf.int32)])
  tf.saved_model.save(module, str(tmp_path))
  head, body, params, tail = load(tmp_path).split("f")
  assert tail(body(params, *head(np.int32([2, 0])))).tolist() == [b"c", b"a"]
  with pytest.raises(GraftaxError, match="out of range for 3 rows"):
    tail(body(params, *head(np.int32([3]))))


def test_a_head_with_ops_that_tensorflow_does_not_have_names_the_library():
  text = OpArg("text", DType.STRING)
  signatures = OpSignatures([OpSignature("TokensOfTheFuture", (text,), (OpArg("tokens", DType.STRING),))])
  whole = program(function("f", ["text"], [node("tokens", "TokensOfTheFuture", "text")], ["tokens"]))
  result, parameter = (
    dataclasses.replace(part[0], dtype=DType.STRING) for part in (whole.function.results, whole.function.parameters)
  )
  whole = dataclasses.replace(
    whole,
    signatures=signatures,
    function=dataclasses.replace(whole.function, results=(result,), parameters=(parameter,)),
    inputs=dataclasses.replace(whole.inputs, args=(dataclasses.replace(whole.inputs.args[0], dtype=DType.STRING),)),
  )
  with pytest.raises(LibraryNotFoundError, match=r"TokensOfTheFuture.*Import the library .* tensorflow_text"):
    split_program(whole, make_head=TensorFlowFunction)


def test_values_that_tensorflow_refuses_in_a_head_are_invalid_inputs(tmp_path):
  module = tf.Module()
  module.parse = tf.function(lambda x: tf.strings.to_number(x), input_signature=[tf.TensorSpec([None], tf.string)])
  tf.saved_model.save(module, str(tmp_path))
  head = load(tmp_path).split("parse", run_head_with="tensorflow").head
  with pytest.raises(InputError, match="StringToNumberOp could not correctly convert string: x"):
    head(["x"])


def test_a_missing_vocabulary_is_named(saved, tmp_path):
  copy = shutil.copytree(saved, tmp_path / "model")
  next(copy.glob("assets/*")).unlink()
  with pytest.raises(
    UnsupportedError, match=r"table '.*' cannot be filled: its file '.*vocabulary.txt' cannot be read"
  ):
    load(copy).split("tokens")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Keras warns about its own layers
def test_keras_hashes_of_integers_are_split_off(tmp_path):
  # Slow because of Keras; finds what its layers do before they hash, and whether the errors say what to do.
  keras = pytest.importorskip("keras")
  first, second = (keras.Input((1,), dtype="int64", name=name) for name in ("first", "second"))
  hashed = keras.layers.Embedding(7, 3)(keras.layers.Hashing(7)(first))
  keras.Model([first], hashed).export(str(tmp_path / "hashed"), verbose=False)
  crossed = keras.layers.Embedding(9, 3)(keras.layers.HashedCrossing(9)((first, second)))
  keras.Model([first, second], crossed).export(str(tmp_path / "crossed"), verbose=False)
  values = np.array([[1], [-5], [2**40]])
  _check(tmp_path / "hashed", "serving_default", {"first": values})
  _check(tmp_path / "crossed", "serving_default", {"first": values, "second": values + 1})
  with pytest.raises(UnsupportedError, match="SavedModel.split"):
    load(tmp_path / "hashed").convert()
  convert, params = load(tmp_path / "crossed").convert()
  with pytest.raises(GraftaxError, match="must be known while tracing.*SavedModel.split"):
    jax.jit(convert)(params, first=values, second=values)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"output_sequence_length": 6}, {"ngrams": 2, "output_mode": "tf_idf"}])
def test_a_keras_classifier_with_text_vectorization(tmp_path, options):
  # Slow because of Keras; finds what its layer does besides the ops above: padding, counts, inverse frequencies.
  keras = pytest.importorskip("keras")
  vectorize = keras.layers.TextVectorization(max_tokens=20, **options)
  vectorize.adapt(TEXTS)
  inputs = keras.Input((1,), dtype="string", name="text")
  tokens = vectorize(inputs)
  if "ngrams" not in options:
    tokens = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(20, 4)(tokens))
  keras.Model(inputs, keras.layers.Dense(2)(tokens)).export(str(tmp_path / "model"), verbose=False)
  _check(tmp_path / "model", "serving_default", {"text": [[text] for text in TEXTS]})
