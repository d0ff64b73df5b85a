import importlib.util
import pathlib

import jax.numpy as jnp
import numpy as np
import pytest

from graftax.xla_call_module import mlir

_FILE = pathlib.Path(__file__).with_name("batch_and_differentiate.py")
_TEXT = """module { func.func public @main(%x: tensor<3xf32>, %n: tensor<i32>) -> tensor<3xf32> {
  %0 = stablehlo.convert %n : (tensor<i32>) -> tensor<f32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<3xf32>
  %2 = stablehlo.sine %x : tensor<3xf32>
  %3 = stablehlo.multiply %2, %1 : tensor<3xf32>
  return %3 : tensor<3xf32> } }"""


def _example():
  spec = importlib.util.spec_from_file_location("batch_and_differentiate", _FILE)
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


def test_file_becomes_a_batched_differentiated_function(tmp_path, capsys):
  example = _example()
  for name, data in (("text.mlir", _TEXT.encode()), ("portable.mlirbc", mlir.serialize(_TEXT))):
    path = tmp_path / name
    path.write_bytes(data)
    _, moving, function = example.load(path)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    values, (gradient,) = function(x, np.int32(2))
    assert moving == [0]
    np.testing.assert_allclose(values, 2 * np.sin(x).sum(1), rtol=1e-5)
    np.testing.assert_allclose(gradient, 2 * jnp.cos(x), rtol=1e-5)
    example.main([str(path)])
    assert "plan: lift" in capsys.readouterr().out


@pytest.mark.parametrize(
  ("text", "shown"),
  [
    (
      """func.func @main(%x: tensor<?x2xf32>, %i: tensor<?xi32>) -> (tensor<?x2xf32>, tensor<?xi32>, tensor<?x2xf32>) {
  %0 = stablehlo.sine %x : tensor<?x2xf32>
  return %x, %i, %0 : tensor<?x2xf32>, tensor<?xi32>, tensor<?x2xf32> }""",
      "gradient of argument 0",
    ),
    (
      """func.func @main(%x: tensor<3xf64>, %i: tensor<i64>, %b: tensor<2xi1>) -> tensor<3xf64> {
  %0 = stablehlo.sine %x : tensor<3xf64>
  return %0 : tensor<3xf64> }""",
      "gradient of argument 0",
    ),
    (
      """func.func @main(%x: tensor<3xf32>) -> tensor<i32> {
  %0 = stablehlo.constant dense<1> : tensor<i32>
  return %0 : tensor<i32> }""",
      "[0. 0. 0.]",
    ),
  ],
  ids=["open shapes", "64 bits", "no result to differentiate"],
)
def test_any_file_is_taken(text, shown, tmp_path, capsys):
  path = tmp_path / "file.mlir"
  path.write_text(text)
  _example().main([str(path)])
  assert shown in capsys.readouterr().out


def test_file_without_floating_point_arguments_says_so(tmp_path):
  path = tmp_path / "file.mlir"
  path.write_text("func.func @main(%i: tensor<3xi32>) -> tensor<3xi32> { return %i : tensor<3xi32> }")
  with pytest.raises(SystemExit, match="has no floating-point argument"):
    _example().main([str(path)])


def test_example_is_as_short_as_it_claims():
  lines = [line for line in _FILE.read_text().splitlines() if line.strip()]
  assert len(lines) <= 45
