"""`graftax export`, and what graftax itself reads of its SavedModels."""

import subprocess
import sys

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

from graftax import savedmodel_io
from graftax.convert import split_trainable
from graftax.tools.cli import app
from graftax.tools.inspection.model_report import report_model

_CODE = """
import jax.numpy as jnp
import numpy as np

PARAMS = {"dense": {"kernel": np.arange(12, dtype=np.float32).reshape(3, 4) / 10, "bias": np.ones(4, np.float32)}}


def make_params():
  return PARAMS


def predict(params, x, scale=2.0):
  y = jnp.tanh(x @ params["dense"]["kernel"] + params["dense"]["bias"]) * scale
  return {"logits": y, "label": y.argmax(-1)}


def double(x):
  return x * 2
"""


@pytest.fixture
def model(tmp_path):
  path = tmp_path / "model.py"
  path.write_text(_CODE)
  return path


def _export(*arguments):
  return CliRunner().invoke(app, ["export", *map(str, arguments)])


def _expected(x):
  scope = {}
  exec(_CODE, scope)
  return scope["predict"](scope["PARAMS"], x)


@pytest.mark.parametrize("lowering", ["stablehlo", "tf_ops"])
def test_the_written_model_computes_the_function_and_its_gradient(model, tmp_path, lowering):
  out = tmp_path / "out"
  options = ["--input", "x=float32[batch,3]", "--params", "PARAMS", "--lowering", lowering, "--out", out]
  shown = _export(f"{model}:predict", *options)
  assert shown.exit_code == 0, shown.output
  ops = {op.op for op in report_model(savedmodel_io.load(out)).ops}
  assert ("XlaCallModule" in ops, "Tanh" in ops) == ((True, False) if lowering == "stablehlo" else (False, True))
  assert "x: float32[?, 3]" in shown.output and "logits: float32[?, 4]" in shown.output
  fn, params = savedmodel_io.load(out).convert("serving_default")
  assert sorted(params) == ["dense/bias", "dense/kernel"]
  for batch in (1, 5):
    x = np.linspace(-1, 1, 3 * batch, dtype=np.float32).reshape(batch, 3)
    found, _ = fn(params, x=x)
    np.testing.assert_allclose(found["logits"], _expected(x)["logits"], rtol=1e-6)
    np.testing.assert_array_equal(found["label"], _expected(x)["label"])
  gradient = jax.grad(lambda x: fn(params, x=x)[0]["logits"].sum())(x)
  np.testing.assert_allclose(gradient, jax.grad(lambda x: _expected(x)["logits"].sum())(x), rtol=1e-5)


def test_parameters_come_from_a_file_or_from_a_function(model, tmp_path):
  kernel, bias = np.ones((3, 4), np.float32), np.zeros(4, np.float32)
  np.savez(tmp_path / "p.npz", **{"dense/kernel": kernel, "dense/bias": bias})
  for params, value in ((tmp_path / "p.npz", kernel), ("make_params", np.arange(12).reshape(3, 4) / 10)):
    shown = _export(f"{model}:predict", "--input", "x=[2,3]", "--params", params, "--out", tmp_path / "out", "-f")
    assert shown.exit_code == 0, shown.output
    _, found = savedmodel_io.load(tmp_path / "out").convert("serving_default")
    np.testing.assert_allclose(found["dense/kernel"], value, rtol=1e-6)


def test_frozen_parameters_are_not_trained(model, tmp_path):
  options = ("--input", "x=[2,3]", "--params", "PARAMS", "--frozen", "--out", tmp_path / "out")
  assert _export(f"{model}:predict", *options).exit_code == 0
  _, params = savedmodel_io.load(tmp_path / "out").convert("serving_default")
  trainable, fixed = split_trainable(params)
  assert not trainable and sorted(fixed) == ["dense/bias", "dense/kernel"]


def test_a_function_without_parameters_and_another_signature(model, tmp_path):
  options = ("--input", "x=int32[n]", "--signature", "twice", "--gradient-order", "0", "--out", tmp_path / "out")
  shown = _export(f"{model}:double", *options)
  assert shown.exit_code == 0, shown.output
  fn, _ = savedmodel_io.load(tmp_path / "out").convert("twice")
  np.testing.assert_array_equal(jax.tree.leaves(fn({}, x=np.arange(3, dtype=np.int32))[0])[0], [0, 2, 4])


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    (("{model}:predict", "--params", "PARAMS"), "['x'] are not known"),
    (("{model}:predct", "--input", "x=[2,3]"), "no 'predct'"),
    (("{model}:PARAMS", "--input", "x=[2,3]"), "is of type dict, which cannot be called"),
    (("{model}:double", "--input", "x=[2,3]", "--params", "no.npz"), "no such file"),
    (("{model}:predict", "--input", "x=[2,3]", "--params", "{model}"), "expected a file of type .npz or .safetensors"),
    (("{model}:double", "--input", "x=[2,3]", "--target", "tensorflow-1.0"), "tensorflow-1.0"),
    (("absent.py:double", "--input", "x=[2,3]"), "no such file 'absent.py'"),
    (("{model}", "--input", "x=[2,3]"), "expected FILE.py:FUNCTION"),
  ],
)
def test_what_cannot_be_exported_is_one_message_and_leaves_nothing(model, tmp_path, arguments, message):
  out = tmp_path / "out"
  shown = _export(*(text.format(model=model) for text in arguments), "--out", out)
  assert shown.exit_code == 1
  assert message in " ".join(shown.output.split()) and "Traceback" not in shown.output
  assert not out.exists()


def test_a_folder_that_is_there_is_kept(model, tmp_path):
  (tmp_path / "out").mkdir()
  (tmp_path / "out" / "notes.txt").write_text("keep")
  for options in ((), ("--force",)):
    shown = _export(f"{model}:double", "--input", "x=[2]", "--out", tmp_path / "out", *options)
    assert shown.exit_code == 1
  assert (tmp_path / "out" / "notes.txt").read_text() == "keep"


_WITHOUT_TENSORFLOW = """
import sys
from graftax.tools.cli import app
from graftax.tools.inspection.model_report import report_model
try:
  app(sys.argv[1:])
finally:
  assert not [name for name in sys.modules if name.partition(".")[0] == "tensorflow"]
"""


def test_tensorflow_is_not_imported(model, tmp_path):
  arguments = ["export", f"{model}:double", "--input", "x=[n]", "--out", str(tmp_path / "out")]
  ran = subprocess.run([sys.executable, "-c", _WITHOUT_TENSORFLOW, *arguments], capture_output=True, text=True)
  assert ran.returncode == 0, ran.stderr


def test_an_error_of_the_function_names_its_line(tmp_path):
  (tmp_path / "model.py").write_text("def predict(x):\n  return x @ undefined\n")
  result = _export(f"{tmp_path}/model.py:predict", "--input", "x=float32[3]", "--out", tmp_path / "out")
  assert result.exit_code == 1
  text = "".join(result.output.split())
  assert "NameError:name'undefined'isnotdefined" in text
  assert f"raisedat{tmp_path}/model.py:2inpredict" in text
