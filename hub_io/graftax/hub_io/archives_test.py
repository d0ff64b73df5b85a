"""Damaged and hostile archives: each is one clear error, quickly, in little memory, and nothing is written outside."""

import bz2
import gzip
import io
import os
import random
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from graftax.graphdef_ir import LimitExceededError
from graftax.hub_io import Limits, load
from graftax.hub_io.archives import extract_archive
from graftax.hub_io.errors import DamagedArchiveError, UnsafeArchiveError
from graftax.testing.resource_limits import within_limits

_MODULE = Path(__file__).parent / "testdata/2026_11_22/tf2_module"
_MODEL = (_MODULE / "saved_model.pb").read_bytes()
_MOST_MEMORY_MIB = 200
_ZEROS = bytes(512)


def _tar(*members: tuple[tarfile.TarInfo, bytes], format: int = tarfile.GNU_FORMAT) -> bytes:
  buffer = io.BytesIO()
  with tarfile.open(fileobj=buffer, mode="w", format=format) as tar:
    for member, data in members:
      tar.addfile(member, io.BytesIO(data))
  return buffer.getvalue()


def _member(name: str, data: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
  member = tarfile.TarInfo(name)
  member.size = len(data)
  for field, value in fields.items():
    setattr(member, field, value)
  return member, data


def _special(name: str, kind: bytes, link: str = "", **fields: object) -> bytes:
  return _tar(_member(name, type=kind, linkname=link, **fields))


def _claiming(size: int, *, kind: bytes = tarfile.REGTYPE, data: bytes = b"") -> bytes:
  """Returns a header that claims a size, and what follows it."""
  member, _ = _member("variables/variables.index", type=kind)
  member.size = size
  return member.tobuf(tarfile.GNU_FORMAT) + data


def _with_field(start: int, value: bytes, archive: bytes | None = None) -> bytes:
  """Returns an archive with other bytes in its first header, whose checksum is right again."""
  header = bytearray((archive or _tar(_member("saved_model.pb", b"x")))[:512])
  header[start : start + len(value)] = value
  header[148:156] = b" " * 8
  header[148:156] = b"%06o\0 " % sum(header)
  return bytes(header) + (archive or _tar(_member("saved_model.pb", b"x")))[512:]


def _pax(**records: str) -> bytes:
  return _tar(_member("saved_model.pb", b"x", pax_headers=records), format=tarfile.PAX_FORMAT)


def _gzip_of_zeros(prefix: bytes, num_mib: int) -> bytes:
  buffer = io.BytesIO()
  with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1) as f:
    f.write(prefix)
    for _ in range(num_mib):
      f.write(bytes(1 << 20))
  return buffer.getvalue()


def _good() -> bytes:
  return _tar(_member("./saved_model.pb", _MODEL), _member("./variables/variables.index", b"x" * 2000))


