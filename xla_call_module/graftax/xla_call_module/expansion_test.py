"""Attributes, types and locations that refer to each other are counted before MLIR reads or prints them."""

import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.mlir import ir as mlir_ir

from graftax.xla_call_module import Module, bytecode, errors, expansion, lift, mlir
from graftax.xla_call_module.mlir.artifacts import serialize, to_text
from graftax.xla_call_module.mlir.bindings import mlir_context


def _module(attributes="", location="", before="", after=""):
  one = "tensor<4xf32>"
  return (
    f"{before}\nmodule @m {attributes} {{\n  func.func public @main(%x: {one}) -> {one} {{\n"
    f"    %0 = stablehlo.add %x, %x : {one}{location}\n    return %0 : {one}\n  }}\n}}\n{after}\n"
  )


def _chain(sign, first, step, count):
  names = [f"{sign}{i}" for i in range(count)]
  values = [first, *(step.replace("@", name) for name in names)]
  return [f"{name} = {value}" for name, value in zip(names, values, strict=False)]


CHAINS = {
  "array": ("#a", "[1, 2]", "[@, @]"),
  "dictionary": ("#a", "[1, 2]", "{x = @, y = @}"),
  "types in an array": ("#a", "[tensor<f32>]", "[tensor<2xf32, @>, tensor<3xf32, @>]"),
  "typed string": ("#a", '["x" : tensor<f32>]', '[@ // "\n , @]'),
  "tuple": ("!t", "tuple<tensor<f32>>", "tuple<@, @>"),
  "function": ("!t", "(tensor<f32>) -> tensor<f32>", "(@, @) -> (@)"),
  "call site": ("#loc", 'loc("x")', "loc(callsite(@ at @))"),
  "fused": ("#loc", 'loc("x")', 'loc(fused<"m">[@, callsite(@ at @)])'),
}


def _bomb(name, count=40, between="\n"):
  sign, first, step = CHAINS[name]
  lines = between.join(_chain(sign, first, step, count))
  last = f"{sign}{count - 1}"
  if sign == "#loc":
    return _module(location=f" loc({last})", before=lines)
  return _module(attributes=f"attributes {{m.a = {last}}}", before=lines)


def _forbid_reading(monkeypatch):
  def read(*args):
    raise AssertionError("MLIR reads the module")

  monkeypatch.setattr(mlir, "decode_text", read)
  monkeypatch.setattr(mlir, "decode_bytes", read)


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("between", ["\n", " ", " // #a = [\n"])
def test_aliases_that_multiply_are_refused_before_they_are_read(name, between, monkeypatch):
  _forbid_reading(monkeypatch)
  with pytest.raises(errors.DecodeError, match=r"aliases, '[#!]\w+' among them, stand for more than \d+ characters"):
    Module.from_text(_bomb(name, between=between))


@pytest.mark.parametrize("hidden", ["#a{} // = 1\n = ", "#a{}\n=\n", '#a{}= // "\n'])
def test_comments_and_lines_hide_no_alias(hidden):
  lines = [hidden.format(0) + "[1]"]
  lines += [hidden.format(i) + f"[#a{i - 1}, #a{i - 1}]" for i in range(1, 60)]
  text = _module("attributes {m.a = #a59}", before="\n".join(lines))
  with pytest.raises(errors.DecodeError, match="stand for"):
    Module.from_text(text, guard=True)


def test_aliases_at_the_end_are_counted():
  sign, first, step = CHAINS["call site"]
  text = _module(location=" loc(#loc39)", after="\n".join(_chain(sign, first, step, 40)))
  with pytest.raises(errors.DecodeError, match="stand for"):
    Module.from_text(text)


@pytest.mark.parametrize("name", ["#a", "#loc", "#loc_of_none"])
def test_an_alias_that_many_operations_use_is_counted_for_each(name):
  body = "".join(
    f'    "stablehlo.custom_call"() {{a = {name}, call_target_name = "x{i}"}} : () -> ()\n' for i in range(4000)
  )
  text = _module().replace("    %0", f"{body}    %0", 1)
  large = f"{name} = [{', '.join(map(str, range(40_000)))}]\n{text}"
  with pytest.raises(errors.DecodeError, match="stand for"):
    Module.from_text(large)


