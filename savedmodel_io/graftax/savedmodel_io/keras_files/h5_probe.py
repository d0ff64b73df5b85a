"""Reads the structure of an HDF5 file; started as a script by `guard.py`, which explains why.

    python -I h5_probe.py FILE PROCESSOR_SECONDS SEARCH_PATH...

Imports nothing of graftax, so that it starts quickly, and where only the search path above is known. Prints "ready"
when it starts to read, so that a missing library is not taken for a damaged file.
"""

import contextlib
import io
import os
import sys
import zipfile
from typing import Any

_MEMBER = "model.weights.h5"
_MOST_OBJECTS = 1 << 18
# The limit of memory, on top of twice the size of the file.
_MOST_BYTES = 1 << 31


def main() -> None:
  path, seconds = sys.argv[1], int(sys.argv[2])
  sys.path += sys.argv[3:]
  with contextlib.suppress(ImportError, ValueError, OSError):
    import resource  # not on every system

    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
  import h5py

  print("ready", flush=True)
  with contextlib.suppress(ImportError, ValueError, OSError):
    import resource  # not on every system

    limit = _MOST_BYTES + 2 * os.path.getsize(path)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
  if not zipfile.is_zipfile(path) or path.endswith((".h5", ".hdf5")):
    with h5py.File(path, "r") as file:
      _walk(file)
    return
  with zipfile.ZipFile(path) as archive, archive.open(_MEMBER) as member:
    is_stored = archive.getinfo(_MEMBER).compress_type == zipfile.ZIP_STORED
    with h5py.File(member if is_stored else io.BytesIO(member.read()), "r") as file:
      _walk(file)


def _walk(file: Any) -> None:  # h5py ships no type information
  """Reads links, attributes and layouts of all objects once, and the values that are stored in chunks."""
  queue = [file]
  seen = set()
  for found in queue:  # grows while it is walked
    if hash(found.id) in seen or len(queue) > _MOST_OBJECTS:
      continue
    seen.add(hash(found.id))
    for name in found.attrs:
      _ = found.attrs[name]
    if hasattr(found, "keys"):
      links = [(name, found.get(name, getlink=True)) for name in found]
      queue += [found[name] for name, link in links if type(link).__name__ == "HardLink"]
    elif hasattr(found, "chunks"):
      stored = found.id.get_storage_size()
      if found.chunks is not None and not found.is_virtual and 0 < found.nbytes <= 100 * stored:
        _ = found[()]


if __name__ == "__main__":
  main()
