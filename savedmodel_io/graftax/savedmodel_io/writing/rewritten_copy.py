"""`rewrite`: a copy of a SavedModel for another TensorFlow, for other platforms, or for programs without StableHLO."""

import os
from collections.abc import Sequence
from pathlib import Path

from google.protobuf.message import EncodeError

from graftax.convert.rewriting import CALL_MODULE, Consumer, RewriteReport, rewrite_graphs
from graftax.graphdef_ir import Budget, FolderPaths, Limits, ModelFolder, schema
from graftax.savedmodel_io.errors import NotASavedModelError, UnsupportedSavedModelError
from graftax.savedmodel_io.files.saved_model_pb import (
  is_saved_model,
  model_file,
  read_saved_model,
)
from graftax.savedmodel_io.writing.atomic import check_new_folder, new_folder
from graftax.savedmodel_io.writing.bundles.bundle_writer import write_errors
from graftax.savedmodel_io.writing.saved_model_copy import check_apart, check_checkpoint, copy_files

__all__ = ["rewrite"]

_BINARY = "saved_model.pb"
# All forms of the graph, and the hashes of its old contents, which TensorFlow does not need.
_NOT_COPIED = (_BINARY, "saved_model.pbtxt", "saved_model.cpb", "fingerprint.pb")


def rewrite(
  model: str | os.PathLike[str],
  path: str | os.PathLike[str],
  consumer: str = "tensorflow",
  *,
  platforms: Sequence[str] | None = None,
  overwrite: bool = False,
  limits: Limits | None = None,
  allow_files_in: FolderPaths = (),
) -> RewriteReport:
  """Writes a copy of a SavedModel that another TensorFlow, or a converter without StableHLO, can run.

  TensorFlow refuses models with errors such as "XlaCallModule with version 10 is not supported", "The current platform
  CPU is not among the platforms required by the module" or "Cannot deserialize computation". Their computation is an
  XlaCallModule node, as jax2tf, orbax.export and Keras on JAX write it. Each of these nodes, in all functions and
  gradient functions of all MetaGraphs, is written for the consumer. Everything else is copied: signatures, names,
  variables, their values and trainable flags, tables, assets, defaults, open sizes, and derivatives of all orders that
  the model has. TensorFlow is not needed. A model in text form (.pbtxt) becomes one in binary form, without debug
  information.

  Args:
    model: the folder of the SavedModel.
    path: the folder to write. It is written under another name and renamed when it is complete.
    consumer: "tensorflow" for the installed TensorFlow; a release such as "tensorflow-2.16"; "tfjs", "tflite" or "onnx"
      for what converters to these take; "plain" for plain TensorFlow ops. Releases before 2.15 get plain ops, too.
    platforms: "cpu", "cuda", "rocm", "tpu": where the modules will run. By default those for which they were made.
      Plain ops of TensorFlow run on all of them; "tfjs", "tflite" and "onnx" have no platforms.
    overwrite: replace a SavedModel of that name. Other files and folders are never replaced.
    limits: how much memory and time the model may ask for, with all of its nodes together.
    allow_files_in: folders whose files the model may read, too; see `load`.

  Returns:
    How many nodes were written in which way. A model without XlaCallModule nodes is copied as it is.

  Raises:
    NotASavedModelError: `model` is something else.
    ConversionError: the consumer is not known or has no platforms, or a node cannot be written for it, which the
      message names.
    UnsupportedSavedModelError: the graph is in chunks, and larger than the 2 GiB of one file.
    OutputExistsError: something of that name exists and may not be replaced.
    Others: as `load` does.

  Example:
    >>> import tempfile
    >>> import jax
    >>> from graftax import savedmodel_io
    >>> folder = tempfile.mkdtemp()
    >>> x = jax.ShapeDtypeStruct((2, 3), "float32")
    >>> savedmodel_io.save(f"{folder}/model", (lambda x: jax.numpy.tanh(x), x), platforms=["cuda"])
    >>> report = rewrite(f"{folder}/model", f"{folder}/on_cpu", "tensorflow-2.16", platforms=["cpu"])
    >>> report.num_transcoded > 0, report.num_lifted
    (True, 0)
  """
  source, target = Path(model), Path(path)
  wanted = Consumer.of(consumer)
  wanted.check_platforms(platforms)
  replaces = model_file(target) if overwrite else None
  check_new_folder(target, replaces=replaces)
  if not is_saved_model(source):
    raise NotASavedModelError(
      f"{source}: not the folder of a SavedModel: it has no saved_model.pb. Pass a folder that has one. A graph of "
      "another form becomes a SavedModel with "
      "graftax.savedmodel_io.write_saved_model(folder, {'__call__': load(graph).program()})."
    )
  check_apart(source, target)
  folder = ModelFolder.of(os.fspath(source), allow_files_in)
  budget = Budget(limits)
  message = read_saved_model(os.fspath(source), budget, folder)
  check_checkpoint(folder, source, budget)
  graphs = [meta_graph.graph_def for meta_graph in message.meta_graphs]
  reports = rewrite_graphs(graphs, wanted, platforms=platforms, limits=limits)
  for meta_graph in message.meta_graphs:
    _without_definition(meta_graph)
  try:
    data = message.SerializeToString()
  except (EncodeError, ValueError) as e:  # what chunks hold can be more than one message may
    raise UnsupportedSavedModelError(f"{source}: its graph cannot be written as one {_BINARY}: {e}") from e
  with new_folder(target, replaces=replaces) as fresh, write_errors(str(target)):
    copy_files(folder, source, fresh, without=lambda relative: str(relative) in _NOT_COPIED)
    (fresh / _BINARY).write_bytes(data)
  return RewriteReport(
    wanted.name,
    sum(report.num_transcoded for report in reports),
    sum(report.num_lifted for report in reports),
    sum(report.num_plain for report in reports),
    sum(report.num_left for report in reports),
  )


def _without_definition(meta_graph: schema.MetaGraphDef) -> None:
  """Removes the writer's definition of the op, whose attributes the consumer may not know."""
  listed = meta_graph.meta_info_def.stripped_op_list.op
  for index in reversed([index for index, op in enumerate(listed) if op.name == CALL_MODULE]):
    del listed[index]
