"""Archives of hub modules: tar and gzip, their members, headers and sizes."""

import bz2
import gzip
import io
import lzma
import os
import tarfile
import zlib
from collections.abc import Callable, Sequence

from graftax.testing.hostile.draw import Draw
from graftax.testing.hostile.grammar.models import write_object_model
from graftax.testing.hostile.grammar.readers import use_archive
from graftax.testing.hostile.registry import Attempt, Box, Expectation, family

_KIND = "archive"
Member = tuple[tarfile.TarInfo, bytes]


def _member(name: str, data: bytes = b"", **fields: object) -> Member:
  member = tarfile.TarInfo(name)
  member.size = len(data)
  for field, value in fields.items():
    setattr(member, field, value)
  return member, data


def _model_members(box: Box, prefix: str = "") -> list[Member]:
  folder = box.model / "source"
  folder.mkdir()
  write_object_model(folder)
  names = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
  return [_member(f"{prefix}{name}", (folder / name).read_bytes()) for name in names]


def _tar(members: Sequence[Member], format: int = tarfile.GNU_FORMAT) -> bytes:
  buffer = io.BytesIO()
  with tarfile.open(fileobj=buffer, mode="w", format=format, encoding="utf-8", errors="surrogatepass") as tar:
    for member, data in members:
      tar.addfile(member, io.BytesIO(data))
  return buffer.getvalue()


def _attempt(draw: Draw, box: Box, data: bytes, expectation: Expectation = "typed") -> Attempt:
  path = box.model / draw.pick("m.tar.gz", "m.tar", "m.tgz")
  path.write_bytes(gzip.compress(data, 1) if path.suffix != ".tar" else data)
  before = set(os.listdir(box.outside))

  def check(value: object) -> None:
    del value
    assert set(os.listdir(box.outside)) == before, "the archive wrote outside of its folder"

  return Attempt(lambda: use_archive(path, box.model / "cache"), expectation, check)


def honest(draw: Draw, box: Box) -> Attempt:
  return _attempt(draw, box, _tar(_model_members(box, draw.pick("", "./"))), "loaded")


def paths_outside(draw: Draw, box: Box) -> Attempt:
  name = draw.pick(
    *box.outside_names(), f"../../{box.outside.name}/written", str(box.outside / "written"), "a/../../../written"
  )
  return _attempt(draw, box, _tar([*_model_members(box), _member(name, b"x")]))


def links(draw: Draw, box: Box) -> Attempt:
  kind = draw.pick(tarfile.SYMTYPE, tarfile.LNKTYPE)
  target = draw.pick(str(box.outside), str(box.outside / "secret.txt"), "..", "saved_model.pb", "nothing", "x")
  link = _member("x", type=kind, linkname=target)
  return _attempt(draw, box, _tar([*_model_members(box), link, _member(draw.pick("x/written", "x"), b"y")]))


def linked_model(draw: Draw, box: Box) -> Attempt:
  members = [m for m in _model_members(box) if m[0].name != "saved_model.pb"]
  link = _member(
    "saved_model.pb", type=draw.pick(tarfile.SYMTYPE, tarfile.LNKTYPE), linkname=str(box.outside / "saved_model.pb")
  )
  return _attempt(draw, box, _tar([*members, link]), "refused")


def devices(draw: Draw, box: Box) -> Attempt:
  kind = draw.pick(
    tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.CONTTYPE, b"Z", b"V", tarfile.GNUTYPE_SPARSE
  )
  special = _member(draw.pick("x", "saved_model.pb", "assets/x"), type=kind, devmajor=1, devminor=5)
  return _attempt(draw, box, _tar([special, *_model_members(box)]))


def names(draw: Draw, box: Box) -> Attempt:
  members = _model_members(box)
  for member, _ in members:
    member.name = draw.name(
      member.name, "saved_model.pb/x", "variables", "a" * 300, "a/" * 2000 + "x", "C:\\x", "x\\..\\..\\y"
    )
  return _attempt(draw, box, _tar(members, draw.pick(tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)))


def members_twice(draw: Draw, box: Box) -> Attempt:
  members = _model_members(box)
  return _attempt(
    draw, box, _tar([*members, draw.pick(*members), _member(draw.pick("variables", "assets", "saved_model.pb/"), b"")])
  )


def folders_and_files(draw: Draw, box: Box) -> Attempt:
  members = _model_members(box)
  more = [
    _member(
      draw.pick("saved_model.pb", "variables", "x", "assets"), type=tarfile.DIRTYPE, mode=draw.pick(0o755, 0, 0o444)
    )
    for _ in range(draw.integer(1, 3))
  ]
  return _attempt(draw, box, _tar([*more, *members] if draw.chance(0.5) else [*members, *more]))


def permissions(draw: Draw, box: Box) -> Attempt:
  members = _model_members(box)
  for member, _ in members:
    member.mode, member.uid, member.uname = (
      draw.pick(0o644, 0, 0o4777, 0o7777),
      draw.pick(0, 1 << 20),
      draw.name("root")[:20].replace("\0", ""),
    )
    member.mtime = draw.pick(0, 1 << 31, 1 << 33)
  return _attempt(draw, box, _tar(members, tarfile.PAX_FORMAT))


