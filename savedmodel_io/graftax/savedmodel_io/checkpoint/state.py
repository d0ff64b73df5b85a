"""The `checkpoint` file of a training folder, which names the newest checkpoint."""

import glob
import os

from google.protobuf import text_encoding

from graftax.graphdef_ir import FolderPaths, ModelFolder, UnsafeFileError
from graftax.savedmodel_io.errors import CheckpointNotFoundError, DamagedCheckpointError

__all__ = ["checkpoint_paths", "has_checkpoint_state", "latest_checkpoint", "newest_checkpoint"]

_FILENAME = "checkpoint"
_MOST_BYTES = 1 << 26


def latest_checkpoint(directory: str | os.PathLike[str], *, allow_files_in: FolderPaths = ()) -> str:
  """Returns the path prefix of the newest checkpoint of a training folder, to be given to `CheckpointReader`.

  Args:
    directory: folder with a `checkpoint` file, as `tf.train.CheckpointManager` and `tf.train.Saver` write it.
    allow_files_in: other folders in which the named checkpoint may lie.

  Raises:
    CheckpointNotFoundError: there is no `checkpoint` file.
    DamagedCheckpointError: the file does not name a checkpoint.
    UnsafeFileError: the file names a checkpoint in another folder, or is itself a link to one.

  Example:
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = tempfile.mkdtemp()
    >>> _ = Path(folder, "checkpoint").write_text('model_checkpoint_path: "step-10"')
    >>> os.path.basename(latest_checkpoint(folder))
    'step-10'

  Differs from TF: a missing or unreadable file is an error, not None. If the file names a checkpoint in another folder,
  as it does after the folder was moved or copied, the checkpoint of that name in the folder is meant.
  """
  return newest_checkpoint(os.fspath(directory), ModelFolder.of(directory, allow_files_in))


def newest_checkpoint(directory: str, folder: ModelFolder | None = None) -> str:
  """Returns the path prefix of the newest checkpoint of a training folder; see `latest_checkpoint`.

  Args:
    directory: the training folder.
    folder: the files that may be read; by default those in `directory`.
  """
  own = ModelFolder.of(directory) if folder is None else folder
  path = _read_state(directory, own)["model_checkpoint_path"][-1]
  own.resolved(path, f"the file {os.path.join(directory, _FILENAME)!r} names the newest checkpoint")
  return path


def has_checkpoint_state(directory: str) -> bool:
  """Returns whether a folder has a `checkpoint` file."""
  return os.path.isfile(os.path.join(directory, _FILENAME))


def checkpoint_paths(directory: str | os.PathLike[str], *, allow_files_in: FolderPaths = ()) -> tuple[str, ...]:
  """Returns the path prefixes of all checkpoints that the folder's `checkpoint` file still lists, oldest first.

  Those that lie neither in the folder nor in `allow_files_in` are left out.

  Args:
    directory: folder with a `checkpoint` file, as `tf.train.CheckpointManager` and `tf.train.Saver` write it.
    allow_files_in: other folders in which listed checkpoints may lie.

  Raises:
    CheckpointNotFoundError: there is no `checkpoint` file.
    DamagedCheckpointError: the file does not name a checkpoint.
    UnsafeFileError: the file is a link to another folder.

  Example:
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = tempfile.mkdtemp()
    >>> lines = ['model_checkpoint_path: "step-2"', *(f'all_model_checkpoint_paths: "step-{n}"' for n in (1, 2))]
    >>> _ = Path(folder, "checkpoint").write_text("\\n".join(lines))
    >>> [os.path.basename(path) for path in checkpoint_paths(folder)]
    ['step-1', 'step-2']
  """
  own = ModelFolder.of(directory, allow_files_in)
  return tuple(
    path for path in _read_state(directory, own).get("all_model_checkpoint_paths", ()) if _is_within(own, path)
  )


def _is_within(own: ModelFolder, path: str) -> bool:
  try:
    own.resolved(path, "a checkpoint")
  except UnsafeFileError:
    return False
  return True


def _read_state(directory: str | os.PathLike[str], own: ModelFolder) -> dict[str, list[str]]:
  folder = os.fspath(directory)
  path = os.path.join(folder, _FILENAME)
  try:
    lines = own.read(path, "the file that names checkpoints", max_bytes=_MOST_BYTES).decode().splitlines()
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
      fields.setdefault(name, []).append(_resolve(folder, _unescape(value[1:-1], path), own))
  if "model_checkpoint_path" not in fields:
    raise DamagedCheckpointError(f'{path}: has no line model_checkpoint_path: "..."')
  return fields


def _unescape(text: str, path: str) -> str:
  try:
    return text_encoding.CUnescape(text).decode()
  except ValueError as e:
    raise DamagedCheckpointError(f"{path}: {text!r} is not a quoted path: {e}") from e


def _resolve(folder: str, prefix: str, own: ModelFolder) -> str:
  written = os.path.join(folder, prefix)
  moved = os.path.join(folder, os.path.basename(prefix))
  is_here = written == moved or (_is_within(own, written) and _exists(written))
  return written if is_here or not _exists(moved) else moved


def _exists(prefix: str) -> bool:
  return bool(glob.glob(f"{glob.escape(prefix)}*"))
