import struct

import numpy as np
import pytest

from graftax.xla_call_module import CustomCallError, Module, ir, lift
from graftax.xla_call_module.patterns import old_gpu_solvers

_X = np.array([[4, 1, 0.5, 0.2], [2, 5, 0.3, 0.1], [0.7, 0.4, 6, 0.9], [0.3, 0.6, 0.8, 7]], np.float32)
_COLUMNS, _ROWS = "dense<[0, 1]> : tensor<2xindex>", "dense<[1, 0]> : tensor<2xindex>"


def _call(target, config, x, results, layout=_COLUMNS):
  """Returns a module that calls a solver as JAX 0.4.30 does, and returns all results but the work array."""
  kind = f"tensor<{'x'.join(map(str, x.shape))}xf32>"
  kinds = [f"tensor<{text}>" for text in results]
  data = "".join(f"\\{byte:02x}" for byte in config)
  names = ", ".join(f"%r#{i}" for i in range(len(kinds)))
  by_rank = ["dense<> : tensor<0xindex>", "dense<0> : tensor<1xindex>", layout]
  layouts = [by_rank[text.count("x")] for text in results] + by_rank[1:2]
  return Module.from_text(f"""func.func @main(%x: {kind}) -> ({", ".join(kinds)}) {{
  %r:{len(kinds) + 1} = stablehlo.custom_call @{target}(%x) {{
    api_version = 2 : i32, backend_config = "{data}", operand_layouts = [{layout}],
    result_layouts = [{", ".join(layouts)}]
  }} : ({kind}) -> ({", ".join(kinds)}, tensor<256xf32>)
  return {names} : {", ".join(kinds)} }}""")


def _numbers(*values):
  return struct.pack(f"<{len(values)}i", *values)


@pytest.mark.parametrize(
  ("target", "fill", "triangle"),
  [
    ("cusolver_syevd", 0, "L"),
    ("cusolver_syevj", 1, "U"),
    ("hipsolver_syevj", 122, "L"),
    ("hipsolver_syevd", 121, "U"),
  ],
)
def test_eigenvectors_are_those_of_the_triangle_that_the_library_reads(target, fill, triangle):
  module = _call(target, _numbers(0, fill, 1, 4, 256), _X, ["4x4xf32", "4xf32", "i32"])
  vectors, values, info = lift(module)(_X)
  want, want_vectors = np.linalg.eigh(_X, triangle)
  np.testing.assert_allclose(values, want, rtol=1e-5)
  np.testing.assert_allclose((vectors * values) @ vectors.T, (want_vectors * want) @ want_vectors.T, atol=1e-4)
  assert info == 0


@pytest.mark.parametrize("shape", [(4, 3), (3, 4)])
@pytest.mark.parametrize("job", ["A", "S"])
def test_singular_vectors_of_gesvd_are_row_major_for_wide_matrices(shape, job):
  x, small, columns = _X[: shape[0], : shape[1]], min(shape), max(shape)
  large = columns if job == "A" else small
  is_wide = shape[0] < shape[1]
  kinds = [f"{large}x{columns}xf32", "3x3xf32"] if is_wide else [f"{columns}x{large}xf32", "3x3xf32"]
  config = _numbers(0, 1, columns, small, 256) + job.encode() * 2 + b"\0\0"
  results = [f"{shape[0]}x{shape[1]}xf32", "3xf32", *kinds, "i32"]
  module = _call("cusolver_gesvd", config, x, results, _ROWS if is_wide else _COLUMNS)
  _, s, first, second, _ = lift(module)(x)
  u, vt = (second, first) if is_wide else (first, second)
  np.testing.assert_allclose((u[:, :3] * s) @ vt[:3], x, atol=1e-5)


@pytest.mark.parametrize("econ", [0, 1])
def test_gesvdj_returns_v_of_the_size_that_is_asked_for(econ):
  x = _X[:3]
  config = _numbers(0, 1, 3, 4, 256, 1, econ)
  module = _call("cusolver_gesvdj", config, x, ["3x4xf32", "3xf32", "3x3xf32", f"4x{3 if econ else 4}xf32", "i32"])
  _, s, u, v, _ = lift(module)(x)
  np.testing.assert_allclose((u * s) @ v.T[:3], x, atol=1e-5)


