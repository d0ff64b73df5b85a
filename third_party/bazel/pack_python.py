"""Packs an installed CPython into an archive that runs from any folder, for Bazel's GRAFTAX_PYTHON_ARCHIVE.

    python third_party/bazel/pack_python.py ~/.pyenv/versions/3.13.0 python.tar.gz

Prints the archive's SHA-256, which is the same each time. The installation must be self-contained, as those of pyenv
are. An interpreter that a Linux distribution installs is refused, since parts of it are outside of its folder. The
archive holds the interpreter and the standard library. The C library and libraries such as OpenSSL are the machine's.
"""

import argparse
import gzip
import hashlib
import io
import sys
import tarfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

# The folder at the top of the archive, as in those of the project python-build-standalone.
_TOP = "python"
_LEFT_OUT = ("site-packages", "test", "idlelib", "tkinter", "turtledemo", "__pycache__", "config-*")


def _files(prefix: Path, version: str) -> Iterator[Path]:
  """Yields the files to pack, in a fixed order."""
  yield prefix / f"bin/python{version}"
  yield from sorted(prefix.glob(f"lib/libpython{version}.so.1.0"))
  library = prefix / f"lib/python{version}"
  for path in sorted(library.rglob("*")):
    parts = path.relative_to(library).parts
    if path.is_file() and not any(fnmatch(part, pattern) for part in parts for pattern in _LEFT_OUT):
      yield path


def _relocated(content: bytes, prefix: Path) -> bytes:
  """Returns a program or library that finds libpython beside itself rather than in `prefix`.

  The run path is a string in the file. A shorter one fits in its place.
  """
  run_path = f"\0{prefix}/lib\0".encode()
  return content.replace(run_path, b"\0$ORIGIN/../lib".ljust(len(run_path), b"\0"))


def pack(prefix: Path, version: str, archive: Path) -> str:
  """Writes the archive and returns its SHA-256.

  Args:
    prefix: folder of the installation, with `bin` and `lib` in it.
    version: the minor version to pack, such as 3.13.
    archive: path of the result, a .tar.gz file.

  Raises:
    ValueError: the folder is not a self-contained installation of that version.
  """
  needed = [f"bin/python{version}", f"lib/python{version}/os.py", f"lib/python{version}/ensurepip/_bundled/pip-*.whl"]
  missing = [pattern for pattern in needed if not any(prefix.glob(pattern))]
  if missing:
    raise ValueError(
      f"{prefix} is not a self-contained installation of Python {version}: it has no {', '.join(missing)}. "
      "Installations of pyenv are, and archives of python-build-standalone need no packing."
    )
  packed = io.BytesIO()
  with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream, tarfile.open(fileobj=stream, mode="w") as tar:
    for path in _files(prefix, version):
      content = path.read_bytes()
      is_linked = path.parent.name in ("bin", "lib")
      content = _relocated(content, prefix) if is_linked else content
      member = tarfile.TarInfo(f"{_TOP}/{path.relative_to(prefix)}")
      member.size, member.mode = len(content), 0o755 if is_linked else 0o644
      tar.addfile(member, io.BytesIO(content))
  archive.write_bytes(packed.getvalue())
  return hashlib.sha256(packed.getvalue()).hexdigest()


def main() -> None:
  parser = argparse.ArgumentParser(description="Pack an installed CPython into an archive that runs from any folder.")
  parser.add_argument("prefix", type=Path, help="folder of the installation, such as ~/.pyenv/versions/3.13.0")
  parser.add_argument("archive", type=Path, help="the archive to write, a .tar.gz file")
  parser.add_argument(
    "--version", default="3.13", help="minor version (default: 3.13; the locks are for 3.13 and 3.12)"
  )
  arguments = parser.parse_args()
  try:
    print(pack(arguments.prefix.resolve(), arguments.version, arguments.archive))
  except ValueError as e:
    sys.exit(str(e))


if __name__ == "__main__":
  main()
