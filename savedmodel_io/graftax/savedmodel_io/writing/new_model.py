"""Writes SavedModels made of programs, without TensorFlow: `write_saved_model`."""

import hashlib
import os
import shutil
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from google.protobuf.message import EncodeError

from graftax.convert import Program
from graftax.graphdef_ir import schema
from graftax.savedmodel_io.checkpoint.bundle_reader import index_path
from graftax.savedmodel_io.errors import SaveInputError
from graftax.savedmodel_io.files.saved_model_pb import model_file
from graftax.savedmodel_io.pytrees import Leaf, PyTree
from graftax.savedmodel_io.writing.atomic import check_new_folder, new_folder
from graftax.savedmodel_io.writing.bundles.bundle_writer import (
  BundlePlan,
  Progress,
  plan_bundle,
  write_bundle,
  write_errors,
)
from graftax.savedmodel_io.writing.messages.model_messages import ModelMessages, model_messages
from graftax.savedmodel_io.writing.model_content import (
  ModelContent,
  checked_assets,
  checked_attributes,
  checked_functions,
  checked_losses,
  checked_signatures,
  collected_variables,
)

__all__ = ["write_saved_model"]

_MODEL_FILE = "saved_model.pb"
_CHECKPOINT = Path("variables", "variables")
_MAX_BYTES = (1 << 31) - 1  # of a message


def write_saved_model(
  path: str | os.PathLike[str],
  functions: Mapping[str, Program | Sequence[Program]],
  *,
  signatures: Mapping[str, str | Program] | None = None,
  params: Mapping[str, Leaf] | None = None,
  trainable: Mapping[str, bool] | None = None,
  attributes: Mapping[str, PyTree] | None = None,
  regularization_losses: Sequence[Program] = (),
  assets: Mapping[str, str | os.PathLike[str]] | Sequence[str | os.PathLike[str]] = (),
  tags: Sequence[str] = ("serve",),
  tensorflow_version: str = "",
  overwrite: bool = False,
  progress: Progress | None = None,
) -> None:
  """Writes a SavedModel made of programs, without TensorFlow.

  TensorFlow loads it with `tf.saved_model.load`, with the loader of TF1, and for serving. The loaded object has the
  functions as attributes, `variables`, `trainable_variables` and `regularization_losses`. Variables are stored in a
  checkpoint, not in the graph; values are streamed. The folder is written under another name and renamed when it is
  complete.

  Args:
    path: the folder to write; folders around it that do not exist are made.
    functions: attribute path, such as `"__call__"` or `"encoder.call"` -> a program, or several traces of one function.
      The same program, or list of them, under two names is one function with two names.
    signatures: name -> a program, or the name of a function that has one trace.
    params: variable name -> value, in place of the one that the programs have: numpy or JAX arrays. A sharded
      `jax.Array` is written shard by shard. Variables that no program captures are saved too.
    trainable: variable name -> whether TensorFlow trains it, in place of what the programs say.
    attributes: attribute -> nested dicts and lists of names of variables, by which they can be found in the loaded
      object.
    regularization_losses: programs without arguments that return a scalar. `tensorflow_hub.KerasLayer` adds them to the
      loss.
    assets: files to copy, or file name -> file. A constant of a program that is the path of such a file becomes the
      path of the copy.
    tags: the tags of the MetaGraph.
    tensorflow_version: the version that readers see; for those that decide by it.
    overwrite: replace a SavedModel of that name. Other files and folders are never replaced.
    progress: called with the number of bytes of variables written so far and the total, about once per MiB.

  Raises:
    SaveInputError: names, signatures or assets do not fit together.
    UnsupportedSavedModelError: a program holds something that SavedModels cannot store, or that we do not write.
    VariableValueError: a variable has no value, two values, or one that does not fit.
    TensorValueError: a value is not an array.
    OutputExistsError: something of that name exists and may not be replaced.
    MissingFolderError: a part of the path in front of the name is a file.
    CheckpointWriteError: the disk is full, or a file cannot be written for another reason.

  Example:
    >>> import tempfile
    >>> from graftax.savedmodel_io import load
    >>> model = load(os.path.join(os.path.dirname(__file__), "../testdata/2026_11_21/keras_export"))
    >>> target = os.path.join(tempfile.mkdtemp(), "copy")
    >>> write_saved_model(target, {"__call__": model.program("serve")}, signatures={"serving_default": "__call__"})
    >>> list(load(target).functions)
    ['__call__']
  """
  target = Path(path)
  replaces = model_file(target) if overwrite else None
  check_new_folder(target, replaces=replaces)
  is_sequence = isinstance(tags, Iterable) and not isinstance(tags, str)
  if not is_sequence or not tags or not all(isinstance(tag, str) and tag for tag in tags):
    raise SaveInputError(f"tags={tags!r}: expected a sequence of strings, such as ['serve']")
  checked = checked_functions(functions)
  by_signature = checked_signatures(signatures or {}, checked)
  losses = checked_losses(regularization_losses)
  programs = [*(p for traces in checked.values() for p in traces), *by_signature.values(), *losses]
  variables = collected_variables(programs, params or {}, trainable or {})
  content = ModelContent(
    functions=checked,
    signatures=by_signature,
    losses=losses,
    variables=variables,
    attributes=checked_attributes(attributes or {}, variables),
    assets=checked_assets(assets),
  )
  messages = model_messages(content, tags, tensorflow_version)
  plan = plan_bundle(messages.tensors)
  data = _serialized(messages.saved_model)
  with new_folder(target, replaces=replaces) as fresh, write_errors(str(target)):
    _write_files(fresh, messages, data, plan, content.assets, progress)


