"""`graftax rewrite --check` runs the copy in TensorFlow."""

import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
from typer.testing import CliRunner

from graftax.savedmodel_io import save
from graftax.tools.cli import app
from graftax.tools.commands.check_rewritten import RewriteCheckError, check_rewritten


@pytest.fixture(scope="module")
def cuda_model(tmp_path_factory):
  path = tmp_path_factory.mktemp("models") / "cuda"
  save(path, (lambda x, n: {"y": jnp.tanh(x) * n}, np.zeros((2, 3), np.float32), 1), platforms=["cuda"])
  return path


@pytest.mark.parametrize("consumer", ["tensorflow", "plain"])
def test_a_copy_that_computes_the_same_is_confirmed(cuda_model, tmp_path, consumer):
  arguments = ["rewrite", cuda_model, "--for", consumer, "--platforms", "cpu", "-o", tmp_path / "copy", "--check"]
  result = CliRunner().invoke(app, [*map(str, arguments)])
  assert result.exit_code == 0, result.output
  assert "serving_default: as the original, within" in result.output


def test_a_copy_that_tensorflow_refuses_is_an_error(cuda_model):
  with pytest.raises(RewriteCheckError, match="(?s)does not run the copy: .*not among the platforms"):
    check_rewritten(str(cuda_model), cuda_model)


def test_a_file_of_stablehlo_is_checked(tmp_path):
  text = """func.func @main(%x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<3xf64> {
    %0 = stablehlo.subtract %x, %y : tensor<3xf64>
    return %0 : tensor<3xf64>
  }"""
  (tmp_path / "model.mlir").write_text(text)
  arguments = ["rewrite", tmp_path / "model.mlir", "-o", tmp_path / "copy", "--check"]
  result = CliRunner().invoke(app, [*map(str, arguments)])
  assert result.exit_code == 0, result.output
  assert "serving_default: as the original, within" in result.output
  (tmp_path / "model.mlir").write_text(text.replace("subtract %x, %y", "subtract %y, %x"))
  with pytest.raises(RewriteCheckError, match="'output_0' of the copy differs"):
    check_rewritten(str(tmp_path / "model.mlir"), tmp_path / "copy")


def test_a_copy_with_another_dtype_is_an_error(cuda_model, tmp_path):
  module = tf.Module()
  specs = [tf.TensorSpec((2, 3), tf.float32, "x"), tf.TensorSpec((), tf.int32, "n")]
  module.f = tf.function(lambda x, n: {"y": tf.cast(tf.tanh(x) * tf.cast(n, tf.float32), tf.float64)}, specs)
  tf.saved_model.save(module, str(tmp_path / "other"), signatures=module.f)
  with pytest.raises(RewriteCheckError, match="'y' is float64 in the copy, float32 in the original"):
    check_rewritten(str(cuda_model), tmp_path / "other")


def test_a_copy_that_computes_something_else_is_an_error(cuda_model, tmp_path):
  module = tf.Module()
  specs = [tf.TensorSpec((2, 3), tf.float32, "x"), tf.TensorSpec((), tf.int32, "n")]
  module.f = tf.function(lambda x, n: {"y": tf.tanh(x) + 1.0}, input_signature=specs)
  tf.saved_model.save(module, str(tmp_path / "other"), signatures=module.f)
  with pytest.raises(RewriteCheckError, match="differs from the original by"):
    check_rewritten(str(cuda_model), tmp_path / "other")