def _flipped() -> bytes:
  data = bytearray(gzip.compress(_good()))
  data[len(data) // 2] ^= 0xFF
  return bytes(data)


_HOSTILE: dict[str, tuple[Callable[[], bytes], type[Exception], str]] = {
  # Paths outside of the folder.
  "absolute": (lambda: _tar(_member("/etc/graftax", b"x")), UnsafeArchiveError, "'/etc/graftax'"),
  "parent": (lambda: _tar(_member("../outside", b"x")), UnsafeArchiveError, "'../outside'"),
  "parent_inside": (lambda: _tar(_member("variables/../../outside", b"x")), UnsafeArchiveError, "not a plain path"),
  "parent_folder": (lambda: _special("..", tarfile.DIRTYPE), UnsafeArchiveError, "not a plain path"),
  "backslashes": (lambda: _tar(_member("..\\outside", b"x")), UnsafeArchiveError, "not a plain path"),
  "drive": (lambda: _tar(_member("C:\\outside", b"x")), UnsafeArchiveError, "not a plain path"),
  "long_gnu_name": (lambda: _tar(_member("x/" * 60 + "../" * 100, b"x")), UnsafeArchiveError, "not a plain path"),
  "pax_path": (lambda: _pax(path="/etc/graftax"), UnsafeArchiveError, "'/etc/graftax'"),
  "pax_path_nul": (lambda: _pax(path="a\0b"), UnsafeArchiveError, "not a plain path"),
  # Links, devices and other kinds.
  "symlink_outside": (lambda: _special("variables", tarfile.SYMTYPE, "/tmp"), UnsafeArchiveError, "a link to '/tmp'"),
  "symlink_inside": (lambda: _special("a", tarfile.SYMTYPE, "saved_model.pb"), UnsafeArchiveError, "is a link"),
  "symlink_then_file": (
    lambda: _tar(_member("variables", type=tarfile.SYMTYPE, linkname=".."), _member("variables/outside", b"x")),
    UnsafeArchiveError,
    "is a link",
  ),
  "hardlink": (lambda: _special("a", tarfile.LNKTYPE, "/etc/passwd"), UnsafeArchiveError, "a link to '/etc/passwd'"),
  "pax_link": (
    lambda: _tar(
      _member("a", type=tarfile.SYMTYPE, linkname="b", pax_headers={"linkpath": "/etc/passwd"}),
      format=tarfile.PAX_FORMAT,
    ),
    UnsafeArchiveError,
    "a link to '/etc/passwd'",
  ),
  "character_device": (
    lambda: _special("null", tarfile.CHRTYPE, devmajor=1, devminor=3),
    UnsafeArchiveError,
    "neither a file nor a folder",
  ),
  "block_device": (lambda: _special("sda", tarfile.BLKTYPE), UnsafeArchiveError, "neither a file nor a folder"),
  "pipe": (lambda: _special("pipe", tarfile.FIFOTYPE), UnsafeArchiveError, "neither a file nor a folder"),
  "sparse": (lambda: _with_field(156, tarfile.GNUTYPE_SPARSE), UnsafeArchiveError, "a sparse file"),
  "pax_sparse": (
    lambda: _pax(**{"GNU.sparse.map": "0,1", "GNU.sparse.size": str(1 << 50)}),
    UnsafeArchiveError,
    "a sparse file",
  ),
  # The same name twice, files in files, names that no file system holds.
  "twice": (lambda: _tar(_member("a", b"x"), _member("./a", b"y")), UnsafeArchiveError, "'a' twice"),
  "file_in_file": (lambda: _tar(_member("a", b"x"), _member("a/b", b"y")), UnsafeArchiveError, "a file of the archive"),
  "file_over_folder": (lambda: _tar(_member("a/b", b"x"), _member("a", b"y")), UnsafeArchiveError, "'a' twice"),
  "long_name": (lambda: _tar(_member("x" * 300, b"x")), UnsafeArchiveError, "of 255 bytes"),
  "deep": (lambda: _tar(_member("x/" * 1000 + "x", b"x")), UnsafeArchiveError, "has 1001 parts"),
  # Bombs.
  "claims_a_petabyte": (lambda: _claiming(1 << 50), LimitExceededError, "the limit unpacked_bytes is"),
  "long_name_of_a_gigabyte": (
    lambda: _gzip_of_zeros(_claiming(1 << 30, kind=tarfile.GNUTYPE_LONGNAME), 8),
    UnsafeArchiveError,
    "claims to be 1073741824 bytes",
  ),
  "pax_header_of_a_gigabyte": (
    lambda: _gzip_of_zeros(_claiming(1 << 30, kind=tarfile.XHDTYPE), 8),
    UnsafeArchiveError,
    "claims to be 1073741824 bytes",
  ),
  "file_of_zeros": (
    lambda: _gzip_of_zeros(_claiming(1 << 30), 400),
    LimitExceededError,
    "the limit unpacked_ratio is 100",
  ),
  "bzip2_of_zeros": (
    lambda: bz2.compress(_claiming(1 << 30) + bytes(400 << 20)),
    LimitExceededError,
    "the limit unpacked_ratio is 100",
  ),
  "bzip2_cut_off": (lambda: bz2.compress(_good())[:-20], DamagedArchiveError, "EOFError"),
  "bzip2_damaged": (lambda: b"BZh9" + bytes(100), DamagedArchiveError, "Invalid data stream"),
  "zeros_after_the_end": (lambda: _gzip_of_zeros(_good(), 400), LimitExceededError, "the limit unpacked_ratio is 100"),
  "many_members": (
    lambda: b"".join(_member(f"f{i}")[0].tobuf() for i in range(4097)),
    LimitExceededError,
    "4097 files and folders in one archive; the limit archive_members",
  ),
  "folders_around_members": (
    lambda: b"".join(_member(f"{i}/" * 20 + "x")[0].tobuf() for i in range(1000)),
    LimitExceededError,
    "the limit archive_members",
  ),
  "pax_size": (lambda: _pax(size=str(1 << 50)), LimitExceededError, "the limit unpacked_bytes is"),
  "long_names_for_long_names": (
    lambda: _claiming(512, kind=tarfile.GNUTYPE_LONGNAME, data=_ZEROS) * 5000,
    DamagedArchiveError,
    "RecursionError",
  ),
  # Sizes that go backwards, and numbers that are none.
  "negative_size": (lambda: _with_field(124, b"\xff" * 12), UnsafeArchiveError, "size -1"),
  "negative_pax_size": (lambda: _pax(size="-1024"), UnsafeArchiveError, "size -1024"),
  "size_is_no_number": (lambda: _with_field(124, b"a lot      \0"), DamagedArchiveError, "invalid header"),
  "wrong_checksum": (lambda: b"a" + _good()[1:], DamagedArchiveError, "bad checksum"),
  # Cut off, damaged, something else.
  "empty": (lambda: b"", DamagedArchiveError, "it begins with b''"),
  "web_page": (
    lambda: b"<!DOCTYPE html><html></html>" * 50,
    DamagedArchiveError,
    "begins with b'<!D'. Expected a SavedModel in an arch",
  ),
  "zip": (lambda: b"PK\x03\x04" + bytes(1000), DamagedArchiveError, r"it begins with b'PK\\x03'"),
  "zeros": (lambda: bytes(10240), DamagedArchiveError, "it holds .."),
  "no_end": (lambda: _good()[:-10240].rstrip(b"\0"), DamagedArchiveError, "cut off"),
  "cut_in_a_file": (lambda: _good()[:5000], DamagedArchiveError, "cut off"),
  "cut_compressed": (lambda: gzip.compress(_good())[:-500], DamagedArchiveError, "EOFError"),
  "cut_checksum": (lambda: gzip.compress(_good())[:-2], DamagedArchiveError, "EOFError"),
  "wrong_gzip_checksum": (lambda: gzip.compress(_good())[:-8] + bytes(8), DamagedArchiveError, "CRC"),
  "flipped_byte": (_flipped, DamagedArchiveError, "cut off"),
  "gzip_of_noise": (lambda: b"\x1f\x8b" + random.Random(0).randbytes(5000), DamagedArchiveError, "begins with"),
  "damaged_second_header": (
    lambda: _tar(_member("a", b"x"))[:1024] + b"\x01" * 512 + bytes(10240),
    DamagedArchiveError,
    "does not end with a block of zeros",
  ),
  # Archives in order, of something else than a module.
  "no_module": (lambda: _tar(_member("README.md", b"x")), DamagedArchiveError, "not an archive of a readable module"),
  "module_of_noise": (lambda: _tar(_member("saved_model.pb", b"x" * 99)), DamagedArchiveError, "not a SavedModel"),
  "module_cut_off": (lambda: _tar(_member("saved_model.pb", _MODEL[:999])), DamagedArchiveError, "cannot be parsed"),
  "module_without_values": (lambda: _tar(_member("saved_model.pb", _MODEL)), DamagedArchiveError, "variables.index"),
  "asset_outside": (
    lambda: _tar(_member("saved_model.pb", b"\x08\x01\x12\x13\x0a\x07\x22\x05serve\x32\x08\x12\x06../key")),
    DamagedArchiveError,
    "asset file name '../key'",
  ),
}


def _files(folder: Path) -> set[str]:
  return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.name.endswith(".graftax-lock")}


