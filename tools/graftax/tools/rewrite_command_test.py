"""`graftax rewrite`."""

import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

from graftax.savedmodel_io import load, save
from graftax.tools.cli import app


@pytest.fixture(scope="module")
def cuda_model(tmp_path_factory):
  path = tmp_path_factory.mktemp("models") / "cuda"
  save(path, (jnp.tanh, np.zeros((2, 3), np.float32)), platforms=["cuda"], gradient_order=1)
  return path


def _rewrite(*arguments):
  return CliRunner().invoke(app, ["rewrite", *map(str, arguments)])


def test_a_model_for_cuda_runs_on_the_cpu_afterwards(cuda_model, tmp_path):
  result = _rewrite(cuda_model, "--for", "tensorflow-2.15", "--platforms", "cpu", "-o", tmp_path / "copy")
  assert result.exit_code == 0, result.output
  assert "2 XlaCallModule nodes for tensorflow-2.15: 2 written in another version" in result.output.replace("\n", " ")
  function, params = load(tmp_path / "copy").convert("__call__")
  x = np.ones((2, 3), np.float32)
  np.testing.assert_allclose(function(params, x)[0], np.tanh(x), rtol=1e-6)


def test_an_existing_folder_is_replaced_only_with_force(cuda_model, tmp_path):
  (tmp_path / "copy").mkdir()
  (tmp_path / "copy" / "notes.txt").write_text("mine")
  result = _rewrite(cuda_model, "-o", tmp_path / "copy")
  assert result.exit_code == 1
  assert "exists already" in result.output


def test_an_unknown_consumer_or_platform_is_named(cuda_model, tmp_path):
  assert "'torch' is not known" in _rewrite(cuda_model, "--for", "torch", "-o", tmp_path / "copy").output
  result = _rewrite(cuda_model, "--platforms", "gpu", "-o", tmp_path / "copy")
  assert result.exit_code == 2
  assert "unknown platforms ['gpu']" in result.output
