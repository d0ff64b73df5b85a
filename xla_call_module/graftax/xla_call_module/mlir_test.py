import sys
import tracemalloc
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module import DecodeError, Module, UnsupportedModuleError, attributes, lift, mlir

_INTEGERS = {"i2": "[1, -2, 0]", "ui2": "[1, 2, 3]", "i4": "[1, -8, 7]", "ui4": "[1, 9, 15]", "i8": "[1, -128, 127]",
             "ui8": "[1, 2, 255]", "i16": "[1, -32768, 7]", "ui16": "[1, 2, 65535]", "i32": "[1, -2, 7]",
             "ui32": "[1, 2, 4294967295]", "i64": "[1, -9223372036854775808, 7]",
             "ui64": "[18446744073709551615, 1, 2]"}  # fmt: skip
_FLOATS = ["bf16", "f16", "f32", "f64", "f4E2M1FN", "f8E3M4", "f8E4M3", "f8E4M3B11FNUZ", "f8E4M3FN", "f8E4M3FNUZ",
           "f8E5M2", "f8E5M2FNUZ", "f8E8M0FNU"]  # fmt: skip
_ELEMENTS = {
  "i1": "[true, false, true]",
  **_INTEGERS,
  **dict.fromkeys(_FLOATS, "[1.0, 2.0, 0.5]"),
  **dict.fromkeys(["complex<f32>", "complex<f64>"], "[(1.0, 2.0), (-0.0, -4.0), (0.5, 0.25)]"),
}
# StableHLO 0.9.0 does not have these.
_NEWER_THAN_OLDEST = (
  "i2",
  "ui2",
  "f4E2M1FN",
  "f8E3M4",
  "f8E4M3",
  "f8E4M3B11FNUZ",
  "f8E4M3FNUZ",
  "f8E5M2FNUZ",
  "f8E8M0FNU",
)


def _numbers(text: str, dtype: np.dtype) -> np.ndarray:
  """Returns the elements that MLIR spells as `text`, read by Python."""
  values = eval(text, {}, {"true": True, "false": False})
  if dtype.kind == "c":
    values = [complex(*value) for value in values] if isinstance(values, list) else complex(*values)
  return np.array(values, dtype)


def _constant_module(value: str, kind: str) -> str:
  return f"""module {{ func.func public @main() -> {kind} {{
    %0 = stablehlo.constant dense<{value}> : {kind}
    return %0 : {kind} }} }}"""


def _first(text: str) -> str:
  """Returns the text of the first element of a list."""
  return text[1 : text.index(")") + 1] if text[1] == "(" else text[1 : text.index(",")]


def _read(text: str, via: str) -> Module:
  if via == "text":
    return Module.from_text(text)
  return Module.from_bytes(mlir.serialize(text, version=None if via == "newest" else mlir.oldest_version()))


@pytest.mark.parametrize(
  "element, via",
  [
    (element, via)
    for element in _ELEMENTS
    for via in ("text", "newest", "oldest")
    if via != "oldest" or element not in _NEWER_THAN_OLDEST
  ],
)
def test_constants_of_every_type_are_read_exactly(element, via):
  dtype = attributes.element_dtype(element)
  listed, one = _ELEMENTS[element], _first(_ELEMENTS[element])
  splat = _numbers(one, dtype)
  cases = {
    f"tensor<3x{element}>": [(listed, _numbers(listed, dtype)), (one, np.full(3, splat))],
    f"tensor<3x1x{element}>": [(one, np.full((3, 1), splat))],
    f"tensor<{element}>": [(one, splat)],
    f"tensor<0x3x{element}>": [("", np.zeros((0, 3), dtype)), (one, np.zeros((0, 3), dtype))],
  }
  for kind, values in cases.items():
    for value, want in values:
      got = _read(_constant_module(value, kind), via).ir.main.body.ops[0].attrs["value"]
      assert got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes()
      assert not got.flags.writeable


@pytest.mark.parametrize("kind", ["f32", "bf16", "complex<f32>", "i1", "i4"])
def test_splat_takes_one_element_whatever_its_shape(kind):
  value = {"complex<f32>": "(1.0,2.0)", "i1": "true", "i4": "3"}.get(kind, "1.5")
  module = Module.from_text(_constant_module(value, f"tensor<100000x1000x{kind}>"))
  got = module.ir.main.body.ops[0].attrs["value"]
  assert got.shape == (100000, 1000) and not any(got.strides)


@pytest.mark.parametrize("via", ["text", "newest"])
def test_complex_elements_in_any_attribute_are_read(via):
  """Looked up carelessly, the one in the dictionary aborts the process."""
  module = _read(
    """module {
      func.func public @main() -> tensor<complex<f32>> {
        %0 = stablehlo.constant dense<(1.0, 2.0)> : tensor<complex<f32>>
        %1 = stablehlo.composite "a.b" %0 {decomposition = @double, composite_attributes = {
          n = 3 : i64, scale = dense<[(1.0, 2.0), (3.0, -4.0)]> : tensor<2xcomplex<f32>>
        }} : (tensor<complex<f32>>) -> tensor<complex<f32>>
        return %1 : tensor<complex<f32>> }
      func.func private @double(%a: tensor<complex<f32>>) -> tensor<complex<f32>> {
        %0 = stablehlo.add %a, %a {x.y = dense<(0.5, 1.0)> : tensor<complex<f64>>} : tensor<complex<f32>>
        return %0 : tensor<complex<f32>> } }""",
    via,
  )
  (_, composite), (add,) = (module.ir.functions[name].body.ops for name in ("main", "double"))
  assert composite.attrs["composite_attributes"]["n"] == 3
  assert composite.attrs["composite_attributes"]["scale"].tolist() == [1 + 2j, 3 - 4j]
  assert add.attrs["x.y"] == 0.5 + 1j
  np.testing.assert_array_equal(lift(module)(), np.complex64(2 + 4j))