def _serialized(model: schema.SavedModel) -> bytes:
  size = model.ByteSize()
  try:
    if size <= _MAX_BYTES:
      return model.SerializeToString(deterministic=True)
  except (EncodeError, ValueError):
    pass
  raise SaveInputError(
    f"graph and constants take {size} bytes, and files of SavedModels have at most {_MAX_BYTES}; make the large "
    "constants parameters of the functions"
  )


def _write_files(
  folder: Path,
  messages: ModelMessages,
  data: bytes,
  plan: BundlePlan,
  assets: Mapping[str, Path],
  progress: Progress | None,
) -> None:
  prefix = folder / _CHECKPOINT
  prefix.parent.mkdir()
  (folder / "assets").mkdir()
  write_bundle(plan, str(prefix), progress=progress)
  for name, source in assets.items():
    copy = folder / "assets" / name
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, copy)
  (folder / _MODEL_FILE).write_bytes(data)
  (folder / "fingerprint.pb").write_bytes(_fingerprint(messages.saved_model, data, prefix).SerializeToString())


def _fingerprint(model: schema.SavedModel, data: bytes, prefix: Path) -> schema.FingerprintDef:
  """Returns what identifies the model. TensorFlow hashes by other functions, but compares the results with nothing."""
  (meta_graph,) = model.meta_graphs
  signatures = sorted((name, s.SerializeToString(deterministic=True)) for name, s in meta_graph.signature_def.items())
  message = schema.FingerprintDef(
    saved_model_checksum=_hash(data),
    graph_def_program_hash=_hash(meta_graph.graph_def.SerializeToString(deterministic=True)),
    signature_def_hash=_hash(*(part for name, s in signatures for part in (name.encode(), s))),
    saved_object_graph_hash=_hash(meta_graph.object_graph_def.SerializeToString(deterministic=True)),
    checkpoint_hash=_hash(Path(index_path(str(prefix))).read_bytes()),
    uuid=str(uuid.uuid4().int),
  )
  message.version.producer = 1
  return message


def _hash(*parts: bytes) -> int:
  digest = hashlib.blake2b(digest_size=8)
  for part in parts:
    digest.update(part)
  return int.from_bytes(digest.digest(), "little")
