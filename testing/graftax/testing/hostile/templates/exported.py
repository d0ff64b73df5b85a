"""Files of jax.export: the flatbuffer around a module, its shapes, platforms, trees and gradients."""

import struct
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.export
import jax.numpy as jnp

from graftax.testing.hostile.draw import INT32, Draw
from graftax.testing.hostile.grammar.readers import use_module
from graftax.testing.hostile.registry import Attempt, Box, Expectation, family, register_functions
from graftax.testing.hostile.templates import saved_module
from graftax.xla_call_module import Module

_KIND = "exported"


@cache
def _exports() -> dict[str, bytes]:
  x = jax.ShapeDtypeStruct((4,), jnp.float32)
  (n,) = jax.export.symbolic_shape("n")
  open_x = jax.ShapeDtypeStruct((n,), jnp.float32)
  functions: dict[str, tuple[Callable[..., Any], Any, int]] = {
    "plain": (jnp.sin, x, 0),
    "gradient": (lambda x: (x**2).sum(), x, 1),
    "open": (lambda x: x + x.shape[0], open_x, 0),
    "nested": (lambda x: {"a": x, "b": [x + 1]}, x, 0),
  }
  return {
    name: bytes(jax.export.export(jax.jit(f))(spec).serialize(vjp_order=order))
    for name, (f, spec, order) in functions.items()
  }


def _attempt(draw: Draw, box: Box, data: bytes, expectation: Expectation = "typed") -> Attempt:
  (box.model / "function.jax").write_bytes(data)
  embed = draw.chance(0.3)

  def read() -> Any:
    module = Module.from_exported(data)
    gradient = module.gradient
    return use_module(module, embed=embed), None if gradient is None else str(gradient)

  return Attempt(read, expectation)


def _export(draw: Draw) -> bytes:
  return _exports()[draw.pick(*_exports())]


def honest(draw: Draw, box: Box) -> Attempt:
  return _attempt(draw, box, _export(draw), "loaded")


def _table(data: bytes | bytearray) -> tuple[int, list[int]]:
  """Returns the position of the root table, and the offset of each of its fields (0: not there)."""
  root = struct.unpack_from("<I", data)[0]
  vtable = root - struct.unpack_from("<i", data, root)[0]
  size = struct.unpack_from("<H", data, vtable)[0]
  return root, [struct.unpack_from("<H", data, vtable + i)[0] for i in range(4, size, 2)]


def _field(number: int, draw: Draw, box: Box) -> Attempt:
  """One field of the root table: its offset, or what is there."""
  data = bytearray(_export(draw))
  root, fields = _table(data)
  if number < len(fields) and fields[number]:
    position = root + fields[number]
    value = struct.unpack_from("<I", data, position)[0]
    kind = draw.pick("offset", "length", "absent", "byte")
    if kind == "offset":
      struct.pack_into("<I", data, position, draw.size(value, low=0, high=(1 << 32) - 1))
    elif kind == "length" and position + value + 4 <= len(data):
      length = struct.unpack_from("<I", data, position + value)[0]
      struct.pack_into("<I", data, position + value, draw.size(length, low=0, high=(1 << 32) - 1))
    elif kind == "byte":
      data[position] = draw.pick(0, 1, 127, 255)
    else:
      vtable = root - struct.unpack_from("<i", data, root)[0]
      struct.pack_into("<H", data, vtable + 4 + 2 * number, draw.pick(0, 4, 65_535))
  return _attempt(draw, box, bytes(data))


_FIELDS = (
  "version name in_tree in_avals out_tree out_avals nr_devices in_shardings out_shardings platforms ordered_effects "
  "unordered_effects disabled_checks module calling_convention module_kept_args uses_global_constants vjp"
).split()
register_functions(_KIND, saved_module)  # the other form of files with modules and signatures
family(_KIND, {f"field_{name}": i for i, name in enumerate(_FIELDS)}, _field)


def root_offset(draw: Draw, box: Box) -> Attempt:
  data = bytearray(_export(draw))
  struct.pack_into("<I", data, 0, draw.size(struct.unpack_from("<I", data)[0], len(data), low=0, high=(1 << 32) - 1))
  return _attempt(draw, box, bytes(data))


def table_of_fields(draw: Draw, box: Box) -> Attempt:
  data = bytearray(_export(draw))
  root, _ = _table(data)
  if draw.chance(0.5):
    struct.pack_into("<i", data, root, draw.size(struct.unpack_from("<i", data, root)[0], **INT32))
  else:
    vtable = root - struct.unpack_from("<i", data, root)[0]
    struct.pack_into("<H", data, vtable, draw.size(40, low=0, high=65_535))
  return _attempt(draw, box, bytes(data))


def offsets_within(draw: Draw, box: Box) -> Attempt:
  """Offsets anywhere behind the root table: of trees, shapes and shardings."""
  data = bytearray(_export(draw))
  root, _ = _table(data)
  for _ in range(draw.integer(1, 4)):
    position = min(root + 4 * draw.integer(0, 200), len(data) - 4)
    struct.pack_into("<I", data, position, draw.size(8, low=0, high=(1 << 32) - 1))
  return _attempt(draw, box, bytes(data))


def texts(draw: Draw, box: Box) -> Attempt:
  """Texts of the same length: platforms, symbolic shapes, names."""
  data = _exports()[draw.pick("open", "nested", "plain")]
  pairs = [
    (b"cpu", b"tpu"),
    (b"cpu", b"\xff\xff\xff"),
    (b"n", b"-"),
    (b"n", b"("),
    (b"a", b"b"),
    (b"main", b"niam"),
    (b"float32", b"float99"),
  ]
  old, new = draw.pick(*pairs)
  return _attempt(draw, box, data.replace(old, new, draw.integer(1, 3)))


def symbolic_shapes(draw: Draw, box: Box) -> Attempt:
  data = _exports()["open"]
  position = data.rfind(b"\x01\x00\x00\x00n")
  if position > 0:
    data = (
      data[:position]
      + struct.pack("<I", draw.size(1, low=0, high=(1 << 32) - 1))
      + draw.pick(b"n", b"9", b"*", b"\0")
      + data[position + 5 :]
    )
  return _attempt(draw, box, data)


def inner_module(draw: Draw, box: Box) -> Attempt:
  data = _export(draw)
  start = data.index(b"ML\xefR")
  changed = bytearray(data)
  for _ in range(draw.integer(1, 3)):
    position = start + draw.integer(0, min(400, len(data) - start - 1))
    changed[position] = draw.pick(0, 255, 1, 3, 127)
  return _attempt(draw, box, bytes(changed))


def splices(draw: Draw, box: Box) -> Attempt:
  """The module of one file in another."""
  first, second = _exports()["plain"], _exports()[draw.pick("open", "gradient", "nested")]
  a, b = first.index(b"ML\xefR"), second.index(b"ML\xefR")
  length = struct.unpack_from("<I", first, a - 4)[0]
  return _attempt(draw, box, first[:a] + second[b : b + length].ljust(length, b"\0") + first[a + length :])


def cut_off(draw: Draw, box: Box) -> Attempt:
  data = _export(draw)
  return _attempt(draw, box, data[: draw.pick(0, 1, 4, 8, 50, len(data) // 2, -1, -8)])


def other_bytes(draw: Draw, box: Box) -> Attempt:
  return _attempt(
    draw,
    box,
    draw.pick(
      bytes(100), b"\xff" * 100, b"\x04\0\0\0" * 50, b"ML\xefR", b"PK\x03\x04", struct.pack("<I", 4) + bytes(8)
    ),
    "refused",
  )
