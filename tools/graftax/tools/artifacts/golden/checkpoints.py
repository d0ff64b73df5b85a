"""Checkpoints of every kind."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from graftax.tools.artifacts.golden.recorder import Recorder, TensorFlow, TfTensor, floats, integers

__all__ = ["WRITERS"]

_A = np.arange(20, dtype=np.float32).reshape(5, 4)
_B = integers([7, -8])


def _saver(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  """A checkpoint of `tf.train.Saver`, with a variable in pieces, in format 1 or 2."""
  tf1 = tf.compat.v1
  os.makedirs(recorder.path(name))
  with tf.Graph().as_default(), tf1.Session() as session:
    tf1.get_variable(
      "a",
      [5, 4],
      initializer=lambda shape, dtype=None, partition_info=None: tf.constant(
        _A[partition_info.var_offset[0] :][: int(shape[0])]
      ),
      partitioner=tf1.fixed_size_partitioner(3),
      use_resource=False,
    )
    tf1.get_variable("b", initializer=_B, use_resource=False)
    session.run(tf1.global_variables_initializer())
    version = tf1.train.SaverDef.V1 if name.endswith("v1") else tf1.train.SaverDef.V2
    saver = tf1.train.Saver(write_version=version)
    saver.save(session, os.path.join(recorder.path(name), "model"), write_meta_graph=False, write_state=False)
  recorder.weights(name, {"a": _A, "b": _B}, file=name + "/model")


def _dtypes(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  tensors = {}
  for dtype in (
    "float16",
    "bfloat16",
    "float64",
    "int8",
    "uint8",
    "uint16",
    "uint64",
    "bool",
    "complex64",
    "complex128",
  ):
    tensors[dtype] = tf.cast(tf.constant([0, 1, 3]), getattr(tf, dtype))
  tensors["string"] = tf.constant([b"ab", b"c"])
  values = _save_raw(tf, os.path.join(recorder.path(name), "all"), tensors)
  recorder.weights(name, values, file=name + "/all")


def _sharded(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  folder = recorder.path(name)
  parts = [os.path.join(folder, "part_" + str(i)) for i in range(3)]
  values = {}
  for i, part in enumerate(parts):
    values.update(_save_raw(tf, part, {"t" + str(i): tf.constant(floats([i, i + 0.5]))}))
  merged = os.path.join(folder, "model")
  _run(
    tf,
    lambda: tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=merged, delete_old_dirs=False),
  )
  for file in os.listdir(folder):
    if file.startswith("part_"):
      os.remove(os.path.join(folder, file))
  recorder.weights(name, values, file=name + "/model")


def _save_raw(tf: TensorFlow, prefix: str, tensors: TfTensor) -> TfTensor:
  if not os.path.isdir(os.path.dirname(prefix)):
    os.makedirs(os.path.dirname(prefix))
  values = tensors if tf.executing_eagerly() else tf.compat.v1.Session().run(tensors)
  _run(
    tf,
    lambda: tf.raw_ops.SaveV2(
      prefix=prefix,
      tensor_names=list(tensors),
      shape_and_slices=[""] * len(tensors),
      tensors=list(tensors.values()),
    ),
  )
  return {key: np.asarray(value) for key, value in values.items()}


def _run(tf: TensorFlow, make_op: Any) -> None:
  op = make_op()
  if not tf.executing_eagerly():
    tf.compat.v1.Session().run(op)


def _objects(tf: TensorFlow, recorder: Recorder, name: str) -> None:
  """A folder of `tf.train.CheckpointManager`, of which the newest of two checkpoints counts; also written async."""
  if not tf.executing_eagerly():
    raise NotImplementedError("needs eager execution")
  step = tf.Variable(0, dtype=tf.int64)
  weight = tf.Variable(floats([1.0, 2.0]))
  checkpoint = tf.train.Checkpoint(step=step, net=[weight])
  manager = tf.train.CheckpointManager(checkpoint, recorder.path(name), max_to_keep=5)
  options = None
  if name.endswith("async"):
    options = tf.train.CheckpointOptions(experimental_enable_async_checkpoint=True)
  for _ in range(2):
    step.assign_add(1)
    weight.assign_add([1.0, 0.5])
    manager.save(options=options) if options else manager.save()
  if options:
    checkpoint.sync()
  key = "/.ATTRIBUTES/VARIABLE_VALUE"
  recorder.weights(name, {"step" + key: np.int64(2), "net/0" + key: weight.numpy()})


WRITERS = {
  "checkpoint_v1": _saver,
  "checkpoint_v2": _saver,
  "checkpoint_dtypes": _dtypes,
  "checkpoint_sharded": _sharded,
  "checkpoint_manager": _objects,
  "checkpoint_async": _objects,
}