def test_the_location_that_many_operations_have_is_counted_once():
  body = "".join(f"    %x{i} = stablehlo.add %x, %x : tensor<4xf32> loc( #loc)\n" for i in range(4000))
  text = _module(before=f'#loc = loc("{"x" * 20_000}")').replace("    %0", f"{body}    %0", 1)
  Module.from_text(text)


@pytest.mark.parametrize("before", ['"', '"a', '@"'])
def test_a_string_without_an_end_is_one_token(before):
  # If its first quote were a token, each quote after it would be tried as the beginning of a string, to the line's end.
  text = before + '\\"' * 500
  assert len(expansion._TOKENS.findall(f"{text}\n{text}")) == 2
  found = expansion._ALIASES.search(text)
  assert found["hidden"] and found.end() == len(text)


def test_comments_after_names_are_read_once():
  assert expansion._MAY_DEFINE.search("// #a\n" * 100).end() < 20
  assert expansion._MAY_DEFINE.search("// #a //" * 100).end() < 20


@pytest.mark.parametrize("name", CHAINS)
def test_a_few_aliases_are_read_as_what_they_stand_for(name):
  x = np.ones(4, np.float32)
  module = Module.from_text(_bomb(name, 5), guard=True)
  np.testing.assert_array_equal(lift(module)(x)[0], x + x)


@pytest.mark.parametrize(
  "value",
  [
    "dense<[1, -2]> : tensor<2xi32>", "array<i64: 1, 2>", "affine_map<(d0, d1)[s0] -> (d0 + s0, d1)>", "unit",
    "-5 : i8", '@a::@"b c"', "#stablehlo<precision HIGHEST>", 'loc("x"("a.py":1:2))', "distinct[0]<5 : i32>",
    '"a // #b = [" : i3', "(i32) -> ()", "tuple<tensor<4xf32>, !stablehlo.token>", "1.0e-3 : f32",
    "tensor<?xf32, #stablehlo.bounds<4>>", "affine_set<(d0) : (d0 - 1 >= 0)>", '#sdy.mesh<["a"=2]>',
  ],
)  # fmt: skip
def test_the_value_of_an_alias_ends_where_mlir_ends_it(value):
  # An operation after the value on the same line is not a part of it.
  sign = "!" if value.startswith(("(", "tu", "ten")) else "#"
  text = f'{sign}first = {value} "builtin.module"() ({{ ^bb0: }}) : () -> ()\n'
  with mlir_context():
    mlir_ir.Module.parse(text)
  end, _ = expansion._value(text, text.index("=") + 1, {})
  assert text[text.index("=") + 1 : end].strip() == value


def _bytecode(text):
  """Returns a module in bytecode, without the check of its text."""
  stream = io.BytesIO()
  with mlir_context():
    mlir_ir.Module.parse(text).operation.write_bytecode(stream)
  return stream.getvalue()


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("form", ["bytecode", "artifact"])
def test_bytecode_that_multiplies_is_refused_before_it_is_read(name, form, monkeypatch):
  if form == "artifact":
    if CHAINS[name][0] != "#loc" and "tensor<2xf32" in CHAINS[name][2]:
      pytest.skip("VHLO has no such type")
    # Writing an artifact copies each attribute as often as it is used, so the attribute is small. The limit is smaller.
    monkeypatch.setattr(expansion, "_FREE_BYTES", 1000)
    monkeypatch.setattr(expansion, "_RATIO", 2)
    data = serialize(_bomb(name, 13))
  else:
    data = _bytecode(_bomb(name))
  _forbid_reading(monkeypatch)
  with pytest.raises(errors.DecodeError, match=r"stand for more than \d+ characters"):
    Module.from_bytes(data)


