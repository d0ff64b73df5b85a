"""Readers with planted faults, which the checks of this package must find; `hostile_test.py` runs them."""

import ctypes
import os
import time
from typing import Any

import numpy as np

from graftax.graphdef_ir.errors import ParseError
from graftax.testing.hostile import worker
from graftax.testing.hostile.draw import Draw
from graftax.testing.hostile.registry import Attempt, Box, Expectation, Template

__all__ = ["main"]


def main() -> None:
  """Runs the child."""
  worker.main(lambda kind, name: _TEMPLATES[f"{kind}/{name}"])


def _reader(read: Any, expectation: Expectation = "typed", check: Any = None) -> Template:
  def template(draw: Draw, box: Box) -> Attempt:
    (box.model / "file").write_bytes(b"x")
    for _ in range(3):
      draw.chance(0.5)
    return Attempt(lambda: read(box), expectation, check)

  return template


def _raise(error: BaseException) -> Any:
  raise error


def _crash(box: Box) -> None:
  del box
  ctypes.string_at(0)


def _hang(box: Box) -> None:
  del box
  while True:
    pass


def _block(box: Box) -> None:
  with open(box.model / "file", "rb") as file:
    file.read()
  time.sleep(1000)


def _eat(box: Box) -> list[Any]:
  del box
  eaten = []
  while True:
    eaten.append(np.ones(1 << 24, np.uint8))


def _eat_at_once(box: Box) -> int:
  del box
  return int(np.ones(1 << 28, np.uint8).sum())  # freed when the parent looks


def _read(box: Box, name: str) -> int:
  with open(os.path.join(box.model, name), "rb") as file:
    return len(file.read())


def _read_without_python(box: Box) -> None:
  libc = ctypes.CDLL(None)
  libc.close(libc.open(os.fsencode(box.outside / "secret.txt"), os.O_RDONLY))


def _link(draw: Draw, box: Box) -> Attempt:
  (box.model / "link").symlink_to(box.outside / "secret.txt")
  return Attempt(lambda: _read(box, "link"))


def _shrinkable(draw: Draw, box: Box) -> Attempt:
  drawn = [draw.integer(0, 9) for _ in range(6)]
  return Attempt(lambda: _raise(TypeError(str(drawn))) if drawn[2] else None)


def _wrong(value: Any) -> None:
  assert value == 2, f"{value}, not 2"


def _broken(draw: Draw, box: Box) -> Attempt:
  raise RuntimeError("the template is wrong")


_TEMPLATES: dict[str, Template] = {
  "fine/refused": _reader(lambda box: _raise(ParseError("x")), "refused"),
  "fine/loaded": _reader(lambda box: _read(box, "file"), "loaded"),
  "fine/not_found": _reader(lambda box: _read(box, "nothing")),
  "crash/signal": _reader(_crash),
  "crash/exit": _reader(lambda box: os._exit(3)),
  "hang/busy": _reader(_hang),
  "hang/blocked": _reader(_block),
  "memory/slowly": _reader(_eat),
  "memory/at_once": _reader(_eat_at_once),
  "memory/error": _reader(lambda box: _raise(MemoryError())),
  "untyped/type_error": _reader(lambda box: _raise(TypeError("x"))),
  "untyped/assertion": _reader(lambda box: _raise(AssertionError("internal: x"))),
  "untyped/recursion": _reader(lambda box: _raise(RecursionError())),
  "outside/relative": _reader(lambda box: _read(box, "../outside/secret.txt")),
  "outside/absolute": _reader(lambda box: _read(box, "/etc/hostname")),
  "outside/pipe": _reader(lambda box: _read(box, "../outside/fifo")),
  "outside/device": _reader(lambda box: _read(box, "/dev/zero")),
  "outside/without_python": _reader(_read_without_python),
  "outside/told": _reader(lambda box: {"a": [np.array([box.secret], object)]}),
  "outside/process": _reader(lambda box: os.system("true")),
  "outside/link": _link,
  "accepted/refused": _reader(lambda box: 1, "refused"),
  "wrong/value": _reader(lambda box: 3, "typed", _wrong),
  "unread/honest": _reader(lambda box: _raise(ParseError("x")), "loaded"),
  "broken/template": _broken,
  "untyped/shrinkable": _shrinkable,
}
