import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module import attributes, ir, mlir

_DTYPES = (
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, jnp.int2, jnp.int4,
    jnp.uint2, jnp.uint4, np.float16, jnp.bfloat16, np.float32, np.float64, np.complex64, np.complex128,
    jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.float8_e4m3b11fnuz, jnp.float8_e5m2fnuz, jnp.float8_e4m3fnuz,
)  # fmt: skip


@pytest.mark.parametrize("dtype", _DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("shape", [(), (2, 0, 3)])
def test_type_that_is_spelled_is_one_that_mlir_reads_back(dtype, shape):
  kind = attributes.type_spelling(shape, dtype)
  module_ir = mlir.decode_text(f"module {{ func.func public @main(%x: {kind}) -> {kind} {{\n return %x : {kind} }} }}")
  assert module_ir.main.types == module_ir.main.result_types == (ir.TensorType(shape, np.dtype(dtype)),)


def test_dtype_without_element_type_is_an_error():
  with pytest.raises(TypeError, match="dtype datetime64.* has no element type"):
    attributes.element_spelling(np.dtype("datetime64[s]"))


@pytest.mark.parametrize(
  "text, want",
  [
    ("tensor<?x3xf32>", ir.TensorType((None, 3), np.dtype(np.float32))),
    ("tensor<complex<f64>>", ir.TensorType((), np.dtype(np.complex128))),
    ("!stablehlo.token", ir.TokenType()),
    ("tuple<tensor<i1>, tuple<>>", ir.TupleType((ir.TensorType((), np.dtype(np.bool_)), ir.TupleType(())))),
    ("tensor<*xf32>", ir.OpaqueType("tensor<*xf32>")),
    ("tensor<4x!quant.uniform<i8:f32, 0.1>>", ir.OpaqueType("tensor<4x!quant.uniform<i8:f32, 0.1>>")),
  ],
)
def test_type_is_read_from_its_spelling(text, want):
  assert attributes.parse_type(text) == want


@pytest.mark.parametrize(
  "text, want",
  [
    ("#stablehlo<comparison_direction LT>", "LT"),
    (
      "#stablehlo.gather<offset_dims = [1, 2], collapsed_slice_dims = [], index_vector_dim = 1>",
      {"offset_dims": (1, 2), "collapsed_slice_dims": (), "index_vector_dim": 1},
    ),
    (
      "#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>",
      {"lhs": (0, 3, 1, 2), "rhs": (3, 2, 0, 1), "out": (0, 3, 1, 2)},
    ),
    ("#sdy.sharding<@mesh, [{}]>", "#sdy.sharding<@mesh, [{}]>"),
  ],
)
def test_attribute_is_read_from_its_text(text, want):
  assert attributes.parse_attribute(text) == want
