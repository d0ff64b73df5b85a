import pytest

from graftax.xla_call_module import Module, ir
from graftax.xla_call_module.patterns import old_lapack

_SOLVE = """module {{ func.func public @main(%a: tensor<2x2xf32>, %b: tensor<2x2xf32>) -> tensor<2x2xf32> {{
  %size = stablehlo.constant dense<2> : tensor<i32>
  %yes = stablehlo.constant dense<1> : tensor<i32>
  %flag = stablehlo.constant dense<{flag}> : tensor<{dtype}>
  %factor = stablehlo.constant dense<1.0> : tensor<f32>
  %r = stablehlo.custom_call @blas_strsm(%yes, %yes, %flag, %yes, %size, %size, %yes, %factor, %a, %b)
    : (tensor<i32>, tensor<i32>, tensor<{dtype}>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<f32>,
       tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %r : tensor<2x2xf32> }} }}"""
_EIGENVECTORS = """module {{ func.func public @main(%a: tensor<2x2xf32>) -> tensor<2xf32> {{
  %size = stablehlo.constant dense<2> : tensor<i32>
  %flag = stablehlo.constant dense<{flag}> : tensor<{dtype}>
  %r:8 = stablehlo.custom_call @lapack_sgeev(%size, %size, %flag, %flag, %a)
    : (tensor<i32>, tensor<i32>, tensor<{dtype}>, tensor<{dtype}>, tensor<2x2xf32>)
    -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2x2xcomplex<f32>>,
        tensor<2x2xcomplex<f32>>, tensor<i32>)
  return %r#3 : tensor<2xf32> }} }}"""

_FACTORS = """module {{ func.func public @main(%a: tensor<2x2xf32>) -> tensor<2x2xf32> {{
  %size = stablehlo.constant dense<2> : tensor<i32>
  %r:3 = stablehlo.custom_call @lapack_sgeqrf(%size, %size, %size, %size, %a)
    : (tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>, {dtype})
  stablehlo.custom_call @used(%r#2) {{has_side_effect = {flag}}} : ({dtype}) -> ()
  return %r#0 : tensor<2x2xf32> }} }}"""


@pytest.mark.parametrize(
  ("text", "flag", "dtype", "target"),
  [
    (_SOLVE, 2, "i32", "lapack_strsm_ffi"),
    (_SOLVE, 7, "i32", "blas_strsm"),
    (_SOLVE, -1, "i32", "blas_strsm"),
    (_SOLVE, 1.5, "f32", "blas_strsm"),
    (_EIGENVECTORS, ord("V"), "ui8", "lapack_sgeev_ffi"),
    (_EIGENVECTORS, -5, "i32", "lapack_sgeev"),
    (_EIGENVECTORS, 300, "i32", "lapack_sgeev"),
    (_FACTORS, "true", "tensor<i32>", "lapack_sgeqrf_ffi"),
    (_FACTORS, "true", "!stablehlo.token", "lapack_sgeqrf"),
    (_FACTORS, "true", "tensor<?xi32>", "lapack_sgeqrf"),
  ],
)
def test_call_keeps_its_form_if_a_flag_has_no_meaning(text, flag, dtype, target):
  module = Module.from_text(text.format(flag=flag, dtype=dtype))
  ops = ir.walk(old_lapack.modernized(module.ir).main.body)
  call = next(op for op in ops if op.name == "stablehlo.custom_call")
  assert call.attrs["call_target_name"] == target