def many_members(draw: Draw, box: Box) -> Attempt:
  count = draw.pick(10, 3000, 120_000)
  blank = _tar([_member("assets/a")])[:512]
  return _attempt(draw, box, blank * count + _tar(_model_members(box)))


def pax_records(draw: Draw, box: Box) -> Attempt:
  members = _model_members(box)
  for member, _ in members:
    key = draw.pick(
      *(
        "path size linkpath mtime GNU.sparse.size GNU.sparse.major GNU.sparse.map GNU.sparse.realsize charset "
        "hdrcharset"
      ).split()
    )
    member.pax_headers = {
      key: draw.pick(
        "0", "-1", "99999999999999999999", "../x", "nan", str(box.outside / "written"), "x" * 100_000, "0,1,2,3"
      )
    }
  return _attempt(draw, box, _tar(members, tarfile.PAX_FORMAT))


def long_names(draw: Draw, box: Box) -> Attempt:
  kind = draw.pick(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE)
  member = tarfile.TarInfo("././@LongLink")
  member.type, member.size = kind, draw.pick(10, 1 << 20, 1 << 33, 0)
  return _attempt(
    draw, box, member.tobuf(tarfile.GNU_FORMAT) * draw.pick(1, 3000) + b"x" * 1024 + _tar(_model_members(box))
  )


_FIELDS = {
  "mode": (100, 8),
  "uid": (108, 8),
  "size": (124, 12),
  "mtime": (136, 12),
  "checksum": (148, 8),
  "type": (156, 1),
  "linkname": (157, 100),
  "magic": (257, 8),
  "major": (329, 8),
  "prefix": (345, 155),
  "name": (0, 100),
}


def _field(place: tuple[int, int], draw: Draw, box: Box) -> Attempt:
  data = bytearray(_tar(_model_members(box)))
  start, size = place
  value = draw.pick(
    b"7" * size,
    b"-1",
    b"\xff" * size,
    b"\x80" + b"\xff" * (size - 1),
    b"\0" * size,
    b" " * size,
    b"9" * size,
    b"../" * 60,
    b"0o17",
    draw.data(size),
  )[:size]
  data[start : start + len(value)] = value
  if place != _FIELDS["checksum"]:
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
  return _attempt(draw, box, bytes(data))


family(_KIND, {f"header_{name}": place for name, place in _FIELDS.items()}, _field)


def cut_off(draw: Draw, box: Box) -> Attempt:
  data = _tar(_model_members(box))
  return _attempt(draw, box, data[: draw.pick(0, 100, 512, 600, 1024, 2000, len(data) // 2)])


def gzip_streams(draw: Draw, box: Box) -> Attempt:
  data = gzip.compress(_tar(_model_members(box)))
  changed: list[Callable[[], bytes]] = [
    lambda: data[:-1],
    lambda: data[:-8],
    lambda: data + b"x",
    lambda: data + data,
    lambda: data[:40] + bytes(20) + data[60:],
    lambda: data[:-4] + b"\xff\xff\xff\x7f",
    lambda: data[:3] + b"\x1f" + data[4:],
    lambda: zlib.compress(data),
    lambda: b"\x1f\x8b\x08",
  ]
  path = box.model / "m.tar.gz"
  path.write_bytes(draw.pick(*changed)())
  return Attempt(lambda: use_archive(path, box.model / "cache"))


def bombs(draw: Draw, box: Box) -> Attempt:
  size = draw.pick(1 << 24, 1 << 30)
  head = _member("assets/zeros")[0]
  head.size = draw.pick(size, 1 << 40)
  path = box.model / "m.tar.gz"
  with gzip.GzipFile(path, "wb", 1) as file:
    file.write(head.tobuf(tarfile.GNU_FORMAT))
    for _ in range(size >> 20):
      file.write(bytes(1 << 20))
  return Attempt(lambda: use_archive(path, box.model / "cache"))


def other_compressions(draw: Draw, box: Box) -> Attempt:
  data = _tar(_model_members(box))
  path = box.model / draw.pick("m.tar.gz", "m.tgz", "m.tar")
  compress: list[Callable[[bytes], bytes]] = [
    bz2.compress,
    lzma.compress,
    zlib.compress,
    lambda d: gzip.compress(gzip.compress(d)),
    lambda d: b"PK\x03\x04" + d,
  ]
  path.write_bytes(draw.pick(*compress)(data))
  return Attempt(lambda: use_archive(path, box.model / "cache"))


def nested_archives(draw: Draw, box: Box) -> Attempt:
  data = _tar(_model_members(box))
  for _ in range(draw.integer(1, 4)):
    data = _tar([_member(draw.pick("m.tar", "saved_model.pb", "x.tar.gz"), data)])
  return _attempt(draw, box, data, "refused")


def empty_archives(draw: Draw, box: Box) -> Attempt:
  return _attempt(draw, box, draw.pick(b"", bytes(512), bytes(10_240), _tar([])), "refused")
