import sys
import tracemalloc
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module import DecodeError, Module, UnsupportedModuleError, lift, mlir

_CONSTANTS = [
  ("dense<[1.0, -2.5]> : tensor<2xbf16>", np.array([1, -2.5], jnp.bfloat16)),
  ("dense<[1.0, 2.0]> : tensor<2xf16>", np.array([1, 2], np.float16)),
  ("dense<[1, -2, 7]> : tensor<3xi4>", np.array([1, -2, 7], jnp.int4)),
  ("dense<[1, 9, 15]> : tensor<3xui4>", np.array([1, 9, 15], jnp.uint4)),
  ("dense<[(1.0,2.0),(3.0,-4.0)]> : tensor<2xcomplex<f32>>", np.array([1 + 2j, 3 - 4j], np.complex64)),
  ("dense<[(1.0,2.0),(3.0,-4.0)]> : tensor<2xcomplex<f64>>", np.array([1 + 2j, 3 - 4j])),
  ("dense<[true, false, true]> : tensor<3xi1>", np.array([True, False, True])),
  ("dense<[1.0, 2.0]> : tensor<2xf8E4M3FN>", np.array([1, 2], jnp.float8_e4m3fn)),
  ("dense<[18446744073709551615, 1]> : tensor<2xui64>", np.array([2**64 - 1, 1], np.uint64)),
  ("dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>", np.array([[1, 2], [3, 4]], np.int8)),
  ("dense<> : tensor<0x3xf32>", np.zeros((0, 3), np.float32)),
  ("dense<7> : tensor<i32>", np.array(7, np.int32)),
]


def _constant(text: str) -> np.ndarray:
  kind = text.split(" : ")[1]
  program = mlir.decode_text(f"""module {{ func.func public @main() -> {kind} {{
    %0 = stablehlo.constant {text}
    return %0 : {kind} }} }}""")
  return program.main.body.ops[0].attrs["value"]


@pytest.mark.parametrize("text, want", _CONSTANTS, ids=lambda v: v if isinstance(v, str) else "")
def test_constants_of_every_type_decode_exactly(text, want):
  got = _constant(text)
  assert got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes()
  assert not got.flags.writeable


@pytest.mark.parametrize("kind", ["f32", "bf16", "complex<f32>", "i1", "i4"])
def test_splat_takes_one_element_whatever_its_shape(kind):
  value = {"complex<f32>": "(1.0,2.0)", "i1": "true", "i4": "3"}.get(kind, "1.5")
  got = _constant(f"dense<{value}> : tensor<100000x1000x{kind}>")
  assert got.shape == (100000, 1000) and not any(got.strides)


def test_constant_whose_op_has_users_decodes():
  program = mlir.decode_text("""module { func.func public @main() -> tensor<2xbf16> {
    %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xbf16>
    %1 = stablehlo.add %0, %0 : tensor<2xbf16>
    return %1 : tensor<2xbf16> } }""")
  assert program.main.body.ops[0].attrs["value"].tolist() == [1.0, 2.0]


def test_constant_with_a_named_location_decodes():
  program = mlir.decode_text("""module { func.func public @main() -> tensor<2xcomplex<f32>> {
    %0 = stablehlo.constant dense<[(1.0,2.0),(3.0,4.0)]> : tensor<2xcomplex<f32>> loc("a name"("file.py":3:4))
    return %0 : tensor<2xcomplex<f32>> } }""")
  (op,) = program.main.body.ops
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
  with pytest.raises(UnsupportedModuleError, match=r"type float32\[2\] is dense_resource<weights>, a resource"):
    Module.from_text(text)
