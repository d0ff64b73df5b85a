import jax
import numpy as np
import pytest

from graftax.xla_call_module import Module, X64Error, embed, lift

_BYTES = np.array([-128, -3, 0, 5, 127], np.int8)
_OTHERS = np.array([7, -128, 127, -1, 2], np.int8)


def _module(kind: str, op: str, made: str = "i64") -> Module:
  """`op` on `%x` and `%y`, bytes as 64-bit integers; its result as 32-bit ones. `%c` is `%x < %y`."""
  byte = f"{kind[:-2]}8"
  return Module.from_text(f"""module {{
    func.func public @main(%a: tensor<5x{byte}>, %b: tensor<5x{byte}>) -> tensor<5xi32> {{
    %x = stablehlo.convert %a : (tensor<5x{byte}>) -> tensor<5x{kind}>
    %y = stablehlo.convert %b : (tensor<5x{byte}>) -> tensor<5x{kind}>
    %c = stablehlo.compare LT, %x, %y : (tensor<5x{kind}>, tensor<5x{kind}>) -> tensor<5xi1>
    %three = stablehlo.constant dense<3> : tensor<5x{kind}>
    %large = stablehlo.constant dense<20000000> : tensor<5x{kind}>
    %r = stablehlo.{op}
    %s = stablehlo.convert %r : (tensor<5x{made}>) -> tensor<5xi32>
    return %s : tensor<5xi32> }} }}""")


def _binary(name: str, kind: str, other: str = "%y") -> str:
  return f"{name} %x, {other} : tensor<5x{kind}>"


_SIGNED = [_binary(name, "i64") for name in ("add", "subtract", "multiply", "maximum", "minimum")] + [
  "select %c, %x, %y : tensor<5xi1>, tensor<5xi64>",
  "reverse %x, dims = [0] : tensor<5xi64>",
  "iota dim = 0 : tensor<5xi64>",
]
_UNSIGNED = [
  _binary("add", "ui64"),
  _binary("and", "ui64"),
  _binary("shift_right_logical", "ui64", "%three"),
]


@pytest.mark.parametrize(
  "kind, op", [*(("i64", op) for op in _SIGNED), *(("ui64", op) for op in _UNSIGNED)], ids=lambda v: v.split(" ")[0]
)
def test_op_on_small_integers_gives_what_64_bits_give(kind, op):
  module = _module(kind, op, kind)
  a, b = (_BYTES, _OTHERS) if kind == "i64" else (_BYTES.view(np.uint8), _OTHERS.view(np.uint8))
  assert not jax.config.jax_enable_x64
  (got,) = lift(module)(a, b)
  with jax.enable_x64(True):
    (want,) = embed(module)(a, b)
  np.testing.assert_array_equal(got, want, strict=True)


@pytest.mark.parametrize("way", ["EQ", "NE", "LT", "LE", "GT", "GE"])
def test_comparison_gives_what_64_bits_give(way):
  op = f"compare {way}, %x, %y : (tensor<5xi64>, tensor<5xi64>) -> tensor<5xi1>"
  (got,) = lift(_module("i64", op, "i1"))(_BYTES, _OTHERS)
  want = {"EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater}.get(
    way, np.greater_equal
  )(_BYTES, _OTHERS)
  np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
  "kind, op, why",
  [
    ("i64", _binary("multiply", "i64", "%large"), r"values between -2560000000 and 2540000000, which do not fit int32"),
    ("ui64", _binary("subtract", "ui64"), r"values between -255 and 255, which do not fit uint32"),
    ("i64", _binary("shift_right_logical", "i64", "%three"), "computes in 64 bits"),
    ("i64", _binary("and", "i64"), "computes in 64 bits"),
    ("i64", _binary("divide", "i64", "%three"), "computes in 64 bits"),
  ],
  ids=lambda v: v.split(" ")[0],
)
def test_op_that_may_leave_32_bits_raises(kind, op, why):
  byte = np.int8 if kind == "i64" else np.uint8
  with pytest.raises(X64Error, match=f"stablehlo.{op.split(' ')[0]} at .*{why}"):
    lift(_module(kind, op, kind))(_BYTES.view(byte), _OTHERS.view(byte))


