"""Models of TF2 without Keras."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from graftax.tools.artifacts.golden.recorder import Recorder, TensorFlow, TfTensor, floats, integers

__all__ = ["WRITERS"]

_X = np.array([[1.0, -2.0], [0.5, 4.0]], np.float32)


def _save(tf: TensorFlow, module: Any, recorder: Recorder, name: str, signatures: Any = None) -> None:
  options = {}  # type: dict[str, Any]
  if tf.__version__ >= "2.16":
    options["experimental_debug_stripper"] = True
  tf.saved_model.save(module, recorder.path(name), signatures, tf.saved_model.SaveOptions(**options))


def _function(tf: TensorFlow, *specs: Any) -> Any:
  return tf.function(input_signature=list(specs))


def _spec(tf: TensorFlow, *shape: Any, **options: Any) -> Any:
  return tf.TensorSpec(shape, options.get("dtype", tf.float32), name=options.get("name"))


def _functions(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  """A function called by attribute path, with a nested argument and result."""
  module = tf.Module()
  module.inner = tf.Module()
  module.inner.w = tf.Variable(floats([[1.0, 2.0], [3.0, 4.0]]), name="w")

  @tf.function(input_signature=[{"a": _spec(tf, None, 2), "b": [_spec(tf, None, 2)]}])
  def call(x: TfTensor) -> TfTensor:
    return {"sum": x["a"] @ module.inner.w + x["b"][0], "rest": (x["a"],)}

  module.inner.call = call
  _save(tf, module, recorder, name)
  result = call({"a": tf.constant(_X), "b": [tf.constant(_X + 1)]})
  recorder.model(
    name,
    [_X, _X + 1],
    [result["rest"][0], result["sum"]],
    entry="inner.call",
    structure="nested",
  )


def _signatures(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  module = tf.Module()
  module.w = tf.Variable(floats([2.0, 3.0]), name="w")
  first = _function(tf, _spec(tf, None, 2, name="x"))(lambda x: {"y": x * module.w})
  second = _function(tf, _spec(tf, None, 2, name="x"), _spec(tf, name="by"))(lambda x, by: {"z": x / by, "w": module.w})
  module.first, module.second = first, second
  _save(tf, module, recorder, name, {"first": first, "second": second})
  inputs = {"x": _X, "by": np.float32(4.0)}
  recorder.model(name, inputs, {"z": _X / 4, "w": module.w}, entry="second")


def _traces(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  module = tf.Module()
  module.w = tf.Variable(floats([2.0, 3.0]), name="w")

  @tf.function
  def call(x: TfTensor, negate: bool = False) -> TfTensor:
    return -x * module.w if negate else x * module.w

  for negate in (False, True):
    call.get_concrete_function(_spec(tf, None, 2), negate=negate)
  module.__call__ = module.call = call
  _save(tf, module, recorder, name)
  recorder.model(name, [_X], call(tf.constant(_X)), entry="call", structure="traces")


def _ragged(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  module = tf.Module()
  module.scale = tf.Variable(2.0, name="scale")

  @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.float32)])
  def total(x: TfTensor) -> TfTensor:
    return tf.reduce_sum(x * module.scale, axis=1)

  @tf.function(input_signature=[_spec(tf, None, name="values"), _spec(tf, None, dtype=tf.int64, name="row_splits")])
  def serve(values: TfTensor, row_splits: TfTensor) -> TfTensor:
    return {"total": total(tf.RaggedTensor.from_row_splits(values, row_splits, validate=False))}

  module.total, module.serve = total, serve
  _save(tf, module, recorder, name, {"serving_default": serve})
  inputs = {"values": floats([1, 2, 3, 4, 5]), "row_splits": integers([0, 2, 2, 5])}
  recorder.model(name, inputs, {"total": floats([6, 0, 24])}, jit=False)


def _sparse(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  module = tf.Module()
  module.w = tf.Variable(floats([[1.0], [2.0], [3.0]]), name="w")

  @tf.function(input_signature=[_spec(tf, None, 2, dtype=tf.int64, name="indices"), _spec(tf, None, name="values")])
  def serve(indices: TfTensor, values: TfTensor) -> TfTensor:
    sparse = tf.SparseTensor(indices, values, [2, 3])
    return {"y": tf.sparse.sparse_dense_matmul(sparse, module.w)}

  module.serve = serve
  _save(tf, module, recorder, name, {"serving_default": serve})
  inputs = {"indices": integers([[0, 1], [1, 0], [1, 2]]), "values": floats([5, 6, 7])}
  recorder.model(name, inputs, {"y": floats([[10], [27]])})


def _custom_gradient(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  """A custom gradient that is twice the true one, and the gradient that TensorFlow computes with it."""

  @tf.custom_gradient
  def doubled(x: TfTensor) -> TfTensor:
    return x * x, lambda dy: dy * 4.0 * x

  module = tf.Module()
  module.call = _function(tf, _spec(tf, None, 2, name="x"))(lambda x: doubled(x))
  options = tf.saved_model.SaveOptions(experimental_custom_gradients=True)
  tf.saved_model.save(module, recorder.path(name), None, options)
  recorder.model(name, [_X], [_X * _X, 4.0 * _X], entry="call", structure="gradient")


def _state(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  """A function that assigns to its variable, and returns its new value."""
  module = tf.Module()
  module.count = tf.Variable(floats([1.0, 2.0]), name="count")

  def add(x: TfTensor) -> TfTensor:
    module.count.assign_add(tf.reduce_sum(x, 0))
    return {"count": module.count.read_value()}

  module.add = _function(tf, _spec(tf, None, 2, name="x"))(add)
  _save(tf, module, recorder, name, {"serving_default": module.add})
  recorder.model(name, {"x": _X}, {"count": floats([2.5, 4.0])})


def _dtypes(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  module = tf.Module()
  module.values = {}
  names = ["float16", "bfloat16", "float64", "int8", "uint16", "int64", "bool", "complex64"]
  for dtype in names:
    module.values[dtype] = tf.Variable(tf.cast(tf.constant([0, 1, 3]), getattr(tf, dtype)), name=dtype)

  def call(x: TfTensor) -> TfTensor:
    return {d: tf.cast(tf.math.real(v) if d == "complex64" else v, tf.float32) * x for d, v in module.values.items()}

  module.call = _function(tf, _spec(tf, name="x"))(call)
  _save(tf, module, recorder, name, {"serving_default": module.call})
  recorder.model(name, {"x": np.float32(2.0)}, call(2.0))


def _control_flow(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  module = tf.Module()
  module.factor = tf.Variable(1.5, name="factor")

  def call(x: TfTensor, steps: TfTensor) -> TfTensor:
    last, total = tf.while_loop(
      lambda v, t: t < steps, lambda v, t: (v * module.factor, t + 1), [x, tf.zeros([], tf.int32)]
    )
    y = tf.cond(tf.reduce_sum(last) > 0, lambda: last + 1.0, lambda: -last)
    branch = tf.switch_case(steps % 3, [lambda: y, lambda: y * 2, lambda: y * 3])
    return {"y": branch, "total": total}

  module.call = _function(tf, _spec(tf, None, 2, name="x"), _spec(tf, dtype=tf.int32, name="steps"))(call)
  _save(tf, module, recorder, name, {"serving_default": module.call})
  inputs = {"x": _X, "steps": np.int32(4)}
  recorder.model(name, inputs, module.call(tf.constant(_X), tf.constant(4)))


def _map(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  module = tf.Module()
  module.w = tf.Variable(floats([1.0, -1.0]), name="w")

  def call(x: TfTensor) -> TfTensor:
    scanned = tf.scan(lambda state, row: state * 0.5 + row * module.w, x, tf.zeros([2]))
    return {"mapped": tf.map_fn(lambda row: tf.reduce_max(row * module.w), x), "scanned": scanned}

  module.call = _function(tf, _spec(tf, 3, 2, name="x"))(call)
  _save(tf, module, recorder, name, {"serving_default": module.call})
  x = floats([[1, 2], [3, -4], [0.5, 6]])
  recorder.model(name, {"x": x}, module.call(tf.constant(x)))


def _tables(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  """A table of numbers, a mutable one whose contents are in the checkpoint, and an asset."""
  module = tf.Module()
  initializer = tf.lookup.KeyValueTensorInitializer(integers([3, 5]), floats([0.5, 0.25]))
  module.table = tf.lookup.StaticHashTable(initializer, -1.0)
  module.mutable = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, -2.0)
  module.mutable.insert(integers([1, 2]), floats([10, 20]))
  vocabulary = recorder.path("words.txt")
  with open(vocabulary, "w") as f:
    f.write("red\ngreen\n")
  module.asset = tf.saved_model.Asset(vocabulary)

  def call(x: TfTensor) -> TfTensor:
    return {"static": module.table.lookup(x), "mutable": module.mutable.lookup(x)}

  module.call = _function(tf, _spec(tf, None, dtype=tf.int64, name="x"))(call)
  _save(tf, module, recorder, name, {"serving_default": module.call})
  os.remove(vocabulary)
  x = integers([3, 2, 9])
  recorder.model(name, {"x": x}, module.call(tf.constant(x)), assets={"words.txt": "red\ngreen\n"})


def _resaved_tf1(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  """A TF1 model that TensorFlow 2 has loaded and saved again."""
  tf1 = tf.compat.v1
  with tf.Graph().as_default(), tf1.Session() as session:
    x = tf1.placeholder(tf.float32, [None, 2], name="x")
    w = tf1.get_variable("w", initializer=floats([2.0, 3.0]), use_resource=True)
    y = x * w
    session.run(tf1.global_variables_initializer())
    first = recorder.path(name + "_first")
    tf1.saved_model.simple_save(session, first, {"x": x}, {"y": y})
  loaded = tf.saved_model.load(first)
  _save(tf, loaded, recorder, name, {"serving_default": loaded.signatures["serving_default"]})
  recorder.discard(name + "_first")
  recorder.model(name, {"x": _X}, {"y": _X * floats([2.0, 3.0])})


WRITERS = {
  "functions": _functions,
  "signatures": _signatures,
  "traces": _traces,
  "ragged": _ragged,
  "sparse": _sparse,
  "custom_gradient": _custom_gradient,
  "state": _state,
  "dtypes": _dtypes,
  "control_flow": _control_flow,
  "map_and_scan": _map,
  "tables": _tables,
  "resaved_tf1": _resaved_tf1,
}
