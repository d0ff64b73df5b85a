"""`fingerprint.pb`: hashes that identify a SavedModel."""

import os
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from graftax.graphdef_ir import ModelFolder, schema
from graftax.savedmodel_io.errors import DamagedSavedModelError

__all__ = ["Fingerprint", "read_fingerprint"]

_FILENAME = "fingerprint.pb"
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Fingerprint:
  """Hashes that identify a saved model, as unsigned 64-bit integers.

  Attributes:
    saved_model_checksum: hash of saved_model.pb.
    graph_def_program_hash: hash of the graph, free of names that change from save to save.
    signature_def_hash: hash of the signatures.
    saved_object_graph_hash: hash of the object graph.
    checkpoint_hash: hash of the checkpoint's index.
    uuid: identifier drawn when the model was saved; "" in older files.
  """

  saved_model_checksum: int
  graph_def_program_hash: int
  signature_def_hash: int
  saved_object_graph_hash: int
  checkpoint_hash: int
  uuid: str


def read_fingerprint(directory: str, folder: ModelFolder | None = None) -> Fingerprint | None:
  """Returns the fingerprint of the SavedModel in a folder, or None if it was saved without one.

  Args:
    directory: the folder.
    folder: the files that may be read; by default those in `directory`.

  Raises:
    UnsafeFileError: the file is a link to another folder, or not a regular file.
    DamagedSavedModelError: the file cannot be parsed.
  """
  path = os.path.join(directory, _FILENAME)
  try:
    own = ModelFolder.of(directory) if folder is None else folder
    proto = schema.FingerprintDef.FromString(own.read(path, "the fingerprint of the SavedModel", max_bytes=_MOST_BYTES))
  except FileNotFoundError:
    return None
  except DecodeError as e:
    raise DamagedSavedModelError(f"{path}: cannot be parsed: {e}") from e
  return Fingerprint(
    saved_model_checksum=proto.saved_model_checksum,
    graph_def_program_hash=proto.graph_def_program_hash,
    signature_def_hash=proto.signature_def_hash,
    saved_object_graph_hash=proto.saved_object_graph_hash,
    checkpoint_hash=proto.checkpoint_hash,
    uuid=proto.uuid,
  )