def test_high_words_of_products_of_32_bit_integers_are_exact():
  rng = np.random.default_rng(0)
  edges = np.uint32([0, 1, 2**31, 2**32 - 1])
  a = np.concatenate([np.repeat(edges, 4), rng.integers(0, 2**32, 50, np.uint32)])
  b = np.concatenate([np.tile(edges, 4), rng.integers(0, 2**32, 50, np.uint32)])
  lifted = lift(_high_words("dense<32>", a.size))
  expected = (a.astype(np.uint64) * b.astype(np.uint64) >> np.uint64(32)).astype(np.uint32)
  np.testing.assert_array_equal(jax.jit(lifted)(a, b)[0], expected)


def _high_words(shift: str, size: int) -> Module:
  """Returns what JAX lowers `jax.lax.mulhi` to, with another shift."""
  return Module.from_text(f"""module {{
    func.func public @main(%a: tensor<{size}xui32>, %b: tensor<{size}xui32>) -> tensor<{size}xui32> {{
    %x = stablehlo.convert %a : (tensor<{size}xui32>) -> tensor<{size}xui64>
    %y = stablehlo.convert %b : (tensor<{size}xui32>) -> tensor<{size}xui64>
    %p = stablehlo.multiply %x, %y : tensor<{size}xui64>
    %c = stablehlo.constant {shift} : tensor<{size}xui64>
    %s = stablehlo.shift_right_logical %p, %c : tensor<{size}xui64>
    %r = stablehlo.convert %s : (tensor<{size}xui64>) -> tensor<{size}xui32>
    return %r : tensor<{size}xui32> }} }}""")


@pytest.mark.parametrize("shift", ["dense<31>", "dense<33>"])
def test_other_bits_of_such_products_are_refused(shift):
  with pytest.raises(X64Error, match="stablehlo.shift_right_logical at .* computes in 64 bits"):
    lift(_high_words(shift, 2))(*[np.uint32([1, 2])] * 2)


def test_a_shift_by_words_of_a_bit_cast_is_refused():
  module = Module.from_text("""module {
    func.func public @main(%a: tensor<2x2xui32>, %b: tensor<2xui8>) -> tensor<2xui32> {
    %x = stablehlo.convert %b : (tensor<2xui8>) -> tensor<2xui64>
    %y = stablehlo.bitcast_convert %a : (tensor<2x2xui32>) -> tensor<2xui64>
    %s = stablehlo.shift_right_logical %x, %y : tensor<2xui64>
    %r = stablehlo.convert %s : (tensor<2xui64>) -> tensor<2xui32>
    return %r : tensor<2xui32> } }""")
  with pytest.raises(X64Error, match="stablehlo.shift_right_logical at .* computes in 64 bits"):
    lift(module)(np.zeros((2, 2), np.uint32), np.uint8([4, 5]))


def test_bit_casts_to_64_bits_and_back_keep_all_bits():
  module = Module.from_text("""module {
    func.func private @same(%x: tensor<3xui64>) -> tensor<3xui64> { return %x : tensor<3xui64> }
    func.func public @main(%a: tensor<3x2xui32>) -> tensor<3x2xui32> {
    %x = stablehlo.bitcast_convert %a : (tensor<3x2xui32>) -> tensor<3xui64>
    %y = func.call @same(%x) : (tensor<3xui64>) -> tensor<3xui64>
    %r = stablehlo.bitcast_convert %y : (tensor<3xui64>) -> tensor<3x2xui32>
    return %r : tensor<3x2xui32> } }""")
  words = np.random.default_rng(0).integers(0, 2**32, (3, 2), np.uint32)
  for run in (lift(module), jax.jit(lift(module))):
    np.testing.assert_array_equal(run(words)[0], words, strict=True)