def _varints(data, monkeypatch):
  """Returns how many numbers are read while bytecode is checked."""
  found, varint = [], bytecode.varint

  def counted(*args):
    found.append(args)
    return varint(*args)

  with monkeypatch.context() as patch:
    patch.setattr(bytecode, "varint", counted)
    expansion.check_bytecode(data)
  return len(found)


@pytest.mark.parametrize(
  ("values", "count"),
  # 127 numbers, 16,383 and 2**56 - 1: the zeros at the end of the first byte say how many bytes follow.
  [("[{0}]", b"\xff"), ("[{0}]", b"\xfe\xff"), ("[" + "{0}, " * 9 + "{0}]", b"\x80" + b"\xff" * 7)],
)
def test_a_list_is_not_read_beyond_the_end_of_its_entry(values, count, monkeypatch):
  def damaged(num):
    attributes = ", ".join(f"m.a{i} = {values.format(i)}" for i in range(num))
    data = bytearray(_bytecode(_module(f"attributes {{{attributes}}}")))
    arrays = [e for e in bytecode.attribute_entries(bytes(data))[1] if e[:3] == ("builtin", True, True)]
    for entry in (entry for entry in arrays if data[entry.start] == 1):
      data[entry.start + 1 : entry.start + 1 + len(count)] = count
    return bytes(data)

  few, many = (_varints(damaged(num), monkeypatch) for num in (100, 800))
  assert many < 12 * few


@pytest.mark.parametrize("reverse", [False, True])
def test_a_chain_of_thousands_of_attributes_needs_no_number_of_thousands_of_digits(reverse, monkeypatch):
  num = 20_000
  data, entries = bytearray(), []
  for i in range(num):
    other = i + 1 if reverse else i - 1
    start = len(data)
    data += b"\x01\x05" + (other << 3 | 4).to_bytes(3, "little") * 2 if 0 <= other < num else b"\x01\x01"
    entries.append(bytecode.AttributeEntry("builtin", True, True, start, len(data)))
  monkeypatch.setattr(bytecode, "attribute_entries", lambda data: (num, entries))
  limit = expansion._RATIO * len(data) + expansion._FREE_BYTES
  with pytest.raises(errors.DecodeError, match=f"stand for more than {limit} characters"):
    expansion.check_bytecode(bytes(data))


def test_dialects_of_one_name_have_it_once():
  strings, dialects = b"\x03\xc9" + b"x" * 99 + b"\x00", b"\xc9" + b"\x01" * 100
  names = bytecode._dialects(strings + dialects, {0: (0, len(strings)), 1: (len(strings), 0)})
  assert names == ["x" * 99] * 100
  assert len(set(map(id, names))) == 1


def test_bytecode_in_which_an_attribute_contains_itself_is_refused():
  data = bytearray(_bytecode(_module("attributes {m.a = [[1], [1]]}")))
  _, entries = bytecode.attribute_entries(bytes(data))
  number, entry = next(
    (number, entry)
    for number, entry in enumerate(entries)
    if entry.dialect == "builtin" and entry.is_attribute and data[entry.start] == 1 and entry.end - entry.start == 4
  )
  data[entry.end - 1] = 2 * number + 1
  with pytest.raises(errors.DecodeError, match="contains itself"):
    Module.from_bytes(bytes(data))


def _deep(x):
  for _ in range(12):
    x = jax.jit(lambda y: jnp.sin(y) @ y)(x)
  return x


def test_modules_with_locations_are_far_below_the_limit(monkeypatch):
  def of_frames(depth, x):
    return of_frames(depth - 1, x) if depth else _deep(x)

  text = jax.jit(lambda x: of_frames(8, x)).lower(np.ones((3, 3), np.float32)).as_text(debug_info=True)
  monkeypatch.setattr(expansion, "_FREE_BYTES", 0)
  expansion.check_text(text)
  expansion.check_bytecode(serialize(text))
  expansion.check_bytecode(_bytecode(text))
  expansion.check_text(to_text(text))
