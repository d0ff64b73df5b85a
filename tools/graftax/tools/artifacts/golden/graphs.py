"""Models of TF1, and graphs by themselves."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from graftax.tools.artifacts.golden.recorder import Arrays, Recorder, TensorFlow, TfTensor, floats, integers

__all__ = ["WRITERS"]

_X = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]], np.float32)
_KERNEL = np.arange(6, dtype=np.float32).reshape(3, 2) / 4


class _Graph:
  """A graph with a session, a placeholder `x` and TF1's control flow."""

  def __init__(self, tf: TensorFlow, dtype: Any = None, shape: Any = (None, 3)):
    self.tf1 = tf.compat.v1
    self.tf1.disable_control_flow_v2()
    self.tf1.disable_resource_variables()
    self._context = tf.Graph().as_default()
    self.graph = self._context.__enter__()
    self.session = self.tf1.Session()
    self.x = self.tf1.placeholder(dtype or tf.float32, shape, name="x")

  def run(self, outputs: TfTensor, x: Arrays = _X) -> Arrays:
    self.session.run([self.tf1.global_variables_initializer(), self.tf1.tables_initializer()])
    return self.session.run(outputs, {self.x: x})

  def save(self, folder: str, outputs: TfTensor, as_text: bool = False, **options: Any) -> None:
    """Writes a SavedModel with the signature "serving_default"."""
    builder = self.tf1.saved_model.Builder(folder)
    signature = self.tf1.saved_model.predict_signature_def({"x": self.x}, outputs)
    builder.add_meta_graph_and_variables(
      self.session, ["serve"], {"serving_default": signature}, strip_default_attrs=True, **options
    )
    builder.save(as_text=as_text)
    self.close()

  def close(self) -> None:
    self.session.close()
    self._context.__exit__(None, None, None)
    self.tf1.enable_control_flow_v2()


def _dense(graph: _Graph, use_resource: bool = False) -> TfTensor:
  kernel = graph.tf1.get_variable("dense/kernel", initializer=_KERNEL, use_resource=use_resource)
  bias = graph.tf1.get_variable("dense/bias", initializer=floats([0.5, -1.0]), use_resource=use_resource)
  return graph.tf1.nn.relu(graph.tf1.matmul(graph.x, kernel) + bias, name="y")


