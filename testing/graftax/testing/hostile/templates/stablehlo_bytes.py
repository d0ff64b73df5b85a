"""StableHLO as bytes: MLIR bytecode, portable artifacts, HLO messages, and XlaCallModule nodes that hold them."""

import struct
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.export
import jax.numpy as jnp

from graftax.graphdef_ir import DType, schema
from graftax.testing.hostile.draw import Draw
from graftax.testing.hostile.grammar.protos import Func, Nodes, Shape, add, attr, graph
from graftax.testing.hostile.grammar.readers import use_model, use_module
from graftax.testing.hostile.grammar.tables import varint
from graftax.testing.hostile.registry import Attempt, Box, Expectation, family
from graftax.xla_call_module import Module

_KIND = "stablehlo_bytes"
_F = DType.FLOAT


@cache
def _artifacts() -> dict[str, bytes]:
  """Returns portable artifacts of small functions."""
  x = jax.ShapeDtypeStruct((4, 4), jnp.float32)
  functions: dict[str, Callable[..., Any]] = {
    "sine": jnp.sin,
    "loop": lambda x: jax.lax.fori_loop(0, 3, lambda i, y: y + i, x),
    "sort": lambda x: jnp.sort(x) @ jnp.linalg.cholesky(x @ x.T + 9 * jnp.eye(4)),
    "branch": lambda x: jax.lax.cond(x[0, 0] > 0, jnp.cos, jnp.tanh, x),
  }
  return {name: jax.export.export(jax.jit(f))(x).mlir_module_serialized for name, f in functions.items()}


def _bytes(draw: Draw, box: Box, data: bytes, expectation: Expectation = "typed") -> Attempt:
  (box.model / "module.bin").write_bytes(data)
  embed = draw.chance(0.3)
  return Attempt(lambda: use_module(Module.from_bytes(data), embed=embed), expectation)


def _artifact(draw: Draw) -> bytes:
  return _artifacts()[draw.pick(*_artifacts())]


def honest(draw: Draw, box: Box) -> Attempt:
  return _bytes(draw, box, _artifact(draw), "loaded")


def _sections(data: bytes) -> list[tuple[int, int, int]]:
  """Returns id, position of the length and position of the content of each section of a bytecode."""
  position = data.index(b"\0", 4) + 1
  found = []
  while position < len(data):
    kind = data[position]
    length, start = _read_varint(data, position + 1)
    if kind & 0x80:
      alignment, start = _read_varint(data, start)
      while start < len(data) and data[start] == 0xCB:
        start += 1
    found.append((kind & 0x7F, position + 1, start))
    position = start + length
  return found


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
  first = data[position]
  if not first:
    return struct.unpack("<Q", data[position + 1 : position + 9])[0], position + 9
  count = (first & -first).bit_length()
  value = int.from_bytes(data[position : position + count], "little") >> count
  return value, position + count


