import numpy as np

from graftax import savedmodel_io
from graftax.tools.examples.digits import load_digits, model_path


def test_the_artifact_stays_small():
  folder = model_path().parent
  assert sum(file.stat().st_size for file in folder.rglob("*") if file.suffix != ".py" and file.is_file()) < 500_000


def test_images_are_between_paper_and_ink():
  data = load_digits()
  assert data.train_images.shape == (1437, 8, 8, 1)
  assert data.test_images.shape == (360, 8, 8, 1)
  assert data.test_images.dtype == np.float32
  assert data.test_images.min() == 0
  assert data.test_images.max() == 1
  assert set(data.train_labels.tolist()) == set(range(10))


def test_the_signature_leaves_the_batch_size_open():
  model = savedmodel_io.load(model_path())
  signature = model.signatures["serving_default"]
  assert {name: str(spec) for name, spec in signature.inputs.items()} == {"images": "float32[?, 8, 8, 1]"}
  assert {name: str(spec) for name, spec in signature.outputs.items()} == {
    "logits": "float32[?, 10]",
    "probabilities": "float32[?, 10]",
  }


def test_the_converted_model_gives_tensorflows_logits_for_any_batch_size():
  predict, params = savedmodel_io.load(model_path()).convert()
  data = load_digits()
  for num_images in (1, 7):
    outputs, new_params = predict(params, images=data.test_images[:num_images])
    # Measured: 6e-6, of logits up to 23.
    np.testing.assert_allclose(outputs["logits"], data.tensorflow_logits[:num_images], atol=1e-4)
    assert all(new_params[name] is params[name] for name in params)