@pytest.mark.parametrize("target", ["cusolver_getrf", "cublas_getrf_batched", "hipsolver_getrf"])
def test_factors_and_pivots_are_those_of_lapack(target):
  module = _call(target, _numbers(0, 1, 4, 4, 256), _X[::-1], ["4x4xf32", "4xi32", "i32"])
  factors, pivots, _ = lift(module)(_X[::-1])
  want = _X[::-1].copy()
  for row, pivot in enumerate(np.asarray(pivots) - 1):
    want[[row, pivot]] = want[[pivot, row]]
  np.testing.assert_allclose((np.tril(factors, -1) + np.eye(4)) @ np.triu(factors), want, atol=1e-5)


def test_tridiagonal_form_keeps_the_eigenvalues():
  module = _call("cusolver_sytrd", _numbers(0, 0, 1, 4, 4, 256), _X, ["4x4xf32", "4xf32", "3xf32", "3xf32", "i32"])
  _, d, e, _, _ = lift(module)(_X)
  form = np.diag(d) + np.diag(e, 1) + np.diag(e, -1)
  np.testing.assert_allclose(np.linalg.eigvalsh(form), np.linalg.eigvalsh(_X, "L"), rtol=1e-5)


def test_factor_and_reflectors_of_a_tuple_become_a_decomposition():
  matrix, vector = _COLUMNS, "dense<0> : tensor<1xindex>"
  scalar, factors = "dense<> : tensor<0xindex>", "tuple<tensor<4x4xf32>, tensor<4xf32>, tensor<i32>, tensor<256xf32>>"
  module = Module.from_text(f"""
func.func @main(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<i32>) {{
  %t = stablehlo.custom_call @cusolver_geqrf(%x) {{
    api_version = 2 : i32, backend_config = "\\00", operand_layouts = [{matrix}],
    result_layouts = [{matrix}, {vector}, {scalar}, {vector}]
  }} : (tensor<4x4xf32>) -> {factors}
  %a = stablehlo.get_tuple_element %t[0] : ({factors}) -> tensor<4x4xf32>
  %s = stablehlo.get_tuple_element %t[1] : ({factors}) -> tensor<4xf32>
  %i = stablehlo.get_tuple_element %t[2] : ({factors}) -> tensor<i32>
  %q:3 = stablehlo.custom_call @cusolver_orgqr(%a, %s) {{
    api_version = 2 : i32, backend_config = "\\00", operand_layouts = [{matrix}, {vector}],
    result_layouts = [{matrix}, {scalar}, {vector}]
  }} : (tensor<4x4xf32>, tensor<4xf32>) -> (tensor<4x4xf32>, tensor<i32>, tensor<256xf32>)
  %info = stablehlo.add %i, %q#1 : tensor<i32>
  return %q#0, %a, %info : tensor<4x4xf32>, tensor<4x4xf32>, tensor<i32> }}""")
  q, packed, info = lift(module)(_X)
  np.testing.assert_allclose(q @ np.triu(packed), _X, atol=1e-5)
  assert info == 0


@pytest.mark.parametrize(
  ("target", "config"),
  [
    ("cusolver_syevd", _numbers(0, 7, 1, 4, 256)),
    ("cusolver_syevd", b""),
    ("cusolver_gesvd", _numbers(0, 1, 4, 4, 256) + b"OO"),
    ("cusolver_gesvdj", _numbers(0, 1, 4, 4, 256, 1, 9)),
  ],
)
def test_call_keeps_its_form_if_its_settings_have_no_meaning(target, config):
  module = _call(target, config, _X, ["4x4xf32", "4xf32", "4x4xf32", "4x4xf32", "i32"])
  (call,) = (op for op in ir.walk(old_gpu_solvers.with_typed_solvers(module.ir).main.body) if "custom" in op.name)
  assert call.attrs["call_target_name"] == target
  with pytest.raises(CustomCallError, match=target):
    lift(module)(_X)
