"""Files of `Module.save`: the archive, and the members of the JSON in it."""

import io
import json
import zipfile
from functools import cache
from typing import Any

import jax
import jax.export
import jax.numpy as jnp

from graftax.testing.hostile.draw import Draw
from graftax.testing.hostile.grammar.readers import use_module
from graftax.testing.hostile.registry import Attempt, Box, Expectation
from graftax.testing.pytrees import Json, PyTree
from graftax.xla_call_module import Module

_LIES: tuple[Json, ...] = (
  *(None, True, -1, 0, 1 << 40, 1.5, "", "x", "cpu", "/etc/hostname", "\0", "a" * 70_000, [], [[]], [-1], [1 << 62]),
  *({}, {"kind": "leaf"}, ["?"] * 100_000, "key<fry>", "float0", [[["x", -1]]], "!!!not base64"),
)


@cache
def _entries() -> dict[str, bytes]:
  def function(tree: PyTree) -> PyTree:
    return {"y": jnp.sin(tree["x"][0]) + tree["x"][1]}

  x = jax.ShapeDtypeStruct((jax.export.symbolic_shape("n")[0],), jnp.float32)
  exported = jax.export.export(jax.jit(function))({"x": [x, jax.ShapeDtypeStruct((), jnp.float32)]})
  return {"data": bytes(exported.serialize(vjp_order=1))}


def _honest(box: Box) -> dict[str, bytes]:
  """Returns the entries of an honest file."""
  path = box.model / "module.zip"
  Module.from_exported(_entries()["data"], guard=False).save(path)
  with zipfile.ZipFile(path) as archive:
    return {name: archive.read(name) for name in archive.namelist()}


def _packed(entries: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> bytes:
  buffer = io.BytesIO()
  with zipfile.ZipFile(buffer, "w", compression) as archive:
    for name, data in entries:
      archive.writestr(zipfile.ZipInfo(name), data, compression)
  return buffer.getvalue()


def _attempt(draw: Draw, box: Box, data: bytes, expectation: Expectation = "typed") -> Attempt:
  path = box.model / "module.zip"
  path.write_bytes(data)
  embed = draw.chance(0.3)

  def read() -> Any:
    module = Module.load(path)
    gradient = module.gradient
    return use_module(module, embed=embed), None if gradient is None else str(gradient)

  return Attempt(read, expectation)


def saved_honest(draw: Draw, box: Box) -> Attempt:
  return _attempt(draw, box, _packed(list(_honest(box).items())), "loaded")


def _changed(draw: Draw, value: Json, depth: int) -> Json:
  """Returns a value of JSON with one part, found by going inside, replaced or removed."""
  if not isinstance(value, dict | list) or not value or (depth and draw.chance(0.3)):
    return draw.pick(*_LIES)
  if isinstance(value, dict):
    name = draw.pick(*sorted(value))
    if draw.chance(0.1):
      return {key: item for key, item in value.items() if key != name}
    return {**value, name: _changed(draw, value[name], depth + 1)}
  position = draw.integer(0, len(value) - 1)
  return [*value[:position], _changed(draw, value[position], depth + 1), *value[position + 1 :]]


def saved_members(draw: Draw, box: Box) -> Attempt:
  entries = _honest(box)
  name = draw.pick("module.json", "gradient/module.json")
  convention = json.loads(entries[name])
  for _ in range(draw.integer(1, 3)):
    convention = _changed(draw, convention, 0)
    if not isinstance(convention, dict):
      break
  entries[name] = json.dumps(convention).encode()
  return _attempt(draw, box, _packed(list(entries.items())))


def saved_texts_of_json(draw: Draw, box: Box) -> Attempt:
  entries = _honest(box)
  lies = [b"", b"{", b"[" * 100_000, b"\xff\xfe", b"NaN", b'{"format": 1}', b'{"format": 1e999}', b"9" * 10_000]
  entries[draw.pick("module.json", "gradient/module.json")] = draw.pick(*lies)
  return _attempt(draw, box, _packed(list(entries.items())))


def saved_entries_of_the_archive(draw: Draw, box: Box) -> Attempt:
  entries = list(_honest(box).items())
  kind = draw.pick("twice", "missing", "others", "swapped", "deep")
  if kind == "twice":
    entries.append(draw.pick(*entries))
  elif kind == "missing":
    del entries[draw.integer(0, len(entries) - 1)]
  elif kind == "swapped":
    entries[0], entries[1] = (entries[0][0], entries[1][1]), (entries[1][0], entries[0][1])
  elif kind == "deep":
    entries = [
      ("gradient/" * depth + name, data) for depth in range(draw.integer(100, 300)) for name, data in entries[:2]
    ]
  else:
    entries.append((draw.pick("../x", "/etc/passwd", "module.json/", "\\x"), b"x"))
  return _attempt(draw, box, _packed(entries))


def saved_compressed(draw: Draw, box: Box) -> Attempt:
  entries = {**_honest(box), "module.mlirbc": bytes(draw.pick(1000, 1 << 20, 300 << 20))}
  return _attempt(draw, box, _packed(list(entries.items()), zipfile.ZIP_DEFLATED), "refused")


def saved_damaged(draw: Draw, box: Box) -> Attempt:
  data = bytearray(_packed(list(_honest(box).items())))
  for _ in range(draw.integer(1, 4)):
    data[draw.integer(0, len(data) - 1)] = draw.pick(0, 1, 127, 255)
  return _attempt(draw, box, bytes(data[: draw.pick(len(data), len(data) // 2, -1, -30)]))
