import io
import os
import subprocess
import sys

import numpy as np
import pytest
from rich.console import Console

from graftax import savedmodel_io
from graftax.tools.demo.steps import gradient_norms, run_demo
from graftax.tools.examples.digits import load_digits, model_path


@pytest.fixture(scope="module")
def result_and_text():
  console = Console(width=100, record=True, quiet=False, file=io.StringIO())
  return run_demo(console, num_steps=40), console.export_text()


def test_the_converted_model_gives_tensorflows_logits(result_and_text):
  result, _ = result_and_text
  assert result.largest_difference < 1e-4
  assert result.accuracy > 0.95


def test_fine_tuning_learns_turned_digits(result_and_text):
  result, _ = result_and_text
  before, after = result.rotated_accuracy
  assert before < 0.3
  assert after > 0.7
  assert len(result.losses) == 40
  assert result.losses[-1] < result.losses[0] / 4


def test_every_example_has_a_gradient_of_its_own(result_and_text):
  result, _ = result_and_text
  assert result.gradient_norms.shape == (360,)
  assert np.isfinite(result.gradient_norms).all()
  assert len(np.unique(result.gradient_norms)) > 300


def test_the_tuned_model_is_saved_and_read_again(result_and_text):
  result, text = result_and_text
  assert result.saved_difference < 1e-4
  assert "6. Save it as a SavedModel" in text


def test_per_example_gradients_are_those_of_the_examples_alone():
  predict, params = savedmodel_io.load(model_path()).convert()
  data = load_digits()
  together = gradient_norms(predict, params, data.test_images[:3], data.test_labels[:3])
  alone = [
    gradient_norms(predict, params, data.test_images[i : i + 1], data.test_labels[i : i + 1])[0] for i in range(3)
  ]
  # Measured: 1e-6 relative, from another order of summation in the convolutions.
  np.testing.assert_allclose(together, alone, rtol=1e-4)


def test_the_printed_text_tells_the_measured_numbers(result_and_text):
  result, text = result_and_text
  assert f"{result.accuracy:.1%}, TensorFlow" in text
  assert f"{result.rotated_accuracy[1]:.1%} after" in text
  assert "19 ops, 19 of them supported" in " ".join(text.split())
  assert "predicted 2" in text


def test_the_whole_demo_runs_in_a_process_of_its_own_without_tensorflow():
  environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
  # main checks its numbers, and that nothing imported TensorFlow.
  ran = subprocess.run(
    [sys.executable, "-m", "graftax.tools.demo"], env=environment, capture_output=True, text=True, timeout=300
  )
  assert ran.returncode == 0, ran.stderr
  assert "without TensorFlow in the process" in ran.stdout