@pytest.mark.parametrize("case", _HOSTILE)
def test_a_hostile_archive_is_one_clear_error_and_leaves_nothing(case, tmp_path, monkeypatch):
  make, error, message = _HOSTILE[case]
  monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path / "cache"))
  (tmp_path / "module.tar.gz").write_bytes(make())
  with within_limits(memory_mib=_MOST_MEMORY_MIB), pytest.raises(error, match=message) as caught:
    load(tmp_path / "module.tar.gz")
  assert type(caught.value) is error
  assert "module.tar.gz" in str(caught.value)
  assert _files(tmp_path) == {"module.tar.gz", "cache"}


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_files_and_folders_are_unpacked(compress, tmp_path):
  data = _tar(
    _member("./", type=tarfile.DIRTYPE),
    _member("./variables/", type=tarfile.DIRTYPE),
    _member("./variables/variables.index", b"x" * 70_000, mode=0o4777, mtime=1 << 60),
    _member("a/b/c", b""),
  )
  extract_archive(io.BytesIO(compress(data)), tmp_path, name="archive")
  assert (tmp_path / "variables/variables.index").read_bytes() == b"x" * 70_000
  assert (tmp_path / "variables/variables.index").stat().st_mode & 0o7111 == 0
  assert (tmp_path / "a/b/c").read_bytes() == b""


def test_limits_are_arguments(tmp_path):
  data = gzip.compress(_tar(_member("zeros", bytes(1 << 20))))
  for limit, limits in (
    ("unpacked_bytes", Limits(unpacked_bytes=1 << 19)),
    ("unpacked_ratio", Limits(unpacked_ratio=10, unpacked_free_bytes=1 << 18)),
    ("archive_members", Limits(archive_members=0)),
  ):
    with pytest.raises(LimitExceededError, match=f"archive.*; the limit {limit} is") as caught:
      extract_archive(io.BytesIO(data), tmp_path, name="archive", limits=limits)
    assert caught.value.limit == limit


def test_an_archive_is_read_once_from_start_to_end(tmp_path):
  read_end, write_end = os.pipe()
  os.write(write_end, gzip.compress(_tar(_member("a", b"x" * 1000))))
  os.close(write_end)
  with os.fdopen(read_end, "rb") as stream:
    extract_archive(stream, tmp_path, name="archive")
  assert (tmp_path / "a").read_bytes() == b"x" * 1000
