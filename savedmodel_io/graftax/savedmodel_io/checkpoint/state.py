"""The `checkpoint` file of a training folder, which names the newest checkpoint."""

import glob
import os

from google.protobuf import text_encoding

from graftax.savedmodel_io.errors import CheckpointNotFoundError, DamagedCheckpointError

__all__ = ["checkpoint_paths", "has_checkpoint_state", "latest_checkpoint"]

_FILENAME = "checkpoint"


def latest_checkpoint(directory: str | os.PathLike[str]) -> str:
  """Returns the path prefix of the newest checkpoint of a training folder, to be given to `CheckpointReader`.

  Args:
    directory: folder with a `checkpoint` file, as `tf.train.CheckpointManager` and `tf.train.Saver` write it.

  Raises:
    CheckpointNotFoundError: there is no `checkpoint` file.
    DamagedCheckpointError: the file does not name a checkpoint.

  Differs from TF: a missing or unreadable file is an error, not None. If the folder was moved, so that an absolute path
  in the file is not there any more, the checkpoint of that name in the folder is meant.
  """
  return _read_state(directory)["model_checkpoint_path"][-1]


def has_checkpoint_state(directory: str) -> bool:
  """Returns whether a folder has a `checkpoint` file."""
  return os.path.isfile(os.path.join(directory, _FILENAME))


def checkpoint_paths(directory: str | os.PathLike[str]) -> tuple[str, ...]:
  """Returns the path prefixes of all checkpoints that the folder's `checkpoint` file still lists, oldest first."""
  return tuple(_read_state(directory).get("all_model_checkpoint_paths", ()))


def _read_state(directory: str | os.PathLike[str]) -> dict[str, list[str]]:
  folder = os.fspath(directory)
  path = os.path.join(folder, _FILENAME)
  try:
    with open(path, encoding="utf-8") as f:
      lines = f.read().splitlines()
  except (FileNotFoundError, NotADirectoryError) as e:
    raise CheckpointNotFoundError(f"{path}: no such file; expected a folder that a training run wrote to") from e
  except UnicodeDecodeError as e:
    raise DamagedCheckpointError(f"{path}: not a text file: {e}") from e
  fields: dict[str, list[str]] = {}
  for line in lines:
    # One `name: value` per line is all that any writer of this text proto produces.
    name, separator, value = line.strip().partition(":")
    value = value.strip()
    if separator and len(value) >= 2 and value[0] == value[-1] == '"':
      fields.setdefault(name, []).append(_resolve(folder, _unescape(value[1:-1], path)))
  if "model_checkpoint_path" not in fields:
    raise DamagedCheckpointError(f'{path}: has no line model_checkpoint_path: "..."')
  return fields


def _unescape(text: str, path: str) -> str:
  try:
    return text_encoding.CUnescape(text).decode()
  except ValueError as e:
    raise DamagedCheckpointError(f"{path}: {text!r} is not a quoted path: {e}") from e


def _resolve(folder: str, prefix: str) -> str:
  written = os.path.join(folder, prefix)
  moved = os.path.join(folder, os.path.basename(prefix))
  return moved if written != moved and not _exists(written) and _exists(moved) else written


def _exists(prefix: str) -> bool:
  return bool(glob.glob(f"{glob.escape(prefix)}*"))