def _mlir_varint(value: int) -> bytes:
  value &= (1 << 64) - 1
  count = max(1, -(-max(value.bit_length(), 1) // 7))
  return (
    b"\0" + struct.pack("<Q", value) if count > 8 else (((value << 1) | 1) << (count - 1)).to_bytes(count, "little")
  )


_SECTIONS = {
  "strings": 0,
  "dialects": 1,
  "attributes_and_types": 2,
  "offsets": 3,
  "code": 4,
  "resources": 5,
  "resource_offsets": 6,
  "versions": 7,
  "properties": 8,
}


def _lengths(kind: int, draw: Draw, box: Box) -> Attempt:
  """The stated length of one section is false."""
  data = _artifact(draw)
  for section, position, _ in _sections(data):
    if section == kind:
      length, end = _read_varint(data, position)
      data = data[:position] + _mlir_varint(draw.size(length, low=0)) + data[end:]
      break
  return _bytes(draw, box, data)


def _contents(kind: int, draw: Draw, box: Box) -> Attempt:
  """Numbers within one section are false."""
  data = _artifact(draw)
  for section, position, start in _sections(data):
    if section == kind:
      length, _ = _read_varint(data, position)
      changed = bytearray(data)
      for _ in range(draw.integer(1, 4)):
        at = start + draw.integer(0, min(draw.pick(8, 40, max(length - 1, 0)), max(length - 1, 0)))
        value = draw.pick(b"\xff", b"\x01", b"\x00", b"\x03", _mlir_varint(1 << 40), _mlir_varint(1 << 62), b"\x7f")
        changed[at : at + len(value)] = value
      data = bytes(changed[: len(data)])
      break
  return _bytes(draw, box, data)


family(_KIND, {f"length_of_{name}": kind for name, kind in _SECTIONS.items()}, _lengths)
family(
  _KIND,
  {f"numbers_in_{name}": kind for name, kind in _SECTIONS.items() if name not in ("resources", "resource_offsets")},
  _contents,
)


def sections_moved(draw: Draw, box: Box) -> Attempt:
  data = _artifact(draw)
  starts = [position - 1 for _, position, _ in _sections(data)] + [len(data)]
  parts = [data[a:b] for a, b in zip(starts, starts[1:], strict=False)]
  for _ in range(draw.integer(1, 3)):
    i, j = draw.integer(0, len(parts) - 1), draw.integer(0, len(parts) - 1)
    kind = draw.pick("swap", "twice", "leave out")
    if kind == "swap":
      parts[i], parts[j] = parts[j], parts[i]
    elif kind == "twice":
      parts.insert(i, parts[j])
    elif len(parts) > 1:
      parts.pop(i)
  return _bytes(draw, box, data[: starts[0]] + b"".join(parts))


def producers(draw: Draw, box: Box) -> Attempt:
  data = _artifact(draw)
  end = data.index(b"\0", 4)
  versions = "1.0.0", "99.0.0", "0.0.0", "-1.0.0", "1." + "9" * 40
  texts = [*(f"StableHLO_v{version}".encode() for version in versions), b"MLIR", b"", b"x" * 5000, b"StableHLO_v1.0"]
  version = draw.pick(data[4:5], b"\x0d", b"\x01", b"\xff", b"\x00")
  return _bytes(draw, box, data[:4] + version + draw.pick(*texts) + data[end:])


def cut_off(draw: Draw, box: Box) -> Attempt:
  data = _artifact(draw)
  return _bytes(draw, box, data[: draw.pick(0, 1, 3, 4, 5, 20, len(data) // 2, -1)], "refused")


def splices(draw: Draw, box: Box) -> Attempt:
  """The sections of one artifact among those of another."""
  first, second = _artifacts()["sine"], _artifacts()[draw.pick("loop", "sort", "branch")]
  starts = [[p - 1 for _, p, _ in _sections(d)] + [len(d)] for d in (first, second)]
  parts = [[d[a:b] for a, b in zip(s, s[1:], strict=False)] for d, s in ((first, starts[0]), (second, starts[1]))]
  chosen = [draw.pick(a, b) for a, b in zip(*parts, strict=False)]
  return _bytes(draw, box, first[: starts[0][0]] + b"".join(chosen))


def other_bytes(draw: Draw, box: Box) -> Attempt:
  data = _artifact(draw)
  return _bytes(
    draw,
    box,
    draw.pick(
      b"ML\xefR",
      b"ML\xefR\x0d\0",
      b"BC\xc0\xde",
      b"",
      b"\xff" * 50,
      data + data,
      data + bytes(99),
      b"ML\xefR" + bytes(500),
      b"\x00" + data,
      b"func.func",
    ),
  )


def hlo_messages(draw: Draw, box: Box) -> Attempt:
  def message(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value

  def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)

  shape = number(2, draw.pick(11, 0, 99, 13)) + number(3, draw.size(4))
  program = message(4, shape)
  instruction = (
    message(1, b"x")
    + message(2, draw.pick(b"parameter", b"custom-call", b"while", b"nothing"))
    + message(3, shape)
    + number(9, draw.size(0))
    + number(35, 1)
  )
  computation = (
    message(1, b"main")
    + message(2, instruction) * draw.pick(1, 0, 50)
    + message(4, program)
    + number(5, draw.size(1))
    + number(6, draw.size(1))
  )
  data = (
    message(1, b"m")
    + message(2, b"main")
    + message(3, computation)
    + message(4, program)
    + number(5, 1)
    + number(6, draw.size(1))
  )
  (box.model / "module.hlo").write_bytes(data)
  return Attempt(lambda: use_module(Module.from_hlo(data)))


def _call(nodes: Nodes, name: str, source: str, shape: tuple[int, ...], module: bytes, **attrs: Any) -> schema.NodeDef:
  """Appends a node that calls a module of one argument and one result."""
  types = {"Tin": [_F], "Tout": [_F], "Sout": [Shape(shape)]}
  return add(nodes, name, "XlaCallModule", source, module=module, platforms=[b"CPU"], **types, **attrs)


def _graph(box: Box, made: schema.GraphDef, jit: bool = False) -> Attempt:
  path = box.model / "graph.pb"
  path.write_bytes(made.SerializeToString())
  return Attempt(lambda: use_model(path, jit=jit))


def _changed_call(change: Callable[[Draw, schema.NodeDef], None], draw: Draw, box: Box) -> Attempt:
  made = graph()
  add(made.node, "x", "Placeholder", dtype=_F, shape=Shape((4, 4)))
  lists: dict[str, list[bytes]] = {"dim_args_spec": [], "disabled_checks": [], "function_list": []}
  change(draw, _call(made.node, "call", "x", (4, 4), _artifact(draw), version=9, **lists))
  return _graph(box, made)


_TYPE_LISTS: list[Any] = [[_F], [], [DType.INT32], [_F, _F], 5]
_CHANGES: dict[str, Callable[[Draw, schema.NodeDef], Any]] = {
  "node_honest": lambda draw, node: None,
  "node_version": lambda draw, node: node.attr["version"].CopyFrom(attr(draw.size(9, 2, 4, 5, 10, 11))),
  "node_module": lambda draw, node: node.attr["module"].CopyFrom(
    attr(draw.pick(b"", b"x", node.attr["module"].s[:100], b"func.func @main() { return }", b"\xff"))
  ),
  "node_platforms": lambda draw, node: node.attr["platforms"].CopyFrom(
    attr([draw.pick(b"CPU", b"TPU", b"", b"\xff", b"cpu") for _ in range(draw.integer(0, 4))])
  ),
  "node_dim_args": lambda draw, node: node.attr["dim_args_spec"].CopyFrom(
    attr([draw.pick(b"0.0", b"0.9", b"-1.-1", b"x", b"99999999999999.0", b"0") for _ in range(draw.integer(1, 3))])
  ),
  "node_disabled_checks": lambda draw, node: node.attr["disabled_checks"].CopyFrom(
    attr([draw.pick(b"platform", b"shape_assertions", b"custom_call:x", b"\xff")])
  ),
  "node_function_list": lambda draw, node: node.attr["function_list"].CopyFrom(
    attr([Func(draw.name("f"))] * draw.integer(1, 3))
  ),
  "node_types_of_inputs": lambda draw, node: node.attr["Tin"].CopyFrom(attr(draw.pick(*_TYPE_LISTS))),
  "node_types_of_outputs": lambda draw, node: node.attr["Tout"].CopyFrom(attr(draw.pick(*_TYPE_LISTS))),
  "node_shapes": lambda draw, node: node.attr["Sout"].CopyFrom(
    attr(draw.pick([Shape((4, 4))], [Shape((5,))], [], [Shape((-5,))], [Shape((1 << 62, 4))]))
  ),
  "node_inputs": lambda draw, node: node.input.extend(draw.pick(["x"], ["call"], ["^call"], ["x:1"])),
}
family(_KIND, _CHANGES, _changed_call)


def shapes_of_arguments(draw: Draw, box: Box) -> Attempt:
  made = graph()
  dtype = draw.pick(_F, DType.INT32, DType.DOUBLE)
  sizes = [draw.pick(4, -1, 3, 0) for _ in range(draw.pick(2, 0, 1, 3))]
  add(made.node, "x", "Placeholder", dtype=dtype, shape=Shape(sizes))
  _call(made.node, "call", "x", (4, 4), _artifacts()["sine"], version=9)
  return _graph(box, made, jit=draw.chance(0.5))


def called_functions(draw: Draw, box: Box) -> Attempt:
  text = f"""module {{ func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
    %0 = stablehlo.custom_call @tf.call_tf_function(%x) {{api_version = 2 : i32, tf.backend_config = {{
      called_index = {draw.size(0)} : i64, has_token_input_output = false, called_func = @f}}}}
      : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32> }} }}"""
  made = graph()
  add(made.node, "x", "Placeholder", dtype=_F, shape=Shape((4,)))
  functions = [Func(draw.pick("f", "g")) for _ in range(draw.integer(0, 2))]
  _call(made.node, "call", "x", (4,), text.encode(), version=draw.pick(9, 3), function_list=functions)
  body = made.library.function.add()
  body.signature.name = "f"
  body.signature.input_arg.add(name="a", type=1)
  body.signature.output_arg.add(name="r", type=1)
  body.ret["r"] = "c:output:0"
  _call(body.node_def, "c", "a", (4,), text.encode(), version=9, function_list=[Func("f")])
  return _graph(box, made)
