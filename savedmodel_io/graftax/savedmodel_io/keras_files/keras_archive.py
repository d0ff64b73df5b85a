"""`.keras` archives: a zip file with the model's configuration and an HDF5 file of its weights.

Only these two members are read, and nothing is unpacked to the disk.
"""

import contextlib
import io
import json
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from graftax.graphdef_ir import Budget, LimitExceededError
from graftax.savedmodel_io.errors import DamagedWeightsError, UnsafeWeightsError
from graftax.savedmodel_io.pytrees import Json

__all__ = ["open_keras_archive"]

_WEIGHTS = "model.weights.h5"
_CONFIG = "config.json"
_MOST_CONFIG_BYTES = 1 << 26
# The objects that a text in JSON becomes take this many times as much memory.
_JSON_RATIO = 16
_ENCRYPTED = 1


@contextlib.contextmanager
def open_keras_archive(path: str, budget: Budget) -> Iterator[tuple[BinaryIO, int, Mapping[str, Json]]]:
  """Opens an archive, and returns its file of weights, the size of that, and the configuration of the model.

  Raises:
    DamagedWeightsError: it is damaged, or not the archive of a Keras model.
    UnsafeWeightsError: it holds names twice or outside of it, or is encrypted.
    LimitExceededError: it has more files, or unpacks to more, than the budget allows.
  """
  try:
    with zipfile.ZipFile(path) as archive:
      members = _checked_members(archive, path, budget)
      with _open_weights(archive, members[_WEIGHTS]) as weights:
        yield weights, members[_WEIGHTS].file_size, _read_config(archive, members[_CONFIG])
  except (DamagedWeightsError, UnsafeWeightsError) as e:
    raise type(e)(str(e) if str(e).startswith(path) else f"{path}: {e}") from e
  except LimitExceededError:
    raise
  except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, ValueError, RecursionError) as e:
    raise DamagedWeightsError(f"{path}: damaged, or not a .keras archive ({type(e).__name__}: {e})") from e


def _checked_members(archive: zipfile.ZipFile, path: str, budget: Budget) -> dict[str, zipfile.ZipInfo]:
  infos = archive.infolist()
  budget.check_archive_members(len(infos), path)
  members: dict[str, zipfile.ZipInfo] = {}
  for info in infos:
    if info.filename in members:
      raise UnsafeWeightsError(f"the archive holds {info.filename!r} twice")
    if info.filename.startswith("/") or "\\" in info.filename or ".." in info.filename.split("/"):
      raise UnsafeWeightsError(f"the archive holds {info.filename!r}, which is not a plain path within it")
    members[info.filename] = info
  for name in (_WEIGHTS, _CONFIG):
    if name not in members:
      raise DamagedWeightsError(f"not the archive of a Keras model: it has no {name!r}, but {sorted(members)[:10]}")
    _check_member(members[name], path, budget)
  return members


def _check_member(info: zipfile.ZipInfo, path: str, budget: Budget) -> None:
  is_stored = info.compress_type == zipfile.ZIP_STORED
  if info.flag_bits & _ENCRYPTED:
    raise UnsafeWeightsError(f"{info.filename!r} is encrypted")
  if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
    raise UnsafeWeightsError(f"{info.filename!r} is compressed in a way that Keras does not use ({info.compress_type})")
  if is_stored and info.file_size != info.compress_size:
    raise DamagedWeightsError(f"{info.filename!r} has {info.file_size} bytes, of which {info.compress_size} are stored")
  if info.filename == _CONFIG and info.file_size > _MOST_CONFIG_BYTES:
    raise UnsafeWeightsError(f"{info.filename!r} has {info.file_size} bytes; expected at most {_MOST_CONFIG_BYTES}")
  num_bytes = info.file_size * _JSON_RATIO if info.filename == _CONFIG else 0 if is_stored else info.file_size
  budget.spend_unpacked_bytes(num_bytes, os.path.getsize(path), f"{path}: {info.filename!r}")


def _open_weights(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> BinaryIO:
  # Seeking backwards in a compressed member would unpack it again from its start each time.
  member = archive.open(info)
  return member if info.compress_type == zipfile.ZIP_STORED else io.BytesIO(_read(member, info))  # type: ignore[return-value]  # typeshed: IO[bytes]


def _read_config(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Mapping[str, Json]:
  with archive.open(info) as member:
    config = json.loads(_read(member, info))
  own = config.get("config") if isinstance(config, dict) else None
  return own if isinstance(own, dict) else {}


def _read(member: Any, info: zipfile.ZipInfo) -> bytes:
  # A member may hold more than its header says.
  data: bytes = member.read(info.file_size + 1)
  if len(data) != info.file_size:
    raise DamagedWeightsError(f"{info.filename!r} has {len(data)} bytes or more; expected {info.file_size}")
  return data