def _ref_variables(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  graph = _Graph(tf)
  y = _dense(graph)
  recorder.model(name, {"x": _X}, {"y": graph.run(y)})
  graph.save(recorder.path(name), {"y": y})


def _resource_variables(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  graph = _Graph(tf)
  y = _dense(graph, use_resource=True)
  recorder.model(name, {"x": _X}, {"y": graph.run(y)})
  graph.save(recorder.path(name), {"y": y})


def _text(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  graph = _Graph(tf)
  y = _dense(graph)
  recorder.model(name, {"x": _X}, {"y": graph.run(y)})
  graph.save(recorder.path(name), {"y": y}, as_text=True)


def _partitioned(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  graph = _Graph(tf)
  kernel = graph.tf1.get_variable(
    "kernel",
    [3, 4],
    initializer=lambda shape, dtype=None, partition_info=None: tf.ones(shape) * (1.0 + partition_info.var_offset[0]),
    partitioner=graph.tf1.fixed_size_partitioner(2),
    use_resource=False,
  )
  y = tf.matmul(graph.x, tf.convert_to_tensor(kernel))
  recorder.model(name, {"x": _X}, {"y": graph.run(y)})
  graph.save(recorder.path(name), {"y": y})


def _control_flow(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  graph = _Graph(tf)
  factor = graph.tf1.get_variable("factor", initializer=1.5, use_resource=False)
  _, powers = graph.tf1.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * factor), [0, graph.x])
  y = graph.tf1.cond(tf.reduce_sum(graph.x) > 0, lambda: powers + factor, lambda: -powers)
  recorder.model(name, {"x": _X}, {"y": graph.run(y)})
  graph.save(recorder.path(name), {"y": y})


def _tensor_array(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  graph = _Graph(tf, shape=(2, 3))
  weight = graph.tf1.get_variable("weight", initializer=floats([1.0, 2.0, 0.5]), use_resource=False)
  steps = tf.TensorArray(tf.float32, 4)

  def body(i: TfTensor, state: TfTensor, steps: TfTensor) -> TfTensor:
    state = tf.tanh(state * weight + tf.cast(i, tf.float32))
    return i + 1, state, steps.write(i, state)

  _, last, steps = graph.tf1.while_loop(lambda i, *_: i < 4, body, [0, graph.x, steps])
  outputs = {"last": last, "all": steps.stack()}
  recorder.model(name, {"x": _X}, graph.run(outputs))
  graph.save(recorder.path(name), outputs)


def _rnn(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  graph = _Graph(tf, shape=(2, 4, 3))
  x = np.linspace(-1, 1, 24).astype(np.float32).reshape(2, 4, 3)
  cell = graph.tf1.nn.rnn_cell.LSTMCell(2, initializer=graph.tf1.constant_initializer(0.3))
  y, state = graph.tf1.nn.dynamic_rnn(cell, graph.x, sequence_length=[4, 2], dtype=tf.float32)
  outputs = {"y": y, "h": state.h}
  recorder.model(name, {"x": x}, graph.run(outputs, x))
  graph.save(recorder.path(name), outputs)


def _table(graph: _Graph) -> TfTensor:
  keys, values = integers([3, 5, 7]), floats([0.5, 0.25, 4.0])
  initializer = graph.tf1.lookup.KeyValueTensorInitializer(keys, values)
  return graph.tf1.lookup.StaticHashTable(initializer, -1.0)


def _save_table(tf: TensorFlow, recorder: Recorder, name: str, **options: Any) -> None:
  graph = _Graph(tf, tf.int64, (None,))
  y = _table(graph).lookup(graph.x) * graph.tf1.get_variable("scale", initializer=2.0, use_resource=False)
  x = integers([7, 4, 3])
  recorder.model(name, {"x": x}, {"y": graph.run(y, x)})
  options = {key: value(graph.tf1) for key, value in options.items()}
  graph.save(recorder.path(name), {"y": y}, **options)


def _main_op(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  _save_table(tf, recorder, name, main_op=lambda tf1: tf1.tables_initializer())


def _legacy_init_op(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  if tf.__version__.startswith("1."):
    _save_table(tf, recorder, name, legacy_init_op=lambda tf1: tf1.tables_initializer())
    return
  # Later releases only write a main_op; the collection is what the older ones wrote.
  _save_table(tf, recorder, name, main_op=_into_collection)


def _into_collection(tf1: TensorFlow) -> None:
  tf1.add_to_collection("legacy_init_op", tf1.tables_initializer())


def _asset(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  graph = _Graph(tf)
  vocabulary = recorder.path("colors.txt")
  with open(vocabulary, "w") as f:
    f.write("red\ngreen\n")
  tf1 = graph.tf1
  index = tf1.lookup.TextFileIndex
  lines = tf1.lookup.TextFileInitializer(vocabulary, tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER)
  words = tf1.placeholder(tf.string, [None], name="words")
  ids = tf1.lookup.StaticHashTable(lines, -1).lookup(words)
  y = _dense(graph)
  recorder.model(name, {"x": _X}, {"y": graph.run(y)}, assets={"colors.txt": "red\ngreen\n"})
  signatures = {
    "serving_default": tf1.saved_model.predict_signature_def({"x": graph.x}, {"y": y}),
    "words": tf1.saved_model.predict_signature_def({"words": words}, {"ids": ids}),
  }
  builder = tf1.saved_model.Builder(recorder.path(name))
  builder.add_meta_graph_and_variables(
    graph.session,
    ["serve"],
    signatures,
    assets_collection=tf1.get_collection(tf1.GraphKeys.ASSET_FILEPATHS),
    main_op=tf1.tables_initializer(),
    strip_default_attrs=True,
  )
  builder.save()
  graph.close()
  os.remove(vocabulary)


def _tag_sets(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  graph = _Graph(tf)
  y = _dense(graph)
  recorder.model(name, {"x": _X}, {"z": -graph.run(y)}, tags=["serve", "gpu"], entry="negated")
  tf1 = graph.tf1
  first, second = (
    tf1.saved_model.predict_signature_def({"x": graph.x}, outputs) for outputs in ({"y": y}, {"z": tf.negative(y)})
  )
  builder = tf1.saved_model.Builder(recorder.path(name))
  builder.add_meta_graph_and_variables(graph.session, ["train"], {"serving_default": first}, strip_default_attrs=True)
  builder.add_meta_graph(["serve", "gpu"], {"serving_default": first, "negated": second}, strip_default_attrs=True)
  builder.save()
  graph.close()


def _dtypes(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  graph = _Graph(tf)
  outputs = {}
  for dtype in ("float16", "bfloat16", "float64", "int8", "uint16", "int64", "bool", "complex64"):
    value = tf.cast(tf.constant([0, 1, 3]), getattr(tf, dtype))
    variable = graph.tf1.get_variable(
      dtype, initializer=lambda value=value: value, dtype=value.dtype, use_resource=False
    )
    real = tf.math.real(variable) if dtype == "complex64" else variable
    outputs[dtype] = tf.cast(real, tf.float32) * graph.x
  recorder.model(name, {"x": _X}, graph.run(outputs))
  graph.save(recorder.path(name), outputs)


def _frozen_def(graph: _Graph, outputs: list[str]) -> Any:
  return graph.tf1.graph_util.convert_variables_to_constants(graph.session, graph.graph.as_graph_def(), outputs)


def _frozen(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  graph = _Graph(tf)
  y = graph.run(_dense(graph))
  frozen = _frozen_def(graph, ["y"])
  file = name + (".pbtxt" if "text" in name else ".pb")
  with open(recorder.path(file), "wb") as f:
    f.write(str(frozen).encode() if "text" in name else frozen.SerializeToString())
  recorder.model(name, {"x": _X}, {"y": y}, file=file)
  graph.close()


def _frozen_control_flow(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  graph = _Graph(tf)
  factor = graph.tf1.get_variable("factor", initializer=1.5, use_resource=False)
  _, powers = graph.tf1.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * factor), [0, graph.x])
  graph.tf1.cond(tf.reduce_sum(graph.x) > 0, lambda: powers + 1.0, lambda: -powers, name="c")
  output = tf.identity(graph.graph.get_tensor_by_name("c/Merge:0"), name="out")
  y = graph.run(output)
  with open(recorder.path(name + ".pb"), "wb") as f:
    f.write(_frozen_def(graph, ["out"]).SerializeToString())
  recorder.model(name, {"x": _X}, {"out": y}, file=name + ".pb")
  graph.close()


def _training(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  """A training folder: two checkpoints with their MetaGraphs; the second is the newest."""
  graph = _Graph(tf)
  y = _dense(graph)
  loss = tf.reduce_sum(y, name="loss")
  step = graph.tf1.train.get_or_create_global_step()
  train = graph.tf1.train.AdamOptimizer(0.1).minimize(loss, global_step=step)
  saver = graph.tf1.train.Saver()
  graph.run(loss)
  for number in (1, 2):
    graph.session.run(train, {graph.x: _X})
    saver.save(graph.session, os.path.join(recorder.path(name), "model.ckpt"), global_step=number)
  recorder.model(name, {"x": _X}, {"loss": graph.session.run(loss, {graph.x: _X})})
  graph.close()


WRITERS = {
  "tf1_ref_variables": _ref_variables,
  "tf1_resource_variables": _resource_variables,
  "tf1_text_form": _text,
  "tf1_partitioned": _partitioned,
  "tf1_control_flow": _control_flow,
  "tf1_tensor_array": _tensor_array,
  "tf1_rnn": _rnn,
  "tf1_main_op": _main_op,
  "tf1_legacy_init_op": _legacy_init_op,
  "tf1_asset": _asset,
  "tf1_tag_sets": _tag_sets,
  "tf1_dtypes": _dtypes,
  "frozen_graph": _frozen,
  "frozen_graph_text": _frozen,
  "frozen_control_flow": _frozen_control_flow,
  "meta_graph_training": _training,
}
