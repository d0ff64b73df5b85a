"""With TensorFlow: the script makes what is checked in, and TensorFlow agrees about the stored numbers."""

import numpy as np
import pytest
import tensorflow as tf

from graftax import savedmodel_io
from graftax.tools.examples.digits import load_digits, make, model_path
from graftax.tools.inspection.model_report import report_model


# scikit-learn's loader and Keras are not ours to make free of warnings.
@pytest.mark.filterwarnings("ignore")
def test_a_new_run_makes_a_model_of_the_same_structure(tmp_path):
  make.write_digits(tmp_path, num_epochs=1)
  made, kept = (report_model(savedmodel_io.load(path)) for path in (tmp_path / "model", model_path()))
  assert made.signatures == kept.signatures
  assert [function.path for function in made.functions] == [function.path for function in kept.functions]
  assert made.ops == kept.ops
  described = [{(p.name, p.shape, p.dtype, p.trainable) for p in report.parameters} for report in (made, kept)]
  assert described[0] == described[1]
  with np.load(tmp_path / "digits.npz") as new, np.load(model_path().parent / "digits.npz") as old:
    for name in ("train_images", "train_labels", "test_images", "test_labels"):
      np.testing.assert_array_equal(new[name], old[name])
    assert new["tensorflow_logits"].shape == old["tensorflow_logits"].shape


def test_tensorflow_computes_the_stored_logits():
  data = load_digits()
  restored = tf.saved_model.load(str(model_path()))
  logits = restored.signatures["serving_default"](images=tf.constant(data.test_images))["logits"]
  # Measured: 1e-5 between machines with other vector instructions, of logits up to 23.
  np.testing.assert_allclose(logits.numpy(), data.tensorflow_logits, atol=1e-4)