def test_array_of_complex_elements_is_a_typed_error():
  text = """module attributes {x.y = [dense<(1.0, 2.0)> : tensor<complex<f32>>]} {
    func.func public @main() { return } }"""
  with pytest.raises(UnsupportedModuleError, match=r"array attribute \[dense<\(1.0.* has an element that JAX's"):
    Module.from_bytes(mlir.serialize(text))


def test_complex_constants_of_an_export_and_of_its_gradient_are_read():
  def function(x):
    return jnp.abs(jnp.fft.fft(x * (1 + 2j))).sum()

  x = np.linspace(-1, 1, 8, dtype=np.float32)
  exported = jax.export.export(jax.jit(function))(jax.ShapeDtypeStruct(x.shape, x.dtype))
  lifted = lift(Module.from_exported(exported.serialize(vjp_order=1)))
  np.testing.assert_allclose(lifted(x)[0], function(x), rtol=1e-6)
  np.testing.assert_allclose(jax.grad(lambda x: lifted(x)[0])(x), jax.grad(function)(x), rtol=1e-5)


def test_constant_whose_op_has_users_decodes():
  module_ir = mlir.decode_text("""module { func.func public @main() -> tensor<2xbf16> {
    %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xbf16>
    %1 = stablehlo.add %0, %0 : tensor<2xbf16>
    return %1 : tensor<2xbf16> } }""")
  assert module_ir.main.body.ops[0].attrs["value"].tolist() == [1.0, 2.0]


def test_constant_with_a_named_location_decodes():
  module_ir = mlir.decode_text("""module { func.func public @main() -> tensor<2xcomplex<f32>> {
    %0 = stablehlo.constant dense<[(1.0,2.0),(3.0,4.0)]> : tensor<2xcomplex<f32>> loc("a name"("file.py":3:4))
    return %0 : tensor<2xcomplex<f32>> } }""")
  (op,) = module_ir.main.body.ops
  assert op.attrs["value"].tolist() == [1 + 2j, 3 + 4j] and op.location == "a name (file.py:3:4)"


def test_text_that_does_not_parse_says_where():
  with pytest.raises(DecodeError, match=r"does not parse: .*-.*:1:10"):
    mlir.decode_text("module { nonsense }")


def _large_module(num_ops: int) -> bytes:
  lines = [f"%{i + 1} = stablehlo.{('add', 'multiply')[i % 2]} %{i}, %a : tensor<8xf32>" for i in range(num_ops)]
  body = "\n".join(["%0 = stablehlo.sine %a : tensor<8xf32>", *lines])
  return mlir.serialize(f"""module {{ func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {{
    {body}
    return %{num_ops} : tensor<8xf32> }} }}""")


def _num_calls(run: Callable[[], object]) -> int:
  """How many Python functions a run calls: what it costs, without a clock."""
  count = 0

  def profile(frame: object, event: str, argument: object) -> None:
    nonlocal count
    count += event == "call"

  before = sys.getprofile()
  sys.setprofile(profile)
  try:
    run()
  finally:
    sys.setprofile(before)
  return count


def test_decoding_and_tracing_grow_with_the_number_of_ops():
  def cost(num_ops: int) -> int:
    data = _large_module(num_ops)
    return _num_calls(lambda: jax.make_jaxpr(lift(Module.from_bytes(data, guard=False)))(np.zeros(8, np.float32)))

  cost(10)  # imports
  small, large = cost(500), cost(2000)
  assert 3 < large / small < 4.5


def test_large_constant_costs_one_copy_outside_of_mlir():
  elements = np.random.default_rng(0).normal(size=(8, 1024, 1024)).astype(np.float32)
  exported = jax.export.export(jax.jit(lambda x: x + elements))(jax.ShapeDtypeStruct(elements.shape, np.float32))
  data = exported.mlir_module_serialized
  tracemalloc.start()
  try:
    module = Module.from_bytes(data, guard=False)
    jax.make_jaxpr(lift(module))(jax.ShapeDtypeStruct(elements.shape, np.float32))
    peak = tracemalloc.get_traced_memory()[1]
  finally:
    tracemalloc.stop()
  assert peak < elements.nbytes * 1.1


def test_constant_in_a_resource_is_a_typed_error():
  text = """module { func.func @main() -> tensor<2xf32> {
    %r = stablehlo.constant dense_resource<weights> : tensor<2xf32>
    return %r : tensor<2xf32> } }
  {-# dialect_resources: { builtin: { weights: "0x040000000000803F00000040" } } #-}"""
  with pytest.raises(
    UnsupportedModuleError, match=r"type float32\[2\] is dense_resource<weights>, stored in a resource"
  ):
    Module.from_text(text)
